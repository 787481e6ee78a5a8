"""Prior densities of hyperparameters: against scipy and quadrature, their slopes, and draws from them."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from warmstart.bo.surrogates.gp.hyperparameters import lengthscale_prior
from warmstart.bo.surrogates.gp.model import GaussianProcess
from warmstart.bo.surrogates.gp.priors import log_horseshoe, log_uniform_below, logistic, normal

DENSITIES = {
    "normal": normal(1.0, 2.0),
    "truncated": normal(0.0, 1.5, lower=-2.3, upper=2.3),
    "uniform": log_uniform_below(10.0, lower=math.log(0.025), start=0.0),
    "horseshoe": log_horseshoe(0.1, lower=math.log(1e-6), upper=math.log(1e4), start=-7.0),
    "logistic": logistic(),
}


@pytest.fixture(params=sorted(DENSITIES))
def density(request):
    return DENSITIES[request.param]


def distribution(density):
    """Its distribution function, by quadrature."""
    grid = np.linspace(density.lower, density.upper, 20_001)
    total = integrate.cumulative_simpson(np.exp([density.value(u) for u in grid]), x=grid, initial=0.0)
    return lambda u: np.interp(u, grid, total / total[-1])


def test_draws_have_the_density(density):
    rng = np.random.default_rng(0)
    draws = [density.sample(rng) for _ in range(4000)]
    assert min(draws) >= density.lower
    assert max(draws) <= density.upper
    assert stats.kstest(draws, distribution(density)).pvalue > 0.001


def test_slopes_are_differences(density):
    for u in np.linspace(max(density.lower, -9.0), min(density.upper, 9.0), 12)[1:-1]:
        difference = (density.value(u + 1e-5) - density.value(u - 1e-5)) / 2e-5
        assert density.slope(u) == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_horseshoe_is_that_of_the_paper_with_its_jacobian():
    one, other = math.log(0.02), math.log(0.7)
    density = DENSITIES["horseshoe"]
    expected = math.log(0.02 * math.log(1 + (0.1 / 0.02) ** 2)) - math.log(0.7 * math.log(1 + (0.1 / 0.7) ** 2))
    assert density.value(one) - density.value(other) == pytest.approx(expected)


def test_points_of_the_cube_are_a_lengthscale_apart():
    d = 40
    rng, density = np.random.default_rng(0), lengthscale_prior(d, "modern")
    one, other = rng.random((2, 20_000, d))
    middle = np.median([density.sample(rng) for _ in range(20_000)])
    squares = np.square(one - other).sum(axis=1) / np.exp(2.0 * middle)
    assert squares.mean() == pytest.approx(1.0, rel=0.05)


def test_the_papers_priors_bound_lengthscales_and_noise_vanishes_where_there_is_none():
    rng = np.random.default_rng(0)
    X = rng.random((20, 2))
    y = np.sin(3 * X[:, 0])
    modern, paper = (
        GaussianProcess(priors=priors).fit(X, y, rng=np.random.default_rng(1)).thetas for priors in ("modern", "paper")
    )
    assert paper[:, :2].max() <= math.log(10)
    assert modern[:, 1].max() > math.log(10), "the second column does not matter"
    assert max(np.median(paper[:, -2]), np.median(modern[:, -2])) < math.log(1e-4)
