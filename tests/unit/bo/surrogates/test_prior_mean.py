"""The bowl of DNGO: its values, its slopes and its prior."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from warmstart.bo.surrogates.dngo import linear_head

KAPPA = (2 * math.pi**3) ** -0.5


def test_bowl_by_hand():
    X = np.array([[0.2, 0.9], [np.nan, 0.4]])
    eta = np.array([0.3, 0.5, 0.1, math.log(2.0), math.log(5.0)])
    values = linear_head.bowl_coefficients(eta) @ linear_head.bowl_columns(X).T
    np.testing.assert_allclose(values, [0.3 + 2 * 0.09 + 5 * 0.64, 0.3 + 5 * 0.09], rtol=1e-13)
    np.testing.assert_allclose(linear_head.bowl_slopes(X, eta[None])[0], [[-1.2, 8.0], [0.0, 3.0]], rtol=1e-13)


@pytest.mark.parametrize("x", [0.05, 9.9, 32.0, 1e4])
def test_half_horseshoe_is_a_mixture_within_its_bounds(x):
    """Half-Cauchy scales of half-normals; Carvalho's bounds, twice those of the symmetric density."""
    found = math.exp(linear_head.log_half_horseshoe(np.array([x]))[0])
    assert KAPPA * math.log(1 + 4 / x**2) < found < 2 * KAPPA * math.log(1 + 2 / x**2)
    mixture, _ = integrate.quad(
        lambda u: stats.halfnorm.pdf(x, scale=math.exp(u)) * stats.halfcauchy.pdf(math.exp(u)) * math.exp(u),
        math.log(x) - 4, math.log(x) + 40, limit=500, epsabs=0,
    )  # fmt: skip
    assert found == pytest.approx(mixture, rel=1e-6)


def test_prior_by_hand():
    eta, other = np.array([0.3, 0.4, 0.9, -1.0, 2.0]), np.array([-1.0, 0.5, 0.5, 0.0, 0.0])

    def log_density(e):
        curvature = np.exp(e[3:])
        return (
            stats.norm.logpdf(e[0]) + stats.norm(0.5, 0.25).logpdf(e[1:3]).sum()
            + (linear_head.log_half_horseshoe(curvature) + e[3:]).sum()
        )  # fmt: skip

    difference = linear_head.log_bowl_density(eta) - linear_head.log_bowl_density(other)
    assert difference == pytest.approx(log_density(eta) - log_density(other), rel=1e-12)


@pytest.mark.parametrize(("k", "value"), [(1, -0.01), (2, 1.01), (3, -21.0), (4, 9.0)])
def test_outside_the_bounds_there_is_nothing(k, value):
    eta = linear_head.initial_bowl(2)
    eta[k] = value
    assert linear_head.log_bowl_density(eta) == -math.inf
