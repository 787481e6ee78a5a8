"""Files that are no dataset, or damaged ones: idx, CIFAR, npz, npy, histories, names."""

import numpy as np
import pytest
from layouts import classes, pixels, save_cifar, save_idx, save_mnist

from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    LabelError,
    MissingPathError,
    UsageError,
    WarmstartError,
)
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.readers import READERS, open_arrays, open_images, register_scheme
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.space import dump_space
from warmstart.training.workloads.cnn.space import target_space

GREY, COLOUR, LABELS = pixels(channels=1), pixels(), classes()


def refused(kind, path, message):
    with pytest.raises(kind, match=message) as caught:
        open_images(path)
    assert type(caught.value) is kind


# idx


def spoil_magic(path):
    path.write_bytes(b"\x89PNG" + path.read_bytes()[4:])


def spoil_type(path):
    path.write_bytes(b"\0\0\x0d" + path.read_bytes()[3:])


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def truncate_header(path):
    path.write_bytes(path.read_bytes()[:9])


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0" * 7)


def clear(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (spoil_magic, "expected an idx file .magic number 00 00 08 rank., got first bytes 89 50 4e 47"),
        (spoil_type, r"expected idx type 08 \(unsigned bytes\), got type 0d"),
        (truncate, "expected 3472 bytes for 24 x 12 x 12, got 3465. The file is truncated"),
        (truncate_header, "expected a header of 16 bytes, got 9"),
        (lengthen, "expected 3472 bytes for 24 x 12 x 12, got 3479. The file is too long"),
        (clear, "expected an idx file .*, got first bytes none"),
    ],
)
def test_damaged_idx(tmp_path, damage, message):
    damage(save_mnist(tmp_path, GREY, LABELS) / "train-images-idx3-ubyte")
    refused(DataError, tmp_path, f"train-images-idx3-ubyte: {message}")


def test_damaged_idx_labels(tmp_path):
    save_mnist(tmp_path, GREY, LABELS[:20])
    refused(LabelError, tmp_path, "expected 24 labels for train-images-idx3-ubyte, got 20")
    save_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(0, np.uint8))
    refused(LabelError, tmp_path, "expected 24 labels for train-images-idx3-ubyte, got 0")
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    refused(LabelError, tmp_path, "expected its labels beside it, got no train-labels-idx1-ubyte")
    refused(LabelError, tmp_path / "train-images-idx3-ubyte", "expected its labels beside it")


def test_truncated_gzip_is_found_when_read(tmp_path):
    truncate(save_mnist(tmp_path, GREY, LABELS, ending=".gz") / "train-images-idx3-ubyte.gz")
    source = open_images(tmp_path)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: expected a gzip file, got damaged data"):
        source.read([0])


# CIFAR


def test_a_single_cifar_file_needs_no_name(tmp_path):
    source = open_images(save_cifar(tmp_path / "mine.bin", pixels(side=32), LABELS, coarse=True))
    np.testing.assert_array_equal(source.labels, LABELS)
    assert set(source.splits) == {"train"}
    np.testing.assert_array_equal(source.read(range(24)).images, pixels(side=32))


@pytest.mark.parametrize("n_bytes", [0, 3072, 24 * 3073 - 1])
def test_cifar_record_size(tmp_path, n_bytes):
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(n_bytes))
    refused(DataError, tmp_path, f"data_batch_1.bin: expected records of 3073 bytes, got {n_bytes} bytes, which is")


# npz and npy


@pytest.fixture
def npz(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "set.npz", **arrays)
        return tmp_path / "set.npz"

    return save


@pytest.mark.parametrize(
    "keys",
    [
        ("X", "y"),
        ("data", "target"),
        ("Image", "Label"),
        ("Xtrain", "ytrain"),
        ("train_images", "train_labels"),
    ],
)
def test_npz_keys(npz, keys):
    source = open_images(npz(**{keys[0]: COLOUR, keys[1]: LABELS}))
    assert set(source.splits) == {"train"}
    np.testing.assert_array_equal(source.read(range(24), size=12).images, COLOUR)


def test_npz_splits_share_classes_and_have_names(npz):
    parts = {
        "train_images": COLOUR[:8],
        "train_labels": LABELS[:8],
        "test_images": COLOUR[8:],
        "test_labels": LABELS[8:],
    }
    with pytest.raises(LabelError, match="expected splits that share classes, got 'test' without a class of the"):
        open_images(npz(**parts))
    labels = np.arange(24) % 3
    source = open_images(
        npz(
            train_images=COLOUR[:8],
            train_labels=labels[:8, None],
            val_images=COLOUR[8:16],
            val_labels=labels[8:16, None],
            test_images=COLOUR[16:],
            test_labels=labels[16:, None],
            class_names=np.array(["a", "b", "c"]),
        )
    )
    assert {name: rows.tolist() for name, rows in source.splits.items()} == {
        "train": [*range(8)],
        "val": [*range(8, 16)],
        "test": [*range(16, 24)],
    }
    assert source.class_names == ("a", "b", "c")
    np.testing.assert_array_equal(source.read([23, 0], size=12).images, COLOUR[[23, 0]])


