"""Energies against finite differences, predictions and fantasies against the networks they are made of."""

import numpy as np
import pytest
from scipy.stats import norm

from warmstart.bo.acquisition.improvement_validity_cost import Improvement
from warmstart.bo.acquisition.pending import Fantasies, Observed, fantasise
from warmstart.bo.acquisition.scores import expected_improvement
from warmstart.bo.surrogates.base import Task
from warmstart.bo.surrogates.bohamiann.bayesian_network import BayesianNetwork, Data, Draws, Schedule
from warmstart.bo.surrogates.bohamiann.function_samples import Reweighting
from warmstart.bo.surrogates.bohamiann.model import Bohamiann
from warmstart.bo.surrogates.network import Network
from warmstart.bo.surrogates.tasks import Pool, reduced_meta
from warmstart.history_store.errors import DataError, UsageError

QUICK = {"burn_in": 300, "thin": 10, "samples": 24, "chains": 4}
POINTS = np.random.default_rng(8).random((15, 2))


def rows(n, seed=0, noise=0.05):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)


@pytest.fixture(params=[(0, 1), (3, 2)], ids=["plain", "heteroscedastic tasks"])
def case(request):
    latent, outputs = request.param
    rng = np.random.default_rng(0)
    model = BayesianNetwork(Network((3 + latent, 7, 5, outputs)), 4 if latent else 1, latent)
    theta = model.initial(2, rng=rng).astype(np.float64)
    theta += 0.3 * rng.standard_normal(theta.shape)
    task = rng.integers(4, size=9) if latent else None
    return model, theta, Data(rng.random((9, 3)), rng.standard_normal(9), task), model.precisions(theta, rng=rng)


def test_gradients_are_differences(case):
    model, theta, data, precisions = case
    gradient = model.gradient(theta, data, precisions=precisions, out=np.empty_like(theta))
    for j in range(model.n_parameters):
        shift = np.zeros(model.n_parameters)
        shift[j] = 1e-6
        up, down = (model.energy(theta + sign * shift, data, precisions=precisions) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, j], (up - down) / 2e-6, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())


def test_batches_estimate_the_gradient_without_bias(case):
    """The mean over all batches of one point is the gradient; priors enter once."""
    model, theta, data, precisions = case
    whole = model.gradient(theta, data, precisions=precisions, out=np.empty_like(theta))
    batches = [
        model.gradient(theta, data, precisions=precisions, out=np.empty_like(theta), rows=np.full((2, 1), i))
        for i in range(9)
    ]
    np.testing.assert_allclose(np.mean(batches, axis=0), whole, rtol=1e-9, atol=1e-9)


