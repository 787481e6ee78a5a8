"""Gaussian process classifier: a constraint is the sign of a latent process [Snoek2015scalable] §3.2."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.constraints.labels import Labelled
from warmstart.bo.constraints.link import LINKS
from warmstart.bo.surrogates.base import points_of_fit
from warmstart.bo.surrogates.gp.kernels import KERNELS, square_distances
from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.slice_sampling import elliptical_step, slice_step
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]

KERNEL = KERNELS["matern52"]
JITTER = 1e-6
"""Share of the amplitude that is added on the diagonal."""
REACH = 6.0
"""Bound of the hyperparameters, in standard deviations of the prior."""
LATENT_STEPS = 10
SMALLEST_VAR = 1e-12


@dataclass(frozen=True, slots=True)
class LatentSample:
    """One draw of hyperparameters and of the latent values at the data.

    Attributes:
        scale: `e` lengthscales of the inputs.
        amplitude: variance of the process.
        mean: of the process.
        factor: `n x n`, lower triangle of the covariance's.
        weights: `n`, K⁻¹(f - m).
    """

    scale: Floats
    amplitude: float
    mean: float
    factor: Floats
    weights: Floats


class GPClassifier:
    """Gaussian process classifier with a probit link for noisy labels and a step for noiseless ones.

    Use it up to some hundred evaluations: its cost grows with their cube. With more, use
    `warmstart.bo.constraints.network_classifier.NetworkClassifier`.

    Latent values are sampled by elliptical slice sampling. Hyperparameters are sampled by slice sampling with the
    whitened latent values fixed [Murray2010slice]. The chain of the hyperparameters continues from fit to fit.
    """

    def __init__(
        self,
        *,
        conditional: Sequence[int] = (),
        labels: Literal["noisy", "noiseless"] = "noisy",
        samples: int = 10,
        burn_in: int = 20,
    ) -> None:
        """Build an unfitted classifier.

        Args:
            conditional: columns of the points that may be NaN, inactive.
            labels: `noisy`, repeats of a point may differ; `noiseless`, they agree.
            samples: of hyperparameters and latent values.
            burn_in: discarded sweeps of the first fit; later fits discard half as many.

        Raises:
            UsageError: when a name or a number does not fit.
        """
        if labels not in {"noisy", "noiseless"} or samples < 1 or burn_in < 0:
            msg = f"GPClassifier: expected labels noisy or noiseless, positive samples and no negative burn_in, got {labels!r}, {samples} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._conditional, self._noisy = tuple(conditional), labels == "noisy"
        self._link = LINKS["probit" if self._noisy else "step"]
        self._samples, self._burn_in = samples, burn_in
        self._theta: Floats | None = None
        self._data: Labelled | None = None
        self._latent_samples: list[LatentSample] = []

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit `n x d` points and `n` labels.

        Points that repeat with different labels need `labels="noisy"`: a step cannot explain them.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point is not finite, or a label neither 0 nor 1.
        """
        self._data = data = Labelled.of(X, y, conditional=self._conditional)
        self._inputs = Inputs(data.d, self._conditional)
        if data.constant is not None:
            return self
        self._train_inputs = self._inputs(data.X)
        e = self._inputs.width
        location = np.array([math.sqrt(2.0) + 0.5 * math.log(e) + math.log(2.0)] * e + [0.0, 0.0])
        spread = np.array([math.sqrt(3.0)] * e + [2.0, 1.0])
        continues = self._theta is not None and len(self._theta) == e + 2
        theta = self._theta if continues and self._theta is not None else np.zeros(e + 2)
        factor = self._factor(theta)
        white = self._start(factor, theta, data.signs)
        burn_in = self._burn_in // 2 if continues else self._burn_in
        self._latent_samples = []
        for step in range(burn_in + self._samples):
            for k in rng.permutation(e + 2).tolist():
                theta = self._moved(theta, k, white=white, location=location, spread=spread, rng=rng)
            factor = self._factor(theta)
            for _ in range(LATENT_STEPS):
                white = elliptical_step(
                    lambda v, f=factor, m=float(theta[-1]): self._log_likelihood(m + f @ v),  # type: ignore[misc]
                    white,
                    rng=rng,
                )
            if step >= burn_in:
                self._latent_samples.append(self._sample(theta, factor, white))
        self._theta = theta
        return self

    def probability(self, X: ArrayLike) -> Floats:
        """Return P(valid) at `m x d` points under every sample: `S x m`.

        Raises:
            UsageError: before a fit, or when the points have other dimensions.
        """
        points, data = self._checked(X)
        if data.constant is not None:
            return data.flat(points)[0]
        inputs = self._inputs(points)
        return np.array([self._link.probability(*self._latent(sample, inputs)[:2]) for sample in self._latent_samples])

    def probability_gradient(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return P(valid), with its gradients `S x m x d`; refusals as in `probability`."""
        from scipy.linalg import solve_triangular

        points, data = self._checked(X)
        if data.constant is not None:
            return data.flat(points)
        inputs, values, slopes = self._inputs(points), [], []
        for sample in self._latent_samples:
            mean, var, white = self._latent(sample, inputs)
            solved = solve_triangular(sample.factor, white, lower=True, trans=1)  # n x m, K⁻¹k
            r2 = square_distances(inputs / sample.scale, self._train_inputs / sample.scale)
            pull = 2.0 * sample.amplitude * KERNEL.slope(r2)
            by_mean, by_var = pull * sample.weights, -2.0 * pull * solved.T
            # Σ_n w_mn (x_m - x_n) / ℓ²
            dmean, dvar = (
                (inputs * by.sum(axis=1)[:, None] - by @ self._train_inputs) / np.square(sample.scale)
                for by in (by_mean, by_var)
            )
            values.append(self._link.probability(mean, var))
            slopes.append(self._link.gradient(mean, var, dmean=dmean, dvar=dvar))
        return np.array(values), self._inputs.pull_back(points, np.array(slopes))

    def state(self) -> dict[str, Any]:
        """Return the state of the hyperparameters' chain, from which the next fit starts."""
        return {} if self._theta is None else {"theta": self._theta.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the state from which the next fit starts."""
        self._theta = np.array(state["theta"]) if "theta" in state else None

    def _factor(self, theta: Floats) -> Floats:
        """Factor the covariance of the latent values: lower triangle, `n x n`."""
        scaled = self._train_inputs / np.exp(theta[:-2])
        covariance = math.exp(theta[-2]) * KERNEL.value(square_distances(scaled, scaled))
        covariance.ravel()[:: len(covariance) + 1] = math.exp(theta[-2]) * (1.0 + JITTER)
        factor: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
        return factor

    def _log_likelihood(self, latent: Floats) -> float:
        """Compute the log probability of the labels given latent values."""
        from scipy.special import log_ndtr

        if self._data is None:
            return 0.0
        signed = self._data.signs * latent
        if self._noisy:
            return float(log_ndtr(signed).sum())
        return 0.0 if signed.min() > 0.0 else -math.inf

    def _start(self, factor: Floats, theta: Floats, signs: Floats) -> Floats:
        """Return white noise whose latent values have the labels' signs, by a smooth regression or else the labels."""
        from scipy.linalg import solve_triangular

        residuals = signs - theta[-1]
        covariance = factor @ factor.T
        smooth = covariance @ np.linalg.solve(covariance + 1e-2 * covariance[0, 0] * np.eye(len(signs)), residuals)
        latent = smooth if np.all(signs * (smooth + theta[-1]) > 0.0) else residuals
        white: Floats = solve_triangular(factor, latent, lower=True)
        return white

    def _moved(
        self, theta: Floats, k: int, *, white: Floats, location: Floats, spread: Floats, rng: np.random.Generator
    ) -> Floats:
        """Update one hyperparameter by slice sampling."""
        moved = theta.copy()
        factor = self._factor(theta)

        def along(offset: float) -> float:
            moved[k] = theta[k] + offset
            deviation = float(moved[k] - location[k]) / float(spread[k])
            if abs(deviation) > REACH:
                return -math.inf
            lower = factor if k == len(theta) - 1 else self._factor(moved)
            return self._log_likelihood(float(moved[-1]) + lower @ white) - 0.5 * deviation * deviation

        offset, _ = slice_step(along, along(0.0), rng=rng, width=2.0)
        moved[k] = theta[k] + offset
        return moved

    def _sample(self, theta: Floats, factor: Floats, white: Floats) -> LatentSample:
        """Return the sample with the factors that predictions need."""
        from scipy.linalg import solve_triangular

        weights = solve_triangular(factor, white, lower=True, trans=1)
        return LatentSample(np.exp(theta[:-2]), math.exp(theta[-2]), float(theta[-1]), factor, weights)

    def _latent(self, sample: LatentSample, inputs: Floats) -> tuple[Floats, Floats, Floats]:
        """Predict latent values at `m x e` inputs: mean `m`, variance `m`, and L⁻¹k, `n x m`."""
        from scipy.linalg import solve_triangular

        r2 = square_distances(inputs / sample.scale, self._train_inputs / sample.scale)
        cross = sample.amplitude * KERNEL.value(r2)
        white: Floats = solve_triangular(sample.factor, cross.T, lower=True)
        var = sample.amplitude * (1.0 + JITTER) - np.square(white).sum(axis=0)
        return sample.mean + cross @ sample.weights, np.maximum(var, SMALLEST_VAR), white

    def _checked(self, X: ArrayLike) -> tuple[Floats, Labelled]:
        """Check points against the columns of the fit."""
        return points_of_fit(X, self._data, "GPClassifier", conditional=self._conditional)
