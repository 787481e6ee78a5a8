"""Acquisition functions: against integration and high precision, in the tails, and their identities."""

import math

import numpy as np
import pytest
from scipy import integrate as quadrature
from scipy import stats

from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.acquisition.scores import (
    expected_improvement,
    integrate_log,
    log_expected_improvement,
    log_expected_improvement_slopes,
    log_probability_of_improvement,
    lower_confidence_bound,
)

FORMS = {**ACQUISITIONS, "lcb-weighed": ACQUISITIONS["lcb"].logarithmic}
GAMMAS = np.array([-6.0, -2.0, -1.0001, -1.0, -0.9999, -0.3, 0.0, 0.5, 2.0, 7.0])


def at(gamma, sd=1.0):
    """Mean, variance and best with (best - mean) / sd = gamma."""
    gamma = np.asarray(gamma, dtype=float)
    return -gamma * sd, np.full_like(gamma, sd**2), np.zeros_like(gamma)


@pytest.mark.parametrize(("mean", "sd", "best"), [(0.3, 0.2, 0.25), (-2.0, 1.5, 1.0)])
def test_ei_is_the_expected_improvement(mean, sd, best):
    def gain(value):
        return (best - value) * stats.norm.pdf(value, mean, sd)

    expected, _ = quadrature.quad(gain, mean - 12 * sd, best, epsabs=1e-14)
    got = expected_improvement(np.array(mean), np.array(sd**2), np.array(best))
    assert got == pytest.approx(expected, rel=1e-8)


def test_log_ei_is_the_logarithm():
    np.testing.assert_allclose(log_expected_improvement(*at(GAMMAS, 0.3)), np.log(expected_improvement(*at(GAMMAS, 0.3))), rtol=1e-10)  # fmt: skip


@pytest.mark.parametrize(
    ("gamma", "expected"),  # log(γΦ(γ) + φ(γ)) with 60 digits, by mpmath
    [
        (-10.0, -55.55312203612236),
        (-999.0, -499015.2324510965),
        (-1001.0, -501015.2364510858),
    ],
)
def test_log_ei_in_the_tail(gamma, expected):
    assert log_expected_improvement(*at(gamma)) == pytest.approx(expected, abs=1e-9)


def test_pi_and_lcb_by_hand():
    mean, var, best = np.array([0.5, 1.0]), np.array([0.25, 4.0]), np.array(0.0)
    np.testing.assert_allclose(log_probability_of_improvement(mean, var, best), stats.norm.logcdf([-1.0, -0.5]))
    np.testing.assert_allclose(lower_confidence_bound(mean, var, best), [-0.5 + 1.0, -1.0 + 4.0])


def test_logarithms_are_averaged_as_what_they_stand_for():
    values = np.array([[0.1, 1e-3], [0.4, 5.0]])
    np.testing.assert_allclose(integrate_log(np.log(values)), np.log(values.mean(axis=0)))
    np.testing.assert_allclose(integrate_log(np.array([[-5000.0], [-5000.0 + math.log(3)]])), [-5000 + math.log(2)])


@pytest.mark.parametrize("name", sorted(FORMS))
def test_slopes_are_those_of_finite_differences(name):
    score, slopes = FORMS[name].score, FORMS[name].slopes
    mean, var, best = -0.7 * GAMMAS, np.full_like(GAMMAS, 0.49), np.zeros_like(GAMMAS)
    h = 1e-6
    by_mean, by_var = slopes(mean, var, best)
    np.testing.assert_allclose(by_mean, (score(mean + h, var, best) - score(mean - h, var, best)) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(by_var, (score(mean, var + h, best) - score(mean, var - h, best)) / (2 * h), rtol=1e-6, atol=1e-9)  # fmt: skip


@pytest.mark.parametrize(
    ("gamma", "by_gain", "by_spread"),  # Φ/h and φ/h, h = γΦ + φ, with 80 digits, by mpmath
    [
        (-10.0, 10.194383033412553, 102.94383033412553),
        (-999.0, 999.002001995987, 998003.999993988),
        (-1001.0, 1001.001997996016, 1002003.999994012),
        (-1e6, 1000000.000002, 1000000000003.0),
    ],
)
def test_slopes_of_log_ei_in_the_tail(gamma, by_gain, by_spread):
    by_mean, by_var = log_expected_improvement_slopes(*at(gamma))
    assert -by_mean == pytest.approx(by_gain, rel=1e-6)
    assert 2 * by_var == pytest.approx(by_spread, rel=1e-6)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_slope_of_an_average_is_weighed_by_sample(name):
    """Move the means of all samples together: the slope of the average is that of finite differences."""
    form = FORMS[name]
    rng = np.random.default_rng(0)
    mean, var, best = rng.normal(size=(4, 6)), rng.uniform(0.1, 2, (4, 6)), rng.normal(size=(4, 1))
    h = 1e-6
    up, down = (form.average(form.score(mean + sign * h, var, best)) for sign in (1, -1))
    by_mean, _ = form.slopes(mean, var, best)
    weights = form.weights(form.score(mean, var, best))
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    np.testing.assert_allclose((weights * by_mean).sum(axis=0), (up - down) / (2 * h), rtol=1e-6)
