"""The sampler against what theory says of it on quadratic energies and conjugate regression."""

import numpy as np
import pytest

from warmstart.bo.surrogates.bohamiann.model import effective_sample_size
from warmstart.bo.surrogates.bohamiann.sghmc import SAMPLERS, Sghmc


def walk(chains, theta, gradient, steps, rng, *, keep=1):
    kept = []
    for t in range(steps):
        chains.step(theta, gradient(theta), rng=rng)
        if t % keep == 0:
            kept.append(theta.copy())
    return np.array(kept)


@pytest.mark.parametrize(("precision", "friction"), [(100.0, 0.05), (1e4, 0.2)])
def test_the_stationary_variance_of_a_quadratic_is_the_predicted_one(precision, friction):
    """v, θ are an AR(2): var θ = (2-a)/a · q/(hΛ(4-2a-hΛ)), q = 2ha without gradient noise."""
    rng, theta = np.random.default_rng(0), np.zeros((10, 300))
    chains = Sghmc(theta, adaptive=False, friction=friction, step=0.05 / precision**0.25, full_batch=True)
    chains.settle()
    h = 0.05**2 / precision**0.5
    theta += rng.standard_normal(theta.shape) / precision**0.5
    kept = walk(chains, theta, lambda x: precision * x, 500, rng)[250:]
    a, stiff = friction, h * precision
    expected = (2 - a) / a * 2 * h * a / (stiff * (4 - 2 * a - stiff))
    assert kept.var() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_the_posterior_of_a_linear_regression_is_kept(sampler):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3)) * [1.0, 3.0, 0.5]
    z = X @ [1.0, -0.5, 2.0] + 0.5 * rng.standard_normal(30)
    precision = X.T @ X / 0.25 + np.eye(3)
    mean, sd = np.linalg.solve(precision, X.T @ z / 0.25), np.sqrt(np.linalg.inv(precision).diagonal())
    theta = mean + sd * rng.standard_normal((300, 3))  # shows that it stays
    chains = Sghmc(theta, full_batch=True, **{"step": 0.015, **SAMPLERS[sampler]})

    def gradient(w):
        return w @ precision - X.T @ z / 0.25

    walk(chains, theta, gradient, 2000, rng)
    chains.settle()
    walk(chains, theta, gradient, 3000, rng)  # forgets what adapting did
    kept = walk(chains, theta, gradient, 3000, rng, keep=20).reshape(-1, 3)
    assert np.all(np.abs(kept.mean(axis=0) - mean) < 0.1 * sd)
    np.testing.assert_allclose(kept.std(axis=0), sd, rtol=0.15)


def test_averages_move_from_the_old_values_of_each_other():
    """By hand: V = ḡ = τ = 1, g = 3: r = 1/2, τ = 1 + 1 - 1, ḡ = 1 + (3 - 1)/2, V = 1 + (9 - 1)/2; then r = 1/2 again."""
    theta = np.zeros((1, 1))
    chains = Sghmc(theta)
    chains.step(theta, np.full((1, 1), 3.0), rng=np.random.default_rng(0))
    assert (chains._tau.item(), chains._mean.item(), chains.square.item()) == (1.0, 2.0, 5.0)
    chains.step(theta, np.full((1, 1), 1.0), rng=np.random.default_rng(0))
    assert chains._tau.item() == pytest.approx(1 + 1 - 4 / 5)
    assert (chains._mean.item(), chains.square.item()) == (1.5, 3.0)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_effective_samples_of_an_autoregression(rho):
    rng, draws = np.random.default_rng(0), np.zeros((8, 500, 10))
    draws[:, 0] = rng.standard_normal((8, 10))
    for t in range(1, 500):
        draws[:, t] = rho * draws[:, t - 1] + (1 - rho**2) ** 0.5 * rng.standard_normal((8, 10))
    assert effective_sample_size(draws).mean() == pytest.approx(4000 * (1 - rho) / (1 + rho), rel=0.1)


def test_chains_that_disagree_count_for_little_and_constants_in_full():
    draws = np.random.default_rng(0).standard_normal((4, 100, 1)) + 50.0 * np.arange(4)[:, None, None]
    assert effective_sample_size(draws)[0] < 12
    np.testing.assert_array_equal(effective_sample_size(np.ones((3, 4, 2))), 12.0)
