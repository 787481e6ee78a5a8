"""A process given data and pending points, against dense solves; what a chain keeps from fit to fit."""

import math

import numpy as np
import pytest

from warmstart.bo.surrogates import GaussianProcess
from warmstart.bo.surrogates.gp import chain
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.posterior import ROWS, Posterior
from warmstart.history_store.errors import DataError

THETA = np.array([math.log(0.3), math.log(0.9), math.log(2.5), math.log(0.04), 0.3])
COVARIANCE = Stationary(KERNELS["matern52"], Metric(2))
RNG = np.random.default_rng(0)
X, Z, PENDING, POINTS = RNG.random((9, 2)), RNG.standard_normal(9), RNG.random((4, 2)), RNG.random((6, 2))
TOLD = RNG.standard_normal((3, 4))


def dense(points, z, at):
    """Mean `m` and covariance `m x m` by the textbook's formulas."""
    amplitude, noise, mean = math.exp(THETA[2]), math.exp(THETA[3]), THETA[4]
    K = amplitude * COVARIANCE.cross(points, points, THETA[:2]) + noise * np.eye(len(points))
    k = amplitude * COVARIANCE.cross(at, points, THETA[:2])
    prior = amplitude * COVARIANCE.cross(at, at, THETA[:2])
    return mean + k @ np.linalg.solve(K, z - mean), prior - k @ np.linalg.solve(K, k.T)


@pytest.fixture
def posterior():
    return Posterior.of(COVARIANCE, THETA, X, Z)


def test_predictions_are_dense_solves(posterior):
    expected, covariance = dense(X, Z, POINTS)
    mean, var = posterior.predict(POINTS)
    np.testing.assert_allclose(mean[0], expected, rtol=1e-9)
    np.testing.assert_allclose(var, np.diag(covariance), rtol=1e-9)
    mean, upper = posterior.joint(POINTS)
    np.testing.assert_allclose(mean[0], expected, rtol=1e-9)
    np.testing.assert_allclose(np.triu(upper), np.triu(covariance), atol=1e-9)


def test_many_points_are_predicted_in_parts(posterior):
    points = np.random.default_rng(1).random((ROWS + 5, 2))
    mean, var = posterior.predict(points)
    for rows in (slice(0, 3), slice(ROWS - 1, ROWS + 2)):
        np.testing.assert_allclose(mean[:, rows], posterior.predict(points[rows])[0], rtol=1e-9)
        np.testing.assert_allclose(var[rows], posterior.predict(points[rows])[1], rtol=1e-9)


def test_pending_points_count_as_if_they_were_data(posterior):
    mean, var = posterior.conditioned(PENDING, TOLD).predict(POINTS)
    for f, told in enumerate(TOLD):
        expected, covariance = dense(np.concatenate([X, PENDING]), np.concatenate([Z, told]), POINTS)
        np.testing.assert_allclose(mean[f], expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(var, np.diag(covariance), rtol=1e-7)


def test_a_new_chain_burns_in_on_some_of_many_points(monkeypatch):
    seen = []
    monkeypatch.setattr(chain, "CHEAP_POINTS", 8)
    monkeypatch.setattr(chain, "BURN_IN_POINTS", 8)
    sweep = chain.sweep
    monkeypatch.setattr(
        chain, "sweep", lambda evidence, *args, **options: seen.append(len(evidence.points)) or sweep(evidence, *args, **options)
    )  # fmt: skip
    points, rng = np.random.default_rng(0).random((16, 2)), np.random.default_rng(0)
    model = GaussianProcess(samples=3, burn_in=4).fit(points, points[:, 0], rng=rng)
    assert seen == [8] * 4 + [16] * 30, "and 3 of 30 are kept"
    del seen[:]
    model.fit(points, points[:, 0], rng=rng)
    assert seen == [16] * 5, "10 sweeps at 8 points, half of them at twice as many"


def test_of_few_sweeps_over_many_points_the_states_on_the_way_count(monkeypatch):
    d = 4
    monkeypatch.setattr(chain, "CHEAP_POINTS", 2)
    points, rng = np.random.default_rng(0).random((16, d)), np.random.default_rng(0)
    model = GaussianProcess(burn_in=1, climbs=False).fit(points, points[:, 0], rng=rng)
    states = model.thetas
    assert len(states) == d + 1, "one sweep: a lengthscale at a time, then the levels"
    assert ((np.diff(states, axis=0) != 0).sum(axis=1)[:-1] <= 1).all()
    model.fit(points, points[:, 0], rng=rng)
    assert len(model.thetas) == d + 2


def test_a_state_of_other_dimensions_is_not_gone_on_from():
    model = GaussianProcess(samples=3, burn_in=2).fit(X, Z, rng=np.random.default_rng(0))
    other = GaussianProcess(samples=3, burn_in=2)
    other.restore(model.state())
    points = np.random.default_rng(0).random((5, 3))
    fresh = GaussianProcess(samples=3, burn_in=2).fit(points, points[:, 0], rng=np.random.default_rng(1)).thetas
    np.testing.assert_array_equal(other.fit(points, points[:, 0], rng=np.random.default_rng(1)).thetas, fresh)


@pytest.mark.parametrize("state", [{}, {"thetas": [[1.0], [1.0, 2.0]]}, {"thetas": [[math.nan]]}])
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(DataError, match="surrogate state: expected"):
        GaussianProcess().restore(state)
