"""Landmarks: how well simple classifiers do on a few images, under cross-validation."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
LANDMARKS = ("nn", "centroid", "ridge", "stump", "tree", "bayes", "edges")


def landmark_accuracies(
    points: NDArray[np.float64],
    edges: NDArray[np.float64],
    classes: NDArray[np.int64],
    *,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Estimate the accuracy of simple classifiers by five-fold cross-validation.

    Where a fold leaves nothing to learn (one class, or points that are all the same), the answer is the most frequent
    class. Renumbering the classes changes no answer that is not a tie.

    Args:
        points: `n x q` features, such as principal components.
        edges: `n x r` other features, which `edges` looks at.
        classes: `n` class indices.
        rng: deals out the folds.

    Returns: accuracy in [0, 1] by name in `LANDMARKS`; 0 for a single image.
    """
    n = len(classes)
    right = dict.fromkeys(LANDMARKS, 0)
    fold = rng.permutation(n) % min(FOLDS, n)
    for part in range(fold.max() + 1 if n > 1 else 0):
        test, train = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        for name, classifier in _classifiers().items():
            features = edges if name == "edges" else points
            answers = _answers(classifier, features[train], classes[train], features[test])
            right[name] += int((answers == classes[test]).sum())
    return {name: count / n for name, count in right.items()}


def _answers(
    classifier: Any, points: NDArray[np.float64], classes: NDArray[np.int64], queries: NDArray[np.float64]
) -> NDArray[np.int64]:
    spread = points.std(0)
    if np.ptp(classes) == 0 or spread.max(initial=0.0) < 1e-9:
        return np.full(len(queries), np.bincount(classes).argmax())
    used = spread > 1e-9 * spread.max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # many classes, few images: what scikit-learn warns of is what is measured
        answers: NDArray[np.int64] = classifier.fit(points[:, used], classes).predict(queries[:, used])
    return answers


def _classifiers() -> dict[str, Any]:
    """Make the classifiers anew."""
    from sklearn.linear_model import RidgeClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    return {
        "nn": KNeighborsClassifier(1, algorithm="brute"),
        "centroid": NearestCentroid(),
        "ridge": make_pipeline(StandardScaler(), RidgeClassifier(10.0)),
        "stump": DecisionTreeClassifier(max_depth=1, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
        "bayes": GaussianNB(var_smoothing=1e-2),
        "edges": make_pipeline(StandardScaler(), RidgeClassifier(10.0)),
    }
