"""Distances by embedding: arcs of conditional columns, warped inputs, and gradients carried back."""

import math

import numpy as np
import pytest
from scipy import stats

from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.kernels import KERNELS, square_distances
from warmstart.history_store.errors import UsageError

NAN = np.nan


def arc(a, b, omega=1.0, rho=0.5):
    metric = Metric(1, conditional=(0,))
    shape = np.array([math.log(omega), math.log(rho / (1 - rho)) if rho < 1 else 40.0])
    E, F = metric.embed(np.array([[a]]), shape), metric.embed(np.array([[b]]), shape)
    return math.sqrt(square_distances(E, F)[0, 0])


@pytest.mark.parametrize(
    ("a", "b", "rho", "distance"),
    [
        (NAN, NAN, 0.5, 0.0),
        (NAN, 0.9, 0.7, 1.0),
        (0.0, 1.0, 1 / 3, 1.0),
        (0.0, 1.0, 1.0, 2.0),
        (0.25, 0.75, 0.5, 2 * math.sin(math.pi / 8)),
        (0.4, 0.4, 0.5, 0.0),
    ],
)
def test_distances_of_an_arc_by_hand(a, b, rho, distance):
    assert arc(a, b, omega=3.0, rho=rho) == pytest.approx(3.0 * distance, abs=1e-6)


def kumaraswamy(x, a, b):
    return 1 - (1 - x**a) ** b


def warped(x, a, b):
    metric = Metric(1, warping=True)
    return metric.embed(np.asarray(x)[:, None], np.array([0.0, math.log(a), math.log(b)]))[:, 0]


def test_warping_is_a_distribution_function():
    x = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(warped(x, 2.5, 0.7), kumaraswamy(x, 2.5, 0.7), rtol=1e-9)
    np.testing.assert_allclose(warped(x, 1.0, 1.0), x, rtol=1e-9)
    np.testing.assert_allclose(warped(x, 3.0, 1.0), stats.beta(3, 1).cdf(x), rtol=1e-9)
    np.testing.assert_allclose(warped(x, 1.0, 3.0), stats.beta(1, 3).cdf(x), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"isotropic": True}, "se"),
        ({"warping": True}, "matern32"),
        ({"conditional": (1, 3)}, "matern52"),
        ({"conditional": (0,), "warping": True, "isotropic": True}, "matern52"),
    ],
)
def test_gradients_are_carried_back(options, name):
    rng, step = np.random.default_rng(0), 1e-6
    covariance = Stationary(KERNELS[name], Metric(4, **options))
    X, Z = 0.05 + 0.9 * rng.random((2, 6, 4))
    for points in (X, Z):
        for column in options.get("conditional", ()):
            points[rng.random(6) < 0.3, column] = NAN
    shape = 0.4 * rng.standard_normal(covariance.size)
    W = rng.standard_normal((6, 6))
    matrix, pull = covariance.matrix_and_pull(X, shape)
    np.testing.assert_allclose(np.triu(matrix), np.triu(covariance.matrix(X, shape)), rtol=1e-12)
    expected = [
        np.vdot(W + W.T, covariance.cross(X, X, shape + h) - covariance.cross(X, X, shape - h)) / (2 * step)
        for h in step * np.eye(covariance.size)
    ]
    np.testing.assert_allclose(pull(W + W.T), expected, rtol=1e-5, atol=1e-7)

    cross, slopes = covariance.cross_and_slopes(X, Z, shape)
    np.testing.assert_allclose(cross, covariance.cross(X, Z, shape), rtol=1e-12)
    columns = [
        (W * (covariance.cross(X + h, Z, shape) - covariance.cross(X - h, Z, shape))).sum(axis=1) / (2 * step)
        for h in step * np.eye(4)
    ]
    np.testing.assert_allclose(slopes.pull(W), np.column_stack(columns), rtol=1e-5, atol=1e-7)
    each = [slopes.pull(np.broadcast_to(w, (6, 6))) for w in W.T]
    np.testing.assert_allclose(slopes.weighted(W), each, rtol=1e-9, atol=1e-12)


def test_conditional_columns_must_be_columns():
    with pytest.raises(UsageError, match=r"expected conditional columns in 0..1, got \[2\]"):
        Metric(2, conditional=(2,))
