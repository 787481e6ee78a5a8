"""Labelled image datasets in parts, the input of workloads; images are decoded at a requested size."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.images import BrokenImage, ImageSource
from warmstart.history_store.picture import square_arrays
from warmstart.history_store.splits import SPLIT_NAMES, split_codes, stratified_subsample
from warmstart.metafeat.broken_rows import left_out_pictures
from warmstart.metafeat.labels import check_contrast

if TYPE_CHECKING:
    from warmstart.history_store.file.stored_images import Split, StoredImages


class Dataset(ABC):
    """Labelled images in training, validation and test part.

    Attributes:
        location: of the images; opens messages.
        labels: `n` int64 in 0 .. C-1.
        split: `n` int8; 0 train, 1 val, 2 test.
        class_names: C names by label.
        size: stored image size, pixels of a side; None = original pictures, at a size of the workload's choice.
        test_is_spare: whether the test part was drawn here, as there was none, and is not empty: it may be trained on.
        sampled_rows: rows of the dataset of which these images are a sample; None = all of it.
    """

    location: str
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    class_names: tuple[str, ...]
    size: int | None
    test_is_spare: bool
    sampled_rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, part: Split) -> NDArray[np.int64]:
        """Return the sorted indices of the images of a part."""
        return np.flatnonzero(self.split == SPLIT_NAMES.index(part))

    @abstractmethod
    def images(self, size: int) -> NDArray[np.uint8]:
        """Decode all images, `n x size x size x c` uint8, c = 1 if all are grey, else 3.

        Raises:
            BrokenImagesError: when an image cannot be decoded.
        """

    def some_images(self, rows: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        """Decode some images; see `images`."""
        return self.images(size)[rows]

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a fingerprint of images, labels and parts, as a key of caches."""


class StoredDataset(Dataset):
    """Dataset of a history, with images of the stored size."""

    def __init__(self, stored: StoredImages) -> None:
        self._stored = stored
        self.location = stored.name
        self.labels, self.split, self.class_names = stored.labels, stored.split, tuple(stored.class_names)
        self.size, self.test_is_spare = stored.shape[1], False

    def images(self, size: int) -> NDArray[np.uint8]:
        """Return the stored images, resized to another size if necessary."""
        return self._stored.array if size == self.size else square_arrays(self._stored.array, size)

    def fingerprint(self) -> str:
        """Return a hash of the stored images, labels and parts; another stored size has another hash."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        # Labels in a fixed byte order, so that a dataset has one fingerprint on all machines.
        digest = hashlib.sha256(f"stored {self._stored.shape}\0".encode())
        for part in (self._stored.array, self.labels.astype("<i8"), self.split):
            digest.update(np.ascontiguousarray(part).data)
        return f"stored:{digest.hexdigest()}"


class SourceDataset(Dataset):
    """Dataset of a user's images, with their parts, or parts drawn class by class with seed 0.

    Args:
        source: of the images.
        skip_broken: leave out pictures that cannot be decoded: all, none (False), or a few (None); the constructor
            searches for them.

    Raises:
        LabelError: when fewer than two classes, two training images or one validation image are left.
        BrokenImagesError: when no picture can be decoded.
    """

    def __init__(self, source: ImageSource, *, skip_broken: SkipBroken = False) -> None:
        check_contrast(source.labels, source.location)
        self.source, self._read = source, {}
        self.size = None
        self.location, self.class_names = source.location, tuple(source.class_names)
        self.broken, self.indices = left_out_pictures(source, skip_broken)
        self.labels, splits = np.asarray(source.labels)[self.indices], source.splits
        if self.broken:
            check_contrast(self.labels, source.location)
            splits = {name: np.flatnonzero(np.isin(self.indices, rows)) for name, rows in splits.items()}
        self.split, _ = split_codes(self.labels, splits, location=self.location)
        self.test_is_spare = not len((splits or {}).get("test", ())) and len(self.rows("test")) > 0

    _read: dict[int, NDArray[np.uint8]]
    source: ImageSource
    """Of the images."""
    broken: tuple[BrokenImage, ...]
    """Broken pictures that are left out."""
    indices: NDArray[np.int64]
    """Indices of the `n` images in the source."""

    def images(self, size: int) -> NDArray[np.uint8]:
        """Decode all images; the images of the last size are cached."""
        if size not in self._read:
            self._read = {size: self.source.read(self.indices, size=size).images}
        return self._read[size]

    def some_images(self, rows: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        """Decode some images."""
        return self.source.read(self.indices[rows], size=size).images

    def fingerprint(self) -> str:
        """Return a hash of pictures, files, labels and parts; another fold of the same pictures has another hash."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.source.fingerprint('content')}\0{self.source.signature()}\0".encode())
        for part in (self.indices.astype("<i8"), self.labels.astype("<i8"), self.split):
            digest.update(np.ascontiguousarray(part).data)
        return f"source:{digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Sample:
    """Pictures of a dataset for runs in limited time.

    Attributes:
        most: pictures outside a held-out test part; all of a smaller dataset.
        size: at which they are decoded once, pixels of a side; other sizes are made of that.
    """

    most: int
    size: int


class SampledDataset(Dataset):
    """Pictures of a dataset, drawn class by class from each part, and decoded once.

    Args:
        dataset: of a user's pictures.
        sample: of it.
    """

    def __init__(self, dataset: SourceDataset, sample: Sample) -> None:
        self._dataset, self._sample = dataset, sample
        self._read: NDArray[np.uint8] | None = None
        parts: tuple[Split, ...] = ("train", "val", "test") if dataset.test_is_spare else ("train", "val")
        share = min(1.0, sample.most / sum(len(dataset.rows(part)) for part in parts))
        drawn = []
        for part in parts:
            rows = dataset.rows(part)
            drawn.append(rows[stratified_subsample(dataset.labels[rows], share)] if share < 1 else rows)
        rows = np.sort(np.concatenate(drawn))
        self.sampled_rows = rows
        self.location, self.class_names, self.size = dataset.location, dataset.class_names, None
        self.labels, self.split = dataset.labels[rows], dataset.split[rows]
        self.test_is_spare = dataset.test_is_spare

    def images(self, size: int) -> NDArray[np.uint8]:
        """Return all images, made of those that were decoded once."""
        if self._read is None:
            assert self.sampled_rows is not None  # noqa: S101  of `__init__`
            self._read = self._dataset.some_images(self.sampled_rows, self._sample.size)
        return self._read if size == self._sample.size else square_arrays(self._read, size)

    def some_images(self, rows: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        """Decode some images."""
        if self._read is not None:
            return self.images(size)[rows]
        assert self.sampled_rows is not None  # noqa: S101  of `__init__`
        return square_arrays(self._dataset.some_images(self.sampled_rows[rows], self._sample.size), size)

    def fingerprint(self) -> str:
        """Return a hash of the dataset, the sample and the size at which it is decoded."""
        return f"{self._dataset.fingerprint()} {self._sample}"
