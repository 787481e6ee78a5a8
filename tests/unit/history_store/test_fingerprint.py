import os
import random
import shutil
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import classes, pixels, save_folder

from warmstart.history_store.fingerprint import SAMPLED_FILES, file_fingerprint, file_signature, row_fingerprint
from warmstart.history_store.readers import open_arrays, open_images

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
def test_order_and_place_do_not_matter(folder, tmp_path, kind):
    first = file_fingerprint(kind, str(folder), NAMES)
    assert file_fingerprint(kind, str(folder), NAMES[::-1]) == first
    copy = shutil.copytree(folder, tmp_path / "copy")
    os.utime(copy / "a/1.png", (0, 0))
    assert file_fingerprint(kind, str(copy), NAMES) == first


@KINDS
def test_recorded_value(folder, kind):
    # Histories carry these: a new value needs a new version number inside.
    assert file_fingerprint(kind, str(folder), NAMES) == RECORDED[kind]
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


@KINDS
def test_a_file_that_is_gone_counts_instead_of_stopping(folder, kind):
    first = file_fingerprint(kind, str(folder), NAMES)
    (folder / "b/2.png").unlink()
    assert file_fingerprint(kind, str(folder), NAMES) != first


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


def test_signature_sees_a_rewritten_file(folder):
    first = file_signature(str(folder), NAMES)
    os.utime(folder / "a/1.png", ns=(1, 1))
    assert file_signature(str(folder), NAMES) != first


@KINDS
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_rows_in_any_order(kind, seed):
    images, labels = pixels(24, 5), classes()
    order = np.random.default_rng(seed).permutation(24)
    assert open_arrays(images[order], labels[order]).fingerprint(kind) == open_arrays(images, labels).fingerprint(kind)


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


def test_row_hashes_see_every_byte():
    images = np.zeros((2, 4, 5, 3), np.uint8)
    digests = set()
    for position in range(60):
        for value in (1, 128, 255):
            changed = images.copy()
            changed.reshape(2, -1)[0, position] = value
            digests.add(open_arrays(changed, [0, 1]).fingerprint("listing"))
    assert len(digests) == 180


def test_many_rows_add_up_without_a_warning():
    images = pixels(5000, 8, 1)
    assert open_arrays(images, np.arange(5000) % 3).fingerprint("listing") == open_arrays(
        images[::-1], (np.arange(5000) % 3)[::-1]
    ).fingerprint("listing")


def test_rows_do_not_depend_on_blocks():
    images, labels = pixels(24, 5), classes()
    whole = row_fingerprint("content", [(24, lambda rows: images[rows])], labels, ["0", "1", "2"])
    parts = [(10, lambda rows: images[rows]), (14, lambda rows: images[10:][rows])]
    assert row_fingerprint("content", parts, labels, ["0", "1", "2"]) == whole
    assert whole == open_arrays(images, labels).fingerprint("content")


def test_the_same_in_another_process(tmp_path):
    root = save_folder(tmp_path / "set", pixels(), classes())
    code = f"from warmstart.history_store.readers import open_images; s = open_images({str(root)!r}); print(s.fingerprint('listing'), s.fingerprint('content'))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    source = open_images(root)
    assert out.stdout.split() == [source.fingerprint("listing"), source.fingerprint("content")]
