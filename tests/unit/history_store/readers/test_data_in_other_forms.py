"""Zips, CSV labels, tables and shards beyond the contract: what is taken, what is left out, what is refused by name."""

import io
import json
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from layouts import classes, pixels, png, save_folder, save_picture, save_shard, save_table, save_zip

from warmstart.history_store.canonical import images_of, labelled, resolved
from warmstart.history_store.errors import BrokenImagesError, DataError, LabelError, MissingPathError
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.readers import open_images
from warmstart.history_store.readers.labels import read_labels

IMAGES, LABELS = pixels(), classes()


def test_a_zip_is_its_folder(tmp_path):
    save_folder(tmp_path / "f" / "train", IMAGES[::2], LABELS[::2])
    save_folder(tmp_path / "f" / "test", IMAGES[1::2], LABELS[1::2])
    (tmp_path / "f" / "__MACOSX").mkdir()
    (tmp_path / "f" / "notes.txt").write_text("no picture")
    folder = open_images(tmp_path / "f")
    archive = open_images(save_zip(tmp_path / "f.zip", tmp_path / "f", prefix="photos/"))
    for kind in ("listing", "content"):
        assert archive.fingerprint(kind) == folder.fingerprint(kind)
    assert archive.class_names == folder.class_names
    assert set(archive.splits) == {"train", "test"}
    np.testing.assert_array_equal(archive.read(range(24)).images, folder.read(range(24)).images)


@pytest.mark.parametrize("name", ["../a/1.png", "/a/1.png", "C:\\a\\1.png", "a\\..\\..\\1.png"])
def test_no_path_leaves_the_archive(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), png(IMAGES[0]))
    with pytest.raises(DataError, match=r"expected paths inside the archive, got .* which leads out of it"):
        open_images(tmp_path / "x.zip")
    assert [file.name for file in tmp_path.iterdir()] == ["x.zip"]


def test_what_an_archive_may_hold_is_limited(tmp_path, monkeypatch):
    save_folder(tmp_path / "f", IMAGES, LABELS)
    path = save_zip(tmp_path / "f.zip", tmp_path / "f")
    monkeypatch.setenv("WARMSTART_MAX_PICTURE_BYTES", "100")
    source = open_images(path)
    with pytest.raises(BrokenImagesError, match=r"0/0000.png \(.*WARMSTART_MAX_PICTURE_BYTES="):
        source.read([0])
    monkeypatch.setenv("WARMSTART_MAX_ARCHIVE_FILES", "5")
    with pytest.raises(
        DataError, match=r"expected at most 5 files in an archive, got 27\. .* WARMSTART_MAX_ARCHIVE_FILES=27"
    ):
        open_images(path)
    monkeypatch.delenv("WARMSTART_MAX_ARCHIVE_FILES")
    (tmp_path / "cut.zip").write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="got a damaged or truncated one"):
        open_images(tmp_path / "cut.zip")


def test_a_damaged_picture_and_a_link_in_a_zip_are_named(tmp_path):
    link = zipfile.ZipInfo("b/link.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a/good.png", png(IMAGES[0]))
        archive.writestr("a/empty.png", b"")
        archive.writestr("b/text.png", b"hello")
        archive.writestr(link, "/etc/passwd")
    images = open_images(tmp_path / "x.zip").read(range(4), skip_broken=True)
    reasons = {broken.path: broken.reason for broken in images.broken}
    assert reasons == {"a/empty.png": "an empty file", "b/link.png": "a link in an archive, which is not followed", "b/text.png": "not a picture"}  # fmt: skip


