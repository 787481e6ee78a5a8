"""Test whether related tasks forecast one another; tasks that do not are unlikely to forecast the task at hand."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates import Task

Floats = NDArray[np.float64]

NEAREST = 3
"""Nearest evaluations of one task that forecast an evaluation of another task."""
FAMILY = 0.3
"""Rank correlation of forecasts and errors below which tasks are strangers: unrelated smooth functions have -0.3
to 0.3, related ones 0.4 and more."""
COMPARED, MOST_TASKS = 2_000, 20
"""Most evaluations in the comparison, and most tasks."""


def are_strangers(tasks: Sequence[Task]) -> bool:
    """Tell whether related tasks fail to forecast one another.

    The forecast of an error is the mean rank of the nearest evaluations of another task. Tasks are strangers when the
    rank correlation of forecasts and errors, a mean over pairs of tasks, is below `FAMILY` by more than a standard
    error. A single task is no stranger.
    """
    from scipy.stats import rankdata

    sample = tasks[:: len(tasks) // MOST_TASKS + 1]
    steps = [len(task.y) * len(sample) // COMPARED + 1 for task in sample]
    thinned = [(task.X[::step], task.y[::step]) for task, step in zip(sample, steps, strict=True)]
    ranked = [(X, rankdata(y)) for X, y in thinned if len(y) > NEAREST and y.min() < y.max()]
    correlations = [
        _correlation(_forecast_ranks(X, Z, source_ranks), ranks)
        for i, (X, ranks) in enumerate(ranked)
        for j, (Z, source_ranks) in enumerate(ranked)
        if i != j
    ]
    n = sum(len(ranks) for _, ranks in ranked)
    return bool(correlations) and float(np.mean(correlations)) + n**-0.5 < FAMILY


def _forecast_ranks(X: Floats, Z: Floats, ranks: Floats) -> Floats:
    """Return the mean rank of the nearest of `n x d` points Z to each of `m x d`; active and inactive are 1 apart."""
    apart = np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        off = np.abs(x[:, None] - z)
        both = np.isnan(x)[:, None] & np.isnan(z)
        apart += np.where(both, 0.0, np.nan_to_num(off, nan=1.0)) ** 2
    nearest = np.argpartition(apart, NEAREST - 1, axis=1)[:, :NEAREST]
    mean: Floats = ranks[nearest].mean(axis=1)
    return mean


def _correlation(forecast: Floats, ranks: Floats) -> float:
    """Compute Spearman's rank correlation; 0 for constant forecasts."""
    if not np.ptp(forecast) > 0.0:
        return 0.0
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(forecast), ranks)[0, 1])
