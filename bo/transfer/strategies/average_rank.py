"""Strategy `average-rank`: the configurations with the lowest average rank over all datasets."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.strategies.query import Choice, Query, equal_weights
from warmstart.bo.transfer.strategies.scenarios import make_scenarios


def average_rank(query: Query) -> list[Choice]:
    """Choose the configurations with the lowest average rank over the sources. Distances are not used.

    Use it as a plain baseline. Not for quality: its configurations resemble each other, where `portfolio` covers
    different datasets.

    >>> errors = np.array([[0.1, 0.2, 0.9], [0.9, 0.2, 0.1], [0.5, 0.3, 0.4]])
    >>> [choice.row for choice in average_rank(Query(errors, None, k=1))]  # second best everywhere
    [1]
    """
    weights = equal_weights(len(query.errors), query.groups)
    return [Choice(row) for row in average_rank_rows(query.errors, weights=weights)[: query.k]]


def average_rank_rows(errors: NDArray[np.float64], *, weights: ArrayLike | None = None) -> list[int]:
    """Order configurations by their average rank, best first, ties by row.

    A dataset ranks all configurations that any dataset measured: `make_scenarios` of
    `warmstart.bo.transfer.strategies.scenarios` completes gaps, and ranks are averaged over its scenarios.

    Args:
        errors: `m x c`, NaN = missing.
        weights: `m` ≥ 0, weight of each dataset; None = equal.

    Returns: rows of the configurations with at least one error.
    """
    scenarios = make_scenarios(errors)
    worth = np.ones(len(errors)) if weights is None else np.asarray(weights, dtype=np.float64)
    ranks = np.array([scaled_ranks(row) for row in scenarios.errors])
    share = worth[scenarios.dataset] * scenarios.share
    mean = np.round(share @ ranks / share.sum(), 12)
    order = np.argsort(mean, kind="stable")
    rows: list[int] = order[~np.isnan(mean[order])].tolist()
    return rows


def scaled_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of known values below each value, ties and itself counted half; NaN stays.

    Args:
        values: `c`, NaN = missing.

    Returns: `c` in (0, 1); the mean of the known ones is 0.5.
    """
    ranks = np.full(values.shape, np.nan)
    present = ~np.isnan(values)
    _, position, counts = np.unique(values[present], return_inverse=True, return_counts=True)
    ranks[present] = ((np.cumsum(counts) - counts / 2) / max(int(present.sum()), 1))[position]
    return ranks
