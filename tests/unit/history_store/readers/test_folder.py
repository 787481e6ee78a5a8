import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from layouts import classes, huge_png, pixels, save_folder, save_picture
from PIL import Image

from warmstart.history_store.errors import BrokenImagesError, DataError, LabelError
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.readers import open_images
from warmstart.history_store.readers.labels import natural_key
from warmstart.history_store.readers.tree import list_folder, split_of

PIXELS = pixels()[0]


@pytest.fixture
def tree(tmp_path):
    """Make empty files: enough to be listed."""

    def make(*names):
        for name in names:
            path = tmp_path / "set" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return str(tmp_path / "set")

    return make


@pytest.fixture
def root(tmp_path):
    return save_folder(tmp_path / "set", pixels(), classes())


@pytest.mark.parametrize(
    ("split", "spellings"),
    [
        ("train", ["train", "Train", "TRAINING", "trn", "train_set", "training-set", "trainset", "train images", "TrainVal"]),
        ("val", ["val", "Valid", "validation", "dev", "validation_set", "val-images", "valset"]),
        ("test", ["test", "Testing", "eval", "evaluation", "test_set", "testset", "test_images", "test_data"]),
        (None, ["trains", "tea", "value", "testimony", "set", "data", "images", "", "cat"]),
    ],
)  # fmt: skip
def test_spellings(split, spellings):
    assert {name: split_of(name) for name in spellings} == dict.fromkeys(spellings, split)


def test_splits_share_one_set_of_classes(tree):
    listing = list_folder(
        tree("Testing/b/1.png", "Testing/c/1.png", "training/a/1.png", "training/b/1.png", "Valid/a/1.png")
    )
    assert listing.files == (
        "training/a/1.png",
        "training/b/1.png",
        "Valid/a/1.png",
        "Testing/b/1.png",
        "Testing/c/1.png",
    )
    assert listing.class_names == ("a", "b", "c")
    assert listing.labels.tolist() == [0, 1, 0, 1, 2]
    assert {name: rows.tolist() for name, rows in listing.splits.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3, 4],
    }


def test_natural_order():
    names = ["class10", "Class2", "class1", "b", "A", "10", "9", "1.5", "1.10"]
    assert sorted(names, key=natural_key) == ["1.5", "1.10", "9", "10", "A", "b", "class1", "Class2", "class10"]


def test_nested_folders_belong_to_the_class(tree):
    listing = list_folder(tree("cats/indoor/1.png", "cats/outdoor/far/2.png", "dogs/1.png"))
    assert listing.class_names == ("cats", "dogs")
    assert listing.labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "names",
    [
        ("seg_train/seg_train/a/1.png", "seg_test/seg_test/a/1.png", "seg_pred/1.png"),
        ("train/a/1.png", "train/b/1.png", "test/1.png", "extra/1.png"),
    ],
)
def test_splits_without_a_common_class_are_not_guessed_at(tree, names):
    with pytest.raises(
        LabelError,
        match=r"expected splits that share classes .*, got (seg_)?train/ and (seg_)?test/ without a class in common",
    ):
        list_folder(tree(*names))


