"""Reference statistics of a history's datasets, against which a query is judged."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.suggestions.references import References

MANY = 2000
"""Datasets above which some computations take a part of them."""
MOST_SAMPLED, LEAST_SAMPLED, MOST_PAIRS = 1000, 500, 10_000_000
"""Of a history larger than `MANY`, the nearest distances of some datasets are computed, evenly spread over it: of the most, or
of fewer, so that they are compared with all others in so many pairs, but never of fewer than the least."""


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """Reference statistics of the history's datasets.

    Attributes:
        n_datasets: how many.
        n_groups: of siblings among them.
        nearest: distances of datasets (of a sample of a large history) to the nearest one of another group.
        fewest_images: fewest pictures of any dataset (of a sample of a large history), or of the draws that measured the movement of distances.
        references: their statistics, where the history holds them.
    """

    n_datasets: int
    n_groups: int
    nearest: NDArray[np.float64]
    fewest_images: int
    references: References | None


def spread_rows(m: int) -> NDArray[np.int64]:
    """Return the positions sampled of `m` datasets: all of up to `MANY`, else some, evenly spread."""
    if m <= MANY:
        return np.arange(m)
    return np.linspace(0, m - 1, min(MOST_SAMPLED, max(LEAST_SAMPLED, MOST_PAIRS // m))).astype(np.int64)
