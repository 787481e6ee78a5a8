"""Gaussian process: evidence and predictions against independent computations, and both ways to infer hyperparameters."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from warmstart.bo.surrogates import GaussianProcess
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, lengthscale_prior, level_priors, most_probable, sweep
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence, factor
from warmstart.history_store.errors import DataError, UsageError

SKLEARN = {"matern52": lambda ls: Matern(ls, nu=2.5), "matern32": lambda ls: Matern(ls, nu=1.5), "se": RBF}
THETA = np.array([math.log(0.3), math.log(1.7), math.log(2.5), math.log(0.04), 0.3])


def data(n=12, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(6 * X[:, 0]) + X[:, -1] + 0.1 * rng.standard_normal(n)


def covariance(name="matern52", d=2):
    return Stationary(KERNELS[name], Metric(d))


def hyper_prior(d=2, priors="modern"):
    return HyperPrior((*Metric(d).prior(lengthscale_prior(d, priors)), *level_priors(priors, noiseless=False)))


def reference(name, X, z, theta=THETA):
    """The same process by scikit-learn, with fixed hyperparameters."""
    kernel = ConstantKernel(math.exp(theta[-3])) * SKLEARN[name](np.exp(theta[:-3]))
    return GaussianProcessRegressor(kernel, alpha=math.exp(theta[-2]), optimizer=None).fit(X, z - theta[-1])


@pytest.fixture(params=sorted(KERNELS))
def name(request):
    return request.param


def test_evidence_is_a_normal_density(name):
    X, z = data()
    cov = reference(name, X, z).kernel_(X) + math.exp(THETA[-2]) * np.eye(len(z))
    expected = stats.multivariate_normal(np.full(len(z), THETA[-1]), cov).logpdf(z)
    evidence = Evidence(X, z, covariance(name))
    assert evidence.value(THETA) == pytest.approx(expected, rel=1e-11)
    assert evidence.value_and_gradient(THETA)[0] == pytest.approx(expected, rel=1e-9)


def test_gradient_of_the_evidence(name):
    evidence = Evidence(*data(), covariance(name))
    theta = THETA + 0.5 * np.random.default_rng(0).standard_normal(5)
    error = check_grad(evidence.value, lambda t: evidence.value_and_gradient(t)[1], theta)
    assert error < 1e-4 * np.linalg.norm(evidence.value_and_gradient(theta)[1])


def test_prior_is_a_product_of_log_normals_with_their_jacobians():
    def log_density(theta):
        lengths = stats.lognorm(s=0.75, scale=math.sqrt(2 / 6))
        root_amplitude, noise = stats.lognorm(s=1), stats.lognorm(s=2, scale=math.exp(-7))
        ls, nu = np.exp(theta[:2]), math.exp(theta[3])
        return (
            (lengths.logpdf(ls) + np.log(ls)).sum()
            + root_amplitude.logpdf(math.exp(theta[2] / 2)) + theta[2] / 2
            + noise.logpdf(nu) + math.log(nu)
            + stats.norm.logpdf(theta[4])
        )  # fmt: skip

    prior, other = hyper_prior(), THETA + np.array([0.3, -1.0, 0.7, 2.0, -1.0])
    difference = prior.value_and_gradient(THETA)[0] - prior.value_and_gradient(other)[0]
    assert difference == pytest.approx(log_density(THETA) - log_density(other))


def test_sampling_leaves_prior_times_likelihood_as_it_is():
    """Joint distribution [Geweke2004getting]: θ from the prior, targets given θ, then sweeps: θ is still from the prior."""
    rng, prior = np.random.default_rng(0), hyper_prior(1)
    X = np.array([[0.0], [0.1], [0.5], [1.0]])
    before, after = [], []
    for _ in range(800):
        theta = prior.draw(rng)
        blank = Evidence(X, np.zeros(4), covariance(d=1))
        lower = np.tril(factor(blank.correlation(theta[:1]), math.exp(theta[1]), math.exp(theta[2])))
        evidence = Evidence(X, theta[-1] + lower @ rng.standard_normal(4), covariance(d=1))
        before.append(theta)
        for _ in range(2):
            theta = sweep(evidence, prior, theta, rng=rng)
        after.append(theta)
    before, after = np.array(before), np.array(after)
    for k in range(4):
        assert stats.ks_2samp(before[:, k], after[:, k]).pvalue > 0.001
    location, scale = 0.5 * math.log(1 / 6), 0.75
    assert (
        stats.kstest(after[:, 0], stats.truncnorm((math.log(0.025) - location) / scale, 8, location, scale).cdf).pvalue
        > 0.001
    )
    assert np.corrcoef(before[:, 0], after[:, 0])[0, 1] < 0.9, "the chain moves"


def test_the_most_probable_hyperparameters_have_no_slope():
    evidence, prior = Evidence(*data(20), covariance()), hyper_prior()
    theta = most_probable(evidence, prior, [prior.start()])
    slope = evidence.value_and_gradient(theta)[1] + prior.value_and_gradient(theta)[1]
    assert np.abs(slope).max() < 1e-2


def test_predictions_scale_with_the_targets():
    X, y = data()
    points = np.random.default_rng(1).random((5, 2))
    one, other = (
        GaussianProcess().fit(X, target, rng=np.random.default_rng(3)).predict(points)
        for target in (y, 16.0 * y - 64.0)
    )
    np.testing.assert_allclose(other.mean, 16.0 * one.mean - 64.0, rtol=1e-6)
    np.testing.assert_allclose(other.var, 256.0 * one.var, rtol=1e-6)
    np.testing.assert_allclose(other.noise, 256.0 * one.noise, rtol=1e-6)


def test_far_from_all_points_the_prior_is_left():
    X, y = data()
    model = GaussianProcess(inference="evidence").fit(X, y, rng=np.random.default_rng(0))
    prediction = model.predict(np.full((1, 2), 1e6))
    theta = model.thetas[0]
    assert prediction.mean[0, 0] == pytest.approx(y.mean() + y.std() * theta[-1])
    assert prediction.var[0, 0] == pytest.approx(y.var() * math.exp(theta[-3]))
    np.testing.assert_allclose(model.amplitudes, prediction.var[:, 0])


def test_the_chain_goes_on_where_it_stood():
    X, y = data(15)
    rng = np.random.default_rng(0)
    model = GaussianProcess(samples=6, sweeps=2, burn_in=10).fit(X, y, rng=rng)
    first = model.thetas
    second = model.fit(X, y, rng=rng).thetas
    assert first.shape == second.shape == (6, 5)
    np.testing.assert_array_equal(second[:4], first[2:])
    assert not np.array_equal(second[4:], first[:2])


def test_more_sweeps_than_samples_are_thinned():
    X, y = data(8)
    every = GaussianProcess(samples=12, sweeps=12, burn_in=0).fit(X, y, rng=np.random.default_rng(0)).thetas
    third = GaussianProcess(samples=4, sweeps=12, burn_in=0).fit(X, y, rng=np.random.default_rng(0)).thetas
    np.testing.assert_array_equal(third, every[2::3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cubic"}, "expected a kernel among matern52, .* got 'cubic' and 'modern'"),
        ({"inference": "guess"}, "expected inference slice or evidence, got 'guess'"),
        ({"burn_in": -1}, "no negative burn_in"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(UsageError, match=message):
        GaussianProcess(**options)


def test_predicting_needs_a_fit_in_the_same_dimensions():
    model = GaussianProcess(samples=2, burn_in=0)
    with pytest.raises(UsageError, match=r"dimensions of the fit \(none\), got 2"):
        model.predict(np.zeros((1, 2)))
    with pytest.raises(UsageError, match="Fit first"):
        _ = model.amplitudes
    model.fit(*data(), rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match=r"dimensions of the fit \(2\), got 3"):
        model.predict(np.zeros((1, 3)))
    with pytest.raises(DataError, match="expected finite points"):
        model.predict(np.full((1, 2), np.nan))
