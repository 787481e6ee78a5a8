"""Slice sampling leaves a density as it is: exact draws, updated a few times, are still exact draws."""

import math

import numpy as np
import pytest
from scipy import stats

from warmstart.bo.surrogates.slice_sampling import random_direction, slice_step

N = 20_000


def updated(starts, log_density, width, updates=2):
    rng, states = np.random.default_rng(1), starts.tolist()
    for _ in range(updates):
        for i, x in enumerate(states):
            offset, value = slice_step(lambda t, x=x: log_density(x + t), log_density(x), rng=rng, width=width)
            states[i] = x + offset
            assert value == log_density(states[i])
    return np.array(states)


def test_normal():
    starts = np.random.default_rng(0).standard_normal(N)
    states = updated(starts, lambda x: -0.5 * x * x, 1.0)
    assert stats.kstest(states, "norm").pvalue > 0.001
    assert abs(np.corrcoef(starts, states)[0, 1]) < 0.5, "the chain moves"


def test_stays_in_the_support():
    starts = np.random.default_rng(0).random(2000)
    states = updated(starts, lambda x: 0.0 if 0 <= x <= 1 else -math.inf, 1.0)
    assert stats.kstest(states, "uniform").pvalue > 0.001


def test_a_bracket_that_shrinks_to_nothing_keeps_the_point():
    assert slice_step(lambda t: -math.inf, 0.0, rng=np.random.default_rng(0)) == (0.0, 0.0)


def test_stepping_out_ends_on_a_flat_density():
    offset, _ = slice_step(lambda t: 0.0, 0.0, rng=np.random.default_rng(0))
    assert -1001 <= offset <= 1001


def test_nan_is_refused():
    with pytest.raises(FloatingPointError, match="expected a log density, got NaN"):
        slice_step(lambda t: math.nan, 0.0, rng=np.random.default_rng(0))


def test_a_start_outside_the_support_is_refused():
    with pytest.raises(FloatingPointError, match="finite log density at the current point, got -inf"):
        slice_step(lambda t: 0.0, -math.inf, rng=np.random.default_rng(0))


def test_directions_are_unit_vectors_without_a_preferred_axis():
    rng = np.random.default_rng(0)
    directions = np.array([random_direction(3, rng) for _ in range(4000)])
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    np.testing.assert_allclose(directions.T @ directions / 4000, np.eye(3) / 3, atol=0.03)
