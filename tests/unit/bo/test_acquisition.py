"""Acquisition functions: against integration and high precision, in the tails, and their identities."""

import math

import numpy as np
import pytest
from scipy import integrate as quadrature
from scipy import stats

from bo.acquisition import (
    SCORES,
    expected_improvement,
    integrate,
    integrate_log,
    log_expected_improvement,
    log_probability_of_improvement,
    lower_confidence_bound,
    probability_of_improvement,
)

GAMMAS = np.array([-6.0, -2.0, -1.0001, -1.0, -0.9999, -0.3, 0.0, 0.5, 2.0, 7.0])


def at(gamma, sd=1.0):
    """Mean, variance and best with (best - mean) / sd = gamma."""
    gamma = np.asarray(gamma, dtype=float)
    return -gamma * sd, np.full_like(gamma, sd**2), np.zeros_like(gamma)


@pytest.mark.parametrize(("mean", "sd", "best"), [(0.3, 0.2, 0.25), (0.1, 0.5, 0.4), (1.0, 0.3, 0.0), (-2.0, 1.5, 1.0)])
def test_ei_is_the_expected_improvement(mean, sd, best):
    def gain(value):
        return (best - value) * stats.norm.pdf(value, mean, sd)

    expected, _ = quadrature.quad(gain, mean - 12 * sd, best, epsabs=1e-14)
    got = expected_improvement(np.array(mean), np.array(sd**2), np.array(best))
    assert got == pytest.approx(expected, rel=1e-8)


def test_ei_by_hand():
    mean, var, best = at(0.0, sd=0.4)
    assert expected_improvement(mean, var, best) == pytest.approx(0.4 / math.sqrt(2 * math.pi))


def test_log_ei_is_the_logarithm():
    np.testing.assert_allclose(log_expected_improvement(*at(GAMMAS, 0.3)), np.log(expected_improvement(*at(GAMMAS, 0.3))), rtol=1e-10)  # fmt: skip


@pytest.mark.parametrize(
    ("gamma", "expected"),  # log(γΦ(γ) + φ(γ)) with 60 digits, by mpmath
    [
        (-10.0, -55.55312203612236),
        (-40.0, -808.29856835662),
        (-100.0, -5010.12957880025),
        (-999.0, -499015.2324510965),
        (-1001.0, -501015.2364510858),
    ],
)
def test_log_ei_in_the_tail(gamma, expected):
    assert log_expected_improvement(*at(gamma)) == pytest.approx(expected, abs=1e-9)


def test_log_ei_is_finite_and_increasing_over_all_magnitudes():
    tail = np.geomspace(1e8, 1e-8, 4000)
    values = log_expected_improvement(*at(np.concatenate([-tail, [0.0], tail[::-1]])))
    assert np.isfinite(values).all()
    assert np.all(np.diff(values) >= 0)


def test_ei_is_at_least_the_certain_improvement():
    rng = np.random.default_rng(0)
    mean, best, var = rng.normal(size=500), rng.normal(size=500), 10.0 ** rng.uniform(-12, 2, 500)
    assert np.all(expected_improvement(mean, var, best) >= np.maximum(best - mean, 0.0))


def test_ei_grows_with_variance_and_falls_with_mean():
    mean, best = np.linspace(-1, 1, 21), np.zeros(21)
    sds = np.linspace(0.1, 2, 30)[:, None]
    values = expected_improvement(mean, sds**2, best)
    assert np.all(np.diff(values, axis=0) > 0)
    assert np.all(np.diff(values, axis=1) < 0)


def test_pi_and_lcb_by_hand():
    mean, var, best = np.array([0.5, 1.0]), np.array([0.25, 4.0]), np.array(0.0)
    np.testing.assert_allclose(probability_of_improvement(mean, var, best), stats.norm.cdf([-1.0, -0.5]))
    np.testing.assert_allclose(log_probability_of_improvement(mean, var, best), stats.norm.logcdf([-1.0, -0.5]))
    np.testing.assert_allclose(lower_confidence_bound(mean, var, best), [-0.5 + 1.0, -1.0 + 4.0])


def test_log_pi_does_not_underflow():
    assert np.all(np.diff(log_probability_of_improvement(*at([-1e4, -100.0, -50.0, -40.0]))) > 0)


def test_one_sample_is_its_own_average():
    values = expected_improvement(*at(GAMMAS))
    np.testing.assert_array_equal(integrate(values[None]), values)
    logs = log_expected_improvement(*at(GAMMAS))
    np.testing.assert_array_equal(integrate_log(logs[None]), logs)


def test_logarithms_are_averaged_as_what_they_stand_for():
    values = np.array([[0.1, 1e-3], [0.4, 5.0]])
    np.testing.assert_allclose(integrate_log(np.log(values)), np.log(values.mean(axis=0)))
    np.testing.assert_allclose(integrate_log(np.array([[-5000.0], [-5000.0 + math.log(3)]])), [-5000 + math.log(2)])


@pytest.mark.parametrize("name", sorted(SCORES))
def test_every_score_takes_samples_and_prefers_low_means(name):
    score, average = SCORES[name]
    mean = np.array([[0.1, 0.4, 0.9], [0.2, 0.3, 1.0]])
    scores = average(score(mean, np.full_like(mean, 0.04), np.array([[0.3], [0.3]])))
    assert scores.shape == (3,)
    assert np.all(np.diff(scores) < 0)
