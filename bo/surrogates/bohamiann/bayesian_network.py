"""Bayesian network: priors on weights, the energy of the posterior, and samples from it [Springenberg2016bayesian]."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.bohamiann.sghmc import SAMPLERS, Sghmc
from warmstart.bo.surrogates.network import Array, Network

LOG_NOISE = -4.0
LOG_NOISE_SD = 2.0
"""Prior of the log noise variance of standardised targets: broad, since a tight one ruins noisy data or exact ones."""
LATENT_SD = 0.3
"""Standard deviation of ψ: small against the inputs, so that tasks are alike until their targets differ."""
TASK_NOISE_SHARE = 0.25
"""Share of the prior variance of the log noise that tasks do not have in common."""
LEAST_NOISE = 1e-6
"""Variance added to the learned noise; it bounds the gradients."""
MOST_LOG_NOISE = 50.0
"""Largest log noise variance of a prediction: beyond it, chains have diverged."""
GAMMA = (1.0, 1.0)
"""Shape and rate of the Gamma hyperprior of a layer's precision."""
MOST_PULL = 10.0
"""Largest pull that raises s, in standard deviations of the pull of a batch. With little noise, weights can swing for
some steps; an unlimited pull then throws s so far up that it does not return before sampling ends."""
AHEAD = 100
"""Batches drawn at a time: one call of the generator costs as much as their numbers."""
ROWS = 1000
"""Points predicted at a time: their activations stay in the cache."""


@dataclass(frozen=True, slots=True)
class Data:
    """Training data, in the dtype of the weights.

    Attributes:
        X: `n x in` inputs.
        z: `n` standardised targets.
        task: `n` tasks, or None for a single one.
    """

    X: Array
    z: Array
    task: NDArray[np.intp] | None = None


