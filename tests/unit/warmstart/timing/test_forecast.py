"""Predicted seconds: hand values, identities of the Gaussian, and what a run on another machine tells."""

import math

import numpy as np
import pytest

from warmstart.timing.forecast import SHORTEST, UNKNOWN, TimedRun, fit_durations, measured_durations, without_history

RNG = np.random.default_rng(0)
CONFIGS = RNG.random((12, 2))
EFFECTS = np.log(1 + 3 * CONFIGS[:, 0])
LEVELS = np.log([2.0, 3.0, 4.0, 5.0, 6.0])


def fitted(levels=LEVELS, noise=0.0, **more):
    logs = levels[:, None] + EFFECTS + noise * np.random.default_rng(1).standard_normal((len(levels), 12))
    sizes = np.zeros((len(levels), 1))
    return fit_durations(np.exp(logs), list("abcdefgh")[: len(levels)], CONFIGS, sizes=sizes, query=np.zeros(1), **more)


def test_one_run_without_history_by_hand():
    prior = without_history(1)
    told = TimedRun(np.array([0.0]), 20.0)
    (same,), (other,) = prior.forecast([[0.0]], [told]), prior.forecast([[0.7]], [told])
    shared, own = UNKNOWN**2 + 1.0, 0.15**2
    assert math.isclose(math.log(same.value), math.log(20) * shared / (shared + own), rel_tol=1e-9)
    across = UNKNOWN**2 + math.exp(-0.5)  # one lengthscale away
    assert math.isclose(math.log(other.value), math.log(20) * across / (shared + own), rel_tol=1e-9)
    spread = math.sqrt(shared - across**2 / (shared + own) + own)
    assert math.isclose(math.log(other.high / other.value), 1.2815515655446004 * spread, rel_tol=1e-9)


def test_one_run_tells_how_slow_a_machine_is():
    found, truth = fitted(), 7.0 * 3.0 * np.exp(EFFECTS)
    told = [TimedRun(CONFIGS[4], truth[4])]
    seconds = np.array([each.value for each in found.forecast(CONFIGS, told)])
    np.testing.assert_allclose(seconds, truth, rtol=0.02)
    inside = [each.low <= real <= each.high for each, real in zip(found.forecast(CONFIGS, told), truth, strict=True)]
    assert all(inside)


def test_measured_configurations_are_told_as_by_the_whole_forecast():
    """And configurations that never ran are not."""
    logs = LEVELS[:, None] + EFFECTS + 0.2 * np.random.default_rng(1).standard_normal((5, 12))
    logs[:, 7] = np.nan
    known = {"sizes": np.arange(5.0)[:, None], "query": np.array([2.0])}
    found = measured_durations(np.exp(logs), list("abcde"), **known)
    assert sorted(found) == [*range(7), *range(8, 12)]
    whole = fit_durations(np.exp(logs), list("abcde"), CONFIGS, **known).forecast(CONFIGS)
    for column, own in found.items():
        for part in ("value", "low", "high"):
            assert getattr(own, part) == pytest.approx(getattr(whole[column], part), rel=0.15)
    assert measured_durations(np.full((5, 12), np.nan), list("abcde"), **known) == {}


def test_chance_within_is_the_distribution_function():
    found, told = fitted(noise=0.1), [TimedRun(CONFIGS[0], 10.0)]
    (expected,) = found.forecast(CONFIGS[3:4], told)
    chances = [found.chance_within(CONFIGS[3:4], at, told)[0] for at in (expected.low, expected.value, expected.high)]
    np.testing.assert_allclose(chances, [0.1, 0.5, 0.9], atol=1e-9)
    assert found.chance_within(CONFIGS, 0.0, told).tolist() == [0.0] * 12


def test_no_run_is_shorter_than_the_least():
    assert without_history(1).forecast([[0.2]], [TimedRun(np.array([0.2]), 0.0)])[0].low >= SHORTEST
