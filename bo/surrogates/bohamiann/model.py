"""BOHAMIANN: Bayesian networks sampled from their posterior [Springenberg2016bayesian], for one task or several.

The cost grows linearly with the number of evaluations, and no kernel is chosen. With related tasks, each task has five
numbers of its own (or a one-hot code) as further inputs, beside its meta-feature. They are sampled with the weights.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import Prediction, Task, checked_data, checked_fantasies, points_of_fit
from warmstart.bo.surrogates.bohamiann.bayesian_network import BayesianNetwork, Data, Draws, Schedule
from warmstart.bo.surrogates.bohamiann.ess import effective_sample_size
from warmstart.bo.surrogates.bohamiann.function_samples import (
    Fantasies,
    Reweighted,
    Reweighting,
    moment_slopes,
    moments,
)
from warmstart.bo.surrogates.bohamiann.sghmc import SAMPLERS
from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.network import Network
from warmstart.bo.surrogates.tasks import Pool, checked_related, reduced_meta
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]
TaskCode = Literal["embedding", "one-hot"]

ALONE, SEVERAL = 128, 256
"""Points of a batch, all of them where there are no more: what batches leave out counts as noise. With related tasks every batch has some of the target's."""
N_LATENT = 5
"""L, numbers that tell a task from others."""
DOUBLE_UP_TO = 500
"""Points predicted in double precision, for searches by gradient; more of them are ranked in single precision, in half the time."""


