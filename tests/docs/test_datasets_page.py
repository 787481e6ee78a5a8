"""The page on datasets against the code."""

import re
from pathlib import Path

from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.npz import IMAGES_KEYS, LABELS_KEYS, NAMES_KEYS
from warmstart.history_store.readers.tree import _SPELLINGS, split_of

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())


def test_split_spellings():
    for split in ("train", "val", "test"):
        row = re.search(rf"^\s*\| {split} \| (.*) \|$", PAGE, re.MULTILINE)
        written = row[1].split(", ")
        assert written == [word for word, of in _SPELLINGS.items() if of == split]
        assert {split_of(word) for word in written} == {split}


def test_decorations():
    for word in re.search(r"with or without (.*) behind it", FLAT)[1].replace("`", "").split(", "):
        assert split_of(f"Train_{word}") == "train"


def test_endings_and_keys():
    assert set(re.search(r"Pictures end in `([^`]*)`", FLAT)[1].split()) == SUFFIXES - {".avif"}
    assert all(f"`{key}`" in PAGE for key in (*IMAGES_KEYS, *LABELS_KEYS, *NAMES_KEYS))
