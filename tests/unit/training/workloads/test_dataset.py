"""Datasets as a workload gets them: stored or a person's, at any size, with pictures left out."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from warmstart.history_store.errors import BrokenImagesError, LabelError
from warmstart.history_store.history import History
from warmstart.history_store.picture import square_arrays
from warmstart.history_store.readers import open_images
from warmstart.training.workloads import SourceDataset, StoredDataset


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(20):
        place = tmp_path / "photos" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(place / f"{number:02}.png")
    return tmp_path / "photos"


def test_a_source_is_decoded_at_any_size_in_its_own_order(folder):
    source = open_images(folder)
    dataset = SourceDataset(source)
    assert (len(dataset), dataset.size, dataset.class_names) == (20, None, ("a", "b"))
    for size in (12, 6, 12):
        np.testing.assert_array_equal(dataset.images(size), source.read(range(20), size=size).images)
    parts = [dataset.rows(part) for part in ("train", "val", "test")]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(20))
    assert dataset.fingerprint() == SourceDataset(open_images(folder)).fingerprint()


def test_folds_of_the_same_pictures_have_other_fingerprints(folder):
    names = sorted(str(file.relative_to(folder)) for file in folder.glob("*/*.png"))
    rows = [f"{name},{name[0]},{'val' if number % 4 == 0 else 'train'}" for number, name in enumerate(names)]
    swapped = [rows[1], rows[0], *rows[2:]]
    cut = [row.replace(",val", ",train") if number < 6 else row for number, row in enumerate(rows)]
    # Parts and labels stand in the same order here, and only the names of the pictures tell the two apart.
    other_fold = [
        f"{name},{row.split(',', 1)[1]}" for name, row in zip([*names[1:10], names[0], *names[10:]], rows, strict=True)
    ]
    found = set()
    for place, table in enumerate((rows, swapped, cut, other_fold)):
        file = folder / f"{place}.csv"
        file.write_text("\n".join(["filename,label,split", *table]) + "\n")
        source = open_images(f"{folder}::labels={file}")
        assert len(source) == 20
        found.add(SourceDataset(source).fingerprint())
    assert len(found) == 4


def test_pictures_left_out_are_left_out_at_every_size(folder):
    (folder / "a" / "04.png").write_bytes(b"no picture")
    with pytest.raises(BrokenImagesError, match=r"04\.png"):
        SourceDataset(open_images(folder)).images(8)
    dataset = SourceDataset(open_images(folder), skip_broken=True)
    assert len(dataset) == 19
    assert dataset.images(8).shape == (19, 8, 8, 3)
    assert dataset.images(32).shape[0] == len(dataset.labels) == len(dataset.split) == 19
    assert dataset.fingerprint() == SourceDataset(open_images(folder), skip_broken=True).fingerprint()
    assert [picture.left_out for picture in dataset.broken] == ["left out a/04.png: not a picture"]
    source = open_images(folder)
    np.testing.assert_array_equal(dataset.images(8), source.read(dataset.indices, size=8).images)
    np.testing.assert_array_equal(dataset.labels, source.labels[dataset.indices])


def test_too_few_pictures_are_told_with_their_place(folder):
    for number in range(2, 20):
        (folder / "ab"[number % 2] / f"{number:02}.png").unlink()
    with pytest.raises(
        LabelError, match="photos: expected at least 2 training images and 1 validation image, got 2 and 0"
    ):
        SourceDataset(open_images(folder))


def test_a_stored_dataset_keeps_its_parts_and_is_named_by_its_pixels(tiny):
    with History.open(tiny.history) as history:
        stored, other = (StoredDataset(history.images(name)) for name in tiny.names[:2])
    assert stored.size == 32
    assert len(stored.rows("train")) == int((stored.split == 0).sum())
    np.testing.assert_array_equal(stored.images(16), square_arrays(np.asarray(stored.images(32)), 16))
    assert stored.fingerprint() == stored.fingerprint() != other.fingerprint()


def test_a_reader_that_does_not_say_which_pictures_are_left_is_asked_one_by_one(folder):
    (folder / "b" / "07.png").write_bytes(b"no picture")
    source = open_images(folder)
    read = source.read(range(20), skip_broken=True)
    silent = replace(read, indices=None)
    np.testing.assert_array_equal(silent.whole(source, range(20)), read.indices)
    whole = replace(source.read([3, 1]), indices=None)
    np.testing.assert_array_equal(whole.whole(source, [3, 1]), [3, 1])
