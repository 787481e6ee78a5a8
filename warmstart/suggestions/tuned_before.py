"""Earlier tuning of the query: a dataset of the history with the same images, under any name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.records import Value
from warmstart.locations import is_shipped
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.query import Query, cached_fingerprint


@dataclass(frozen=True, slots=True)
class TunedBefore:
    """The history's best configuration for the query's own images.

    Attributes:
        name: of the dataset in the history; of several with the same images, the one with the lowest error.
        n_measured: number of configurations measured on these images, failed ones included.
        best_error: lowest validation error, in [0, 1].
        config: the configuration that reached it.
        is_complete: every configuration of the history was measured on it.
        choice: the configuration as a strategy's choice; its neighbour is a position among the rows used.
        is_shipped: the shipped history measured it, not the user.
    """

    name: str
    n_measured: int
    best_error: float
    config: dict[str, Value]
    is_complete: bool
    choice: Choice
    is_shipped: bool = False

    @property
    def note(self) -> str:
        """Return a sentence on the earlier tuning."""
        of = f"the lowest of {self.n_measured} configurations" if self.n_measured > 1 else "of the only configuration"
        before = "The shipped history measured this dataset" if self.is_shipped else "You tuned this dataset before"
        return (
            f"{before}, as {self.name!r}: best known is error {self.best_error:.4g}, {of} measured on it; "
            "it comes first."
        )

    def first(self, choose: Callable[[int], Sequence[Choice]]) -> Callable[[int], Sequence[Choice]]:
        """Return a chooser that puts the best known configuration first."""
        return lambda k: [self.choice, *(choice for choice in choose(k) if choice.row != self.choice.row)][:k]

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
    """Find the history's best result for the query's own images, by a fingerprint of all bytes.

    Bytes are read only where a dataset of the history has as many images as the query.

    Args:
        query: the dataset.
        embedded: the history.
        rows: `m` datasets used.
        distances: `m` from the query to them, NaN where unknown.

    Returns: the result; None if the dataset is not among them, or no run on it gave an error.
    """
    size = len(query.source)
    infos = embedded.about.at(rows)
    alike = [position for position, info in enumerate(infos) if info.fingerprint and info.n_of_source == size]
    if not alike:
        return None
    fingerprint = cached_fingerprint(query.source, "content")
    twins = [position for position in alike if infos[position].fingerprint == fingerprint]
    errors, failed = embedded.errors[rows[twins]], embedded.failed[rows[twins]]
    if np.isnan(errors).all():
        return None
    twin, best = (int(index) for index in np.unravel_index(np.nanargmin(errors), errors.shape))
    measured = (~np.isnan(errors) | failed).any(axis=0)
    position, error = twins[twin], float(errors[twin, best])
    distance = float(distances[position])
    return TunedBefore(
        embedded.names[int(rows[position])],
        int(measured.sum()),
        error,
        dict(embedded.configs[best]),
        bool(measured.all()),
        Choice(best, position, distance=None if np.isnan(distance) else distance, source_error=error),
        is_shipped(embedded.path),
    )
