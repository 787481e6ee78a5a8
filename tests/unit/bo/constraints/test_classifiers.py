"""Classifiers of valid points: links against quadrature, Laplace against optimisation, both classifiers on known regions."""

import json
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize

from warmstart.bo.constraints.classifier import CLASSIFIERS
from warmstart.bo.constraints.link import LINKS, logistic
from warmstart.bo.constraints.network_classifier import laplace
from warmstart.bo.surrogates.slice_sampling import elliptical_step
from warmstart.history_store.errors import DataError, UsageError

QUICK = {"network": {"networks": 2, "steps": 200}, "gp": {"samples": 4, "burn_in": 10}}
POINTS = np.random.default_rng(9).random((30, 2))


@pytest.fixture(params=sorted(CLASSIFIERS))
def name(request):
    return request.param


def half_plane(n=30, seed=0):
    X = np.random.default_rng(seed).random((n, 2))
    return X, X[:, 0] + 0.5 * X[:, 1] < 0.8


def fitted(name, labels="noisy"):
    return CLASSIFIERS[name](labels=labels, **QUICK[name]).fit(*half_plane(), rng=np.random.default_rng(1))


@pytest.mark.parametrize(("name", "mean", "within"), [("logistic", logistic, 0.02), ("probit", stats.norm.cdf, 1e-9)])
def test_links_are_integrals(name, mean, within):
    for mu in (-3.0, -0.4, 0.0, 1.5):
        for sd in (0.1, 1.0, 4.0):
            expected, _ = integrate.quad(
                lambda a, mu=mu, sd=sd: mean(a) * stats.norm.pdf(a, mu, sd), -40, 40, limit=400
            )
            found = LINKS[name].probability(np.array([mu]), np.array([sd**2]))[0]
            assert found == pytest.approx(expected, abs=within)


def test_most_probable_weights_have_no_slope_and_a_positive_curvature():
    rng = np.random.default_rng(0)
    features, signs = rng.standard_normal((20, 5)), np.sign(rng.standard_normal(20))
    found = laplace(features, signs, 0.6, gain=3.0, start=np.zeros(5))

    def loss(w):
        return np.logaddexp(0, -3 * signs * (features @ w)).sum() + 0.3 * w @ w

    best = minimize(loss, np.zeros(5), tol=1e-12)
    np.testing.assert_allclose(found.weights, best.x, atol=1e-4)
    p = logistic(3 * features @ found.weights)
    hessian = 9 * (features.T * (p * (1 - p))) @ features + 0.6 * np.eye(5)
    np.testing.assert_allclose(found.factor @ found.factor.T, hessian, rtol=1e-6, atol=1e-8)
    assert np.linalg.eigvalsh(hessian).min() > 0
    new = rng.standard_normal((4, 5))
    mean, var = found.predict(new)
    np.testing.assert_allclose(mean, new @ found.weights)
    np.testing.assert_allclose(var, (new @ np.linalg.inv(hessian) * new).sum(1), rtol=1e-6)


def test_elliptical_slices_give_the_posterior():
    """N(0, 1) times N(y; x, ½): mean ⅔ y, variance ⅓."""
    rng, x, draws = np.random.default_rng(0), np.zeros(2), []
    y = np.array([1.5, -3.0])
    for _ in range(6000):
        x = elliptical_step(lambda v: -float(((v - y) ** 2).sum()), x, rng=rng)
        draws.append(x)
    np.testing.assert_allclose(np.mean(draws, axis=0), 2 / 3 * y, atol=0.06)
    np.testing.assert_allclose(np.var(draws, axis=0), 1 / 3, rtol=0.12)


def test_elliptical_slices_start_where_it_is_possible():
    with pytest.raises(FloatingPointError, match="expected a finite log likelihood at the current vector"):
        elliptical_step(lambda _: math.nan, np.zeros(2), rng=np.random.default_rng(0))


@pytest.mark.parametrize(("name", "labels"), [("gp", "noisy"), ("network", "noiseless")])
def test_a_half_plane_is_learned(name, labels):
    """From 30 labels, at least 0.9 of new points are told right."""
    X, valid = half_plane(400, seed=5)
    model = CLASSIFIERS[name](labels=labels).fit(*half_plane(), rng=np.random.default_rng(1))
    found = model.probability(X).mean(axis=0) > 0.5
    assert np.mean(found == valid) >= 0.9


@pytest.mark.parametrize(("name", "labels"), [("gp", "noiseless"), ("network", "noisy")])
def test_probabilities_and_their_gradients(name, labels):
    model = fitted(name, labels)
    p, slopes = model.probability_gradient(POINTS)
    np.testing.assert_allclose(p, model.probability(POINTS), rtol=1e-9, atol=1e-12)
    assert np.all((p >= 0) & (p <= 1))
    assert slopes.shape == (*p.shape, 2)
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        numeric = (model.probability(POINTS + step) - model.probability(POINTS - step)) / 2e-5
        np.testing.assert_allclose(slopes[..., k], numeric, rtol=1e-3, atol=1e-3 * np.abs(numeric).max())


def test_one_label_alone_gives_a_constant(name):
    X, _ = half_plane(6)
    for label, expected in ((True, 1.0), (False, 1 / 8)):
        model = CLASSIFIERS[name](**QUICK[name]).fit(X, np.full(6, label), rng=np.random.default_rng(0))
        p, slopes = model.probability_gradient(POINTS)
        np.testing.assert_array_equal(p, expected)
        np.testing.assert_array_equal(model.probability(POINTS), p)
        assert not slopes.any()


def test_a_restored_state_goes_on(name):
    rng = np.random.default_rng(0)
    model, other, copy = CLASSIFIERS[name](**QUICK[name]), CLASSIFIERS[name](**QUICK[name]), np.random.default_rng()
    model.fit(*half_plane(20), rng=rng)
    other.restore(json.loads(json.dumps(model.state(), allow_nan=False)))
    copy.bit_generator.state = rng.bit_generator.state
    first, second = (m.fit(*half_plane(21), rng=g).probability(POINTS) for m, g in ((model, rng), (other, copy)))
    np.testing.assert_array_equal(first, second)


def test_what_does_not_fit_is_refused(name):
    X, y = half_plane(5)
    with pytest.raises(DataError, match=r"classifier: expected labels 0 and 1, got y\[1\]=0.5"):
        CLASSIFIERS[name]().fit(X, [1, 0.5, 1, 0, 1], rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="expected points with the dimensions of the fit"):
        CLASSIFIERS[name]().probability(X)
    with pytest.raises(UsageError, match="expected one target a point"):
        CLASSIFIERS[name]().fit(X, y[:3], rng=np.random.default_rng(0))