@dataclass(frozen=True, slots=True)
class BayesianNetwork:
    """Network with normal priors on weights, biases, noise and task codes.

    Weights have the prior N(0, 1/λ), biases N(0, 1). Every task has a log variance s of the noise with prior N(-4, 2²),
    and a code ψ of L numbers with prior N(0, 0.3²), which are inputs too. The parameters are one row of `n_parameters`:
    weights of the network, ψ `T x L`, s `T`. The first output is the mean. A heteroscedastic network has a second
    output, which is added to s. The variance of the noise is exp(s) + 1e-6.

    Attributes:
        network: with `in` + L inputs and one or two outputs.
        n_tasks: T.
        n_latent: L.
        n_parameters: their number.
    """

    network: Network
    n_tasks: int = 1
    n_latent: int = 0
    n_parameters: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the parameters."""
        object.__setattr__(self, "n_parameters", self.network.n_weights + self.n_tasks * (self.n_latent + 1))

    @property
    def heteroscedastic(self) -> bool:
        """Return whether the noise depends on the point."""
        return self.network.sizes[-1] == 2

    def initial(self, k: int, *, rng: np.random.Generator) -> Array:
        """Draw k starts: `K x n_parameters` float32; the noise is the mean of its prior, at every point."""
        p = self.network.n_weights
        theta = np.empty((k, self.n_parameters), dtype=np.float32)
        theta[:, :p] = self.network.initial(k, rng=rng)
        theta[:, p : -self.n_tasks] = LATENT_SD * rng.standard_normal((k, self.n_tasks * self.n_latent))
        theta[:, -self.n_tasks :] = LOG_NOISE
        # The second output is small at first: it would otherwise change the noise from point to point.
        self.network.layers(theta)[-1][0][:, :, 1:] *= 0.1
        return theta

    def precisions(self, theta: Array, *, rng: np.random.Generator | None = None) -> Array:
        """Return λ of every parameter, `K x n_parameters`: 1, √fan-in between hidden layers; or drawn by layer.

        With 1 throughout, functions are too rough for few points; with the whole fan-in, too smooth for many. λ | w ~
        Gamma(1 + n_w/2, rate 1 + ½ Σw²), weights alone; 0 for s, which has its own prior.
        """
        result = np.ones_like(theta)
        result[:, self.network.n_weights :] = LATENT_SD**-2
        result[:, -self.n_tasks :] = 0.0
        if rng is None:
            for weights, _ in self.network.layers(result)[1:-1]:
                weights[...] = weights.shape[1] ** 0.5
        else:
            shape, rate = GAMMA
            for (weights, _), (into, _) in zip(self.network.layers(theta), self.network.layers(result), strict=True):
                squares = np.square(weights, dtype=np.float64).sum(axis=(1, 2))
                drawn = rng.gamma(shape + 0.5 * weights[0].size, 1.0 / (rate + 0.5 * squares))
                into[...] = drawn[:, None, None]
        return result

    def energy(self, theta: Array, data: Data, *, precisions: Array) -> Array:
        """Compute U = Σ [½ r²/σ² + ½ log σ²] + ½ Σ λθ² + ½ ((s + 4)/2)²: `K`, a loss up to a constant."""
        mean, variance = self.outputs(theta, data.X, data.task)
        fit = 0.5 * (np.square(mean - data.z) / variance + np.log(variance)).sum(axis=1)
        prior = 0.5 * (precisions * np.square(theta)).sum(axis=1)
        result: Array = (
            fit + prior + 0.5 * ((theta[:, -self.n_tasks :] - LOG_NOISE) * self._pull_of_noise(theta)).sum(axis=1)
        )
        return result

    def gradient(
        self, theta: Array, data: Data, *, precisions: Array, out: Array, rows: NDArray[np.intp] | None = None
    ) -> Array:
        """Compute dU/dθ, or an unbiased estimate of it from a batch.

        Args:
            theta: `K x n_parameters`.
            data: of the fit.
            precisions: λ, of the shape of θ.
            out: array for the result.
            rows: `K x B` points of each network's batch; None = all points.
        """
        X, z, task = data.X, data.z, data.task
        if rows is not None:
            X, z, task = X[rows], z[rows], None if task is None else task[rows]
        scale = len(data.z) / z.shape[-1]
        p, s = self.network.n_weights, self._log_noise(theta, task)
        inputs = self._inputs(theta, X, task)
        values = self.network.forward(theta[:, :p], inputs)
        outputs = values[-1]
        residual = outputs[:, :, 0] - z
        learned = np.exp(s + outputs[:, :, 1] if self.heteroscedastic else s)
        variance = learned + LEAST_NOISE
        slope = np.empty_like(outputs)
        np.multiply(scale, residual, out=slope[:, :, 0])
        slope[:, :, 0] /= variance
        # By s, not by the variance: of σ² = exp(s) + 1e-6, only the first term depends on s.
        by_noise = learned / variance
        by_noise = by_noise * (1.0 - np.square(residual) / variance)
        by_noise *= 0.5 * scale
        if self.heteroscedastic:
            slope[:, :, 1] = by_noise
        if self.n_latent:
            by_input = np.empty(inputs.shape, dtype=theta.dtype)
            self.network.backward(theta[:, :p], values, slope, out=out[:, :p], inputs=by_input)
            into = out[:, p : -self.n_tasks].reshape(len(theta), self.n_tasks, self.n_latent)
            np.matmul(self._member(task), by_input[:, :, -self.n_latent :], out=into)
        else:
            self.network.backward(theta[:, :p], values, slope, out=out[:, :p])
        noises = out[:, -self.n_tasks :]
        noises[...] = (
            (self._member(task) @ by_noise[:, :, None])[:, :, 0]
            if self.n_tasks > 1
            else by_noise.sum(axis=1, keepdims=True)
        )
        noises += self._pull_of_noise(theta)
        out += precisions * theta
        return out

    def outputs(self, theta: Array, X: Array, task: Any = None) -> tuple[Array, Array]:
        """Compute mean and noise variance of every network at `n x in` inputs: `K x n` each; `task` is one or `n`."""
        mean, variance = np.empty((2, len(theta), len(X)), dtype=theta.dtype)
        shared = task is None or np.ndim(task) == 0
        for at in range(0, len(X), ROWS):
            rows = slice(at, at + ROWS)
            row_task = task if shared else task[rows]
            for k in range(len(theta)):
                parameters = theta[k : k + 1]
                values = self.network.forward(
                    parameters[:, : self.network.n_weights], self._inputs(parameters, X[rows], row_task)
                )[-1]
                mean[k, rows] = values[0, :, 0]
                variance[k, rows] = self._log_noise(parameters, row_task)[0] + (
                    values[0, :, 1] if self.heteroscedastic else 0.0
                )
        np.exp(np.minimum(variance, MOST_LOG_NOISE, out=variance), out=variance)
        variance += LEAST_NOISE
        return mean, variance

    def means_and_slopes(self, theta: Array, X: Array, task: Any = None) -> tuple[Array, Array]:
        """Compute the means, `K x n`, and their gradients by the inputs without ψ, `K x n x in`."""
        weights = theta[:, : self.network.n_weights]
        values = self.network.forward(weights, self._inputs(theta, X, task))
        slope = np.zeros_like(values[-1])
        slope[:, :, 0] = 1.0
        return values[-1][:, :, 0], self.network.input_gradient(weights, values, slope)[:, :, : X.shape[-1]]

    def least_slope_of_noise(self, data: Data, batch: int) -> Array:
        """Return the lower limit of dU/ds of each task, `T`, for a batch size."""
        n = len(data.z)
        of_task = np.array([n]) if data.task is None else np.bincount(data.task, minlength=self.n_tasks)
        least: Array = -MOST_PULL * np.sqrt(0.5 * np.maximum(of_task, 1) * n / min(batch, n))
        return least.astype(np.float32)

    def _member(self, task: Any) -> Array:
        """Return the mask of each task's points: `... x T x n`."""
        member: Array = np.equal(np.arange(self.n_tasks)[:, None], np.asarray(task)[..., None, :]).astype(np.float32)
        return member

    def _pull_of_noise(self, theta: Array) -> Array:
        """Compute the gradient of the prior's energy with respect to s: `K x T`."""
        off = theta[:, -self.n_tasks :] - LOG_NOISE
        specific, common = TASK_NOISE_SHARE * LOG_NOISE_SD**2, (1.0 - TASK_NOISE_SHARE) * LOG_NOISE_SD**2
        # Sherman-Morrison: the prior covariance of s is specific * I + common * 11ᵀ.
        result: Array = (off - common / (specific + self.n_tasks * common) * off.sum(axis=1, keepdims=True)) / specific
        return result

    def _log_noise(self, theta: Array, task: Any) -> Array:
        """Return s of the task of every point: `K x n`, or `K x 1` for a single task."""
        log_noise = theta[:, -self.n_tasks :]
        if self.n_tasks == 1:
            return log_noise
        rows = np.atleast_1d(task)
        return log_noise[:, rows] if rows.ndim == 1 else np.take_along_axis(log_noise, rows, axis=1)

    def _inputs(self, theta: Array, X: Array, task: Any) -> Array:
        """Append ψ of the task: `B x in` (or `K x B x in`) to `K x B x (in + L)`; X itself without ψ."""
        if not self.n_latent:
            return X
        k, latent = (
            len(theta),
            theta[:, self.network.n_weights : -self.n_tasks].reshape(len(theta), self.n_tasks, self.n_latent),
        )
        points = np.broadcast_to(X, (k, *X.shape[-2:]))
        rows = np.broadcast_to(np.asarray(task), points.shape[:2])
        chosen = latent[np.arange(k)[:, None], rows]
        return np.concatenate([points, chosen], axis=2)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Sampler, number of chains and length of sampling.

    Attributes:
        sampler: a name in `warmstart.bo.surrogates.bohamiann.sghmc.SAMPLERS`.
        chains: K, run side by side.
        samples: S, of all chains together.
        burn_in: discarded steps of every chain.
        thin: steps between two samples of a chain.
        batch: points in a step, at most all.
        step: ε.
        hyperprior: whether every layer's precision is redrawn before each sample; otherwise it is fixed.
    """

    sampler: str = "adaptive"
    chains: int = 8
    samples: int = 50
    burn_in: int = 2500
    thin: int = 100
    batch: int = 32
    step: float = 1e-2
    hyperprior: bool = False


@dataclass(frozen=True, slots=True)
class Draws:
    """Samples of the parameters.

    Attributes:
        theta: `S x n_parameters`, float32; the last samples of every chain, chains in turn.
        chains: K.
    """

    theta: Array
    chains: int

    @classmethod
    def of(cls, model: BayesianNetwork, data: Data, schedule: Schedule, *, rng: np.random.Generator) -> Self:
        """Run the chains, and return their samples.

        A chain that overflowed returns to its last sample, at rest; only samplers without adaptive steps overflow.
        """
        n, k = len(data.z), min(schedule.chains, schedule.samples)
        full = n <= schedule.batch
        theta, rounds = model.initial(k, rng=rng), -(-schedule.samples // k)
        chains = Sghmc(theta, **{"step": schedule.step, "full_batch": full, **SAMPLERS[schedule.sampler]})
        precisions, gradient, snapshot = model.precisions(theta), np.empty_like(theta), theta.copy()
        of_noise, least = gradient[:, -model.n_tasks :], model.least_slope_of_noise(data, schedule.batch)
        drawn: list[Array] = []
        rows, ahead = None, np.empty((0, k, schedule.batch), dtype=np.intp)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for t in range(1, schedule.burn_in + rounds * schedule.thin + 1):
                if t == schedule.burn_in + 1:
                    chains.settle()
                if not full:
                    if (t - 1) % AHEAD == 0:
                        ahead = rng.integers(n, size=(AHEAD, k, schedule.batch))
                    rows = ahead[(t - 1) % AHEAD]
                model.gradient(theta, data, precisions=precisions, out=gradient, rows=rows)
                if chains.adaptive:  # with fixed steps the noise must rise freely, or the steps are too long
                    np.maximum(of_noise, least, out=of_noise)
                chains.step(theta, gradient, rng=rng)
                if (t - schedule.burn_in) % schedule.thin == 0:
                    lost = ~np.isfinite(theta).all(axis=1)
                    theta[lost], chains.momentum[lost] = snapshot[lost], 0.0
                    snapshot = theta.copy()
                    if schedule.hyperprior:
                        precisions = model.precisions(theta, rng=rng)
                    if t > schedule.burn_in:
                        drawn.append(snapshot)
        return cls(np.concatenate(drawn)[: schedule.samples], k)
