"""Expected inverse durations."""

import numpy as np
import pytest
from dense_gp import DenseGp

from warmstart.bo.acquisition.cost import InverseCost, log_durations, log_expected_inverse
from warmstart.bo.acquisition.function import Improvement, Product
from warmstart.bo.acquisition.pending import fantasise

X = np.array([[0.1, 0.2], [0.8, 0.3], [0.5, 0.9]])
POINTS = np.random.default_rng(1).random((200, 2))


def test_the_expectation_is_exact():
    assert np.exp(log_expected_inverse(np.array(1.0), np.array(0.64))) == pytest.approx(0.5066, abs=5e-5)
    draws = np.exp(-np.random.default_rng(0).normal(1.0, 0.8, 10**6))
    assert np.exp(log_expected_inverse(np.array(1.0), np.array(0.64))) == pytest.approx(draws.mean(), rel=0.01)


def test_what_is_not_known_is_not_cheap_without_bound():
    assert (
        log_expected_inverse(np.array(0.0), np.array(50.0)) == log_expected_inverse(np.array(0.0), np.array(2.0)) == 1
    )


def test_no_duration_is_nothing():
    np.testing.assert_allclose(log_durations([0.0, 1e-3, 1.0, 100.0]), np.log([1e-3, 1e-3, 1.0, 100.0]))
    np.testing.assert_allclose(log_durations([1e-30, 1.0, 2.0]), np.log([1e-6, 1.0, 2.0]))
    assert log_durations([0.0, 0.0]).tolist() == [0.0, 0.0]
    assert log_durations([]).shape == (0,)


@pytest.mark.parametrize("unit", [1e-9, 1 / 3600, 1e6])
def test_a_cost_may_have_any_unit(unit):
    seconds = np.array([0.0, 0.5, 3.5, 1.0])
    np.testing.assert_allclose(log_durations(unit * seconds) - np.log(unit), log_durations(seconds))


def order(seconds):
    """Order points by improvement per second when the evaluations took so long."""
    gp = DenseGp(noise=0.01).fit(X, np.array([0.4, -0.6, 0.3]))
    ei = Improvement(fantasise(gp, X[:0], np.array([[-0.6]]), rng=np.random.default_rng(0)), acquisition="ei")
    logs = log_durations(seconds)
    cost = DenseGp(noise=0.01).fit(X, logs - logs.mean())
    return np.argsort(Product([ei, InverseCost(cost)]).value(POINTS))


def test_a_unit_of_time_changes_nothing():
    np.testing.assert_array_equal(order(np.array([1.0, 5.0, 60.0])), order(60 * np.array([1.0, 5.0, 60.0])))


def test_cheaper_is_better():
    """Of two points that promise alike, the one beside short evaluations wins."""
    gp = DenseGp(lengthscales=(0.2,), noise=0.01).fit(np.array([[0.0], [1.0]]), np.log([1.0, 100.0]))
    low, high = InverseCost(gp).value(np.array([[0.1], [0.9]]))
    assert low > high
