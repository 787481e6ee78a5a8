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
"""What unpacks a compressed tar to a tar."""
_NAMED = 5
"""How many broken pictures a message names."""


class Source(ABC):
    """A collection whose labels are known; a reader adds how its pictures are decoded and fingerprinted."""

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
        wanted = self._checked(indices)
        if size is not None and size < 1:
            msg = f"{self.location}: expected a size of 1 pixel or more, got size={size}. Use 32."
            raise UsageError(msg)
        images, broken = self._decode(wanted, size)
        if broken and not skip_broken:
            self._refuse(broken, len(wanted))
        if broken:
            kept = np.ones(len(wanted), dtype=bool)
            kept[list(broken)] = False
            images, wanted = images[kept], wanted[kept]
            if not len(wanted):
                self._refuse(broken, len(broken))
        return ImageSet(images, self.labels[wanted], self.class_names, tuple(broken.values()), wanted)

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture as it is stored, in pixels; None where it cannot be told."""
        try:
            return int(self.read([index], size=None).images.shape[1])
        except WarmstartError:  # broken, or no square
            return None

    @abstractmethod
    def fingerprint(self, kind: FingerprintKind) -> str:
        """Name the collection by its content."""

    def signature(self) -> str:
        """Name the collection as it lies there; readers of files do it without opening them."""
        return self.fingerprint("listing")

    @abstractmethod
    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        """Decode pictures: `n x size x size x c` with anything in the broken rows, and the broken ones by row."""

    def _checked(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        wanted = np.asarray(indices)
        if wanted.ndim != 1 or not wanted.size or wanted.dtype.kind not in "iu":
            msg = f"{self.location}: expected at least one integer index, got shape {wanted.shape} of {wanted.dtype}. Choose from source.splits."
            raise UsageError(msg)
        low, high = int(wanted.min()), int(wanted.max())
        if low < 0 or high >= len(self):
            msg = f"{self.location}: expected indices in 0 .. {len(self) - 1}, got {low} .. {high}. Choose from source.splits."
            raise UsageError(msg)
        return wanted.astype(np.int64)

    def _refuse(self, broken: Mapping[int, BrokenImage], n_read: int) -> None:
        named = "; ".join(f"{image.path} ({image.reason})" for image in list(broken.values())[:_NAMED])
        more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        if len(broken) == n_read:
            step = "Not one is left: check the path and the files."
        else:
            step = "Repair or remove them, or go on without them: `skip_broken`."
        msg = f"{self.location}: expected pictures that can be decoded, got {len(broken)} broken of {n_read} read: {named}{more}. {step}"
        raise BrokenImagesError(msg, [image.path for image in broken.values()])


class Canvas:
    """Rows for decoded squares that stay one channel deep until a coloured one comes."""

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
    """Make a file name safe to print: bytes that are no UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def plural(n: int, noun: str) -> str:
    """Write a count with its noun: ``1 picture``, ``2,000 pictures``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def unpacking(name: str) -> str | None:
    """Say how an archive that is not read in place becomes one that is; None where a name is of no such archive."""
    lower = name.lower()
    for endings, command in _PACKED.items():
        if lower.endswith(endings):
            return f"Unpack it with {command} to a .tar, which is read as it is."
    return "Unpack it first, then give the folder." if lower.endswith((".rar", ".7z")) else None
