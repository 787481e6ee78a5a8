"""A first look at all pictures of a dataset: which are broken, how large they are, what they show in small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import BrokenImagesError
from warmstart.history_store.images import BrokenImage, ImageSource
from warmstart.metafeat.broken_rows import reason_of_row

SIDE = 32
"""Pixels of a side of the small pictures."""
_CHUNK = 32
_SIDES = 50
"""Pictures whose size is read."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a first look at a dataset found.

    Attributes:
        small: `n x 32 x 32 x 3` uint8; anything where a picture is broken.
        is_whole: `n` bool; False = it cannot be decoded.
        broken: these pictures, with reasons.
        side: shorter side of the usual picture, pixels; 0 = unknown.
    """

    small: NDArray[np.uint8]
    is_whole: NDArray[np.bool_]
    broken: tuple[BrokenImage, ...]
    side: int


def look_at(source: ImageSource, *, workers: int, progress: Callable[[int, int], object]) -> Look:
    """Decode all pictures of a source once, in small.

    Args:
        source: the dataset.
        workers: threads; Pillow decodes without holding the interpreter's lock.
        progress: called with the numbers of pictures looked at and of all.
    """
    n = len(source)
    small, is_whole = np.zeros((n, SIDE, SIDE, 3), dtype=np.uint8), np.zeros(n, dtype=bool)
    broken: list[BrokenImage] = []
    progress(0, n)
    with ThreadPoolExecutor(workers) as pool:
        for rows, images, whole_rows, left_out in pool.map(lambda rows: _read(source, rows), _chunks(n)):
            small[whole_rows], is_whole[whole_rows] = images, True
            broken += left_out
            progress(int(rows[-1]) + 1, n)
    return Look(small, is_whole, tuple(broken), _usual_side(source, n))


def _chunks(n: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, n, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, n))


def _read(
    source: ImageSource, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], list[BrokenImage]]:
    """Read a chunk: rows, small pictures, their rows, broken ones."""
    try:
        read = source.read(rows, size=SIDE, skip_broken=True)
    except BrokenImagesError:  # not one is whole: a reader refuses them together
        reasons = [reason_of_row(source, int(row)) for row in rows]
        return rows, np.zeros((0, SIDE, SIDE, 3), np.uint8), rows[:0], reasons
    images = read.images if read.images.shape[3] == 3 else np.repeat(read.images, 3, axis=3)
    return rows, images, read.whole(source, rows), list(read.broken)


def _usual_side(source: ImageSource, n: int) -> int:
    side = getattr(source, "side", None)
    if side is None:
        return 0
    sides = [side(int(row)) for row in np.unique(np.linspace(0, n - 1, _SIDES).astype(int))]
    known = [value for value in sides if value]
    return int(np.median(known)) if known else 0
