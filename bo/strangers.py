"""Whether related tasks forecast one another: those that do not are a poor reason to believe that they forecast the task at hand."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates import Task

Floats = NDArray[np.float64]

NEAREST = 3
"""Evaluations of one task that forecast one of another, the nearest ones."""
FAMILY = 0.3
"""Rank correlation of such forecasts with what came, below which tasks are no family: unrelated smooth functions have -0.3 to 0.3, related ones 0.4 and more."""
COMPARED, MOST_TASKS = 2_000, 20
"""Evaluations that are compared, at most, and tasks that they are of."""


def are_strangers(tasks: Sequence[Task]) -> bool:
    """Tell whether related tasks do not even forecast one another: then the task at hand is no likelier to be of their kind.

    The error of each evaluation is forecast by the mean rank of the nearest ones of another task; the rank correlation with what came, a mean
    over pairs of tasks, is less than `FAMILY` by more than a standard error. One task alone is no stranger.
    """
    from scipy.stats import rankdata

    some = tasks[:: len(tasks) // MOST_TASKS + 1]
    steps = [len(task.y) * len(some) // COMPARED + 1 for task in some]
    kept = [(task.X[::step], task.y[::step]) for task, step in zip(some, steps, strict=True)]
    known = [(X, rankdata(y)) for X, y in kept if len(y) > NEAREST and y.min() < y.max()]
    found = [
        _correlation(_forecast_ranks(X, Z, other), ranks)
        for i, (X, ranks) in enumerate(known)
        for j, (Z, other) in enumerate(known)
        if i != j
    ]
    n = sum(len(ranks) for _, ranks in known)
    return bool(found) and float(np.mean(found)) + n**-0.5 < FAMILY


def _forecast_ranks(X: Floats, Z: Floats, ranks: Floats) -> Floats:
    """Average the ranks of those of `n x d` points, Z, that are nearest to each of `m x d`; a column with a value and none are 1 apart."""
    apart = np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        off = np.abs(x[:, None] - z)
        both = np.isnan(x)[:, None] & np.isnan(z)
        apart += np.where(both, 0.0, np.nan_to_num(off, nan=1.0)) ** 2
    nearest = np.argpartition(apart, NEAREST - 1, axis=1)[:, :NEAREST]
    mean: Floats = ranks[nearest].mean(axis=1)
    return mean


def _correlation(forecast: Floats, ranks: Floats) -> float:
    """Compute Spearman's rank correlation; 0 where all are forecast alike."""
    if not np.ptp(forecast) > 0.0:
        return 0.0
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(forecast), ranks)[0, 1])
