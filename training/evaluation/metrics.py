"""Distances between datasets by fold, and their agreement with the true distances.

A metric is a function of the fold: it may not use the datasets held out. Each fold has its own model, and features are
scaled by the datasets that answer.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError
from warmstart.training.evaluation.protocol import Fold

Matrix = NDArray[np.float64]
Metric = Callable[[Fold], Matrix]
"""Gives `m x m` distances with a fold held out: row i as dataset i asks, which is a query or, to calibrate, one that answers."""
RECALL_OF = 5


def given_metric(matrix: Matrix) -> Metric:
    """Return a metric of given `m x m` distances, the same for every fold."""

    def metric(fold: Fold) -> Matrix:  # noqa: ARG001  the same for all
        return matrix

    return metric


def feature_metric(features: ArrayLike) -> Metric:
    """Return the Euclidean metric of features, z-scored by the datasets that answer; unknown features count as average.

    Args:
        features: `m x p`, NaN = unknown.
    """
    table = np.asarray(features, dtype=np.float64)

    def metric(fold: Fold) -> Matrix:
        known = np.where(np.isnan(table[fold.history]).all(axis=0), 0.0, table[fold.history])
        centre, spread = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
        kept = spread > 1e-12 * (1 + np.abs(centre))
        return euclidean(np.nan_to_num((table[:, kept] - centre[kept]) / spread[kept]))

    return metric


def embedding_metric(embed: Callable[[frozenset[int]], ArrayLike], parts: NDArray[np.int64], *, nested: bool) -> Metric:
    """Return the Euclidean metric of embeddings by models that never saw the query.

    Args:
        embed: gives `m x p` embeddings of all datasets by the model trained without some parts.
        parts: `m` numbers of parts, see `warmstart.training.evaluation.protocol.deal`.
        nested: row i, for i that answers, comes from a model that saw neither the fold's queries nor the part of i, so
            that the history can be calibrated on itself; otherwise from one that saw i.
    """
    matrices: dict[frozenset[int], Matrix] = {}

    def matrix(left_out: frozenset[int]) -> Matrix:
        if left_out not in matrices:
            matrices[left_out] = euclidean(embed(left_out))
        return matrices[left_out]

    def metric(fold: Fold) -> Matrix:
        held_out = frozenset(parts[fold.queries].tolist())
        if not nested:
            return matrix(held_out)
        return np.stack([matrix(held_out | {part})[row] for row, part in enumerate(parts.tolist())])

    return metric


def euclidean(vectors: ArrayLike) -> Matrix:
    """Compute distances, `m x m` of `m x p`.

    Raises:
        DataError: when vectors are not `m x p` finite numbers.
    """
    points = np.asarray(vectors, dtype=np.float64)
    if points.ndim != 2 or not np.isfinite(points).all():
        msg = f"embeddings: expected one row of finite numbers a dataset, got shape {points.shape}. Embed the datasets again."
        raise DataError(msg)
    matrix: Matrix = np.array([np.linalg.norm(points - point, axis=1) for point in points])
    return matrix


def query_distances(
    metric: Metric, every: Sequence[Fold], *, of: Collection[int] | None = None, name: str = "distances"
) -> Matrix:
    """Compute the distances from each dataset as a query.

    Args:
        metric: of the distances.
        every: folds that together hold every dataset out once.
        of: rows that are asked about, since a metric may train a model for a fold; None = all.
        name: for messages.

    Returns: `m x m`, row i with dataset i held out, so not symmetric; NaN to what does not answer, and where nobody asks.

    Raises:
        DataError: a distance that is no finite number ≥ 0.
    """
    m = sum(len(fold.queries) for fold in every)
    found = np.full((m, m), np.nan)
    for fold in every:
        if of is not None and not set(fold.queries.tolist()) & set(of):
            continue
        block = metric(fold)[np.ix_(fold.queries, fold.history)]
        if not np.all(np.isfinite(block) & (block >= 0)):
            msg = f"{name}: expected distances of 0 or more between held-out datasets and all others, got NaN, infinite or negative ones. Leave such datasets out."
            raise DataError(msg)
        found[np.ix_(fold.queries, fold.history)] = block
    return found


def rank_correlations(distances: Matrix, true: Matrix) -> Matrix:
    """Compute the rank correlation (Spearman) of each dataset's distances with its true ones.

    Args:
        distances: `m x m` of `query_distances`; NaN is left out.
        true: `m x m`.

    Returns: `m` in [-1, 1]; NaN where fewer than three are left or all are equally far.
    """
    from scipy.stats import spearmanr

    found = np.full(len(distances), np.nan)
    for row, (given, wanted) in enumerate(zip(distances, true, strict=True)):
        asked = ~np.isnan(given)
        a, b = given[asked], wanted[asked]
        if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            found[row] = spearmanr(a, b).statistic
    return found


def neighbour_recalls(distances: Matrix, true: Matrix, k: int = RECALL_OF) -> Matrix:
    """Compute the share of each dataset's k truly nearest that are among its k nearest; ties go by row.

    Arguments as in `rank_correlations`.

    Returns: `m` in [0, 1]; NaN where no more than k answer.
    """
    found = np.full(len(distances), np.nan)
    for row, (given, wanted) in enumerate(zip(distances, true, strict=True)):
        asked = ~np.isnan(given)
        if asked.sum() > k:
            first, second = (np.argsort(values[asked], kind="stable")[:k] for values in (given, wanted))
            found[row] = len(np.intersect1d(first, second)) / k
    return found