def test_csv_with_paths_endings_splits_and_rows_without_labels(tmp_path):
    for number in range(4):
        save_picture(tmp_path / "pics" / "deep" / f"p{number}.jpg", IMAGES[number])
    table = "image;breed;weight;split\n./deep/p0.jpg;pug;1.5;train\np1.jpg;cat;2;train\np2;pug;3.5;test\np3;;4;train\n"
    (tmp_path / "labels.csv").write_text(table)
    with pytest.warns(DatasetWarning, match="1 row without a label"):
        source = open_images(labelled(str(tmp_path / "pics"), "labels.csv", "breed"))
    assert source.class_names == ("cat", "pug")
    assert source.labels.tolist() == [1, 0, 1]
    assert {name: rows.tolist() for name, rows in source.splits.items()} == {"train": [0, 1], "test": [2]}
    assert len(source.read(range(3)).images) == 3
    with pytest.raises(LabelError, match="labels of a regression"):
        open_images(labelled(str(tmp_path / "pics"), "labels.csv", "weight"))
    with pytest.raises(LabelError, match="expected a column 'nothing' with labels, got breed, weight"):
        open_images(labelled(str(tmp_path / "pics"), "labels.csv", "nothing"))
    with pytest.raises(MissingPathError, match=r"expected a CSV file, got nothing at no\.csv"):
        open_images(labelled(str(tmp_path / "pics"), "no.csv", None))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("id,label\na,1\nzzz,2\n", "got 1 of 2 without one: 'zzz'"),
        ("id,label\na,1\na,2\n", "got 'a.png' twice"),
        ("id,label\nx,1\n", "none of their values, such as 'x' of 'id', is one of its 2 pictures"),
        ("id,label\na,-1\nb,-1\n", "all of its 2 rows are unlabelled"),
        ("id,cat,dog\na,1,0\nb,0,1\n", "one-hot columns must become one"),
        ("id,label, label\na,1,2\nb,2,1\n", "expected one column for 'label', got two"),
        ("a,1\nb,2\n", "expected a head such as filename,label, got the picture 'a'"),
    ],
)
def test_csv_that_does_not_fit_is_refused(tmp_path, table, told):
    for name in "ab":
        save_picture(tmp_path / f"{name}.png", IMAGES[0])
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(DataError, match=told):
        open_images(labelled(str(tmp_path), "t.csv", None))


def test_names_in_a_csv_may_differ_in_composition_and_case(tmp_path):
    for number in range(3):
        save_picture(tmp_path / unicodedata.normalize("NFD", f"\u00e9{number}.png"), IMAGES[number])
    (tmp_path / "nfc.csv").write_text("filename,label\n\u00e90.png,1\n\u00e91.png,2\n\u00e92.png,1\n")
    assert open_images(labelled(str(tmp_path), "nfc.csv", None)).labels.tolist() == [0, 1, 0]
    (tmp_path / "case.csv").write_text("filename,label\n\u00c90.PNG,1\n\u00c91.PNG,2\n\u00c92.PNG,1\n")
    source = open_images(labelled(str(tmp_path), "case.csv", None))
    assert source.labels.tolist() == [0, 1, 0]
    assert len(source.read(range(3)).images) == 3


def test_a_location_with_labels_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,label\n")
    assert resolved("p/../q::labels=t.csv::column=c") == f"{tmp_path}/q::labels={tmp_path}/t.csv::column=c"
    assert resolved("q::labels=other.csv") == f"{tmp_path}/q::labels=other.csv"
    assert resolved("q.parquet::column=c") == f"{tmp_path}/q.parquet::column=c"
    assert resolved("q") == f"{tmp_path}/q"
    assert images_of("q::labels=t.csv::column=c") == images_of("q::column=c") == Path("q")


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_tables_with_names_splits_and_unlabelled_rows(tmp_path, ending):
    data = tmp_path / "data"
    data.mkdir()
    names = ["ant", "bee", "cow"]
    save_table(data / f"train-00000-of-00001{ending}", IMAGES[:20], [*LABELS[:19].tolist(), -1], names=names)
    save_table(data / f"test-00000-of-00001{ending}", IMAGES[20:], LABELS[20:], names=names)
    with pytest.warns(DatasetWarning, match="left out 1 row without a label"):
        source = open_images(tmp_path)
    assert source.class_names == ("ant", "bee", "cow")
    assert {name: len(rows) for name, rows in source.splits.items()} == {"train": 19, "test": 4}
    np.testing.assert_array_equal(source.read([22, 4], size=None).images, IMAGES[_rows(source, [22, 4])])


def _rows(source, indices):
    """Tell which made picture each index is, from its name: test comes first in the folder's order."""
    numbers = [source.names[index].split("/") for index in indices]
    return [int(row) + (20 if file.startswith("test") else 0) for file, row in numbers]


