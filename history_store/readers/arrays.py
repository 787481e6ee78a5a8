"""Pictures in arrays: in memory, mapped from a file, or loaded at the first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError
from warmstart.history_store.fingerprint import file_fingerprint, file_signature, row_fingerprint, row_signature
from warmstart.history_store.images import BrokenImage, FingerprintKind
from warmstart.history_store.picture import check_floats, opaque, square_arrays, to_uint8
from warmstart.history_store.readers.base import Canvas, Source
from warmstart.history_store.readers.labels import encode_labels

_CHANNELS = (1, 3, 4)


@dataclass(slots=True)
class Block:
    """Pictures of one shape in one array.

    Attributes:
        location: for errors.
        n: number of pictures.
        load: returns the array, `n x h x w` or `n x h x w x c`; called once, when first needed.
    """

    location: str
    n: int
    load: Callable[[], NDArray[Any]]
    _array: NDArray[Any] | None = field(default=None, repr=False)

    def rows(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return stored pictures by index, `m x h x w x c`."""
        if self._array is None:
            self._array = self.load()
        part = np.asarray(self._array[indices])
        return part if part.ndim == 4 else part[..., np.newaxis]


@dataclass(frozen=True, slots=True)
class Files:
    """The files behind arrays, for fingerprints: names below a root, or ``("",)`` for the root itself."""

    root: str
    names: Sequence[str]


class ArraySource(Source):
    """Pictures in one or several arrays; fingerprinted by their files, or by their rows if there are none."""

    def __init__(
        self,
        location: str,
        layout: str,
        *,
        blocks: Sequence[Block],
        labels: NDArray[np.int64],
        class_names: Sequence[str],
        splits: Mapping[str, NDArray[np.int64]] | None = None,
        files: Files | None = None,
    ) -> None:
        super().__init__(location, layout, labels=labels, class_names=class_names, splits=splits)
        self._blocks = tuple(blocks)
        self._starts = np.cumsum([0, *(block.n for block in blocks)])
        self._files = files

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint the files, or the rows with their labels in any order."""
        if self._files is not None:
            return file_fingerprint(kind, self._files.root, self._files.names)
        blocks = [(block.n, block.rows) for block in self._blocks]
        return row_fingerprint(kind, blocks, self.labels, self.class_names)

    def signature(self) -> str:
        """Return a signature of the files by path, size and time of change, or a hash of the rows in their order."""
        if self._files is not None:
            return file_signature(self._files.root, self._files.names)
        return row_signature([(block.n, block.rows) for block in self._blocks], self.labels, self.class_names)

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture, in pixels."""
        owner = int(np.searchsorted(self._starts, index, side="right")) - 1
        rows = self._blocks[owner].rows(np.array([index - self._starts[owner]]))
        return int(min(rows.shape[1:3]))

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        owner = np.searchsorted(self._starts, indices, side="right") - 1
        parts: list[tuple[NDArray[np.intp], NDArray[np.uint8]]] = []
        for number in np.unique(owner).tolist():
            block = self._blocks[number]
            rows = np.flatnonzero(owner == number)
            pixels = opaque(to_uint8(block.rows(indices[rows] - self._starts[number]), block.location))
            if size is not None:
                pixels = square_arrays(pixels, size)
            parts.append((rows, pixels))
        if len(parts) == 1 and size is not None:
            return np.ascontiguousarray(parts[0][1]), {}
        canvas = Canvas(len(indices), self.location)
        for rows, pixels in parts:
            for row, picture in zip(rows.tolist(), pixels, strict=True):
                canvas.put(row, picture)
        return canvas.images(), {}


def from_memory(images: ArrayLike, labels: ArrayLike, *, class_names: Sequence[str] | None = None) -> ArraySource:
    """Open pictures in memory; see `warmstart.history_store.readers.open_arrays`."""
    location = "images"
    try:
        array = np.asarray(images)
    except ValueError as error:
        msg = f"{location}: expected pictures of one size, got pieces of different shapes. Give one array n x h x w x c, or save them as files in class folders."
        raise DataError(msg) from error
    check_pixels(array, location)
    labelling = encode_labels(labels, "labels", n=len(array), class_names=class_names)
    return ArraySource(
        "arrays in memory",
        "arrays",
        blocks=[Block(location, len(array), lambda: array)],
        labels=labelling.labels,
        class_names=labelling.class_names,
    )


def check_pixels(array: NDArray[Any], location: str) -> None:
    """Check an array of pictures, and the values of floats unless the array is mapped from a file.

    Raises:
        DataError: when shape, dtype or values do not fit.
    """
    check_shape(array.shape, array.dtype, location)
    if array.dtype.kind == "f" and not isinstance(array, np.memmap):
        check_floats(array, location)


def check_shape(shape: tuple[int, ...], dtype: np.dtype[Any], location: str) -> None:
    """Check that an array of this shape and dtype can hold pictures.

    Raises:
        DataError: when it cannot; the next step fits the likely mistake.
    """
    if dtype.hasobject:
        msg = f"{location}: expected an array of numbers, got objects (dtype {dtype}), which are never unpickled. Save pictures of one size as one uint8 array, or as files in class folders."
        raise DataError(msg)
    if 0 in shape:
        msg = (
            f"{location}: expected at least one picture, got shape {_shape_text(shape)}. Check how the array was made."
        )
        raise DataError(msg)
    if len(shape) == 3 or (len(shape) == 4 and shape[3] in _CHANNELS):
        if dtype.kind in "fb" or (dtype.kind == "u" and dtype.itemsize <= 2):
            return
        msg = f"{location}: expected uint8, uint16, bool or floats in [0, 1], got dtype {dtype}. Convert 0 .. 255 with images.astype('uint8')."
        raise DataError(msg)
    if len(shape) == 4 and shape[1] in _CHANNELS:
        step = "These are channels first: give images.transpose(0, 2, 3, 1)."
    elif len(shape) == 2:
        side = round(shape[1] ** 0.5)
        step = (
            f"Give images.reshape(-1, {side}, {side})."
            if side * side == shape[1]
            else "Give one picture a row, not flattened."
        )
    else:
        step = "Give 1 (grey), 3 (RGB) or 4 (RGBA) channels in the last axis, or none for grey."
    msg = f"{location}: expected n x h x w or n x h x w x c with c = 1, 3 or 4, got {_shape_text(shape)}. {step}"
    raise DataError(msg)


def split_ranges(sizes: Mapping[str, Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Return the indices of each split, for blocks of these sizes one after the other."""
    ranges: dict[str, NDArray[np.int64]] = {}
    start = 0
    for split, counts in sizes.items():
        ranges[split] = np.arange(start, start + sum(counts), dtype=np.int64)
        start += sum(counts)
    return ranges


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in shape) or "a single number"
