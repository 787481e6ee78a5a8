"""Base of the readers: checked indices, counted broken images, one rule for channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import BrokenImagesError, LabelError, UsageError, WarmstartError
from warmstart.history_store.images import SPLITS, BrokenImage, FingerprintKind, ImageSet

_PACKED = {
    (".tar.gz", ".tgz"): "gunzip",
    (".tar.bz2", ".tbz2", ".tbz"): "bunzip2",
    (".tar.xz", ".txz"): "unxz",
    (".tar.zst", ".tzst"): "unzstd",
}
"""Command that unpacks a compressed tar to a tar, by ending."""
_MAX_NAMED = 5
"""Broken pictures named in a message, at most."""


class Source(ABC):
    """A collection with known labels; subclasses decode and fingerprint its pictures."""

    def __init__(
        self,
        location: str,
        layout: str,
        *,
        labels: NDArray[np.int64],
        class_names: Sequence[str],
        splits: Mapping[str, NDArray[np.int64]] | None = None,
        hint: str = "",
    ) -> None:
        self.location = location
        self.layout = layout
        self.labels = labels
        self.labels.flags.writeable = False
        self.class_names = tuple(class_names)
        everything = {"train": np.arange(len(labels), dtype=np.int64)} if splits is None else splits
        self.splits: Mapping[str, NDArray[np.int64]] = MappingProxyType(
            {name: everything[name] for name in SPLITS if name in everything}
        )
        if len(self.class_names) < 2:
            held = f"all {len(labels)} pictures in {self.class_names[0]!r}" if self.class_names else "no picture"
            step = hint or "One class leaves nothing to tell apart: add the others."
            msg = f"{location}: expected at least two classes, got {held}. {step}"
            raise LabelError(msg)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<{self.layout} {self.location!r}: {len(self)} pictures, {len(self.class_names)} classes>"

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode the pictures at these indices; see `warmstart.history_store.images.ImageSource.read`."""
        rows = self._check_indices(indices)
        if size is not None and size < 1:
            msg = f"{self.location}: expected a size of 1 pixel or more, got size={size}. Use 32."
            raise UsageError(msg)
        images, broken = self._decode(rows, size)
        if broken and not skip_broken:
            self._refuse_broken(broken, len(rows))
        if broken:
            is_whole = np.ones(len(rows), dtype=bool)
            is_whole[list(broken)] = False
            images, rows = images[is_whole], rows[is_whole]
            if not len(rows):
                self._refuse_broken(broken, len(broken))
        return ImageSet(images, self.labels[rows], self.class_names, tuple(broken.values()), rows)

    def side(self, index: int) -> int | None:
        """Return the shorter side of a stored picture, in pixels; None if it is unknown."""
        try:
            return int(self.read([index], size=None).images.shape[1])
        except WarmstartError:  # broken, or no square
            return None

    @abstractmethod
    def fingerprint(self, kind: FingerprintKind) -> str:
        """Return a name of the collection by its content."""

    def signature(self) -> str:
        """Return a signature of the collection; readers of files do not open them for it."""
        return self.fingerprint("listing")

    @abstractmethod
    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        """Decode pictures: `n x size x size x c` with anything in broken rows, and the broken ones by row."""

    def _check_indices(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        array = np.asarray(indices)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            msg = f"{self.location}: expected at least one integer index, got shape {array.shape} of {array.dtype}. Choose from source.splits."
            raise UsageError(msg)
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= len(self):
            msg = f"{self.location}: expected indices in 0 .. {len(self) - 1}, got {low} .. {high}. Choose from source.splits."
            raise UsageError(msg)
        return array.astype(np.int64)

    def _refuse_broken(self, broken: Mapping[int, BrokenImage], n_read: int) -> None:
        named = "; ".join(f"{image.path} ({image.reason})" for image in list(broken.values())[:_MAX_NAMED])
        more = f"; and {len(broken) - _MAX_NAMED} more" if len(broken) > _MAX_NAMED else ""
        if len(broken) == n_read:
            step = "Not one is left: check the path and the files."
        else:
            step = "Repair or remove them, or go on without them: `skip_broken`."
        msg = f"{self.location}: expected pictures that can be decoded, got {len(broken)} broken of {n_read} read: {named}{more}. {step}"
        raise BrokenImagesError(msg, [image.path for image in broken.values()])


def check_splits(source: Source) -> Source:
    """Return a source whose splits all share a class with training.

    Raises:
        LabelError: for another, as what is measured on such a split is no error of the classes that were trained.
    """
    classes = {name: set(source.labels[rows].tolist()) for name, rows in source.splits.items() if len(rows)}
    for name, labels in classes.items():
        if "train" in classes and not labels & classes["train"]:
            msg = f"{source.location}: expected splits that share classes, got {name!r} without a class of the training pictures. Leave it out, or give the training pictures alone."
            raise LabelError(msg)
    return source


class Canvas:
    """Rows for decoded squares, one channel deep until a coloured one comes."""

    def __init__(self, n: int, location: str) -> None:
        self._n = n
        self._location = location
        self._images: NDArray[np.uint8] | None = None

    def put(self, row: int, picture: NDArray[np.uint8]) -> None:
        """Store one `s x s` or `s x s x c` picture; sides must agree with those before.

        Raises:
            UsageError: when it is not square, or of another side than those before.
        """
        height, width = picture.shape[:2]
        side = width if self._images is None else self._images.shape[1]
        if not height == width == side:
            msg = f"{self._location}: expected squares of one side where size is None, got {width} x {height} pixels. Give a size, e.g. 32."
            raise UsageError(msg)
        channels = 3 if picture.ndim == 3 and picture.shape[2] == 3 else 1
        if self._images is None:
            self._images = np.zeros((self._n, side, side, channels), dtype=np.uint8)
        elif channels > self._images.shape[3]:
            self._images = np.repeat(self._images, 3, axis=3)
        self._images[row] = picture if picture.ndim == 3 else picture[..., np.newaxis]

    def images(self) -> NDArray[np.uint8]:
        """Return all rows, `n x s x s x c`."""
        return np.zeros((self._n, 1, 1, 1), dtype=np.uint8) if self._images is None else self._images


def printable(text: str) -> str:
    """Escape the bytes of a file name that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def plural(n: int, noun: str) -> str:
    """Write a count with its noun: ``1 picture``, ``2,000 pictures``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def unpacking(name: str) -> str | None:
    """Return the hint on unpacking an archive that is not read in place; None for other names."""
    lower = name.lower()
    for endings, command in _PACKED.items():
        if lower.endswith(endings):
            return f"Unpack it with {command} to a .tar, which is read as it is."
    return "Unpack it first, then give the folder." if lower.endswith((".rar", ".7z")) else None
