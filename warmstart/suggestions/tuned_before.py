"""A dataset that the history has itself: the very images, whatever they are called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.records import DatasetInfo, Value
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.query import Query, known_fingerprint

LEFT_OUT = "left_out"
"""Key of `DatasetInfo.extra`: pictures of the source that could not be decoded when it was added."""


@dataclass(frozen=True, slots=True)
class TunedBefore:
    """What the history knows of the very dataset that is asked about.

    Attributes:
        name: of the dataset in the history; of several with the same images, the one with the lowest error.
        n_measured: configurations measured on these images, failed ones included.
        best_error: lowest validation error, in [0, 1].
        config: the configuration that reached it.
        is_complete: every configuration of the history was measured on it.
        choice: the same as the strategies say it, its neighbour a position among the rows that may answer.
    """

    name: str
    n_measured: int
    best_error: float
    config: dict[str, Value]
    is_complete: bool
    choice: Choice

    @property
    def note(self) -> str:
        """Say it in a sentence."""
        of = f"the lowest of {self.n_measured} configurations" if self.n_measured > 1 else "of the only configuration"
        return (
            f"You tuned this dataset before, as {self.name!r}: best known is error {self.best_error:.4g}, {of} measured on it; "
            "it comes first."
        )

    def first(self, choose: Callable[[int], Sequence[Choice]]) -> Callable[[int], Sequence[Choice]]:
        """Put the best known configuration before what a strategy chooses."""
        return lambda k: [self.choice, *(other for other in choose(k) if other.row != self.choice.row)][:k]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "name": self.name,
            "configurations_measured": self.n_measured,
            "best_error": self.best_error,
            "config": dict(self.config),
        }


def find_tuned_before(
    query: Query, embedded: EmbeddedHistory, rows: NDArray[np.int64], distances: NDArray[np.float64]
) -> TunedBefore | None:
    """Find the dataset of a query among those of a history, by the fingerprint of every byte of it.

    Bytes are read only where a dataset of the history has as many images as the query.

    Args:
        query: that is asked about.
        embedded: the history that was read.
        rows: `m` datasets that may answer.
        distances: `m` from the query to them, NaN where unknown.

    Returns: what is known of it; None where it is not among them, or no run on it gave an error.
    """
    size = len(query.source)
    alike = [place for place, row in enumerate(rows) if _size(embedded.about[row]) == size]
    if not alike:
        return None
    fingerprint = known_fingerprint(query.source, "content")
    twins = [place for place in alike if embedded.about[rows[place]].fingerprint == fingerprint]
    errors, failed = embedded.errors[rows[twins]], embedded.failed[rows[twins]]
    if np.isnan(errors).all():
        return None
    twin, best = (int(each) for each in np.unravel_index(np.nanargmin(errors), errors.shape))
    measured = (~np.isnan(errors) | failed).any(axis=0)
    place, error = twins[twin], float(errors[twin, best])
    distance = float(distances[place])
    return TunedBefore(
        embedded.names[int(rows[place])],
        int(measured.sum()),
        error,
        dict(embedded.configs[best]),
        bool(measured.all()),
        Choice(best, place, distance=None if np.isnan(distance) else distance, source_error=error),
    )


def _size(info: DatasetInfo) -> int | None:
    """Return how many images the source of a whole dataset has; None for a part, and where nobody knows."""
    if info.parent is not None or info.fraction != 1.0 or not info.fingerprint:
        return None
    left_out = info.extra.get(LEFT_OUT, "0")
    return info.n_images + (int(left_out) if left_out.isdecimal() else 0)
