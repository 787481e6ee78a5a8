"""The contract of readers; inherit `ReaderContract` and build a dataset in the layout."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError, UsageError
from warmstart.history_store.images import SPLITS, ImageSource
from warmstart.history_store.picture import square_arrays
from warmstart.history_store.readers.base import Source

Pixels = NDArray[np.uint8]


def pixels(n: int = 24, side: int = 12, channels: int = 3, *, seed: int = 0) -> Pixels:
    """Return pictures of noise, `n x side x side x channels`, the first and the last channel different."""
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def classes(n: int = 24, c: int = 3) -> NDArray[np.int64]:
    """Return `n` rising labels of equally frequent classes."""
    return np.sort(np.arange(n) % c).astype(np.int64)


class ReaderContract(ABC):
    """24 pictures of noise in three classes, rising labels, through one reader."""

    layout: ClassVar[str]
    side: ClassVar[int] = 12
    channels: ClassVar[int] = 3
    in_files: ClassVar[bool] = True

    @abstractmethod
    def build(self, folder: Path, images: Pixels, labels: NDArray[np.int64]) -> ImageSource:
        """Write the pictures in this layout below the folder, in this order, and open them."""

    @pytest.fixture
    def images(self) -> Pixels:
        return pixels(side=self.side, channels=self.channels)

    @pytest.fixture
    def source(self, tmp_path: Path, images: Pixels) -> ImageSource:
        return self.build(tmp_path / "a", images, classes())

    def test_labels_and_names_are_known_before_reading(self, source):
        assert source.layout == self.layout
        assert len(source) == 24
        assert source.labels.dtype == np.int64
        np.testing.assert_array_equal(source.labels, classes())
        assert source.class_names == ("0", "1", "2")
        assert source.location

    def test_splits_are_sorted_and_share_out_everything(self, source):
        assert set(source.splits) <= set(SPLITS)
        assert all(rows.dtype == np.int64 and (np.diff(rows) > 0).all() for rows in source.splits.values())
        np.testing.assert_array_equal(np.sort(np.concatenate(list(source.splits.values()))), np.arange(24))

    def test_pixels_are_the_centre_square_resized(self, source, images):
        for size in (5, self.side, 32):
            got = source.read(range(24), size=size)
            np.testing.assert_array_equal(got.images, square_arrays(images, size))
            assert got.images.dtype == np.uint8
            assert got.images.flags.c_contiguous

    def test_size_none_keeps_the_stored_side(self, source, images):
        np.testing.assert_array_equal(source.read([3, 1], size=None).images, images[[3, 1]])

    def test_the_side_of_a_picture_is_known(self, source):
        if isinstance(source, Source):
            assert source.side(3) == self.side

    def test_reads_in_the_order_asked_for(self, source, images):
        got = source.read(np.array([20, 3, 3, 11]), size=self.side)
        np.testing.assert_array_equal(got.images, images[[20, 3, 3, 11]])
        np.testing.assert_array_equal(got.labels, classes()[[20, 3, 3, 11]])
        assert got.class_names == source.class_names
        assert got.broken == ()

    def test_what_was_read_may_be_changed(self, source, images):
        source.read([0, 1]).images[:] = 0
        source.read([0, 1], size=self.side).images[:] = 0
        np.testing.assert_array_equal(source.read([0, 1], size=self.side).images, images[:2])

    def test_skipping_changes_nothing_where_nothing_is_broken(self, source):
        tolerant = source.read(range(24), skip_broken=True)
        assert tolerant.broken == ()
        np.testing.assert_array_equal(tolerant.images, source.read(range(24)).images)

    @pytest.mark.parametrize("indices", [[], [24], [0.5], [True, False]], ids=str)
    def test_refuses_other_indices(self, source, indices):
        with pytest.raises(UsageError, match=r"expected (indices in 0 \.\. 23|at least one integer index)"):
            source.read(indices)

    def test_refuses_a_size_below_one(self, source):
        with pytest.raises(UsageError, match="expected a size of 1 pixel or more, got size=0"):
            source.read([0], size=0)

    def test_labels_cannot_be_changed(self, source):
        with pytest.raises(ValueError, match="read-only"):
            source.labels[0] = 1

    @pytest.mark.parametrize("kind", ["listing", "content"])
    def test_fingerprint_follows_the_content_alone(self, source, images, tmp_path, kind):
        first = source.fingerprint(kind)
        assert re.fullmatch(rf"{kind}:[0-9a-f]{{40}}", first)
        assert self.build(tmp_path / "elsewhere", images, classes()).fingerprint(kind) == first
        changed = images.copy()
        changed[17, 5, 6, 0] ^= 1
        assert self.build(tmp_path / "pixel", changed, classes()).fingerprint(kind) != first
        labels = classes()
        labels[8] = 0
        assert self.build(tmp_path / "label", images, labels).fingerprint(kind) != first

    def test_signature_stays_until_something_is_rewritten(self, source, images, tmp_path):
        first = source.signature()
        assert source.signature() == first
        if self.in_files:
            rewritten = self.build(tmp_path / "b", images, classes())
            assert rewritten.signature() != first

    def test_refuses_one_class(self, images, tmp_path):
        with pytest.raises(LabelError, match="expected at least two classes, got all 24 pictures in '1'"):
            self.build(tmp_path / "one", images, np.ones(24, np.int64))
