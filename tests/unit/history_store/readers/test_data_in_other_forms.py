"""Zips, CSV labels, tables and shards beyond the contract: what is taken, what is left out, what is refused by name."""

import json
import zipfile

import numpy as np
import pytest
from layouts import classes, pixels, png, save_folder, save_picture, save_shard, save_table, save_zip

from history_store.errors import BrokenImagesError, DataError, LabelError, MissingPathError
from history_store.images import DatasetWarning
from history_store.readers import open_images
from history_store.readers.csv_labels import labelled

IMAGES, LABELS = pixels(), classes()


@pytest.mark.parametrize("prefix", ["", "photos/"])
def test_a_zip_is_its_folder(tmp_path, prefix):
    save_folder(tmp_path / "f" / "train", IMAGES[::2], LABELS[::2])
    save_folder(tmp_path / "f" / "test", IMAGES[1::2], LABELS[1::2])
    (tmp_path / "f" / "__MACOSX").mkdir()
    (tmp_path / "f" / "notes.txt").write_text("no picture")
    folder, archive = (
        open_images(tmp_path / "f"),
        open_images(save_zip(tmp_path / "f.zip", tmp_path / "f", prefix=prefix)),
    )
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
    found = open_images(tmp_path / "x.zip").read(range(4), skip_broken=True)
    reasons = {broken.path: broken.reason for broken in found.broken}
    assert reasons == {"a/empty.png": "an empty file", "b/link.png": "a link in an archive, which is not followed", "b/text.png": "not a picture"}  # fmt: skip


def test_csv_with_paths_endings_splits_and_rows_without_labels(tmp_path):
    for number in range(4):
        save_picture(tmp_path / "pics" / "deep" / f"p{number}.jpg", IMAGES[number])
    table = "image;breed;weight;split\n./deep/p0.jpg;pug;1.5;train\np1.jpg;cat;2;test\np2;pug;3.5;train\np3;;4;train\n"
    (tmp_path / "labels.csv").write_text(table)
    with pytest.warns(DatasetWarning, match="1 row without a label"):
        source = open_images(labelled(str(tmp_path / "pics"), "labels.csv", "breed"))
    assert source.class_names == ("cat", "pug")
    assert source.labels.tolist() == [1, 0, 1]
    assert {name: rows.tolist() for name, rows in source.splits.items()} == {"train": [0, 2], "test": [1]}
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
        ("id,label\nx,1\n", "none of their values is one of its 2 pictures"),
        ("id,label\na,-1\nb,-1\n", "all of its 2 rows are unlabelled"),
        ("id,cat,dog\na,1,0\nb,0,1\n", "one-hot columns must become one"),
        ("id,label\na\n", "row 2: expected 2 cells, got 1"),
        ("", "expected a head of distinct names"),
    ],
)
def test_csv_that_does_not_fit_is_refused(tmp_path, table, told):
    for name in "ab":
        save_picture(tmp_path / f"{name}.png", IMAGES[0])
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(DataError, match=told):
        open_images(labelled(str(tmp_path), "t.csv", None))


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


def test_only_groups_that_are_sampled_are_read(tmp_path, monkeypatch):
    from history_store.readers import hf_table

    source = open_images(save_table(tmp_path / "x.parquet", IMAGES, LABELS, group=4))
    read, original = [], hf_table._read_group
    monkeypatch.setattr(
        hf_table, "_read_group", lambda file, group, image: read.append(group) or original(file, group, image)
    )
    source.read([23, 1, 2, 21])
    assert read == [0, 5]


def test_tables_of_other_tasks_are_refused_by_name(tmp_path):
    path = tmp_path / "x.parquet"
    for labels, column, told in (
        ([-1] * 24, "label", "are unlabelled"),
        (np.linspace(0.1, 1, 24), "label", "labels of a regression"),
        ([[1.0, 2.0]] * 24, "objects", "those of a detection task"),
    ):
        save_table(path, IMAGES, labels, column=column)
        with pytest.raises(LabelError, match=told):
            open_images(path)
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match="expected a Parquet or Arrow file, got a damaged one"):
        open_images(path)


def test_a_table_whose_column_is_named(tmp_path):
    path = save_table(tmp_path / "x.parquet", IMAGES, ["a", "b"] * 12, column="taste")
    assert open_images(f"{path}::column=taste").class_names == ("a", "b")
    with pytest.raises(LabelError, match="expected a column 'smell' with labels, got taste"):
        open_images(f"{path}::column=smell")


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


def _coco(root):
    save_picture(root / "train" / "1.png", IMAGES[0])
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_train.json").write_text(json.dumps({"annotations": [{"image_id": 1, "bbox": [0, 0, 1, 1]}]}))  # fmt: skip


def _yolo(root):
    save_picture(root / "images" / "train" / "1.png", IMAGES[0])
    (root / "labels" / "train").mkdir(parents=True)
    (root / "labels" / "train" / "1.txt").write_text("0 0.5 0.5 0.2 0.2\n")


def _roboflow(root):
    save_picture(root / "train" / "images" / "1.png", IMAGES[0])
    (root / "data.yaml").write_text("train: train/images\nnc: 1\nnames: [a]\n")


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
        (_roboflow, "a detection dataset in the layout of YOLO"),
        (_voc, "a detection dataset in the layout of Pascal VOC"),
        (_masks, "a segmentation dataset: pictures in images/, masks in masks/"),
    ],
)
def test_layouts_of_other_tasks_are_refused_by_name(tmp_path, make, told):
    make(tmp_path)
    with pytest.raises(LabelError, match=told):
        open_images(tmp_path)
