"""Landmarking: cross-validated accuracy of simple classifiers on a few images.

The classifiers are a few lines of numpy each: importing scikit-learn takes longer than a whole query.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Scores = Callable[[Matrix, NDArray[np.int64], Matrix], Matrix]

FOLDS = 5
RIDGE = 10.0
"""Penalty on standardised features."""
SMOOTHING = 1e-2
"""Share of the largest variance that is added to every variance of naive Bayes."""


def landmark_accuracies(
    points: Matrix, edges: Matrix, classes: NDArray[np.int64], *, rng: np.random.Generator
) -> dict[str, float]:
    """Estimate the accuracy of simple classifiers by five-fold cross-validation.

    Where a fold leaves nothing to learn (one class, or points that are all the same), the answer is the most frequent
    class. Renumbering the classes changes no answer that is not a tie.

    Args:
        points: `n x q` features, such as principal components.
        edges: `n x r` other features, for the landmark `edges`.
        classes: `n` class indices.
        rng: deals out the folds.

    Returns: accuracy in [0, 1] by name in `LANDMARKS`; 0 for a single image.
    """
    n = len(classes)
    n_correct = dict.fromkeys(LANDMARKS, 0)
    fold = rng.permutation(n) % min(FOLDS, n)
    for part in range(fold.max() + 1 if n > 1 else 0):
        test, train = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        for name, scores in LANDMARKS.items():
            features = edges if name == "edges" else points
            answers = _predict(scores, features[train], classes[train], features[test])
            n_correct[name] += int((answers == classes[test]).sum())
    return {name: count / n for name, count in n_correct.items()}


def nearest_neighbour(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score `m x k` classes by the query's least squared distance to one of their points, negated."""
    square = _square_distances(points, queries)
    return np.stack([-square[:, classes == k].min(1) for k in range(classes.max() + 1)], axis=1)


def nearest_centroid(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by the squared distance to their mean, negated."""
    return -_square_distances(_means(points, classes), queries)


def ridge(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by ridge regression of their indicators on standardised features."""
    centre, spread = points.mean(0), points.std(0)
    train, test = (points - centre) / spread, (queries - centre) / spread
    indicators = np.eye(classes.max() + 1)[classes]
    share = indicators.mean(0)
    gram = train.T @ train
    gram.ravel()[:: len(gram) + 1] += RIDGE
    scores: Matrix = share + test @ np.linalg.solve(gram, train.T @ (indicators - share))
    return scores


def naive_bayes(points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> Matrix:
    """Score classes by the log density of independent normal features, plus the log of their share."""
    counts, means = np.bincount(classes), _means(points, classes)
    variances = _means(np.square(points - means[classes]), classes) + SMOOTHING * points.var(0).max()
    deviations = np.square(queries[:, None] - means) / variances
    scores: Matrix = np.log(counts / counts.sum()) - 0.5 * (deviations + np.log(variances)).sum(2)
    return scores


LANDMARKS: Mapping[str, Scores] = MappingProxyType(
    {
        "nn": nearest_neighbour,
        "centroid": nearest_centroid,
        "ridge": ridge,
        "bayes": naive_bayes,
        "edges": ridge,
    }
)
"""Functions of `n x q` points, their classes 0..k-1 (all occur) and `m x q` queries; they return `m x k` scores."""


def _predict(scores: Scores, points: Matrix, classes: NDArray[np.int64], queries: Matrix) -> NDArray[np.int64]:
    """Predict the classes of queries: the highest score, or the most frequent class if nothing can be learned."""
    class_numbers, compact = np.unique(classes, return_inverse=True)
    spread = points.std(0)
    if len(class_numbers) == 1 or spread.max(initial=0.0) < 1e-9:
        return np.full(len(queries), np.bincount(classes).argmax())
    used = spread > 1e-9 * spread.max()
    answers: NDArray[np.int64] = class_numbers[scores(points[:, used], compact, queries[:, used]).argmax(1)]
    return answers


def _means(points: Matrix, classes: NDArray[np.int64]) -> Matrix:
    """Average points by class: `k x q`."""
    counts = np.bincount(classes)
    return np.stack([np.bincount(classes, column) / counts for column in points.T], axis=1)


def _square_distances(points: Matrix, queries: Matrix) -> Matrix:
    """Compute `m x n` squared distances of queries to points."""
    inner = queries @ points.T
    distances: Matrix = np.square(queries).sum(1)[:, None] + np.square(points).sum(1) - 2 * inner
    return distances
