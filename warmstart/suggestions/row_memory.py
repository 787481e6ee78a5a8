"""Small cache keyed by row selection."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

CAPACITY = 8
"""Row selections held by a cache."""

Computed = TypeVar("Computed")


class RowMemory(Generic[Computed]):
    """A cache of values computed from rows alone, for the last few row selections."""

    def __init__(self) -> None:
        self._values: dict[bytes, Computed] = {}

    def recall(self, rows: NDArray[np.int64] | None, compute: Callable[[], Computed]) -> Computed:
        """Return the value of a row selection, None = all rows; compute it if it is not cached."""
        key = b"" if rows is None else rows.tobytes()
        try:
            return self._values[key]
        except KeyError:
            # Without a lock: two threads may both compute, and the later value stays.
            value = compute()
        while len(self._values) >= CAPACITY:
            self._values.pop(next(iter(self._values)), None)
        self._values[key] = value
        return value