def test_the_pull_that_raises_the_noise_is_at_most_ten_standard_deviations_of_a_batch_s():
    """n points of residuals as the noise has them pull s by sqrt(n/2); batches of a fourth of them by twice that."""
    model = BayesianNetwork(Network((1, 4, 1)), n_tasks=3)
    data = Data(np.zeros((40, 1)), np.zeros(40), np.repeat([0, 1], [32, 8]))
    np.testing.assert_allclose(model.least_slope_of_noise(data, 40), [-40.0, -20.0, -10.0 * 0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(model.least_slope_of_noise(data, 10), 2.0 * model.least_slope_of_noise(data, 500))


def test_the_hyperprior_draws_the_precision_of_a_layer():
    """λ | w ~ Gamma(1 + n/2, 1 + ½Σw²): with weights of sd ½, about 4; biases and ψ keep 1, s has none."""
    model, rng = BayesianNetwork(Network((40, 50, 1))), np.random.default_rng(0)
    theta = 0.5 * rng.standard_normal((3, model.n_parameters))
    precisions = model.precisions(theta, rng=rng)
    (first, bias), _ = model.network.layers(precisions)
    np.testing.assert_allclose(first, 4.0, rtol=0.15)
    assert len(np.unique(first[0])) == 1
    assert np.all(bias == 1.0)
    assert np.all(precisions[:, -1] == 0.0)


def test_improvement_of_observations_is_that_of_the_moments_of_all_networks():
    """[Springenberg2016bayesian] Eq. (5): μ = mean f, σ² = mean (f - μ)² + mean exp(s); what is pending conditions N(μ, cov f)."""
    X, y = rows(20)
    model = Bohamiann(**QUICK).fit(X, y, rng=np.random.default_rng(0))
    told, best = POINTS[-2:], np.array([[-0.2]])
    fantasies = fantasise(model, told, best, rng=np.random.default_rng(1))
    noise = model.predict(X).noise
    function = Improvement(Fantasies(Observed(fantasies.model, noise[:, None, None]), fantasies.best), acquisition="ei")
    means, networks_noise = model.networks(np.concatenate([POINTS, told]))
    n, level = len(POINTS), networks_noise.mean()
    covariance = np.cov(means.T, bias=True)
    gain = covariance[:n, n:] @ np.linalg.inv(covariance[n:, n:] + level * np.eye(2))
    var = covariance.diagonal()[:n] - (gain * covariance[:n, n:]).sum(axis=1) + level
    inner = covariance[n:, n:] @ np.linalg.inv(covariance[n:, n:] + level * np.eye(2))
    shift = fantasies.model.predict(told)[0][0] - means[:, n:].mean(axis=0)
    mean = means[:, :n].mean(axis=0) + shift @ np.linalg.inv(inner).T @ gain.T
    expected = np.log(expected_improvement(mean, var, fantasies.best[0]).mean(axis=0))
    np.testing.assert_allclose(function.value(POINTS), expected, rtol=1e-4)


# Fantasies.


def functions(s=400):
    """Functions whose joint distribution at 5 points is normal."""
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.5 * np.eye(5) + 0.5)
    return rng.standard_normal((s, 5)) @ root.T


def test_conditioning_on_moments_is_conditioning_of_a_gaussian():
    values, told = functions(), np.array([[0.3, -1.0], [0.0, 2.0]])
    covariance, noise = np.cov(values.T, bias=True), 0.1
    cross = covariance[:, :2] @ np.linalg.inv(covariance[:2, :2] + noise * np.eye(2))
    mean, var = Reweighting.by_moments(values[:, :2], np.full((400, 2), noise), told).predict(values)
    centre = values.mean(axis=0)
    np.testing.assert_allclose(mean, centre + (told - centre[:2]) @ cross.T, atol=1e-10)
    np.testing.assert_allclose(var[0], (covariance - cross @ covariance[:2]).diagonal(), atol=1e-10)


def test_weights_are_likelihoods():
    values, noise, told = functions(), np.full((400, 2), 0.8), np.array([[0.3, -0.5]])
    weights = Reweighting.by_weights(values[:, :2], noise, told).weights[0]
    fit = norm.pdf(told, values[:, :2], 0.8**0.5).prod(axis=1)
    np.testing.assert_allclose(weights, fit / fit.sum(), rtol=1e-9)


@pytest.mark.parametrize("fantasies", ["weights", "gaussian"])
def test_gradients_given_fantasies_are_differences(fantasies):
    X, y = rows(20)
    model = Bohamiann(fantasies=fantasies, **QUICK).fit(X, y, rng=np.random.default_rng(0))
    told = model.sample_joint(POINTS[:3], 4, rng=np.random.default_rng(1))
    given = model.condition(POINTS[:3], told)
    mean, var, dmean, dvar = given.predict_gradient(POINTS[3:])
    for k, shift in enumerate(1e-5 * np.eye(2)):
        up, down = given.predict(POINTS[3:] + shift), given.predict(POINTS[3:] - shift)
        for slope, high, low in zip((dmean, dvar), up, down, strict=True):
            np.testing.assert_allclose(slope[..., k], (high - low) / 2e-5, rtol=1e-4, atol=1e-5)
    assert mean.shape == (1, 4, 12)
    assert var.shape == (1, 4 if fantasies == "weights" else 1, 12)


# Several tasks.


def related(n=40, *, sign=1.0, metas=(None, None)):
    return [Task(*(X, sign * y), meta) for (X, y), meta in zip((rows(n, 5), rows(n, 6)), metas, strict=True)]


def test_without_related_tasks_it_is_the_single_task_model():
    X, y = rows(15)
    one, two = (Bohamiann(**o, **QUICK).fit(X, y, rng=np.random.default_rng(0)) for o in ({}, {"related": []}))
    np.testing.assert_array_equal(one.predict(POINTS).mean, two.predict(POINTS).mean)


def test_related_tasks_help_a_target_with_few_points():
    X, y = rows(6)
    truth, lack = np.sin(5 * POINTS[:, 0]) + POINTS[:, 1], []
    for tasks in ([], related(20)):
        model = Bohamiann(related=tasks, task_code="one-hot", burn_in=800, thin=30, samples=24, chains=4)
        mean = model.fit(X, y, rng=np.random.default_rng(0)).predict(POINTS).mean[0]
        lack.append(1 - np.corrcoef(mean, truth)[0, 1])
    assert lack[1] < 0.7 * lack[0]


def test_a_pool_standardises_every_task_by_itself():
    X, y = rows(5)
    tasks = [Task(X, 3 * y + 1), Task(X, 5 * y - 1)]
    pool = Pool.of(tasks, X[:2], y[:2])
    assert (pool.n_tasks, pool.task.tolist()) == (3, [0] * 5 + [1] * 5 + [2] * 2)
    np.testing.assert_allclose(pool.z[10:], (y[:2] - pool.mean) / pool.sd)
    none = Pool.of(tasks, X[:0], y[:0])
    assert none.mean == pytest.approx(4 * y.mean())
    assert none.sd == pytest.approx(15**0.5 * y.std())
    many = np.random.default_rng(0).normal(50.0, 0.1, 1000)
    pool = Pool.of(tasks, np.zeros((1000, X.shape[1])), many)
    assert pool.mean == pytest.approx(many.mean(), rel=1e-3)
    assert pool.sd == pytest.approx(many.std(), rel=0.05)
    assert Pool.of(tasks, X[:1], np.array([1e100])).mean == 1e100


def test_meta_features_are_reduced():
    rng = np.random.default_rng(0)
    metas = rng.random((12, 30))
    tasks = [Task(*rows(3), meta) for meta in metas[1:]]
    code = reduced_meta(tasks, metas[0])
    assert code.shape == (12, 8)
    assert code[:, 0].std() == pytest.approx(1.0)
    np.testing.assert_allclose(code.mean(axis=0), 0.0, atol=1e-12)
    assert reduced_meta([Task(*rows(3), np.ones(4))], np.ones(4)).shape == (2, 0)


def test_meta_features_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="expected a meta-feature of one length for the target and every related task"):
        Bohamiann(related=related(metas=(np.ones(2), None)), meta=np.ones(2))
    with pytest.raises(DataError, match="expected finite meta-features, got NaN"):
        Bohamiann(related=related(metas=(np.ones(2), np.array([1.0, np.nan]))), meta=np.ones(2))