@pytest.mark.parametrize(
    ("arrays", "kind", "message"),
    [
        ({"images": COLOUR}, LabelError, "expected labels beside images, got images. Add an array named labels"),
        ({"labels": LABELS}, DataError, r"expected arrays images and labels .*, got labels. Save them with np.savez"),
        ({"arr_0": COLOUR, "arr_1": LABELS}, DataError, "expected arrays images and labels .*, got arr_0, arr_1"),
        ({}, DataError, "expected arrays images and labels .*, got no array"),
        ({"images": COLOUR, "labels": LABELS[:20]}, LabelError, r"set.npz:labels: expected 24 labels, one for each of images, got shape \(20,\)"),
        ({"images": COLOUR, "labels": LABELS + 0.5}, LabelError, "expected whole numbers, got 0.5"),
        ({"images": COLOUR, "labels": LABELS - 1}, LabelError, r"expected labels of 0 or more, got -1 \(8 negative\)"),
        ({"images": COLOUR, "labels": np.eye(24)}, LabelError, "Turn one-hot rows into numbers"),
        ({"images": COLOUR, "labels": np.zeros(24, int)}, LabelError, "got all 24 pictures in '0'"),
        ({"images": COLOUR, "labels": LABELS.astype(object)}, DataError, "set.npz:labels: .*got objects .dtype object., which are never unpickled"),
        ({"images": COLOUR.astype(object), "labels": LABELS}, DataError, "set.npz:images: .*got objects"),
        ({"images": COLOUR[:0], "labels": LABELS[:0]}, DataError, "set.npz:images: expected at least one picture, got shape 0 x 12 x 12 x 3"),
        ({"images": COLOUR, "labels": LABELS, "class_names": np.zeros(3, "V4")}, LabelError, "set.npz:class_names: expected text, got dtype .V4"),
        ({"images": COLOUR.transpose(0, 3, 1, 2), "labels": LABELS}, DataError, "These are channels first"),
        ({"images": COLOUR.astype(np.int32), "labels": LABELS}, DataError, "got dtype int32"),
        (
            {"x_train": COLOUR, "y_train": LABELS, "x_test": COLOUR, "y_test": LABELS.astype(str)},
            LabelError,
            "expected labels of one kind in all splits",
        ),
    ],
)  # fmt: skip
def test_refuses_npz(npz, arrays, kind, message):
    refused(kind, npz(**arrays), message)


def test_npz_floats_are_checked_when_read(tmp_path):
    np.savez_compressed(tmp_path / "set.npz", images=COLOUR.astype(float), labels=LABELS)
    with pytest.raises(DataError, match=r"set.npz:images: expected floats in \[0, 1\], got minimum 0 and maximum 255"):
        open_images(tmp_path / "set.npz").read(range(24))


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04" + bytes(40)])
def test_damaged_npz(tmp_path, content):
    (tmp_path / "set.npz").write_bytes(content)
    refused(DataError, tmp_path / "set.npz", "expected an npz archive, got ")


def test_refuses_npy(tmp_path):
    np.save(tmp_path / "images.npy", COLOUR)
    refused(LabelError, tmp_path / "images.npy", "expected its labels beside it, got none of labels")
    refused(LabelError, tmp_path, "expected its labels beside it")
    np.save(tmp_path / "labels.npy", LABELS[:3])
    refused(LabelError, tmp_path, "expected 24 labels, one a picture, got 3")
    np.save(tmp_path / "labels.npy", LABELS.astype(object))
    refused(DataError, tmp_path, "labels.npy: .*got objects")
    (tmp_path / "labels.npy").write_bytes(b"text")
    refused(DataError, tmp_path, "labels.npy: expected an npy file, got .*magic string")
    truncate(tmp_path / "images.npy")
    refused(DataError, tmp_path, "images.npy: expected an npy file, got")


# Histories


