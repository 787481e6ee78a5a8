"""Labelled image collections: the interface of every reader.

A collection is listed when it is opened: labels, class names and splits are known then. Images are decoded only when
read. Layouts and their rules: ``docs/datasets.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import BrokenImagesError

FingerprintKind = Literal["listing", "content"]
SPLITS = ("train", "val", "test")


class DatasetWarning(UserWarning):
    """Warning that a part of a dataset was not used."""


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """A picture that cannot be decoded.

    Attributes:
        path: of the file, or the number of the picture in its collection.
        reason: what is wrong with it.
    """

    path: str
    reason: str

    @property
    def left_out(self) -> str:
        """Return the note that the picture was left out, and why."""
        return f"left out {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded pictures in memory.

    Attributes:
        images: `n x size x size x c` uint8, c = 1 where all pictures are grey, else 3.
        labels: `n` int64 in 0 .. len(class_names) - 1.
        class_names: of the whole collection, also where a class has no picture here.
        broken: pictures that were asked for and left out.
        indices: `n` int64, of these pictures in the collection; None where the reader does not say.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    broken: tuple[BrokenImage, ...] = ()
    indices: NDArray[np.int64] | None = None

    def whole(self, source: ImageSource, requested: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of these pictures among those that were requested, `n` int64.

        If the reader does not tell, broken ones are found by reading them again.
        """
        if self.indices is not None:
            return self.indices
        requested_rows = np.asarray(requested, dtype=np.int64)
        return (
            np.array([i for i in requested_rows.tolist() if _is_whole(source, i)], np.int64)
            if self.broken
            else requested_rows
        )


class ImageSource(Protocol):
    """A labelled collection, decoded only when read.

    Reading twice gives the same pixels. A source never changes after it was opened; files that change
    underneath are the caller's affair, who can tell by `signature`.

    Attributes:
        location: path or name, as given.
        layout: ``folder``, ``zip``, ``tar``, ``csv``, ``table``, ``webdataset``, ``idx``, ``cifar``, ``npz``, ``npy``, ``history``,
            ``sklearn``, ``torchvision``, ``arrays`` or ``torch``.
        labels: `n` int64 in 0 .. C-1, every class present.
        class_names: C names, in the order of the labels.
        splits: ``train``, ``val`` or ``test`` to sorted int64 indices; a layout without splits has only ``train`` =
            everything.
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
        """Return the number of pictures."""
        ...

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode the pictures at these indices.

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
        """Return a name of the collection by its content: ``listing:...`` or ``content:...``.

        See `warmstart.history_store.fingerprint`.
        """
        ...

    def signature(self) -> str:
        """Return a signature of the files by paths, sizes and times, in the order of the pictures; cheap."""
        ...


def _is_whole(source: ImageSource, index: int) -> bool:
    try:
        source.read([index])
    except BrokenImagesError:
        return False
    return True
