"""Configurations in the order of their average rank over all datasets."""

import numpy as np
from numpy.typing import NDArray

from bo.strategies.query import Choice, Query


def average_rank(query: Query) -> list[Choice]:
    """Choose the configurations with the lowest average rank; distances are not looked at."""
    return [Choice(row) for row in average_rank_rows(query.errors)[: query.k]]


def average_rank_rows(errors: NDArray[np.float64]) -> list[int]:
    """Order configurations by their average rank, best first, ties by row.

    Ranks are scaled to (0, 1) within a dataset, so that datasets with few measured configurations weigh alike; a
    missing cell counts as the middle rank.

    Args:
        errors: `m x c`, NaN = missing.

    Returns: rows of the configurations with at least one error.
    """
    ranks = np.array([scaled_ranks(row) for row in errors])
    mean = np.round(np.where(np.isnan(ranks), 0.5, ranks).mean(axis=0), 12)
    order = np.argsort(mean, kind="stable")
    rows: list[int] = order[~np.all(np.isnan(errors), axis=0)[order]].tolist()
    return rows


def scaled_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the share of known values below each, ties and itself counted half; NaN stays.

    Args:
        values: `c`, NaN = missing.

    Returns: `c` in (0, 1); the mean of the known ones is 0.5.
    """
    ranks = np.full(values.shape, np.nan)
    known = ~np.isnan(values)
    _, place, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    ranks[known] = ((np.cumsum(counts) - counts / 2) / max(int(known.sum()), 1))[place]
    return ranks