# Names and other files


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("no/such/folder", MissingPathError, "got a path that does not exist. Check the path: no/such does not exist either"),
        ("no", MissingPathError, "got a path that does not exist. Check the path"),
        ("", UsageError, "expected a path, got an empty one"),
        ("nothing:here", UsageError, "expected a path or one of the schemes .*sklearn.*, got scheme 'nothing'"),
        ("sklearn:iris", UsageError, "expected an image set of scikit-learn .digits, .*got 'iris'"),
    ],
)  # fmt: skip
def test_names_that_lead_nowhere(path, kind, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(kind, path, message)


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("set.zip", b"PK\x03\x04", DataError, "expected a zip archive, got a damaged"),
        ("set.tar.gz", b"\x1f\x8b", DataError, "got a compressed archive. Unpack it with gunzip to a .tar"),
        ("set.tbz2", b"BZh9", DataError, "got a compressed archive. Unpack it with bunzip2 to a .tar, which is read"),
        ("set.7z", b"7z", DataError, "a .zip or .tar, Parquet, Arrow, .* got a compressed archive. Unpack it first"),
        ("set.tar", b"abc", DataError, "expected a tar that is not compressed"),
        ("set", b"PK\x03\x04", DataError, "got an archive without the ending .zip. Rename it"),
        ("picture.png", b"\x89PNG", LabelError, "got a single picture. Give the folder"),
        ("notes.txt", b"text", DataError, "got a .txt file. Check the path"),
        ("notes", b"text", DataError, "got a nameless file"),
        ("set.csv", b"a,b", DataError, "got a table of labels. Give the folder of its pictures, and the table with `labels`"),
        ("set.csv", b"", DataError, "got an empty file"),
        ("set.h5", b"\x89HDF\r\n\x1a\n", UsageError, "got the history itself"),
    ],
)  # fmt: skip
def test_files_that_are_no_dataset(tmp_path, name, content, kind, message):
    (tmp_path / name).write_bytes(content)
    refused(kind, tmp_path / name, message)


def test_schemes_can_be_added(monkeypatch):
    monkeypatch.setattr(READERS, "_entries", dict(READERS._entries))
    register_scheme("mine", lambda name: open_arrays(COLOUR, LABELS, class_names=[name, "b", "c"]))
    assert open_images("mine:a").class_names == ("a", "b", "c")
    for bad in ("", "x", "Mine", "a b"):
        with pytest.raises(UsageError, match=r"expected a lower-case word of two letters or more"):
            register_scheme(bad, lambda _: pytest.fail("called"))


def test_digits():
    source = open_images("sklearn:digits")
    assert (source.layout, len(source), source.class_names) == ("sklearn", 1797, tuple("0123456789"))
    images = source.read(range(20), size=8).images
    assert images.shape == (20, 8, 8, 1)
    assert (images.min(), images.max()) == (0, 255)


def as_npy(folder):
    np.save(folder / "images.npy", COLOUR[:4, :4, :4])
    np.save(folder / "labels.npy", [0, 1, 0, 1])
    return folder


def as_compressed_npz(folder):
    np.savez_compressed(folder / "set.npz", images=COLOUR[:4, :4, :4], labels=[0, 1, 0, 1])
    return folder / "set.npz"


def as_idx_gz(folder):
    return save_mnist(folder, GREY[:4, :4, :4], np.arange(4) % 2, ending=".gz")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("layout", [as_npy, as_compressed_npz, as_idx_gz])
def test_no_damage_to_any_byte_escapes_the_tree_of_errors(tmp_path, layout):
    rng = np.random.default_rng(0)
    path = layout(tmp_path)
    good = {file: file.read_bytes() for file in sorted(tmp_path.iterdir())}
    refusals = 0
    for _ in range(60):
        for file, content in good.items():
            data = bytearray(content)
            for position in rng.integers(0, len(data), 2):
                data[position] = rng.integers(256)
            file.write_bytes(data)
        try:
            source = open_images(path)
            source.read(range(len(source)))
        except WarmstartError:
            refusals += 1
    assert refusals


def test_names_in_a_history(tmp_path):
    path = tmp_path / "h.h5"
    info = DatasetInfo("noise", "g", 24, 0, 0, 3)
    with History.create(path, dump_space(target_space()), stored_size=12) as history:
        history.add_dataset(info, ImageSet(COLOUR, LABELS, ("a", "b", "c")), np.zeros(24, np.int8))
    assert open_images(f"{path}::noise").class_names == ("a", "b", "c")
    refused(UsageError, f"{path}::nois", "expected the name of a dataset in it, got 'nois'. Did you mean noise")
    refused(
        UsageError,
        path,
        r"expected a dataset inside the history, got the history itself. Name the dataset: .*h.h5::NAME",
    )
    refused(
        MissingPathError,
        f"{tmp_path / 'no.h5'}::noise",
        "no.h5: expected a history file, got a path that does not exist",
    )
    path.write_bytes(path.read_bytes()[:500])
    refused(HistoryDamagedError, f"{path}::noise", "h.h5")


def test_a_set_that_was_not_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    refused(
        DataError,
        "sklearn:olivetti_faces",
        "expected a set that is on this machine, got none, and nothing is downloaded here",
    )


def test_cifar_names_its_classes(tmp_path):
    save_cifar(tmp_path / "data_batch_1.bin", pixels(side=32), LABELS)
    names = [f"kind {number}" for number in range(10)]
    (tmp_path / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    assert open_images(tmp_path).class_names == ("kind 0", "kind 1", "kind 2")


def test_idx_labels_without_images(tmp_path):
    labels = save_idx(tmp_path / "train-labels-idx1-ubyte", LABELS.astype(np.uint8))
    refused(DataError, tmp_path, "expected idx images .* beside the labels, got labels alone")
    refused(DataError, labels, "got a labels file. Give the folder, or the images file")