class Bohamiann:
    """Bayesian network whose weights are sampled by scale-adapted SGHMC; predicts mean and variance over the samples.

    Use it for some hundred evaluations or more, or with related tasks that differ from the target in more than scale.
    Not for quick suggestions with few points: sampling has a fixed cost, and `GaussianProcess` is cheaper there.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = Bohamiann(burn_in=200, thin=10, samples=20).fit(x, (x[:, 0] - 0.3) ** 2, rng=np.random.default_rng(0))
    >>> model.predict(x).mean.shape  # one sample: moments over all networks
    (1, 20)

    Predictions are moments over all networks, so there is one sample (S = 1), as in the paper's Eq. (5): one network
    alone has no variance that an acquisition function could use. A fit depends on its generator alone, not on the last
    fit.
    """

    def __init__(
        self,
        *,
        conditional: Sequence[int] = (),
        related: Sequence[Task] = (),
        meta: ArrayLike | None = None,
        task_code: TaskCode = "embedding",
        hidden: Sequence[int] = (50, 50),
        heteroscedastic: bool = False,
        hyperprior: bool = False,
        sampler: str = "adaptive",
        samples: int = 50,
        chains: int = 8,
        burn_in: int = 2500,
        thin: int = 100,
        batch: int | None = None,
        step: float = 1e-2,
        fantasies: Fantasies = "gaussian",
    ) -> None:
        """Build an unfitted surrogate.

        Args:
            conditional: columns of the points that may be NaN, inactive.
            related: tasks to learn from; with some, a fit may have no point of the task at hand.
            meta: `p`, the meta-feature of the task at hand; every related task must have one then.
            task_code: how networks tell tasks apart.
            hidden: widths of the tanh layers.
            heteroscedastic: let the noise depend on the point.
            hyperprior: draw the precision of every layer's weights from its posterior under Gamma(1, 1); otherwise it
                is fixed.
            sampler: a name in `warmstart.bo.surrogates.bohamiann.sghmc.SAMPLERS`.
            samples: networks that are kept, of all chains together.
            chains: that run side by side.
            burn_in: steps of every chain that are thrown away.
            thin: steps of a chain between two samples.
            batch: points a step; left out, 128, or 256 with related tasks.
            step: ε of the sampler.
            fantasies: how pending points are conditioned on: `gaussian`, on the moments of the networks; `weights`, by
                weighing the networks.

        Raises:
            UsageError: when a name or a number does not fit.
            DataError: when a related point or target is not finite.
        """
        if sampler not in SAMPLERS or task_code not in get_args(TaskCode) or fantasies not in get_args(Fantasies):
            msg = f"Bohamiann: expected a sampler among {', '.join(SAMPLERS)}, a task_code among {', '.join(get_args(TaskCode))} and fantasies among {', '.join(get_args(Fantasies))}, got {sampler!r}, {task_code!r} and {fantasies!r}. Leave them out for the defaults."
            raise UsageError(msg)
        batch = (SEVERAL if related else ALONE) if batch is None else batch
        if min(samples, chains, thin, batch, *hidden) < 1 or burn_in < 0 or not step > 0.0 or samples < 2:
            msg = f"Bohamiann: expected two samples or more, positive widths, chains, thin, batch and step and no negative burn_in, got {samples}, {tuple(hidden)}, {chains}, {thin}, {batch}, {step} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._conditional, self._related = tuple(conditional), checked_related(related, conditional=conditional)
        self._hidden, self._outputs = tuple(hidden), 1 + heteroscedastic
        self._fantasies = fantasies
        self._schedule = Schedule(sampler, chains, samples, burn_in, thin, batch, step, hyperprior)
        self._one_hot = task_code == "one-hot"
        own = None if meta is None else np.asarray(meta, dtype=np.float64)
        self._code = reduced_meta(self._related, own) if self._related else np.zeros((1, 0))
        if self._one_hot and self._related:
            self._code = np.hstack([np.eye(len(self._code)), self._code])
        self._inputs: Inputs | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Sample networks given `n x d` points and `n` targets; n ≥ 1, or ≥ 0 with related tasks.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a target is not finite.
        """
        points, targets = checked_data(X, y, conditional=self._conditional, least=0 if self._related else 1)
        pool = Pool.of(self._related, points, targets)
        inputs, several = Inputs(points.shape[1], self._conditional), bool(self._related)
        latent = N_LATENT if several and not self._one_hot else 0
        sizes = (inputs.width + self._code.shape[1] + latent, *self._hidden, self._outputs)
        self._model = BayesianNetwork(Network(sizes), pool.n_tasks, latent)
        seen = np.hstack([inputs(pool.X), self._code[pool.task]]).astype(np.float32)
        task = pool.task if several else None
        draws = Draws.of(self._model, Data(seen, pool.z.astype(np.float32), task), self._schedule, rng=rng)
        self._inputs, self._mean, self._sd = inputs, pool.mean, pool.sd
        self._theta, self._chains = draws.theta, draws.chains
        values, noise = self._model.outputs(self._theta, seen, task)
        own = slice(-len(targets) if len(targets) else None, None)  # without a point, as noisy as the others are
        self._values, self._noise = values, float(noise[:, own].mean(dtype=np.float64))
        return self

    @property
    def ess(self) -> float:
        """Effective number of independent networks among the samples: the median over predictions at the points of the fit."""
        n, k = len(self._theta) // self._chains, self._chains
        if n < 2:
            return float(len(self._theta))
        draws = self._values[: n * k].reshape(n, k, -1).swapaxes(0, 1).astype(np.float64)
        return float(np.median(effective_sample_size(draws)))

    def networks(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict `m x d` points by every network, for mixtures of them: means `n_networks x m` and variances of the noise."""
        points = self._checked(X)
        mean, noise = self._functions(points)
        return self._mean + self._sd * mean, self._sd**2 * noise

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict `m x d` points by the moments of all networks; the noise is the mean one at the points of the fit.

        Raises:
            UsageError: when the surrogate was not fitted, or the points have other dimensions.
            DataError: when a point is not finite.
        """
        mean, var = moments(self._functions(self._checked(X))[0])
        return self._prediction(mean, var)

    def predict_gradient(self, X: ArrayLike) -> tuple[Prediction, Floats, Floats]:
        """Predict `m x d` points, with the gradients `1 x m x d` of mean and variance."""
        values, slopes = self._gradients(self._checked(X))
        dmean, dvar = moment_slopes(values, slopes)
        return self._prediction(*moments(values)), self._sd * dmean[None], self._sd**2 * dvar[None]

    def joint_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict J points jointly by the moments of all networks, with gradients `1 x J x d` and `1 x J x J x d`."""
        values, slopes = self._gradients(self._checked(X))
        centred = (values - values.mean(axis=0)) / len(values)
        covariance = centred.T @ (values - values.mean(axis=0))
        dcovariance = np.einsum("sn,smd->mnd", centred, slopes, optimize=True)
        mean, dmean = self._mean + self._sd * values.mean(axis=0), self._sd * slopes.mean(axis=0)
        return mean[None], self._sd**2 * covariance[None], dmean[None], self._sd**2 * dcovariance[None]

    def sample_joint(self, X: ArrayLike, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw n of the networks, each at all J points: `1 x n x J`."""
        values = self._functions(self._checked(X))[0]
        return self._mean + self._sd * values[None, rng.integers(len(values), size=n)]

    def condition(self, X: ArrayLike, Y: ArrayLike) -> Reweighted:
        """Predict as if targets `1 x F x J` had been observed at `J x d` points.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a fantasy is not finite.
        """
        points, targets = checked_fantasies(X, Y, samples=1, conditional=self._conditional)
        values, noise = self._functions(self._checked(points))
        told = (targets[0] - self._mean) / self._sd
        by = Reweighting.by_moments if self._fantasies == "gaussian" else Reweighting.by_weights
        return Reweighted(
            lambda at: self._functions(at)[0],
            self._gradients,
            by(values, noise, told),
            self._mean,
            self._sd,
            self._checked,
        )

    def state(self) -> dict[str, Any]:
        """Return what the next fit starts from: nothing but its generator."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take a state, which is empty."""

    def _checked(self, X: ArrayLike) -> Floats:
        """Read points of the fit's dimensions."""
        return points_of_fit(X, self._inputs, "Bohamiann", conditional=self._conditional)[0]

    def _seen(self, X: Floats, inputs: Inputs, dtype: Any) -> tuple[Any, Any, int]:
        """Weights, inputs and the task at hand."""
        task = len(self._code) - 1
        code = np.broadcast_to(self._code[task], (len(X), self._code.shape[1]))
        return self._theta.astype(dtype), np.hstack([inputs(X), code]).astype(dtype), task

    def _functions(self, X: Floats) -> tuple[Floats, Floats]:
        """Mean and noise of every network at checked points, of standardised targets: `S x m` each."""
        assert self._inputs is not None  # noqa: S101  checked before
        dtype = np.float64 if len(X) <= DOUBLE_UP_TO else np.float32
        mean, noise = self._model.outputs(*self._seen(X, self._inputs, dtype))
        return mean.astype(np.float64), noise.astype(np.float64)

    def _gradients(self, X: Floats) -> tuple[Floats, Floats]:
        """Means of every network and their gradients: `S x m` and `S x m x d`."""
        assert self._inputs is not None  # noqa: S101  checked before
        values, slopes = self._model.means_and_slopes(*self._seen(X, self._inputs, np.float64))
        return values, self._inputs.pull_back(X, slopes[:, :, : self._inputs.width])

    def _prediction(self, mean: Floats, var: Floats) -> Prediction:
        """Moments in the units of the targets."""
        noise = np.array([self._sd**2 * self._noise])
        return Prediction(self._mean + self._sd * mean[None], self._sd**2 * var[None], noise)
