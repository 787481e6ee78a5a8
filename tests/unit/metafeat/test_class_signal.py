"""The class signal: exact against all permutations, silent where labels mean nothing."""

from itertools import permutations

import numpy as np
import pytest

from warmstart.metafeat.sample_statistics import class_signal, permutation_score, pooled


def centred(matrix):
    project = np.eye(len(matrix)) - 1 / len(matrix)
    return project @ matrix @ project


def blobs(n, *, k=3, seed=0):
    """Draw grey pictures with a bright bar whose place tells the class, among noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    images = rng.integers(0, 120, (n, 16, 16, 1))
    for image, label in zip(images, labels, strict=True):
        image[:, 5 * label : 5 * label + 3] += 60
    return images.astype(np.uint8), labels.astype(np.int64)


def test_the_score_is_that_of_all_permutations():
    rng = np.random.default_rng(3)
    a = centred((lambda m: m + m.T)(rng.normal(size=(6, 6))))
    labels = np.array([0, 0, 0, 1, 1, 2])
    b = centred((labels[:, None] == labels).astype(float))
    sums = [np.vdot(a[np.ix_(order, order)], b) for order in map(list, permutations(range(6)))]
    assert permutation_score(a, b) == pytest.approx((np.vdot(a, b) - np.mean(sums)) / np.std(sums), rel=1e-9)


def test_the_effect_does_not_depend_on_how_many_pictures_there_are():
    few, many = (class_signal(*blobs(n)) for n in (60, 240))
    assert many.score > 2 * few.score
    assert many.effect == pytest.approx(few.effect, rel=0.5)


def test_numbering_and_order_do_not_matter():
    images, labels = blobs(40)
    order = np.random.default_rng(1).permutation(40)
    score = class_signal(images, labels).score
    assert class_signal(images, 7 - labels).score == pytest.approx(score, rel=1e-5)
    assert class_signal(images[order], labels[order]).score == pytest.approx(score, rel=1e-3)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.full((20, 8, 8, 3), 9, np.uint8), np.arange(20) % 2),
        (np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8), np.arange(20)),
        (np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8), np.zeros(20, int)),
        (np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.uint8), np.array([0, 1, 1])),
        (np.random.default_rng(0).integers(0, 256, (1, 1, 1, 1), np.uint8), np.array([0])),
    ],
    ids=["one picture", "a class each", "one class", "three pictures", "one pixel"],
)
def test_where_nothing_can_be_told_the_score_is_0(images, labels):
    assert class_signal(images, labels).score == 0.0


def test_two_pairs_weigh_what_the_definition_says():
    # Centred co-membership of two classes of two: entries ±1/2, norm 2.
    signal = class_signal(np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), np.uint8), np.array([0, 0, 1, 1]))
    assert signal.weight == pytest.approx(np.sqrt(2))
    assert signal.effect == pytest.approx(signal.score / np.sqrt(2))


@pytest.mark.parametrize(("side", "cells"), [(9, 1), (8, 4), (28, 4), (33, 8)])
def test_pooling_averages_cells(side, cells):
    pixels = np.random.default_rng(side).random((3, side, side, 2), dtype=np.float32)
    edges = [range(-(-side * i // cells), -(-side * (i + 1) // cells)) for i in range(cells)]
    if side == 8 or cells == 1 or side % cells == 0:
        expected = [[pixels[:, rows][:, :, columns].mean((1, 2)) for columns in edges] for rows in edges]
        np.testing.assert_allclose(pooled(pixels, cells), np.moveaxis(np.array(expected), 2, 0), rtol=1e-5)
    averages = pooled(np.ones_like(pixels), cells)
    np.testing.assert_allclose(averages, 1.0, rtol=1e-6)
