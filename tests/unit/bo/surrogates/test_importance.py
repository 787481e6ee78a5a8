"""First samples of hyperparameters: drawn about the maximum, from the posterior."""

import numpy as np

from warmstart.bo.surrogates import GaussianProcess
from warmstart.bo.surrogates.gp import chain, importance
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, lengthscale_prior, level_priors
from warmstart.bo.surrogates.gp.importance import resample
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.bo.surrogates.gp.priors import normal

MEAN = np.array([0.3, -0.2, 0.5])
COVARIANCE = np.array([[0.5, 0.3, 0.0], [0.3, 0.4, -0.1], [0.0, -0.1, 0.2]])


class Quadratic:
    """A log evidence that is quadratic."""

    points = np.zeros((30, 1))

    def value(self, theta):
        return float(-0.5 * (theta - MEAN) @ np.linalg.solve(COVARIANCE, theta - MEAN))

    def value_and_gradient(self, theta):
        return self.value(theta), -np.linalg.solve(COVARIANCE, theta - MEAN)


def smooth(X):
    return np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2


def process(n=40, d=2, *, noiseless=False, f=smooth):
    """Return the evidence of a process on n points, and its prior."""
    X = np.random.default_rng(0).random((n, d))
    y, metric = f(X), Metric(d)
    prior = HyperPrior((*metric.prior(lengthscale_prior(d, "modern")), *level_priors("modern", noiseless=noiseless)))
    return Evidence(X, (y - y.mean()) / y.std(), Stationary(KERNELS["matern52"], metric)), prior


def flat(lower=-50.0, upper=50.0):
    return normal(0.0, 1e3, lower=lower, upper=upper)


def test_draws_have_the_moments_of_the_posterior(monkeypatch):
    monkeypatch.setattr(importance, "PROPOSALS", 20_000)
    prior = HyperPrior((flat(), flat(), flat()))
    draws = np.array(resample(Quadratic(), prior, MEAN, 5_000, rng=np.random.default_rng(0)))
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, atol=0.03)


def test_where_no_proposal_has_a_density_the_maximum_is_left():
    prior = HyperPrior((flat(0.3, 0.3 + 1e-9), flat(-0.2, -0.2 + 1e-9), flat(0.5, 0.5 + 1e-9)))
    draws = resample(Quadratic(), prior, MEAN, 3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(draws, [MEAN] * 3)


def test_a_first_fit_to_many_points_draws_and_one_to_few_walks(monkeypatch):
    seen = []
    monkeypatch.setattr(chain, "resample", lambda *args, **options: seen.append(1) or resample(*args, **options))
    X = np.random.default_rng(0).random((40, 2))
    for n, sweeps in ((chain.MANY_POINTS - 1, None), (40, 5)):
        GaussianProcess(samples=3, sweeps=sweeps).fit(X[:n], smooth(X[:n]), rng=np.random.default_rng(0))
    assert not seen
    model = GaussianProcess(samples=3).fit(X, smooth(X), rng=np.random.default_rng(0))
    before = model.thetas
    model.fit(X, smooth(X), rng=np.random.default_rng(1))
    assert len(seen) == 1, "and the next fit goes on from the last draw"
    assert not np.array_equal(before, model.thetas)
