"""Landmarks against scikit-learn's classifiers and by hand."""

import numpy as np
import pytest

from warmstart.metafeat.handcrafted import LANDMARKS, RIDGE, SMOOTHING, landmark_accuracies


def blobs(n=90, classes=4, q=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.append(np.arange(classes), rng.integers(classes, size=n - classes))
    points = rng.normal(size=(n, q)) * rng.uniform(0.2, 3, q) + rng.normal(size=(classes, q))[labels]
    return points, labels


def reference(name):
    from sklearn.linear_model import RidgeClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "nn": KNeighborsClassifier(1),
        "centroid": NearestCentroid(),
        "ridge": make_pipeline(StandardScaler(), RidgeClassifier(RIDGE)),
        "bayes": GaussianNB(var_smoothing=SMOOTHING),
        "edges": make_pipeline(StandardScaler(), RidgeClassifier(RIDGE)),
    }[name]


@pytest.mark.parametrize("name", LANDMARKS)
@pytest.mark.parametrize("classes", [2, 30])
def test_answers_are_those_of_scikit_learn(name, classes):
    points, labels = blobs(classes=classes)
    queries, _ = blobs(n=200, classes=classes, seed=1)
    answers = LANDMARKS[name](points, labels, queries).argmax(1)
    expected = reference(name).fit(points, labels).predict(queries)
    assert (answers == expected).mean() > 0.99


def test_accuracy_by_hand():
    points = np.repeat([[0.0], [10.0]], 10, axis=0) + np.linspace(0, 1, 20)[:, None]
    classes = np.repeat([0, 1], 10)
    accuracy = landmark_accuracies(points, points, classes, rng=np.random.default_rng(0))
    assert accuracy == dict.fromkeys(LANDMARKS, 1.0)
    flipped = landmark_accuracies(points, points, 1 - classes, rng=np.random.default_rng(0))
    assert flipped == accuracy


def test_a_single_image_and_a_single_class():
    rng = np.random.default_rng(0)
    assert set(landmark_accuracies(np.ones((1, 2)), np.ones((1, 2)), np.zeros(1, int), rng=rng).values()) == {0.0}
    points = rng.normal(size=(9, 2))
    assert set(landmark_accuracies(points, points, np.zeros(9, int), rng=rng).values()) == {1.0}
