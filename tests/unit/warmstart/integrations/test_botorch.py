"""Our surrogates under BoTorch: the same numbers as ours, exact gradients, and its own functions as independent computations."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from warmstart.history_store.errors import UsageError

if find_spec("botorch") is None:
    pytest.skip("needs the extra botorch", allow_module_level=True)
with warnings.catch_warnings():  # its own, at import
    warnings.simplefilter("ignore")
    from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
    from botorch.acquisition.analytic import ExpectedImprovement
    from botorch.sampling import SobolQMCNormalSampler

from warmstart.bo.acquisition.pending import fantasise
from warmstart.bo.acquisition.scores import expected_improvement, integrate, integrate_log, log_expected_improvement
from warmstart.bo.surrogates import DNGO, Bohamiann, GaussianProcess
from warmstart.integrations.botorch import SurrogateModel

quiet = pytest.mark.filterwarnings("ignore:.*has known numerical issues")
"""BoTorch would have its logarithms used instead."""
MAKERS = {
    "gp": lambda: GaussianProcess(burn_in=10, samples=4, sweeps=4),
    "dngo": lambda: DNGO(samples=4),
    "bohamiann": lambda: Bohamiann(burn_in=400, thin=20, samples=20, chains=4),
}


def data():
    X = np.random.default_rng(0).random((12, 2))
    return X, np.square(X - 0.4).sum(axis=1) + 0.01 * np.sin(40 * X[:, 0])


@pytest.fixture(scope="module", params=sorted(MAKERS))
def fitted(request):
    return MAKERS[request.param]().fit(*data(), rng=np.random.default_rng(1))


@pytest.fixture(scope="module")
def process():
    return MAKERS["gp"]().fit(*data(), rng=np.random.default_rng(1))


def points(b, q, seed=3):
    return torch.rand(b, q, 2, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def test_the_posterior_is_that_of_minus_the_error(fitted):
    X = points(5, 3)
    posterior = SurrogateModel(fitted).posterior(X)
    for b in range(5):
        prediction = fitted.predict(X[b].numpy())
        np.testing.assert_allclose(posterior.mean[b, :, :, 0], -prediction.mean, rtol=1e-9)
        np.testing.assert_allclose(posterior.variance[b, :, :, 0], prediction.var, rtol=1e-5)
    assert SurrogateModel(fitted).posterior(X[0]).mean.shape == posterior.mean.shape[1:]
    assert posterior.rsample(torch.Size([7])).shape == (7, *posterior.mean.shape)


def test_gradients_are_exact(fitted):
    X = points(2, 3).requires_grad_()

    def moments(X):
        posterior = SurrogateModel(fitted).posterior(X)
        return posterior.mean, posterior.distribution.covariance_matrix

    assert torch.autograd.gradcheck(moments, (X,), eps=1e-6, atol=1e-6, rtol=1e-4)


@quiet
def test_analytic_improvement_is_ours(process):
    X, best = points(6, 1), data()[1].min()
    prediction = process.predict(X[:, 0].numpy())
    model = SurrogateModel(process)
    plain = ExpectedImprovement(model, best_f=-best)(X)
    logs = LogExpectedImprovement(model, best_f=-best)(X)
    moments = prediction.mean, prediction.var, np.array(best)
    np.testing.assert_allclose(plain.detach(), integrate(expected_improvement(*moments)), rtol=1e-5)
    np.testing.assert_allclose(logs.detach(), integrate_log(log_expected_improvement(*moments)), rtol=1e-5)


@quiet
def test_improvement_beside_a_pending_point_is_that_of_our_fantasies(process):
    """EI(x_j) + E[EI(x | x_j)] = qEI(x_j, x), here without noise; ours by fantasies, BoTorch's by joint draws."""
    noiseless = GaussianProcess(burn_in=10, samples=3, sweeps=3, noiseless=True).fit(
        *data(), rng=np.random.default_rng(1)
    )
    X, best = torch.tensor([[[0.3, 0.5], [0.45, 0.35]]], dtype=torch.double), data()[1].min()
    model = SurrogateModel(noiseless)
    sampler = SobolQMCNormalSampler(torch.Size([8192]), seed=0)
    both = qExpectedImprovement(model, best_f=-best, sampler=sampler)(X).item()
    with_pending = qExpectedImprovement(model, best_f=-best, sampler=sampler, X_pending=X[0, :1])(X[:, 1:]).item()
    assert with_pending == pytest.approx(both, rel=5e-3)
    prediction = noiseless.predict(X[0].numpy())
    alone = integrate(expected_improvement(prediction.mean, prediction.var, np.array(best)))[0]
    start = np.full((len(prediction.mean), 1), best)
    given = fantasise(noiseless, X[0, :1].numpy(), start, rng=np.random.default_rng(0), n=4000)
    beside = expected_improvement(*given.model.predict(X[0, 1:].numpy()), given.best).mean()
    assert alone + beside == pytest.approx(both, rel=0.03)


def test_inactive_columns_have_no_gradient():
    X, y = data()
    X[::3, 1] = np.nan
    surrogate = GaussianProcess(burn_in=5, samples=2, sweeps=2, conditional=(1,)).fit(
        X, y, rng=np.random.default_rng(1)
    )
    at = torch.tensor(X[None, :3]).requires_grad_()
    posterior = SurrogateModel(surrogate).posterior(at)
    (posterior.mean.sum() + posterior.distribution.covariance_matrix.sum()).backward()
    assert torch.isfinite(at.grad).all()
    assert at.grad[0, 0, 1] == 0.0


def test_noise_is_added_where_it_is_wanted(process):
    X, model = points(4, 2), SurrogateModel(process)
    plain, noisy = (model.posterior(X, observation_noise=on) for on in (False, True))
    noise = process.predict(X[0, :1].numpy()).noise
    np.testing.assert_allclose((noisy.variance - plain.variance)[..., 0], np.broadcast_to(noise[:, None], (4, 4, 2)))
    given = model.posterior(X, observation_noise=torch.full((1,), 0.5, dtype=torch.double))
    np.testing.assert_allclose(given.variance - plain.variance, 0.5)


def test_other_outputs_are_refused(process):
    model = SurrogateModel(process)
    model.posterior(points(1, 1), output_indices=[0])
    assert model.batch_shape == (4,)
    with pytest.raises(UsageError, match=r"expected the one output \[0\], got \[1\]"):
        model.posterior(points(1, 1), output_indices=[1])
