"""Pairs of training datasets, drawn from few and from many."""

import numpy as np
import pytest

from warmstart.history_store.error_tables import ErrorDistances, target_distance
from warmstart.training.siamese import pairs
from warmstart.training.siamese.pairs import GivenDistances, TrainingPairs


@pytest.fixture
def errors():
    """Return 40 groups of three alike datasets by 12 configurations; a third of the cells of one in ten are missing."""
    rng = np.random.default_rng(0)
    table = np.repeat(rng.uniform(size=(40, 12)), 3, axis=0) + rng.normal(0, 1e-3, (120, 12))
    table[::10, :4] = np.nan
    return np.clip(table, 0, 1)


@pytest.mark.parametrize("kind", ["mean_l1", "l1", "sqrt_l1", "normalised", "sqrt_normalised", "rank"])
def test_distances_of_errors_are_those_of_the_whole_matrix(errors, kind):
    a, b = np.array([3, 20, 0]), np.array([20, 10, 7, 119])
    errors[7, :8] = np.nan  # too few to compare
    whole, target = target_distance(errors, kind, partial=True), ErrorDistances(errors, kind)
    assert np.array_equal(target.between(a, b), whole[np.ix_(a, b)], equal_nan=True)
    assert np.array_equal(target.has_target(a, b), np.isfinite(whole[np.ix_(a, b)]) & (a[:, None] != b))
    assert np.array_equal(GivenDistances(whole).has_target(a, b), target.has_target(a, b))


def test_every_pair_with_a_distance_is_drawn_as_often():
    errors = np.array([[0.1, 0.2], [0.3, np.nan], [np.nan, 0.4], [np.nan, np.nan]])
    drawn = TrainingPairs(ErrorDistances(errors), np.array([3, 2, 1, 0])).draw(np.random.default_rng(0), 4000)
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    assert found.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert counts == pytest.approx(1000, abs=150)


def test_of_many_datasets_half_come_with_one_of_the_nearest(errors, monkeypatch):
    rows = np.arange(1, 120)
    training = TrainingPairs(ErrorDistances(errors), rows)
    few = training.datasets(np.random.default_rng(0), 20)
    monkeypatch.setattr(pairs, "MANY", 100)
    monkeypatch.setattr(pairs, "NEAREST", 2)
    many = [training.datasets(np.random.default_rng(seed), 20) for seed in range(20)]
    assert len(few) == 20
    assert all(16 <= len(drawn) <= 20 and len(set(drawn.tolist())) == len(drawn) for drawn in many)
    assert all(set(drawn.tolist()) <= set(rows.tolist()) for drawn in many)
    siblings = [np.mean(np.unique(drawn // 3, return_counts=True)[1] > 1) for drawn in (few, *many)]
    assert siblings[0] < 0.4 < 0.6 < min(siblings[1:])


def test_a_matrix_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"expected `m x m` target distances, got shape \(2, 3\)"):
        GivenDistances(np.zeros((2, 3)))
