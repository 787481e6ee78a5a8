"""Kernels: hand values, their slopes against differences, and distances that are exact where points coincide."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from bo.kernels import KERNELS, scaled_square_distances, square_differences

SKLEARN = {"matern52": lambda ls: Matern(ls, nu=2.5), "matern32": lambda ls: Matern(ls, nu=1.5), "se": RBF}


@pytest.fixture(params=sorted(KERNELS))
def name(request):
    return request.param


def test_every_kernel_is_compared():
    assert set(SKLEARN) == set(KERNELS)


def test_values_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    X, Z, lengthscales = rng.random((7, 3)), rng.random((5, 3)), np.array([0.1, 1.0, 3.0])
    r2 = scaled_square_distances(square_differences(X, Z), np.log(lengthscales))
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


def test_squared_distances_by_hand():
    square = square_differences(np.array([[0.0, 0.5]]), np.array([[0.0, 0.5], [1.0, 0.0]]))
    np.testing.assert_array_equal(square, [[[0.0, 1.0]], [[0.0, 0.25]]])
    np.testing.assert_allclose(scaled_square_distances(square, np.log([2.0, 0.5])), [[0.0, 0.25 + 1.0]])


def test_the_distance_of_a_point_to_itself_is_exactly_zero():
    X = np.random.default_rng(0).random((50, 6))
    r2 = scaled_square_distances(square_differences(X, X), np.full(6, -4.0))
    assert np.all(np.diag(r2) == 0.0)
    assert np.all(r2 >= 0.0)
