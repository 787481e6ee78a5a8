"""How long it takes to read a person's pictures on this machine."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from history_store.errors import BrokenImagesError

if TYPE_CHECKING:
    from history_store.images import ImageSource

_AT_ONCE, _ENOUGH_S = 8, 0.25
"""Pictures are read so many at a time, until that took so long."""
_MOST = 64


def seconds_to_read(source: ImageSource, size: int) -> float:
    """Read some pictures of a collection, spread over all of it, and extrapolate.

    Args:
        source: the collection; broken pictures take as long as others.
        size: pixels a side at which they are read.
    """
    order = np.random.default_rng(0).permutation(len(source))[:_MOST]
    began, done = time.perf_counter(), 0
    while done < len(order) and (done == 0 or time.perf_counter() - began < _ENOUGH_S):
        read = order[done : done + _AT_ONCE]
        with suppress(BrokenImagesError):  # all of these; who trains on them is told
            source.read(read, size=size, skip_broken=True)
        done += len(read)
    return (time.perf_counter() - began) / done * len(source)