def test_tables_of_other_tasks_are_refused_by_name(tmp_path):
    path = tmp_path / "x.parquet"
    for labels, column, message in (
        ([-1] * 24, "label", "are unlabelled"),
        (np.linspace(0.1, 1, 24), "label", "labels of a regression"),
        ([[1.0, 2.0]] * 24, "objects", "those of a detection task"),
    ):
        save_table(path, IMAGES, labels, column=column)
        with pytest.raises(LabelError, match=message):
            open_images(path)
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match="expected a Parquet or Arrow file, got a damaged one"):
        open_images(path)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["1_1", "11", "1_2", "12"], ["1_1", "11", "1_2", "12"]),
        (["9007199254740992", "9007199254740993"], [9007199254740992, 9007199254740993]),
        ([2**64 - 1, 2**64 - 2], [str(2**64 - 1), str(2**64 - 2)]),
        (["9" * 5000, "1"], ["9" * 5000, "1"]),
        (["1e3", "1000"], ["1e3", "1000"]),
        (["01", "1"], ["01", "1"]),
        (["\uff11", "1"], ["\uff11", "1"]),
        (["1.0", " 2. ", 1, 2.0, "1", True, "-0", "3e0"], [1, 2, 1, 2, 1, 1, 0, 3]),
        ([b"cat", "cat", b"caf\xe9", b"caf\xe8"], ["cat", "cat", "caf\\xe9", "caf\\xe8"]),
        ([b"7", 7], [7, 7]),
    ],
)
def test_labels_that_differ_are_classes_that_differ(cells, labels):
    assert read_labels(cells, "here") == (labels, [True] * len(cells))


@pytest.mark.parametrize("cells", [[None, float("nan"), "", " ", b"", -1], ["-1", "-1.0", -1.0, b"-1"], ["-1.000e+00"]])
def test_labels_that_are_empty_or_minus_one_are_none(cells):
    _, has = read_labels([*cells, 5], "here")
    assert has == [False] * len(cells) + [True]


@pytest.mark.parametrize("cells", [["0.5", "1e-05"], [1, 0.5], [1e30, 0.5], [float("inf"), 1.0], ["1.5", "9" * 30]])
def test_real_numbers_are_no_classes(cells):
    with pytest.raises(LabelError, match=r"expected classes, got real numbers such as .* labels of a regression"):
        read_labels(cells, "here")


def _save_part(folder, name):
    save = save_shard if name.endswith(".tar") else save_table
    return save(folder / name, IMAGES, LABELS)


@pytest.mark.parametrize("ending", ["-0a1b2c3d4e.parquet", ".tar"])
def test_parts_that_are_missing_are_named(tmp_path, ending):
    name = f"train-{{}}-of-00003{ending}"
    _save_part(tmp_path, name.format("00001"))
    message = (
        r"expected all 3 parts \S+train-…-of-00003\.\w+, got 1, without train-00000-of-00003\.\w+, train-00002-of-00003"
    )
    with pytest.raises(DataError, match=message):
        open_images(tmp_path)
    with pytest.warns(DatasetWarning, match="1 of 3 parts; the others are not read"):
        assert len(open_images(tmp_path / name.format("00001"))) == 24
    for number in ("00000", "00002"):
        _save_part(tmp_path, name.format(number))
    assert len(open_images(tmp_path)) == 72


def test_shards_with_json_splits_and_without_labels(tmp_path):
    save_shard(tmp_path / "set-train-0000.tar", IMAGES[:20], [f"c{label}" for label in LABELS[:20]], ending="json")
    save_shard(tmp_path / "set-val-0000.tar", IMAGES[20:], [f"c{label}" for label in LABELS[20:]], ending="json")
    source = open_images(tmp_path)
    assert source.class_names == ("c0", "c1", "c2")
    assert {name: len(rows) for name, rows in source.splits.items()} == {"train": 20, "val": 4}
    alone = open_images(tmp_path / "set-train-0000.tar")
    assert len(alone) == 20
    save_shard(tmp_path / "bare.tar", IMAGES, None)
    with pytest.raises(LabelError, match=r"expected a label beside each picture .* got 24 unlabelled pictures"):
        open_images(tmp_path / "bare.tar")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "bare.tar").read_bytes()[:700])
    with pytest.raises(DataError, match="got a damaged, truncated or compressed one"):
        open_images(tmp_path / "cut.tar")


