"""Configurations that together leave least to gain on the errors that the new dataset is expected to have, doubt included."""

import math

import numpy as np
from numpy.typing import NDArray

from bo.strategies.joint import credited, joint
from bo.strategies.portfolio import filled_regrets, portfolio_rows
from bo.strategies.query import Choice, Query

Floats = NDArray[np.float64]

NEAREST = 500
"""Datasets that are looked at, at most: the cost grows with their cube."""
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, math.inf)
"""Penalties to choose from, relative to the mean square distance of a dataset from their centre; inf = the mean of all."""
OFFSET = 100.0
"""Prior variance of the mean, so wide that it is free."""


def posterior(query: Query) -> list[Choice]:
    """Choose the greedy portfolio of the error rows that the new dataset may have, see `scenarios`.

    A choice names its neighbour as in `joint`, which this is where distances among the datasets are not told.
    """
    if query.distances is None or query.between is None:
        return joint(query)
    codes = np.arange(len(query.errors)) if query.codes is None else query.codes
    possible = scenarios(query.errors, query.distances, query.between, codes)
    possible[:, np.isnan(query.errors).all(axis=0)] = np.nan  # never measured, so nothing is known of it
    return credited(query, portfolio_rows(possible, query.k))


def scenarios(errors: Floats, distances: Floats, between: Floats, codes: NDArray[np.int64]) -> Floats:
    """Give the error rows that the new dataset may have: what is predicted for it plus what was mispredicted elsewhere.

    Normalised errors are predicted by ridge regression on the coordinates behind the distances (kernel ridge on the doubly
    centred squares), each history dataset without its group. The penalty is the one that mispredicts them least: distances
    that say nothing leave the mean of all, and the scenarios are then the datasets themselves.

    Args:
        errors: `m x c`, NaN = missing.
        distances: `m` ≥ 0 from the new dataset.
        between: `m x m` ≥ 0 among the history's; entries within a group are read too.
        codes: `m` numbers of sibling groups.

    Returns: `m' x c` in units of normalised regret, m' ≤ min(m, 500).
    """
    chosen = np.argsort(distances, kind="stable")[:NEAREST]
    regrets = filled_regrets(errors)[chosen]
    groups = [np.flatnonzero(codes[chosen] == code) for code in np.unique(codes[chosen])]
    kernel, query = _kernels(between[np.ix_(chosen, chosen)], distances[chosen])
    found = [_held_out(regrets, kernel, groups, ridge) for ridge in RIDGES]
    losses = [np.mean([np.square(misses[group]).mean() for group in groups]) for misses, _ in found]
    best = int(np.argmin(np.round(losses, 12)))
    misses, weights = found[best]
    ahead = query if math.isfinite(RIDGES[best]) else np.zeros_like(query)
    predicted = (ahead + OFFSET) @ weights
    scenario: Floats = predicted + misses
    return scenario


def _held_out(targets: Floats, kernel: Floats, groups: list[NDArray[np.int64]], ridge: float) -> tuple[Floats, Floats]:
    """Give what every dataset's prediction misses where its group is left out, `m x c`, and the dual weights of all."""
    covariance = np.full_like(kernel, OFFSET)
    if math.isfinite(ridge):
        covariance += kernel
    covariance.ravel()[:: len(kernel) + 1] += ridge if math.isfinite(ridge) else 1.0
    precision = np.linalg.inv(covariance)
    weights = precision @ targets
    misses = np.empty_like(targets)
    for group in groups:
        misses[group] = np.linalg.solve(precision[np.ix_(group, group)], weights[group])
    return misses, weights


def _kernels(between: Floats, distances: Floats) -> tuple[Floats, Floats]:
    """Turn distances into inner products around the datasets' centre, mean square 1: `m x m`, and `m` of the query.

    Distances that no points have leave negative eigenvalues, which are dropped.
    """
    square = 0.5 * (np.square(between) + np.square(between.T))
    by_row, ahead = square.mean(axis=1), np.square(distances)
    kernel = -0.5 * (square - by_row - by_row[:, None] + by_row.mean())
    query = -0.5 * (ahead - ahead.mean() - by_row + by_row.mean())
    values, vectors = np.linalg.eigh(kernel)
    kernel = (vectors * np.maximum(values, 0.0)) @ vectors.T
    scale = np.trace(kernel) / len(kernel)
    return (kernel / scale, query / scale) if scale > 0 else (np.zeros_like(kernel), np.zeros_like(query))
