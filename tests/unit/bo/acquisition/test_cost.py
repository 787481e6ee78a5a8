"""Expected inverse durations."""

import numpy as np
import pytest
from dense_gp import DenseGp

from warmstart.bo.acquisition.improvement_validity_cost import InverseCost, log_durations, log_expected_inverse


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


def test_cheaper_is_better():
    """Of two points that promise alike, the one beside short evaluations wins."""
    gp = DenseGp(lengthscales=(0.2,), noise=0.01).fit(np.array([[0.0], [1.0]]), np.log([1.0, 100.0]))
    low, high = InverseCost(gp).value(np.array([[0.1], [0.9]]))
    assert low > high
