"""BOHAMIANN: Bayesian networks sampled from their posterior [Springenberg2016bayesian], for one task or several.

The cost grows linearly with the number of evaluations, and there is no kernel to choose. With related tasks, further
inputs describe the task: its meta-feature and a code, either one-hot or five numbers that are sampled with the weights.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import Prediction, Task, checked_data, checked_fantasies, points_of_fit
from warmstart.bo.surrogates.bohamiann.bayesian_network import BayesianNetwork, Data, Draws, Schedule
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


def effective_sample_size(draws: Floats) -> Floats:
    """Estimate the effective number of samples of several quantities [Gelman2013bayesian] Eq. (11.8).

    Autocorrelations are means over all chains, relative to a variance that includes the variance between chains, summed
    up to the first pair of lags whose sum is negative [Geyer1992practical]. Chains that disagree lower the result.

    Args:
        draws: `K x n x q`, q quantities along K chains of n ≥ 2 draws.

    Returns: `q`, in (0, K n]; K n for a quantity that never changes.
    """
    k, n, _ = draws.shape
    centred = draws - draws.mean(axis=1, keepdims=True)
    covariance = np.array([(centred[:, : n - lag] * centred[:, lag:]).sum(axis=1).mean(axis=0) / n for lag in range(n)])
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (draws.mean(axis=1).var(axis=0, ddof=1) if k > 1 else 0.0)
    still = total <= 0.0
    correlation = 1.0 - (within - covariance) / np.where(still, 1.0, total)
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    time = np.maximum(2.0 * np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0) - 1.0, 1.0)
    result: Floats = np.where(still, float(k * n), k * n / time)
    return result


TaskCode = Literal["embedding", "one-hot"]

SINGLE_BATCH, RELATED_BATCH = 128, 256
"""Points of a batch without and with related tasks. Small batches count as noise; large ones hold points of the
target."""
N_LATENT = 5
"""L, length of a task's code."""
DOUBLE_UP_TO = 500
"""Largest number of points in double precision, as for gradients; more are only ranked, in single precision, twice as
fast."""


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
            related: tasks to learn from; with them, a fit needs no point of the task at hand.
            meta: `p`, the meta-feature of the task at hand; every related task needs one then.
            task_code: further inputs that identify a task.
            hidden: widths of the tanh layers.
            heteroscedastic: let the noise depend on the point.
            hyperprior: draw the precision of every layer's weights from its posterior under Gamma(1, 1); otherwise it
                is fixed.
            sampler: a name in `warmstart.bo.surrogates.bohamiann.sghmc.SAMPLERS`.
            samples: networks, of all chains together.
            chains: that run side by side.
            burn_in: discarded steps of every chain.
            thin: steps of a chain between two samples.
            batch: points in a step; None = 128, or 256 with related tasks.
            step: ε of the sampler.
            fantasies: conditioning on pending points: `gaussian`, of the moments of the networks; `weights`, by weights
                of the networks.

        Raises:
            UsageError: when a name or a number does not fit.
            DataError: when a related point or target is not finite.
        """
        if sampler not in SAMPLERS or task_code not in get_args(TaskCode) or fantasies not in get_args(Fantasies):
            msg = f"Bohamiann: expected a sampler among {', '.join(SAMPLERS)}, a task_code among {', '.join(get_args(TaskCode))} and fantasies among {', '.join(get_args(Fantasies))}, got {sampler!r}, {task_code!r} and {fantasies!r}. Leave them out for the defaults."
            raise UsageError(msg)
        batch = (RELATED_BATCH if related else SINGLE_BATCH) if batch is None else batch
        if min(samples, chains, thin, batch, *hidden) < 1 or burn_in < 0 or not step > 0.0 or samples < 2:
            msg = f"Bohamiann: expected two samples or more, positive widths, chains, thin, batch and step and no negative burn_in, got {samples}, {tuple(hidden)}, {chains}, {thin}, {batch}, {step} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._conditional, self._related = tuple(conditional), checked_related(related, conditional=conditional)
        self._hidden, self._outputs = tuple(hidden), 1 + heteroscedastic
        self._fantasies = fantasies
        self._schedule = Schedule(sampler, chains, samples, burn_in, thin, batch, step, hyperprior)
        self._one_hot = task_code == "one-hot"
        target_meta = None if meta is None else np.asarray(meta, dtype=np.float64)
        self._code = reduced_meta(self._related, target_meta) if self._related else np.zeros((1, 0))
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
        rows = np.hstack([inputs(pool.X), self._code[pool.task]]).astype(np.float32)
        task = pool.task if several else None
        draws = Draws.of(self._model, Data(rows, pool.z.astype(np.float32), task), self._schedule, rng=rng)
        self._inputs, self._mean, self._sd = inputs, pool.mean, pool.sd
        self._theta, self._chains = draws.theta, draws.chains
        values, noise = self._model.outputs(self._theta, rows, task)
        target_points = slice(
            -len(targets) if len(targets) else None, None
        )  # without points, the noise of the related tasks
        self._values, self._noise = values, float(noise[:, target_points].mean(dtype=np.float64))
        return self

    @property
    def ess(self) -> float:
        """Return the effective number of independent networks, a median over predictions at the points of the fit."""
        n, k = len(self._theta) // self._chains, self._chains
        if n < 2:
            return float(len(self._theta))
        draws = self._values[: n * k].reshape(n, k, -1).swapaxes(0, 1).astype(np.float64)
        return float(np.median(effective_sample_size(draws)))

    def networks(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict `m x d` points by every network, for mixtures: means and noise variances, `n_networks x m`."""
        points = self._checked(X)
        mean, noise = self._functions(points)
        return self._mean + self._sd * mean, self._sd**2 * noise

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict `m x d` points by the moments of all networks; the noise is the mean at the points of the fit.

        Raises:
            UsageError: before a fit, or when the points have other dimensions.
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
        """Draw n networks, and return their means at J points: `1 x n x J`."""
        values = self._functions(self._checked(X))[0]
        return self._mean + self._sd * values[None, rng.integers(len(values), size=n)]

    def condition(self, X: ArrayLike, Y: ArrayLike) -> Reweighted:
        """Return the surrogate conditioned on targets `1 x F x J` at `J x d` points.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a fantasy is not finite.
        """
        points, targets = checked_fantasies(X, Y, samples=1, conditional=self._conditional)
        values, noise = self._functions(self._checked(points))
        z = (targets[0] - self._mean) / self._sd
        reweigh = Reweighting.by_moments if self._fantasies == "gaussian" else Reweighting.by_weights
        return Reweighted(
            lambda at: self._functions(at)[0],
            self._gradients,
            reweigh(values, noise, z),
            self._mean,
            self._sd,
            self._checked,
        )

    def state(self) -> dict[str, Any]:
        """Return an empty state: no fit continues another."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Do nothing: a state is empty."""

    def _checked(self, X: ArrayLike) -> Floats:
        """Check points against the columns of the fit."""
        return points_of_fit(X, self._inputs, "Bohamiann", conditional=self._conditional)[0]

    def _network_inputs(self, X: Floats, inputs: Inputs, dtype: Any) -> tuple[Any, Any, int]:
        """Return weights, network inputs and the index of the task at hand."""
        task = len(self._code) - 1
        code = np.broadcast_to(self._code[task], (len(X), self._code.shape[1]))
        return self._theta.astype(dtype), np.hstack([inputs(X), code]).astype(dtype), task

    def _functions(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute mean and noise of every network at checked points, for standardised targets: `S x m` each."""
        assert self._inputs is not None  # noqa: S101  checked before
        dtype = np.float64 if len(X) <= DOUBLE_UP_TO else np.float32
        mean, noise = self._model.outputs(*self._network_inputs(X, self._inputs, dtype))
        return mean.astype(np.float64), noise.astype(np.float64)

    def _gradients(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the means of every network and their gradients: `S x m` and `S x m x d`."""
        assert self._inputs is not None  # noqa: S101  checked before
        values, slopes = self._model.means_and_slopes(*self._network_inputs(X, self._inputs, np.float64))
        return values, self._inputs.pull_back(X, slopes[:, :, : self._inputs.width])

    def _prediction(self, mean: Floats, var: Floats) -> Prediction:
        """Return moments in the units of the targets."""
        noise = np.array([self._sd**2 * self._noise])
        return Prediction(self._mean + self._sd * mean[None], self._sd**2 * var[None], noise)