def test_system_and_hidden_files_are_passed_over(tree):
    junk = (
        "__MACOSX/a/1.png",
        ".git/a/1.png",
        "a/.1.png",
        "a/._2.png",
        "a/Thumbs.db",
        "b/.ipynb_checkpoints/1.png",
        "b/@eaDir/1.png",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list_folder(tree("a/1.png", "b/1.png", *junk)).files == ("a/1.png", "b/1.png")


def test_grey_among_colours(root):
    save_picture(root / "0" / "0000.png", pixels(channels=1)[0])
    source = open_images(root)
    assert source.read([0, 0]).images.shape == (2, 32, 32, 1)
    mixed = source.read([0, 1, 0]).images
    assert mixed.shape == (3, 32, 32, 3)
    np.testing.assert_array_equal(mixed[0], np.repeat(source.read([0]).images[0], 3, axis=2))
    np.testing.assert_array_equal(mixed[0], mixed[2])


# Broken pictures


def text(path):
    path.write_text("no picture")


def empty(path):
    path.write_bytes(b"")


def truncated_png(path):
    path.write_bytes(path.read_bytes()[:200])


def truncated_jpeg(path):
    Image.fromarray(pixels(1, 200)[0]).save(path, "JPEG")
    path.write_bytes(path.read_bytes()[:-4000])


def dangling(path):
    path.unlink()
    path.symlink_to("nowhere")


def huge(path):
    path.write_bytes(huge_png())


def floats(path):
    Image.fromarray(np.full((4, 4), 80, np.float32)).save(path, "TIFF")


BREAKS = [
    (text, "not a picture"),
    (empty, "an empty file"),
    (truncated_png, "cut short"),
    (truncated_jpeg, "cut short"),
    (dangling, "a link that leads nowhere"),
    (huge, "claims more"),
    (floats, "minimum 80 and maximum 80"),
]


@pytest.mark.parametrize(("damage", "reason"), BREAKS)
def test_a_broken_picture_is_named(root, damage, reason):
    damage(root / "1" / "0010.png")
    source = open_images(root)
    message = rf"set: expected pictures that can be decoded, got 1 broken of 24 read: 1/0010.png \((?!pixels:).*({reason}).*\). .*go on without them: `skip_broken`"
    with pytest.raises(BrokenImagesError, match=message) as caught:
        source.read(range(24))
    assert caught.value.paths == ("1/0010.png",)
    images = source.read(range(24), skip_broken=True)
    assert len(images.images) == len(images.labels) == 23
    assert [image.path for image in images.broken] == ["1/0010.png"]
    np.testing.assert_array_equal(images.labels, np.delete(classes(), 10))
    np.testing.assert_array_equal(images.indices, np.delete(np.arange(24), 10))
    np.testing.assert_array_equal(source.read([11, 10, 3, 11], skip_broken=True).indices, [11, 3, 11])
    np.testing.assert_array_equal(images.images, source.read([i for i in range(24) if i != 10]).images)
    assert source.fingerprint("content") == open_images(root).fingerprint("content")


def test_a_split_among_classes_is_asked_about_and_every_file_counts(tmp_path):
    for name in ("train/a/1.png", "train/b/2.png", "unlabelled/3.png"):
        save_picture(tmp_path / "set" / name, PIXELS)
    for number in range(7):
        (tmp_path / "set" / "unlabelled" / f"x.raw{number}").write_bytes(b"x")
    with pytest.warns(DatasetWarning) as told:
        open_images(tmp_path / "set")
    assert any("is train a class? It holds several folders" in str(warning.message) for warning in told)
    assert any("; 2 files of other endings." in str(warning.message) for warning in told)


# Links


def make_links(root, kind):
    if kind == "picture to itself":
        (root / "0" / "loop.png").symlink_to("loop.png")
    elif kind == "to the parent":
        (root / "0" / "loop").symlink_to("..")
    else:
        (root / "0" / "to1").symlink_to("../1")
        (root / "1" / "to0").symlink_to("../0")


@pytest.mark.parametrize("kind", ["picture to itself", "to the parent", "crosswise"])
def test_circles_of_links_are_an_error(root, kind):
    make_links(root, kind)
    with pytest.raises(DataError, match=r"(got a link back to .*runs in a circle|symbolic links)"):
        open_images(root)


# What is no dataset


def test_unlabelled(tree):
    with pytest.raises(
        LabelError, match=r"expected one folder a class .*, got 3 pictures without class folders. Sort the pictures"
    ):
        open_images(tree("1.png", "2.png", "3.png"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((".hidden",), "got an empty folder. Check the path"),
        (("a/b/.hidden",), "got 2 folders without files"),
        (("notes.txt", "a/b.csv"), r"got 2 other files such as notes.txt. Check the path"),
        (("a/train.zip",), r"got 1 other file such as a/train.zip. Give the path of the file itself"),
        (("a/train.tgz",), r"got 1 other file such as a/train.tgz. Unpack it with gunzip to a .tar"),
        (("data.npz",), r"got 1 other file such as data.npz. Give the path of the file itself"),
    ],
)
def test_no_pictures(tree, names, message):
    with pytest.raises(DataError, match=f"expected pictures in class folders, {message}"):
        open_images(tree(*names))


def test_one_folder_around_the_classes(tree):
    with pytest.raises(
        LabelError, match=r"got all 2 pictures in 'flowers'. Did you mean .*set/flowers, which holds 2 folders\?"
    ):
        open_images(tree("flowers/rose/1.png", "flowers/tulip/1.png"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems forbid such names")
def test_names_that_are_no_utf8(tree):
    folder = tree("a/1.png", "b/1.png")
    odd = Path(folder, os.fsdecode(b"\xff"), os.fsdecode(b"\xfe.png"))
    odd.parent.mkdir()
    odd.write_text("broken")
    source = open_images(folder)
    assert source.class_names == ("a", "b", "\\udcff")
    assert source.fingerprint("content").startswith("content:")
    with pytest.raises(BrokenImagesError) as caught:
        source.read([2])
    assert str(caught.value).encode("utf-8")


def test_a_split_without_a_class_of_the_training_pictures_is_left_out(tmp_path):
    for part, folders in (("train", "ab"), ("val", ["images"]), ("test", "ab")):
        for name in folders:
            save_picture(tmp_path / part / name / "1.png", PIXELS)
    with pytest.warns(DatasetWarning, match="left out 1 picture in val/images/ without a class of the training pict"):
        source = open_images(tmp_path)
    assert (source.class_names, set(source.splits)) == (("a", "b"), {"train", "test"})
    assert len(source) == 4


def test_pictures_count_by_content_and_what_is_none_is_told(tmp_path):
    for name in "ab":
        for file in ("1.png", "2.png_large", "3"):
            save_picture(tmp_path / name / "x.png", PIXELS).rename(tmp_path / name / file)
        (tmp_path / name / "4.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
        (tmp_path / name / "notes.txt").write_text("beside pictures")
    with pytest.warns(
        DatasetWarning, match=r"left out 2 files \.heic that cannot be read as pictures \(such as b/4\.heic\)\."
    ):
        source = open_images(tmp_path)
    assert len(source.read(range(6)).images) == 6


def test_an_unreadable_file_is_named(root, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    source = open_images(root)
    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(BrokenImagesError, match=r"0/0000.png \(permission denied\)"):
        source.read([0])
