"""What a suggestion maximises: its gradients, and how its factors combine."""

import numpy as np
import pytest
from dense_gp import DenseGp

from warmstart.bo.acquisition.improvement_validity_cost import SUBSAMPLE, Improvement, InverseCost, Product, Validity
from warmstart.bo.acquisition.pending import Fantasies, Observed, fantasise
from warmstart.bo.acquisition.scores import expected_improvement
from warmstart.bo.surrogates import GaussianProcess

X = np.array([[0.1, 0.2], [0.8, 0.3], [0.5, 0.9]])
Y = np.array([0.4, -0.6, 0.3])
POINTS = np.random.default_rng(1).random((9, 2))
PENDING = np.array([[0.7, 0.6], [0.2, 0.7]])
BEST = np.array([[-0.6], [-0.5]])


class Ramp:
    """P(valid) rises with the first column, in two samples."""

    def probability(self, X):
        return np.stack([X[:, 0], X[:, 0] ** 2])

    def probability_gradient(self, X):
        gradient = np.zeros((2, *X.shape))
        gradient[:, :, 0] = [np.ones(len(X)), 2 * X[:, 0]]
        return self.probability(X), gradient


def model():
    return DenseGp(lengthscales=(0.3, 0.5), noise=0.01).fit(X, Y)


def improvement(acquisition="ei", pending=PENDING[:0], **keywords):
    rng = np.random.default_rng(0)
    return Improvement(fantasise(model(), pending, BEST, rng=rng), acquisition=acquisition, **keywords)


def observed(pending):
    told = fantasise(model(), pending, BEST, rng=np.random.default_rng(0))
    noise = np.linspace(0.01, 0.3, len(BEST))[:, None, None]
    return Improvement(Fantasies(Observed(told.model, noise), told.best), acquisition="ei")


def criteria():
    for pending in (PENDING[:0], PENDING):
        yield pytest.param(observed(pending), id=f"ei of observations {len(pending)} pending")
    for acquisition in ("ei", "pi", "lcb"):
        for pending in (PENDING[:0], PENDING):
            yield pytest.param(improvement(acquisition, pending), id=f"{acquisition} {len(pending)} pending")
    yield pytest.param(improvement("lcb", weighed=True), id="weighed lcb")
    yield pytest.param(Validity(Ramp()), id="validity")
    yield pytest.param(InverseCost(model()), id="cost")
    yield pytest.param(Product([improvement(), Validity(Ramp()), InverseCost(model())]), id="product")


@pytest.mark.parametrize("function", list(criteria()))
def test_gradients_are_those_of_finite_differences(function):
    value, gradient = function.value_gradient(POINTS)
    np.testing.assert_allclose(value, function.value(POINTS), rtol=1e-10)
    h = 1e-6
    for column in range(2):
        step = h * np.eye(2)[column]
        expected = (function.value(POINTS + step) - function.value(POINTS - step)) / (2 * h)
        np.testing.assert_allclose(gradient[:, column], expected, rtol=1e-4, atol=1e-6)


def test_a_product_is_the_product():
    """EI times P(valid) times E[1/c], each averaged over its own samples; never more than EI alone."""
    ei = np.exp(improvement().value(POINTS))
    prediction = model().predict(POINTS)
    inverse = np.exp(-prediction.mean + 0.5 * prediction.var).mean(axis=0)
    valid = (POINTS[:, 0] + POINTS[:, 0] ** 2) / 2
    product = Product([improvement(), Validity(Ramp()), InverseCost(model())])
    np.testing.assert_allclose(np.exp(product.value(POINTS)), ei * valid * inverse)
    np.testing.assert_allclose(ei, expected_improvement(prediction.mean, prediction.var, BEST).mean(axis=0))
    assert np.all(Product([improvement(), Validity(Ramp())]).value(POINTS) <= np.log(ei))


def test_a_rough_criterion_is_that_of_some_samples():
    """A process can be asked by some of its samples, told fantasies or not; what cannot is its own rough function."""
    gp = GaussianProcess(burn_in=5).fit(X, Y, rng=np.random.default_rng(0))
    best = gp.predict(X).mean.min(axis=1, keepdims=True)
    for pending in (PENDING[:0], PENDING):
        exact = Improvement(fantasise(gp, pending, best, rng=np.random.default_rng(0)), acquisition="ei")
        rough = Product([exact, Validity(Ramp())]).rough
        told = exact._fantasies
        mean, var = told.model.predict(POINTS)
        some = expected_improvement(mean, var, told.best)[SUBSAMPLE].mean(axis=(0, 1))
        np.testing.assert_allclose(rough.value(POINTS), np.log(some) + Validity(Ramp()).value(POINTS), rtol=1e-8)
        assert rough.value(POINTS).shape == rough.rough.value(POINTS).shape
        noise = np.arange(1.0, len(best) + 1.0)[:, None, None]
        noisy = Improvement(Fantasies(Observed(told.model, noise), told.best), acquisition="ei").rough
        some = expected_improvement(mean, var + noise, told.best)[SUBSAMPLE].mean(axis=(0, 1))
        np.testing.assert_allclose(noisy.value(POINTS), np.log(some), rtol=1e-8)
    assert len(exact.rough.rough._best) == 1
    plain = Product([improvement(), Validity(Ramp()), InverseCost(model())])
    assert plain.rough is plain
