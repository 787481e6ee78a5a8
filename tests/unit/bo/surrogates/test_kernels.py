"""Kernels: hand values, their slopes against differences, and distances that are exact where points coincide."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from warmstart.bo.surrogates.gp.kernels import BLOCK, KERNELS, correlations, cross_correlations, square_distances

SKLEARN = {"matern52": lambda ls: Matern(ls, nu=2.5), "matern32": lambda ls: Matern(ls, nu=1.5), "se": RBF}


@pytest.fixture(params=sorted(KERNELS))
def name(request):
    return request.param


def test_values_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    X, Z, lengthscales = rng.random((7, 3)), rng.random((5, 3)), np.array([0.1, 1.0, 3.0])
    r2 = square_distances(X / lengthscales, Z / lengthscales)
    np.testing.assert_allclose(KERNELS[name].value(r2), SKLEARN[name](lengthscales)(X, Z), rtol=1e-12)


def test_is_one_at_distance_zero_and_vanishes_far_away(name):
    near, far = KERNELS[name].value(np.array([0.0, 1e16]))
    assert near == 1.0
    assert far == 0.0


def test_slope_is_the_derivative(name):
    r2, step = np.array([1e-3, 0.1, 1.0, 9.0]), 1e-6
    difference = (KERNELS[name].value(r2 + step) - KERNELS[name].value(r2 - step)) / (2 * step)
    np.testing.assert_allclose(KERNELS[name].slope(r2), difference, rtol=1e-6)


def test_slope_at_zero_is_finite(name):
    assert KERNELS[name].slope(np.zeros(1))[0] == pytest.approx(
        {"matern52": -5 / 6, "matern32": -1.5, "se": -0.5}[name]
    )


def test_correlations_in_blocks_are_those_of_all_pairs(name):
    rng, n = np.random.default_rng(0), 2 * BLOCK + 7
    X, Z = rng.random((n, 3)), rng.random((5, 3))
    pairs = KERNELS[name].value(((X[:, None] - X) ** 2).sum(axis=-1))
    np.testing.assert_allclose(np.triu(correlations(X, KERNELS[name])), np.triu(pairs), rtol=1e-12)
    crossed = KERNELS[name].value(((X[:, None] - Z) ** 2).sum(axis=-1))
    np.testing.assert_allclose(cross_correlations(X, Z, KERNELS[name]), crossed, rtol=1e-12)
