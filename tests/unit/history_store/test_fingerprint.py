import os
import random
import unicodedata

import pytest
from layouts import classes, pixels

from warmstart.history_store.fingerprint import SAMPLED_FILES, file_fingerprint
from warmstart.history_store.readers import open_arrays

KINDS = pytest.mark.parametrize("kind", ["listing", "content"])


@pytest.fixture
def folder(tmp_path):
    for name in ("b/2.png", "a/1.png", "a/ü.png"):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "set"


RECORDED = {
    "listing": "listing:a77c56304641e9ff9a7dafaeb1e94eaa628d4edf",
    "content": "content:738c7405d066643f09c183fa37f390f0f2b0a880",
}
RECORDED_ROWS = {
    "listing": "listing:a16b385e6083e47999941ed8463152ceb87d6e9b",
    "content": "content:860b774da5cdedaaa3e96ff105929e48ae22ce04",
}
NAMES = ["a/1.png", "a/ü.png", "b/2.png"]


@KINDS
def test_recorded_value_whatever_the_order_and_the_clock(folder, kind):
    # Histories carry these: a new value needs a new version number inside.
    os.utime(folder / "a/1.png", (0, 0))
    assert file_fingerprint(kind, str(folder), NAMES) == RECORDED[kind]
    assert file_fingerprint(kind, str(folder), NAMES[::-1]) == RECORDED[kind]
    assert open_arrays(pixels(4, 5), [0, 1, 0, 1]).fingerprint(kind) == RECORDED_ROWS[kind]


@KINDS
def test_bytes_paths_and_number_of_files_count(folder, kind):
    first = file_fingerprint(kind, str(folder), NAMES)
    assert file_fingerprint(kind, str(folder), NAMES[:2]) != first
    (folder / "b/3.png").write_bytes(b"b/2.png")
    assert file_fingerprint(kind, str(folder), [*NAMES[:2], "b/3.png"]) != first
    (folder / "a/1.png").write_bytes(b"a/1.pnG")
    assert file_fingerprint(kind, str(folder), NAMES) != first


@KINDS
def test_decomposed_names_are_the_same_names(folder, kind):
    first = file_fingerprint(kind, str(folder), NAMES)
    decomposed = unicodedata.normalize("NFD", "ü")
    (folder / "a/ü.png").rename(folder / f"a/{decomposed}.png")
    assert file_fingerprint(kind, str(folder), ["a/1.png", f"a/{decomposed}.png", "b/2.png"]) == first


def test_listing_opens_at_most_400_files(tmp_path, monkeypatch):
    names = [f"{number}.png" for number in range(SAMPLED_FILES + 100)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    opened = []
    digest = "warmstart.history_store.fingerprint._file_digest"
    monkeypatch.setattr(digest, lambda path, _largest: opened.append(path) or b"x")
    first = file_fingerprint("listing", str(tmp_path), names)
    assert len(opened) == SAMPLED_FILES
    chosen = set(opened)
    opened.clear()
    assert file_fingerprint("listing", str(tmp_path), random.Random(0).sample(names, len(names))) == first
    assert set(opened) == chosen
    unread = next(name for name in names if f"{tmp_path}/{name}" not in chosen)
    (tmp_path / unread).write_bytes(b"of another size")
    assert file_fingerprint("listing", str(tmp_path), names) != first
    opened.clear()
    file_fingerprint("content", str(tmp_path), names)
    assert len(opened) == len(names)


@KINDS
def test_rows_keep_their_labels_and_pixels(kind):
    images, labels = pixels(24, 5), classes()
    first = open_arrays(images, labels).fingerprint(kind)
    swapped = images.copy()
    swapped[[0, 23]] = images[[23, 0]]  # two pictures change classes
    assert open_arrays(swapped, labels).fingerprint(kind) != first
    exchanged = images.copy()
    exchanged[[0, 1], 2, 2, 0] = images[[1, 0], 2, 2, 0]  # two pictures of one class exchange a pixel
    assert open_arrays(exchanged, labels).fingerprint(kind) != first
    assert open_arrays(images.reshape(24, 5, 1, 15)[..., :3], labels).fingerprint(kind) != first
    assert open_arrays(images, labels, class_names=["a", "b", "c"]).fingerprint(kind) != first