def test_tasks_of_other_columns_are_refused():
    with pytest.raises(UsageError, match=r"expected the columns of the related tasks, got 3 and \[2, 2\]"):
        Bohamiann(related=related()).fit(np.zeros((2, 3)), np.zeros(2), rng=np.random.default_rng(0))


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="Bohamiann: expected a sampler among adaptive, sghmc, psgld, sgld"):
        Bohamiann(sampler="nuts")
    with pytest.raises(UsageError, match="expected two samples or more, positive widths"):
        Bohamiann(samples=1)


def test_a_smooth_function_is_learned_and_noise_found():
    X, y = rows(60, noise=0.2)
    model = Bohamiann(burn_in=1500, thin=50, samples=24, chains=4).fit(X, y, rng=np.random.default_rng(0))
    prediction, truth = model.predict(POINTS), np.sin(5 * POINTS[:, 0]) + POINTS[:, 1]
    assert np.sqrt(np.square(prediction.mean[0] - truth).mean()) < 0.25 * y.std()
    assert 0.1 < np.sqrt(prediction.noise[0]) < 0.4
    assert 1 <= model.ess <= 24


def test_chains_that_overflow_stay_finite():
    model, rng = BayesianNetwork(Network((1, 20, 1))), np.random.default_rng(0)
    data = Data(rng.random((300, 1), dtype=np.float32), rng.random(300, dtype=np.float32))
    draws = Draws.of(model, data, Schedule("sgld", 2, 4, 100, 10, 32, 3.0), rng=rng)
    assert np.isfinite(draws.theta).all()
