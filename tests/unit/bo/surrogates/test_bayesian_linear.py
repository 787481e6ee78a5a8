"""Bayesian linear regression: against normal densities, the process with kernel φφᵀ/α, and its own fixed points."""

import math

import numpy as np
import pytest
from scipy import stats

from warmstart.bo.surrogates.dngo.bayesian_linear import Regression, evidence_and_gradient
from warmstart.bo.surrogates.dngo.linear_head import LinearHead

ALPHA, BETA = 0.7, 11.0
ONE = np.ones(1)


def data(n, d=6, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, d))
    return features, features @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)


def posterior(regression, alpha=ALPHA, beta=BETA, combination=ONE):
    return regression.posterior(combination[None], np.array([alpha]), np.array([beta]))


def evidence(regression, alpha=ALPHA, beta=BETA, combination=ONE):
    return regression.evidence(regression.explained(combination), alpha, beta)


@pytest.fixture(params=[3, 40], ids="{} rows".format)
def rows(request):
    return data(request.param)


def test_evidence_is_that_of_the_process(rows):
    """Primal = dual: a normal density with covariance φφᵀ/α + I/β."""
    features, y = rows
    cov = features @ features.T / ALPHA + np.eye(len(y)) / BETA
    expected = stats.multivariate_normal(np.zeros(len(y)), cov).logpdf(y)
    assert evidence(Regression.of(features, y[:, None])) == pytest.approx(expected, rel=1e-12)
    assert evidence_and_gradient(features, y, math.log(ALPHA), math.log(BETA))[0] == pytest.approx(expected, rel=1e-11)


def test_posterior_is_that_of_the_process(rows):
    features, y = rows
    new = np.random.default_rng(5).standard_normal((4, 6))
    gram = np.linalg.inv(features @ features.T / ALPHA + np.eye(len(y)) / BETA)
    cross = new @ features.T / ALPHA
    mean, var = posterior(Regression.of(features, y[:, None])).predict(new)
    np.testing.assert_allclose(mean[0, 0], cross @ gram @ y, rtol=1e-10)
    np.testing.assert_allclose(var[0], ((new @ new.T) / ALPHA - cross @ gram @ cross.T).diagonal(), rtol=1e-9)


def test_without_rows_the_prior_is_left():
    new = np.random.default_rng(5).standard_normal((4, 6))
    regression = Regression.of(np.zeros((0, 6)), np.zeros((0, 1)))
    mean, var = posterior(regression).predict(new)
    assert not mean.any()
    np.testing.assert_allclose(var[0], np.sum(new**2, axis=1) / ALPHA, rtol=1e-13)
    assert evidence(regression) == pytest.approx(0.0, abs=1e-12)


def test_gradient_of_the_evidence():
    features, y = data(9, 4)
    _, slope, slopes = evidence_and_gradient(features, y, 0.3, 1.2)
    step = np.random.default_rng(2).standard_normal(features.shape)

    def value(e, a=0.0, b=0.0):
        return evidence_and_gradient(features + e * step, y, 0.3 + a, 1.2 + b)[0]

    assert np.vdot(slope, step) == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)
    assert slopes[0] == pytest.approx((value(0, 1e-6) - value(0, -1e-6)) / 2e-6, rel=1e-6)
    assert slopes[1] == pytest.approx((value(0, 0, 1e-6) - value(0, 0, -1e-6)) / 2e-6, rel=1e-6)


def test_rows_that_come_later_count_like_others(rows):
    features, y = rows
    later, new = data(5, seed=3), np.random.default_rng(5).standard_normal((4, 6))
    targets = np.stack([later[1], -later[1]])
    first = Regression.of(features, y[:, None])
    given = first.posterior_with(
        ONE[None], np.array([ALPHA]), np.array([BETA]), features=later[0], targets=targets[None]
    )
    mean, var = given.predict(new)
    for f, told in enumerate(targets):
        whole = Regression.of(np.vstack([features, later[0]]), np.concatenate([y, told])[:, None])
        expected = posterior(whole).predict(new)
        np.testing.assert_allclose(mean[0, f], expected[0][0, 0], rtol=1e-9)
        np.testing.assert_allclose(var, expected[1], rtol=1e-9)


def head(features, X, z, **options):
    return LinearHead(features, X, z, **{"mean": "none", "samples": 400, "burn_in": 50} | options)


def test_precisions_are_sampled_from_their_posterior():
    features, y = data(15, 4)
    regression = Regression.of(features, y[:, None])
    a, b = np.meshgrid(np.linspace(-6, 6, 121), np.linspace(-3, 8, 111), indexing="ij")
    logs = np.vectorize(lambda a, b: evidence(regression, math.exp(a), math.exp(b)))(a, b)
    logs += -0.5 * (a / 2) ** 2 - 0.5 * ((b - 6) / 3) ** 2
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    found = head(features, np.zeros((15, 1)), y, rng=np.random.default_rng(0))
    for sampled, grid in ((np.log(found.alpha), a), (np.log(found.beta), b)):
        mean = (weights * grid).sum()
        sd = math.sqrt((weights * (grid - mean) ** 2).sum())
        assert sampled.mean() == pytest.approx(mean, abs=0.25 * sd)
        assert sampled.std() == pytest.approx(sd, rel=0.2)
