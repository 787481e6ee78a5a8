"""Fantasies over pending points: the identities of integrating out what is not known yet."""

import numpy as np
from dense_gp import DenseGp

from warmstart.bo.acquisition.improvement_validity_cost import Improvement
from warmstart.bo.acquisition.pending import fantasise
from warmstart.bo.acquisition.scores import expected_improvement

X = np.array([[0.1, 0.2], [0.8, 0.3], [0.5, 0.9]])
Y = np.array([0.4, -0.6, 0.3])
POINTS = np.random.default_rng(1).random((12, 2))
PENDING = np.array([[0.7, 0.6], [0.2, 0.7], [0.9, 0.05]])


def rng(seed=0):
    return np.random.default_rng(seed)


def model(**keywords):
    return DenseGp(**{"lengthscales": (0.3, 0.5), **keywords}).fit(X, Y)


def best(gp):
    return gp.predict(X).mean.min(axis=1, keepdims=True)


def mcei(gp, pending, points, n=None, seed=0, **keywords):
    """Expected improvement over what is pending: `m`, with its values under each of `S x F`."""
    told = fantasise(gp, pending, best(gp), rng=rng(seed), n=n, **keywords)
    mean, var = told.model.predict(points)
    return expected_improvement(mean, var, told.best)


def test_nothing_pending_changes_nothing():
    gp = model()
    prediction = gp.predict(POINTS)
    plain = expected_improvement(prediction.mean, prediction.var, best(gp)).mean(axis=0)
    np.testing.assert_array_equal(mcei(gp, PENDING[:0], POINTS)[:, 0].mean(axis=0), plain)
    told = Improvement(fantasise(gp, PENDING[:0], best(gp), rng=rng()), acquisition="ei")
    np.testing.assert_allclose(told.value(POINTS), np.log(plain))


def test_outcomes_change_neither_mean_nor_variance_on_average():
    """The laws of total expectation and variance; that of variance holds when outcomes carry noise."""
    gp = model(noise=0.3)
    mean, var = fantasise(gp, PENDING, best(gp), rng=rng(), n=20000).model.predict(POINTS)
    sd = mean.std(axis=1) / np.sqrt(mean.shape[1])
    assert np.all(np.abs(mean.mean(axis=1) - gp.predict(POINTS).mean) < 5 * sd + 1e-9)
    np.testing.assert_allclose(mean.var(axis=1) + var[:, 0], gp.predict(POINTS).var, rtol=0.05)


def test_one_more_point_is_worth_what_the_pair_is_worth_more():
    """EI(x_j) + MCEI(x | x_j) = qEI({x_j, x}), by Monte Carlo of the pair."""
    gp = model(lengthscales=(0.4,))
    j, x = PENDING[:1], np.array([[0.75, 0.45]])
    prediction = gp.predict(j)
    alone = expected_improvement(prediction.mean, prediction.var, best(gp))[0, 0]
    draws = gp.sample_joint(np.concatenate([j, x]), 400000, rng=rng(1))[0]
    gains = np.maximum(best(gp)[0, 0] - draws.min(axis=1), 0.0)
    added = mcei(gp, j, x, n=20000)[0, :, 0]
    error = np.hypot(gains.std() / np.sqrt(len(gains)), added.std() / np.sqrt(len(added)))
    assert abs(alone + added.mean() - gains.mean()) < 4 * error


def test_a_point_that_will_be_invalid_is_no_incumbent():
    gp = model()
    never = fantasise(gp, PENDING, best(gp), rng=rng(), probability=np.zeros(3))
    np.testing.assert_array_equal(never.best, np.broadcast_to(best(gp)[:, None], never.best.shape))
    always = fantasise(gp, PENDING, best(gp), rng=rng(), probability=np.ones(3))
    np.testing.assert_array_equal(always.best, fantasise(gp, PENDING, best(gp), rng=rng()).best)
    assert np.all(always.best <= best(gp)[:, None])
    assert np.any(always.best < best(gp)[:, None])
