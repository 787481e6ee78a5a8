"""A labelled collection of pictures: what every reader gives, and the doors to the readers.

A collection is listed when it is opened (labels, class names and splits are known then) and decoded only
where it is read. Layouts and their rules: ``docs/datasets.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

FingerprintKind = Literal["listing", "content"]
SPLITS = ("train", "val", "test")


class DatasetWarning(UserWarning):
    """Something lies in a dataset that was not used."""


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """A picture that cannot be decoded.

    Attributes:
        path: of the file, or the number of the picture in its collection.
        reason: what is wrong with it.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded pictures in memory.

    Attributes:
        images: `n x size x size x c` uint8, c = 1 where all pictures are grey, else 3.
        labels: `n` int64 in 0 .. len(class_names) - 1.
        class_names: of the whole collection, also where a class has no picture here.
        broken: pictures that were asked for and left out.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    broken: tuple[BrokenImage, ...] = ()


class ImageSource(Protocol):
    """A labelled collection, decoded only when read.

    Reading twice gives the same pixels. A source never changes after it was opened; files that change
    underneath are the caller's affair, who can tell by `signature`.

    Attributes:
        location: path or name, as given.
        layout: ``folder``, ``idx``, ``cifar``, ``npz``, ``npy``, ``history``, ``sklearn``, ``torchvision``, ``arrays`` or ``torch``.
        labels: `n` int64 in 0 .. C-1, every class present.
        class_names: C names, in the order of the labels.
        splits: ``train``, ``val`` or ``test`` to sorted int64 indices; a layout without splits has only ``train`` = everything.
    """

    @property
    def location(self) -> str: ...  # noqa: D102
    @property
    def layout(self) -> str: ...  # noqa: D102
    @property
    def labels(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def class_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def splits(self) -> Mapping[str, NDArray[np.int64]]: ...  # noqa: D102

    def __len__(self) -> int:
        """Count the pictures."""
        ...

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode the pictures at these indices, and no others.

        Args:
            indices: into the collection, in the order wanted; repeats are allowed.
            size: side in pixels; None keeps the stored side, where all are square and alike.
            skip_broken: leave broken pictures out and list them, instead of refusing.

        Raises:
            BrokenImagesError: when pictures cannot be decoded, or none is left.
            DataError: when pixel values or sides do not fit.
            UsageError: when an index or the size is out of range.
        """
        ...

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Name the collection by its content: ``listing:...`` or ``content:...``; see `history_store.fingerprint`."""
        ...

    def signature(self) -> str:
        """Name the files as they lie there (paths, sizes, times): cheap, fit for a memo within this process only."""
        ...


def open_images(path: str | Path) -> ImageSource:
    """Open a labelled collection.

    Args:
        path: a folder, an idx, CIFAR, npz or npy file, ``FILE.h5::name``, or ``scheme:name`` such as ``sklearn:digits``.

    Raises:
        MissingPathError: when the path does not exist.
        UsageError: when a scheme or a name behind it is not known.
        LabelError: when labels are missing, of a wrong kind, or of one class only.
        DataError: when it is no layout that can be read.
    """
    from history_store.readers.registry import open_location

    return open_location(path)


def open_arrays(images: ArrayLike, labels: ArrayLike, *, class_names: Sequence[str] | None = None) -> ImageSource:
    """Open pictures that are in memory already; they are not copied.

    Args:
        images: `n x h x w` or `n x h x w x c`, c in {1, 3, 4}; uint8, uint16 (divided by 257), float in [0, 1] or bool.
        labels: `n` integers or strings, in any numbering.
        class_names: names by label 0 .. C-1; left out, the labels themselves are the names.

    Raises:
        LabelError: when labels are missing, of a wrong kind or number, or of one class only.
        DataError: when the shape, dtype or values of the images do not fit.
    """
    from history_store.readers.arrays import from_memory

    return from_memory(images, labels, class_names=class_names)


def open_torch_dataset(dataset: Any) -> ImageSource:
    """Open a map-style torch Dataset: anything with `len` whose items are (picture, label).

    Pictures may be PIL pictures, `c x h x w` tensors or `h x w x c` arrays. Labels are taken from `targets`, `labels` or
    `tensors` where the dataset has them; otherwise every item is fetched once.

    Raises:
        LabelError: when labels are missing, of a wrong kind, or of one class only.
        DataError: when it has no length or its items are no (picture, label).
    """
    from history_store.readers.torch_dataset import open_dataset

    return open_dataset(dataset)


def register_scheme(scheme: str, opener: Callable[[str], ImageSource]) -> None:
    """Let `open_images` hand ``scheme:name`` to an opener, which receives the name; a later one replaces an earlier one.

    Raises:
        UsageError: when the scheme is not a lower-case word of two letters or more.
    """
    from history_store.readers.registry import register

    register(scheme, opener)
