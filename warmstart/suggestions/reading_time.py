"""How long it takes to read a person's pictures on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from warmstart.history_store.errors import BrokenImagesError

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSource

_FEW, _MANY = 4, 12
"""Neighbours are read twice, so many and then so many. The difference leaves out what each call costs, such as a table's group of rows."""
_MOST, _ENOUGH_S = 8, 0.5
"""Places in the collection at most, until they took so many seconds."""


def seconds_to_read(source: ImageSource, size: int) -> float:
    """Estimate the seconds of reading all pictures of a collection, by some of them.

    Args:
        source: the collection; a broken picture counts with the seconds that it took.
        size: pixels a side.
    """
    n = len(source)
    if n <= _MANY:
        return _timed(source, range(n), size)
    _timed(source, range(1), size)  # for what is done once
    began, took, places = time.perf_counter(), 0.0, 0
    for start in np.random.default_rng(0).permutation(n - _MANY + 1)[:_MOST].tolist():
        few = _timed(source, range(start, start + _FEW), size)
        took += _timed(source, range(start, start + _MANY), size) - few
        places += 1
        if time.perf_counter() - began >= _ENOUGH_S:
            break
    return max(took, 0.0) / (places * (_MANY - _FEW)) * n


def _timed(source: ImageSource, indices: Sequence[int], size: int) -> float:
    began = time.perf_counter()
    with suppress(BrokenImagesError):  # all of these; who trains on them is told
        source.read(indices, size=size, skip_broken=True)
    return time.perf_counter() - began
