"""What was computed of some rows of a history, so that the next query over them does not wait for it."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 8
"""Sets of rows of which a memory holds what was computed."""

Computed = TypeVar("Computed")


class RowMemory(Generic[Computed]):
    """Holds one thing, computed from rows alone, for each of the last few sets of rows that asked for it."""

    def __init__(self) -> None:
        self._known: dict[bytes, Computed] = {}

    def recall(self, rows: NDArray[np.int64], compute: Callable[[], Computed]) -> Computed:
        """Return what was computed for these rows, or compute it."""
        key = rows.tobytes()
        try:
            return self._known[key]
        except KeyError:
            found = compute()
        while len(self._known) >= MOST_KEPT:
            self._known.pop(next(iter(self._known)), None)
        self._known[key] = found
        return found