def _blocks(path):
    """Return the bytes of a tar, and where the header and the bytes of its tenth file and its end begin."""
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    return path.read_bytes(), members[10].offset, members[10].offset_data, members[-1].offset_data + 512


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (lambda header, data, end: header, "no end-of-archive block.* end it: head -c 1024 /dev/zero >> cut.tar"),
        (lambda header, data, end: header + 200, "half a header at the end"),
        (lambda header, data, end: data + 20, "got a damaged, truncated or compressed one"),
        (lambda header, data, end: end, "no end-of-archive block"),
        (lambda header, data, end: end + 512, None),
    ],
)
def test_a_tar_that_was_cut_is_refused(tmp_path, cut, told):
    content, *places = _blocks(save_shard(tmp_path / "whole.tar", IMAGES, LABELS))
    location = tmp_path / "cut.tar"
    location.write_bytes(content[: cut(*places)])
    if told is None:
        assert len(open_images(location)) == 24
        return
    with pytest.raises(DataError, match=told):
        open_images(location)


def test_a_tar_with_a_damaged_header_or_another_behind_it_is_refused(tmp_path):
    content, header, _, end = _blocks(save_shard(tmp_path / "x.tar", IMAGES, LABELS))
    damaged = bytearray(content)
    damaged[header + 3] ^= 0xFF
    (tmp_path / "x.tar").write_bytes(damaged)
    with pytest.raises(DataError, match=r"expected a whole tar, got a damaged or truncated one \(a damaged header\)"):
        open_images(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(content + content)
    with pytest.raises(DataError, match=r"expected one tar, got another one behind its end\. Join them"):
        open_images(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(content[: end + 512] + b"notes")
    assert len(open_images(tmp_path / "x.tar")) == 24


def _tar(path, *members):
    """Write a tar of names with bytes, or with what they link to."""
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data
            else:
                info.size = len(data)
            archive.addfile(info, None if isinstance(data, str) else io.BytesIO(data))
    return path


def test_a_tar_of_class_folders_is_held_to_the_rules_of_archives(tmp_path):
    whole = png(IMAGES[0])
    path = _tar(
        tmp_path / "x.tar",
        ("a/good.png", whole),
        ("a/empty.png", b""),
        ("b/link.png", "/etc/passwd"),
        ("b/good.png", whole),
    )
    images = open_images(path).read(range(4), skip_broken=True)
    reasons = {broken.path: broken.reason for broken in images.broken}
    assert reasons == {
        "a/empty.png": "an empty file",
        "b/link.png": "a link or a sparse file in an archive, which is not followed",
    }
    with pytest.raises(DataError, match=r"expected paths inside the archive, got '\.\./a/1\.png'"):
        open_images(_tar(path, ("../a/1.png", whole), ("b/1.png", whole)))
    with pytest.raises(DataError, match=r"expected each path once, got 'a/1\.png' twice"):
        open_images(_tar(path, ("a/1.png", whole), ("./a/1.png", whole)))
    with pytest.raises(LabelError, match="expected a label beside each picture"):
        open_images(_tar(path, ("a/1.png", whole), ("a/1.txt", b"a cat"), ("b/2.png", whole), ("b/2.txt", b"a dog")))
    captioned = _tar(path, ("a/1.png", whole), ("a/1.txt", b"a cat"), ("b/2.png", whole))
    assert open_images(captioned).class_names == ("a", "b")


def _coco(root):
    save_picture(root / "train" / "1.png", IMAGES[0])
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_train.json").write_text(json.dumps({"annotations": [{"image_id": 1, "bbox": [0, 0, 1, 1]}]}))  # fmt: skip


def _yolo(root):
    save_picture(root / "images" / "train" / "1.png", IMAGES[0])
    (root / "labels" / "train").mkdir(parents=True)
    (root / "labels" / "train" / "1.txt").write_text("0 0.5 0.5 0.2 0.2\n")


def _voc(root):
    save_picture(root / "JPEGImages" / "1.png", IMAGES[0])
    (root / "Annotations").mkdir()
    (root / "Annotations" / "1.xml").write_text("<annotation><object><bndbox></bndbox></object></annotation>")


def _masks(root):
    for folder in ("images", "masks"):
        save_picture(root / folder / "1.png", IMAGES[0])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_coco, "a detection dataset in the layout of COCO"),
        (_yolo, "a detection dataset in the layout of YOLO"),
        (_voc, "a detection dataset in the layout of Pascal VOC"),
        (_masks, "a segmentation dataset: pictures in images/, masks in masks/"),
    ],
)
def test_layouts_of_other_tasks_are_refused_by_name(tmp_path, make, told):
    make(tmp_path)
    with pytest.raises(LabelError, match=told):
        open_images(tmp_path)


