"""The time to read the user's pictures on this machine."""

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
"""Neighbouring pictures read per call, few and many: the difference cancels the fixed cost of a call, such as a table's group of rows."""
_MOST, _ENOUGH_S = 8, 0.5
"""Most positions sampled in the collection, and seconds after which sampling stops."""


def seconds_to_read(source: ImageSource, size: int) -> float:
    """Estimate the seconds to read all pictures of a collection from a sample.

    Args:
        source: the collection; a broken picture counts with the seconds that it took.
        size: pixels a side.
    """
    n = len(source)
    if n <= _MANY:
        return _time_reading(source, range(n), size)
    # Opens files and fills caches.
    _time_reading(source, range(1), size)
    began, took, positions = time.perf_counter(), 0.0, 0
    for start in np.random.default_rng(0).permutation(n - _MANY + 1)[:_MOST].tolist():
        few = _time_reading(source, range(start, start + _FEW), size)
        took += _time_reading(source, range(start, start + _MANY), size) - few
        positions += 1
        if time.perf_counter() - began >= _ENOUGH_S:
            break
    return max(took, 0.0) / (positions * (_MANY - _FEW)) * n


def _time_reading(source: ImageSource, indices: Sequence[int], size: int) -> float:
    began = time.perf_counter()
    # All of these are broken; training reports them.
    with suppress(BrokenImagesError):
        source.read(indices, size=size, skip_broken=True)
    return time.perf_counter() - began
