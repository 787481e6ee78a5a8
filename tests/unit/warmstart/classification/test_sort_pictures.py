"""Copies of pictures in a folder a class."""

from pathlib import Path

import pytest

from warmstart.classification.sort_pictures import folder_names, sort_pictures
from warmstart.history_store.errors import StorageError, UsageError
from warmstart.prediction import Prediction, Predictions


def answers(*rows):
    return Predictions(
        "clf.safetensors",
        ("cat", "dog"),
        tuple(Prediction(image, label, p, {label: p}, unlike=unlike) for image, label, p, unlike in rows),
    )


def test_copies_lie_by_class_and_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("new/a.jpg", "1"), ("more/a.jpg", "2"), ("new/b.jpg", "3"), ("new/c.jpg", "4")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    said = answers(("new/a.jpg", "cat", 0.9, False), ("more/a.jpg", "cat", 0.95, False), ("new/b.jpg", "dog", 0.7, False), ("new/c.jpg", "dog", 0.99, True))  # fmt: skip
    Path("sorted/dog").mkdir(parents=True)
    for _ in range(2):  # again: the copies are there
        copies = sort_pictures(said, "sorted", threshold=0.8)
        assert [str(each.copy) for each in copies] == ["sorted/cat/a.jpg", "sorted/cat/a-2.jpg", "sorted/unsure/b.jpg", "sorted/unsure/c.jpg"]  # fmt: skip
        assert {path.name: path.read_text() for path in Path("sorted").rglob("*.jpg")} == {"a.jpg": "1", "a-2.jpg": "2", "b.jpg": "3", "c.jpg": "4"}  # fmt: skip
    with pytest.raises(UsageError, match=r"sort_into: expected a folder without the pictures themselves, got new"):
        sort_pictures(said, "new")
    with pytest.raises(UsageError, match=r"sort_into: expected a folder, got the file"):
        sort_pictures(said, "new/a.jpg")
    Path("new/b.jpg").unlink()
    with pytest.raises(StorageError, match=r"b\.jpg: expected a picture to be copied"):
        sort_pictures(said, "other")


def test_folders_of_classes_are_different_and_safe():
    names = folder_names(("a/b", "a:b", "Unsure", "..", "cat", "Cat"))
    assert names == {"a/b": "a_b", "a:b": "a_b-2", "Unsure": "Unsure-2", "..": "_", "cat": "cat", "Cat": "Cat-2"}
