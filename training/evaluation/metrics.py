"""Distances between datasets by fold, and their agreement with the true distances.

A metric is a function of the fold and must not use its held-out datasets. Each fold has its own model, and features are
scaled by the other datasets.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError
from warmstart.metafeat.index import distances_to
from warmstart.training.evaluation.protocol import Fold

Matrix = NDArray[np.float64]
Metric = Callable[[Fold], Matrix]
"""Function of a fold: `m x m` distances, row i with dataset i as the query; rows of other datasets serve
calibration."""
RECALL_OF = 5


def given_metric(matrix: Matrix) -> Metric:
    """Return a metric with fixed `m x m` distances for every fold."""

    def metric(fold: Fold) -> Matrix:  # noqa: ARG001  one signature for all
        return matrix

    return metric


def feature_metric(features: ArrayLike) -> Metric:
    """Return the Euclidean metric of features, z-scored by the history of a fold; unknown ones count as average.

    Args:
        features: `m x p`, NaN = unknown.
    """
    table = np.asarray(features, dtype=np.float64)

    def metric(fold: Fold) -> Matrix:
        history_rows = np.where(np.isnan(table[fold.history]).all(axis=0), 0.0, table[fold.history])
        centre, spread = np.nanmean(history_rows, axis=0), np.nanstd(history_rows, axis=0)
        varies = spread > 1e-12 * (1 + np.abs(centre))
        return euclidean(np.nan_to_num((table[:, varies] - centre[varies]) / spread[varies]))

    return metric


def embedding_metric(embed: Callable[[frozenset[int]], ArrayLike], parts: NDArray[np.int64], *, nested: bool) -> Metric:
    """Return the Euclidean metric of embeddings by models trained without the query.

    Args:
        embed: function of left-out parts: `m x p` embeddings of all datasets by the model trained without these.
        parts: `m` numbers of parts, see `warmstart.training.evaluation.protocol.deal`.
        nested: compute row i of a dataset that is not held out by a model trained without the fold's queries and
            without the part of i, as calibration needs; otherwise by the model of the fold.
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
    """Compute the Euclidean distances `m x m` of `m x p` vectors.

    Raises:
        DataError: when vectors are not `m x p` finite numbers.
    """
    points = np.asarray(vectors, dtype=np.float64)
    if points.ndim != 2 or not np.isfinite(points).all():
        msg = f"embeddings: expected one row of finite numbers a dataset, got shape {points.shape}. Embed the datasets again."
        raise DataError(msg)
    # Row by row: all differences at once would take m * m * p numbers.
    matrix: Matrix = np.array([distances_to(point, points) for point in points])
    return matrix


def query_distances(
    metric: Metric, folds: Sequence[Fold], *, of: Collection[int] | None = None, name: str = "distances"
) -> Matrix:
    """Compute the distances from each dataset as a query.

    Args:
        metric: of the distances.
        folds: they hold every dataset out once.
        of: rows to compute, since a metric may train a model for a fold; None = all.
        name: for messages.

    Returns: `m x m`, row i with dataset i held out, so not symmetric; NaN in other rows and to datasets held out with
    it.

    Raises:
        DataError: when a distance is no finite number ≥ 0.
    """
    m = sum(len(fold.queries) for fold in folds)
    distances = np.full((m, m), np.nan)
    for fold in folds:
        if of is not None and not set(fold.queries.tolist()) & set(of):
            continue
        block = metric(fold)[np.ix_(fold.queries, fold.history)]
        if not np.all(np.isfinite(block) & (block >= 0)):
            msg = f"{name}: expected distances of 0 or more between held-out datasets and all others, got NaN, infinite or negative ones. Leave such datasets out."
            raise DataError(msg)
        distances[np.ix_(fold.queries, fold.history)] = block
    return distances


def rank_correlations(distances: Matrix, true: Matrix) -> Matrix:
    """Compute the rank correlation (Spearman) of each dataset's distances with its true ones.

    Args:
        distances: `m x m` of `query_distances`; NaN is left out.
        true: `m x m`.

    Returns: `m` in [-1, 1]; NaN with fewer than three distances or equal ones.
    """
    from scipy.stats import spearmanr

    correlations = np.full(len(distances), np.nan)
    for row, (estimates, truths) in enumerate(zip(distances, true, strict=True)):
        measured = ~np.isnan(estimates)
        a, b = estimates[measured], truths[measured]
        if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            correlations[row] = spearmanr(a, b).statistic
    return correlations


def neighbour_recalls(distances: Matrix, true: Matrix, k: int = RECALL_OF) -> Matrix:
    """Compute the share of each dataset's k truly nearest among its k nearest; ties go by row.

    Arguments as in `rank_correlations`.

    Returns: `m` in [0, 1]; NaN with k distances or fewer.
    """
    recalls = np.full(len(distances), np.nan)
    for row, (estimates, truths) in enumerate(zip(distances, true, strict=True)):
        measured = ~np.isnan(estimates)
        if measured.sum() > k:
            first, second = (np.argsort(values[measured], kind="stable")[:k] for values in (estimates, truths))
            recalls[row] = len(np.intersect1d(first, second)) / k
    return recalls
