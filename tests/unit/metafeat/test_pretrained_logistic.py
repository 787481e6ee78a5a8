"""Logistic regression by reduced rows against scikit-learn and against its definition."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from warmstart.metafeat.pretrained.heads import softmax
from warmstart.metafeat.pretrained.logistic import (
    FOLDS,
    PENALTIES,
    draw_folds,
    fit_logistic_path,
    log_softmax,
    reduce_rows,
)


def drawn(n=30, d=50, classes=3, copies=1, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % classes)
    rows = rng.normal(size=(n, d)) + 1.5 * np.eye(classes, d)[labels]
    return np.vstack([rows, *(rows + 0.2 * rng.normal(size=rows.shape) for _ in range(copies - 1))]), labels


def reference(rows, labels, penalty):
    """Fit scikit-learn's to unreduced rows: the sum of losses, and half of the squared weights divided by C.

    Of two classes it has the weights of one alone: the difference of ours, whose squares sum to twice as much.
    """
    c = (2 if labels.max() == 1 else 1) / (2 * penalty * len(rows))
    return LogisticRegression(C=c, tol=1e-8, max_iter=5_000).fit(rows, labels)


@pytest.mark.parametrize(("copies", "d", "classes"), [(1, 8, 5), (2, 120, 5), (1, 120, 2)])
def test_probabilities_are_those_of_scikit_learn(copies, d, classes):
    rows, labels = drawn(d=d, classes=classes, copies=copies)
    path = fit_logistic_path(rows, labels, n_classes=classes)
    length = (rows**2).sum() / len(rows)
    others = np.random.default_rng(1).normal(size=(9, d))
    folds = draw_folds(labels)
    for place in (0, 3, len(PENALTIES) - 1):
        penalty = path.penalties[place]
        expected = reference(rows, np.tile(labels, copies), penalty * length).predict_proba(others)
        np.testing.assert_allclose(softmax(path.scores(others, place)), expected, atol=5e-4)
        for fold in (1, FOLDS - 1):
            train = np.tile(folds != fold, copies)
            held = reference(rows[train], np.tile(labels, copies)[train], penalty * length)
            expected = held.predict_proba(rows[: len(labels)][folds == fold])
            np.testing.assert_allclose(softmax(path.left_out[place][folds == fold]), expected, atol=5e-4)


def test_the_gradient_of_the_unreduced_problem_is_nothing():
    rows, labels = drawn(d=200)
    path = fit_logistic_path(rows, labels, n_classes=3)
    length = (rows**2).sum() / len(rows)
    for place, penalty in enumerate(PENALTIES):
        errors = (softmax(path.scores(rows, place)) - np.eye(3)[labels]) / len(rows)
        gradient = rows.T @ errors + 2 * penalty * length * path.weight[place]
        assert np.abs(gradient).max() < 1e-6 * length**0.5
        assert np.abs(errors.sum(0)).max() < 1e-6


def test_what_is_told_of_left_out_images_is_counted_from_their_scores():
    rows, labels = drawn(n=40, classes=4)
    path = fit_logistic_path(rows, labels, n_classes=4)
    np.testing.assert_array_equal(path.wrong, (path.left_out.argmax(2) != labels).sum(1))
    losses = [-log_softmax(scores)[np.arange(40), labels].mean() for scores in path.left_out]
    np.testing.assert_allclose(path.losses, losses)
    assert path.best() == int(np.argmin(losses))


def test_a_class_without_rows_is_never_the_answer():
    rows, labels = drawn(n=24, classes=3)
    labels[labels == 1] = 3
    path = fit_logistic_path(rows, labels, n_classes=5)
    assert set(path.scores(rows, 0).argmax(1)) <= {0, 2, 3}
    one = np.array([0] * 11 + [1])
    alone = fit_logistic_path(rows[:12], one, n_classes=2)
    assert np.isfinite(alone.left_out).all()
    assert alone.wrong.min() >= 1  # who has one image alone is not known without it


def test_folds_have_the_classes_alike():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [20, 10, 5]))
    folds = draw_folds(labels)
    counts = np.array([np.bincount(labels[folds == fold], minlength=3) for fold in range(FOLDS)])
    np.testing.assert_array_equal(counts, np.tile([4, 2, 1], (FOLDS, 1)))
    assert draw_folds(np.array([0, 1])).tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
def test_reduced_rows_are_the_rows(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    coordinates, basis = reduce_rows(rows)
    assert coordinates.shape[1] == basis.shape[1] == 6
    np.testing.assert_allclose(coordinates @ basis.T, rows, atol=1e-9)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-9)
