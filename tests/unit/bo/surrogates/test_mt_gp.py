"""Gaussian process over several tasks: limits, gradients, and what related tasks are worth."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.spatial.distance import pdist, squareform
from scipy.stats import multivariate_normal

from warmstart.bo.surrogates import GaussianProcess, Task
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.coregionalised import Coregionalised
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.bo.surrogates.gp.multitask import MultiTaskGaussianProcess
from warmstart.bo.surrogates.gp.posterior import Posterior
from warmstart.bo.surrogates.gp.priors import normal
from warmstart.history_store.errors import UsageError

QUICK = {"samples": 6, "burn_in": 40, "sweeps": 6}


def bump(X):
    return np.sin(5 * X[:, 0]) + (X[:, 1] - 0.4) ** 2


def other(X):
    return np.cos(9 * X[:, 1]) * X[:, 0]


def task(function, n=25, seed=1, scale=1.0, meta=None):
    X = np.random.default_rng(seed).random((n, 2))
    return Task(X, scale * function(X), meta)


def mixed(tasks=3, meta=0, conditional=()):
    rng = np.random.default_rng(0)
    covariance = Coregionalised(
        Stationary(KERNELS["matern52"], Metric(2, conditional=conditional)), rng.random((tasks, meta))
    )
    X = np.column_stack([rng.random((9, 2)), rng.integers(tasks, size=9)])
    return covariance, X, rng


def task_noise(model):
    """Return the share of noise in the targets of every related task under every sample: `S x (T - 1)`."""
    covariance = model._processes.posteriors[0].covariance
    return np.array([covariance.shares_of_noise(theta[:-3]) for theta in model.thetas])


def task_correlations(model):
    """Return how the target correlates with every related task, but for its noise, under every sample: `S x (T - 1)`."""
    covariance, noise = model._processes.posteriors[0].covariance, task_noise(model)
    task = np.arange(noise.shape[1] + 1)
    X = np.column_stack([np.zeros((len(task), 2)), task])
    cross = np.array([covariance.cross(X[-1:], X[:-1], theta[:-3])[0] for theta in model.thetas])
    return cross / np.sqrt(1.0 - noise)


def test_without_related_tasks_it_is_the_single_task_process():
    X = np.random.default_rng(0).random((12, 2))
    one, many = (
        kind(**QUICK).fit(X, bump(X), rng=np.random.default_rng(1)).predict(X + 0.01)
        for kind in (GaussianProcess, MultiTaskGaussianProcess)
    )
    np.testing.assert_allclose(one.mean, many.mean, rtol=1e-6)  # gradients are summed in another order
    np.testing.assert_allclose(one.var, many.var, rtol=1e-6)


@pytest.mark.parametrize("meta", [0, 3])
def test_tasks_correlate_as_a_correlation_matrix(meta):
    covariance, X, rng = mixed(4, meta)
    square = squareform(pdist(np.random.default_rng(0).random((4, meta)), "sqeuclidean"))
    square = square / np.median(square[square > 0]) if meta else square
    prior = covariance.prior([normal(0.0, 0.5)] * 2)
    assert len(prior) == covariance.size
    for _ in range(5):
        shape = np.array([density.sample(rng) for density in prior])
        places = shape[4:12].reshape(4, 2)
        places = places / np.sqrt(1.0 + (places**2).sum(axis=1, keepdims=True))
        B = places @ places.T * (np.exp(-0.5 * square / np.exp(shape[12]) ** 2) if meta else 1.0)
        np.fill_diagonal(B, 1.0)
        assert np.linalg.eigvalsh(B).min() > -1e-12
        cross = covariance.cross(X, X, shape)
        shared, own = (
            Stationary(KERNELS["matern52"], Metric(2)).cross(X[:, :2], X[:, :2], part)
            for part in (shape[:2], shape[2:4])
        )
        at = X[:, 2].astype(int)
        place = shape[4:12].reshape(4, 2)[3]
        private = 1.0 / (1.0 + place @ place)
        noise = covariance.noise(X, shape, 0.0)
        signal = np.sqrt(np.outer(1.0 - noise, 1.0 - noise))
        expected = signal * shared * B[np.ix_(at, at)] + private * np.outer(at == 3, at == 3) * (own - shared)
        np.testing.assert_allclose(cross, expected)
        np.testing.assert_allclose(np.triu(covariance.matrix(X, shape)), np.triu(expected))
        assert np.linalg.eigvalsh(expected).min() > -1e-9


def test_the_evidence_is_that_of_tasks_with_a_noise_each():
    covariance, X, rng = mixed(3)
    shape, z = 0.5 * rng.standard_normal(covariance.size), rng.standard_normal(9)
    shape[-2:] = np.log(0.2 / 0.8), np.log(0.7 / 0.3)
    noise = np.array([0.2, 0.7, 0.05])[X[:, 2].astype(int)]
    expected = multivariate_normal(np.full(9, 0.3), 2.0 * covariance.cross(X, X, shape) + np.diag(noise)).logpdf(z)
    theta = np.array([*shape, np.log(2.0), np.log(0.05), 0.3])
    assert Evidence(X, z, covariance).value(theta) == pytest.approx(expected)
    predicted = Posterior.of(covariance, theta, X, z).predict(X[:2])[0][0]
    solved = np.linalg.solve(2.0 * covariance.cross(X, X, shape) + np.diag(noise), z - 0.3)
    np.testing.assert_allclose(predicted, 0.3 + 2.0 * covariance.cross(X[:2], X, shape) @ solved)


def test_gradient_of_the_evidence():
    covariance, X, rng = mixed(3, 3)
    evidence = Evidence(X, rng.standard_normal(9), covariance)
    theta = np.concatenate([0.5 * rng.standard_normal(covariance.size), [0.1, -2.0, 0.2]])
    error = check_grad(evidence.value, lambda t: evidence.value_and_gradient(t)[1], theta)
    assert error < 1e-4 * np.linalg.norm(evidence.value_and_gradient(theta)[1])


def test_the_task_whose_meta_feature_is_near_is_believed():
    rng = np.random.default_rng(0)
    near, far = np.array([0.0, 0.1]), np.array([5.0, 3.0])
    related = [
        *(task(bump, 15, seed, meta=near + 0.05 * rng.standard_normal(2)) for seed in (1, 2)),
        *(task(other, 15, seed, meta=far + 0.05 * rng.standard_normal(2)) for seed in (3, 4)),
    ]
    model = MultiTaskGaussianProcess(related=related, meta=near, **QUICK)
    model.fit(np.zeros((0, 2)), np.zeros(0), rng=rng)
    like, unlike = np.split(task_correlations(model).mean(axis=0), 2)
    assert like.min() > unlike.max() + 0.2


def test_gradients_and_pending_points_are_about_the_target():
    X = np.random.default_rng(0).random((5, 2))
    model = MultiTaskGaussianProcess(related=[task(bump)], **QUICK).fit(X, bump(X), rng=np.random.default_rng(0))
    points = np.random.default_rng(5).random((4, 2))
    _, dmean, dvar = model.predict_gradient(points)
    given = model.condition(points[:2], model.sample_joint(points[:2], 3, rng=np.random.default_rng(1)))
    _, var, dgiven, _ = given.predict_gradient(points)
    assert dmean.shape == dvar.shape == (6, 4, 2)
    assert dgiven.shape == (6, 3, 4, 2)
    assert np.all(var[:, 0, :2] < model.predict(points[:2]).var)
    step = np.array([1e-6, 0.0])
    numeric = (model.predict(points + step).mean - model.predict(points - step).mean) / 2e-6
    np.testing.assert_allclose(dmean[:, :, 0], numeric, rtol=1e-4, atol=1e-6)


def test_bad_related_tasks_are_refused():
    with pytest.raises(UsageError, match="expected a meta-feature of one length"):
        MultiTaskGaussianProcess(related=[task(bump)], meta=np.zeros(2))
    model = MultiTaskGaussianProcess(related=[task(bump)])
    with pytest.raises(UsageError, match="expected the columns of the related tasks, got 3"):
        model.fit(np.zeros((1, 3)), np.zeros(1), rng=np.random.default_rng(0))