def test_a_zip_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_MAX_UNPACKED_BYTES", "1000000")
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"{number % 2}/{number}.png", bytes(100_000))
    with pytest.raises(DataError, match="expected at most 1,000,000 unpacked bytes"):
        open_images(tmp_path / "x.zip")


def test_samples_of_a_shard_are_pictures_by_content_or_told(tmp_path):
    files = {
        "a.jpg_1": png(IMAGES[0]),
        "a.cls": b"0",
        "b.png": png(IMAGES[1]),
        "b.cls": b"1",
        "c.heic": b"-",
        "c.cls": b"1",
    }
    with tarfile.open(tmp_path / "x.tar", "w") as shard:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            shard.addfile(member, io.BytesIO(data))
    with pytest.warns(
        DatasetWarning, match=r"left out 1 sample without a picture that can be read \(such as c\.heic\)"
    ):
        assert sorted(open_images(tmp_path / "x.tar").names) == ["x.tar/a.jpg_1", "x.tar/b.png"]


def test_samples_of_a_shard_may_have_points_in_their_names(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as shard:
        for number in range(4):
            for name, data in ((f"a.{number}.png", png(IMAGES[number])), (f"a.{number}.cls", str(number % 2).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                shard.addfile(member, io.BytesIO(data))
    assert open_images(tmp_path / "x.tar").labels.tolist() == [0, 1, 0, 1]


def test_offsets_that_lead_out_of_an_arrow_file_are_refused(tmp_path):
    import pyarrow as pa

    pictures = [png(IMAGES[number]) for number in range(6)]
    table = pa.table({"image": [{"bytes": data, "path": None} for data in pictures], "label": [0, 1] * 3})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data = bytearray(sink.getvalue().to_pybytes())
    start = bytes(data).find(np.array([0, len(pictures[0])], dtype="<i4").tobytes())
    data[start + 4 : start + 8] = np.array([2**31 - 1], dtype="<i4").tobytes()
    (tmp_path / "x.arrow").write_bytes(data)
    with pytest.raises(DataError, match=r"expected a Parquet or Arrow file, got a damaged one or another"):
        open_images(tmp_path / "x.arrow")


def test_descriptions_of_columns_are_checked(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for names, told in (({"0": "x", "1": "y"}, None), ({"a": "x"}, "expected names of classes"), (5, "expected names")):
        features = {"tags": [{"_type": "Value"}], "label": {"_type": "ClassLabel", "names": names}}
        table = pa.table({"image": [png(IMAGES[0])] * 2, "label": [0, 1], "tags": [["t"]] * 2})
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        pq.write_table(table, tmp_path / "x.parquet")
        if told is None:
            assert open_images(tmp_path / "x.parquet").class_names == ("x", "y")
        else:
            with pytest.raises(DataError, match=told):
                open_images(tmp_path / "x.parquet")


def test_a_value_that_stands_in_many_rows_of_a_parquet_file_counts_in_each(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setenv("WARMSTART_MAX_UNPACKED_BYTES", "10000000")
    table = pa.table({"image": pa.array([{"bytes": bytes(100_000), "path": None}] * 400), "label": [0, 1] * 200})
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    with pytest.raises(DataError, match="expected at most 10,000,000 unpacked bytes"):
        open_images(tmp_path / "x.parquet").read(range(400))


def test_parts_may_be_numbered_from_one(tmp_path):
    for number in (1, 2):
        _save_part(tmp_path, f"s-0000{number}-of-00002.tar")
    assert len(open_images(tmp_path)) == 48
    (tmp_path / "s-00001-of-00002.tar").unlink()
    with pytest.raises(DataError, match=r"got 1, without s-00001-of-00002\.tar\. Download the rest"):
        open_images(tmp_path)
    for number in range(3, 9):
        _save_part(tmp_path, f"t-{number:05d}-of-00090.tar")
    (tmp_path / "s-00002-of-00002.tar").unlink()
    message = r"all 90 parts .* got 6, without t-00000-of-00090\.tar, t-00001-of-00090\.tar, t-00002-of-00090\.tar, …\."
    with pytest.raises(DataError, match=message):
        open_images(tmp_path)


def test_labels_are_found_by_paths_of_other_folders_and_machines(tmp_path):
    for number in range(4):
        save_picture(tmp_path / "pics" / "deep" / f"{number % 2}" / f"p{number}.png", IMAGES[number])
    for prefix in (f"{tmp_path}/pics/", "pics/", "./", "/mnt/other/pics/", "C:\\data\\pics\\", ""):
        slash = "\\" if "\\" in prefix else "/"
        rows = [f"{prefix}deep{slash}{number % 2}{slash}p{number}.png,{'ab'[number % 2]}" for number in range(4)]
        (tmp_path / "t.csv").write_text("\n".join(["path,label", *rows]))
        assert open_images(labelled(str(tmp_path / "pics"), "t.csv", None)).labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("annotations", "is_other"),
    [
        ([{"image_id": 1, "segmentation": [[0, 0, 1, 1]]}], True),
        ([{"image_id": 1, "keypoints": [0, 0, 1]}], True),
        ([], True),
        ([{"image_id": 1, "category_id": 1}], False),
        ([{"image_id": 1, "caption": "a cat"}], False),
    ],
)
def test_annotations_with_a_class_alone_are_no_other_task(tmp_path, annotations, is_other):
    save_folder(tmp_path, IMAGES, LABELS)
    (tmp_path / "meta.json").write_text(
        json.dumps({"annotations": annotations, "categories": [{"id": 1, "name": "a"}]})
    )
    if is_other:
        with pytest.raises(LabelError, match=r"a detection dataset in the layout of COCO \(meta\.json\)"):
            open_images(tmp_path)
    else:
        assert open_images(tmp_path).class_names == ("0", "1", "2")


def test_each_split_may_have_its_table_in_json_lines(tmp_path):
    for split in ("train", "test"):
        for number in range(4):
            save_picture(tmp_path / split / f"{number}.png", IMAGES[number])
        lines = [json.dumps({"file_name": f"{number}.png", "label": "ab"[number % 2]}) for number in range(4)]
        (tmp_path / split / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(LabelError, match=r"Does metadata\.jsonl hold their labels"):
        open_images(tmp_path)
    source = open_images(labelled(str(tmp_path), "metadata.jsonl", None))
    assert {name: source.labels[rows].tolist() for name, rows in source.splits.items()} == {"train": [0, 1, 0, 1], "test": [0, 1, 0, 1]}  # fmt: skip
    (tmp_path / "test" / "metadata.jsonl").write_text(
        "\n".join(json.dumps({"file_name": f"{number}.png", "label": "c"}) for number in range(4))
    )
    with pytest.warns(DatasetWarning, match="left out 4 pictures of the split 'test', without a class of the training"):
        assert set(open_images(labelled(str(tmp_path), "metadata.jsonl", None)).splits) == {"train"}


def test_a_table_whose_column_is_named(tmp_path):
    path = save_table(tmp_path / "x.parquet", IMAGES, ["a", "b"] * 12, column="taste")
    assert open_images(f"{path}::column=taste").class_names == ("a", "b")
    with pytest.raises(LabelError, match="expected a column 'smell' with labels, got taste"):
        open_images(f"{path}::column=smell")
    for location in (path, tmp_path):
        assert labelled(str(location), None, "taste") == f"{location}::column=taste"
        assert open_images(labelled(str(location), None, "taste")).class_names == ("a", "b")
    assert labelled("photos", None, None) == "photos"
    with pytest.raises(DataError, match="expected Parquet or Arrow files whose column 'taste' holds labels, got none"):
        open_images(labelled(str(save_shard(tmp_path / "x.tar", IMAGES, LABELS)), None, "taste"))
    with pytest.raises(MissingPathError, match=r"got nothing there\. Check the path; `labels_column` needs a table"):
        open_images(labelled("sklearn:digits", None, "taste"))


def test_a_hard_link_in_a_tar_is_the_picture_that_it_stands_for(tmp_path):
    for folder in "ab":
        save_picture(tmp_path / "in" / folder / "own.png", IMAGES["ab".index(folder)])
    (tmp_path / "in/b/twin.png").hardlink_to(tmp_path / "in/a/own.png")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "in", arcname=".")
        assert any(member.islnk() for member in archive.getmembers())
    source = open_images(tmp_path / "x.tar")
    assert source.names == ("a/own.png", "b/own.png", "b/twin.png")
    images = source.read(range(3)).images
    assert np.array_equal(images[0], images[2])
