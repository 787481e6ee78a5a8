"""Heads on frozen features against their definitions."""

from typing import get_args

import numpy as np
import pytest

from warmstart.metafeat.pretrained.heads import (
    HeadKind,
    HeadSearch,
    HeadSpec,
    TrainingFeatures,
    best_scale,
    head_from_tensors,
    head_specs,
    softmax,
)

KINDS = get_args(HeadKind)


def drawn(n=24, d=10, classes=3, copies=1, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    rows = rng.normal(size=(n, d)) + 1.5 * np.eye(classes, d)[labels]
    both = rows if copies == 1 else np.vstack([rows, rows + 0.2 * rng.normal(size=rows.shape)])
    return TrainingFeatures(both.astype(np.float32), labels, classes)


@pytest.mark.parametrize(
    ("copies", "d", "standardise", "strength"), [(1, 10, True, 1.0), (1, 80, False, 0.01), (2, 10, False, 1.0), (2, 80, True, 0.01)]
)  # fmt: skip
def test_ridge_left_out_is_ridge_fitted_without_the_image(copies, d, standardise, strength):
    data = drawn(d=d, copies=copies)
    spec = HeadSpec("ridge", standardise, strength)
    scores = HeadSearch(data, [spec]).left_out_scores(spec)
    rows = data.rows.astype(float) - data.rows.mean(0, dtype=float)
    rows /= rows.std(0) if standardise else np.sqrt((rows**2).mean())
    penalty = strength * (rows**2).sum() / len(rows)
    for i in range(len(data.labels)):
        is_remaining = np.ones(len(rows), bool)
        is_remaining[[i + copy * len(data.labels) for copy in range(copies)]] = False
        x, y = rows[is_remaining], data.targets()[is_remaining]
        centred = x - x.mean(0)
        weight = np.linalg.solve(centred.T @ centred + penalty * np.eye(d), centred.T @ (y - y.mean(0)))
        np.testing.assert_allclose(scores[i], (rows[i] - x.mean(0)) @ weight + y.mean(0), atol=1e-5)


@pytest.mark.parametrize(("kind", "copies"), [("knn", 2), ("centroid", 1)])
def test_neighbours_and_centroids_left_out_do_not_see_the_image(kind, copies):
    data = drawn(copies=copies)
    spec = HeadSpec(kind, standardise=False, strength=3.0 if kind == "knn" else 0.0)
    scores = HeadSearch(data, [spec]).left_out_scores(spec)
    centred = data.rows.astype(float) - data.rows.mean(0, dtype=float)
    units = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    labels = np.tile(data.labels, copies)
    for i in range(len(data.labels)):
        is_remaining = np.ones(len(units), bool)
        is_remaining[[i + copy * len(data.labels) for copy in range(copies)]] = False
        cosines = units[is_remaining] @ units[i]
        if kind == "knn":
            nearest = np.argsort(-cosines)[:3]
            weights = np.exp((cosines[nearest] - cosines.max()) / 0.07)
            expected = np.bincount(labels[is_remaining][nearest], weights, minlength=3) / weights.sum()
        else:
            sums = np.array([units[is_remaining & (labels == c)].sum(0) for c in range(3)])
            expected = (sums / np.linalg.norm(sums, axis=1, keepdims=True)) @ units[i]
        np.testing.assert_allclose(scores[i], expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_comes_back_from_its_tensors_and_gives_probabilities(kind):
    data, queries = drawn(copies=2), drawn(seed=1).rows
    search = HeadSearch(data, head_specs((kind,)))
    head = search.fit()
    probabilities = head.probabilities(queries)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(head_from_tensors(head.tensors()).probabilities(queries), probabilities)
    np.testing.assert_allclose(head.scores(queries), search.scores(search.best(), queries), atol=1e-9)
    assert (probabilities.argmax(1) == drawn(seed=1).labels).mean() > 0.5


def test_the_scale_of_scores_is_that_of_the_least_loss():
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.4]])
    labels = np.array([0, 1, 1])
    losses = {s: -np.log(softmax(s * scores)[np.arange(3), labels]).mean() for s in 2.0 ** np.arange(-1, 9)}
    assert best_scale(scores, labels) == min(losses, key=losses.get)
