"""Network classifier of a constraint, with a Bayesian logistic last layer [Snoek2015scalable] §3.2."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.constraints.labels import Labelled
from warmstart.bo.constraints.link import LINKS, logistic
from warmstart.bo.surrogates.base import points_of_fit
from warmstart.bo.surrogates.dngo.feature_network import Plan, train
from warmstart.bo.surrogates.dngo.model import Features
from warmstart.bo.surrogates.inputs import Inputs
from warmstart.bo.surrogates.network import Array, Network
from warmstart.bo.surrogates.slice_sampling import slice_step
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]

LOG_ALPHA = (-8.0, 8.0)
"""Bounds of log α ~ N(0, 1)."""
THIN = 3
MAX_NEWTON = 100
TOLERANCE = 1e-9
"""Newton's method ends when a step promises a smaller gain."""


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace approximation of the weights' posterior at one α.

    Attributes:
        weights: `D`, the most probable ones.
        factor: `D x D`, lower triangle L of H = LLᵀ.
        log_evidence: log p(labels | α), approximately.
    """

    weights: Floats
    factor: Floats
    log_evidence: float

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Predict the latent value at `M x D` features: mean and variance, `M`."""
        from scipy.linalg import solve_triangular

        white = solve_triangular(self.factor, features.T, lower=True)
        return features @ self.weights, np.square(white).sum(axis=0)

    def gradient(self, features: Floats, jacobian: Floats) -> tuple[Floats, Floats]:
        """Compute gradients of mean and variance, `M x d`, from the features' `M x d x D`."""
        from scipy.linalg import cho_solve

        spread = cho_solve((self.factor, True), features.T).T
        return jacobian @ self.weights, 2.0 * np.einsum("mdi,mi->md", jacobian, spread)


def laplace(features: Floats, signs: Floats, alpha: float, *, gain: float, start: Floats) -> Laplace:
    """Compute the most probable weights by Newton's method with halved steps, and the curvature there.

    Args:
        features: `N x D`.
        signs: `N`, ±1.
        alpha: precision of the weights, > 0.
        gain: of the logistic function.
        start: `D` weights.
    """
    from scipy.linalg import cho_factor, cho_solve

    signed, d = gain * signs[:, None] * features, features.shape[1]

    def fit(w: Floats) -> float:
        return -float(np.logaddexp(0.0, -(signed @ w)).sum()) - 0.5 * alpha * float(w @ w)

    weights, value = start, fit(start)
    for _ in range(MAX_NEWTON):
        wrong = logistic(-(signed @ weights))
        slope = signed.T @ wrong - alpha * weights
        curvature = (signed * (wrong * (1.0 - wrong))[:, None]).T @ signed
        curvature.ravel()[:: d + 1] += alpha
        factor: Any = cho_factor(curvature, lower=True)
        step = cho_solve(factor, slope)
        if float(slope @ step) < TOLERANCE:
            break
        share = 1.0
        while fit(weights + share * step) < value and share > TOLERANCE:
            share *= 0.5
        weights = weights + share * step
        value = fit(weights)
    lower = np.tril(factor[0])
    return Laplace(weights, lower, value + 0.5 * d * math.log(alpha) - float(np.log(lower.diagonal()).sum()))


def sample_posteriors(
    features: Floats, signs: Floats, *, gain: float, samples: int, burn_in: int, rng: np.random.Generator
) -> list[Laplace]:
    """Sample log α by slice sampling on the evidence, with prior N(0, 1): one posterior a sample."""
    posterior = laplace(features, signs, 1.0, gain=gain, start=np.zeros(features.shape[1]))
    log_alpha, posteriors = 0.0, []

    def along(offset: float) -> float:
        nonlocal posterior
        value = log_alpha + offset
        if not LOG_ALPHA[0] <= value <= LOG_ALPHA[1]:
            return -math.inf
        posterior = laplace(features, signs, math.exp(value), gain=gain, start=posterior.weights)
        return posterior.log_evidence - 0.5 * value * value

    for step in range(1, burn_in + THIN * samples + 1):
        log_alpha += slice_step(along, along(0.0), rng=rng, width=1.5)[0]
        if step > burn_in and (step - burn_in) % THIN == 0:
            posteriors.append(laplace(features, signs, math.exp(log_alpha), gain=gain, start=posterior.weights))
    return posteriors


STEP_GAIN = 10.0
"""Gain of the logistic function that replaces a step during the fit: a step has no curvature."""
SMALLEST_VAR = 1e-12


class NetworkClassifier:
    """Networks trained on labels, with Laplace's method on the last layer and a slice-sampled prior precision α.

    Use it with many evaluations: its cost grows linearly with them. With up to some hundred,
    `warmstart.bo.constraints.gp_classifier.GPClassifier` needs no training of networks.
    """

    def __init__(
        self,
        *,
        conditional: Sequence[int] = (),
        labels: Literal["noisy", "noiseless"] = "noisy",
        hidden: Sequence[int] = (50, 50, 50),
        networks: int = 5,
        samples: int = 2,
        burn_in: int = 10,
        steps: int = 300,
        epochs: int = 100,
        decay: float = 0.03,
        held_out: float = 0.2,
    ) -> None:
        """Build an unfitted classifier.

        Args:
            conditional: columns of the points that may be NaN, inactive.
            labels: `noisy`, repeats of a point may differ; `noiseless`, they agree.
            hidden: widths of the hidden layers.
            networks: their number.
            samples: of α, for each network.
            burn_in: discarded sweeps of the chain of α.
            steps: least number of training steps.
            epochs: least number of passes through the data.
            decay: weight of the prior N(0, 1/fan-in) of the weights.
            held_out: share of the points that a network is not trained on.

        Raises:
            UsageError: when a name or a number does not fit.
        """
        if labels not in {"noisy", "noiseless"} or min(networks, samples, steps) < 1 or not 0.0 <= held_out < 1.0:
            msg = f"NetworkClassifier: expected labels noisy or noiseless, positive networks, samples and steps and held_out in [0, 1), got {labels!r}, {networks}, {samples}, {steps} and {held_out}. Leave them out for the defaults."
            raise UsageError(msg)
        self._conditional, self._hidden = tuple(conditional), tuple(hidden)
        self._gain, self._link = (1.0, LINKS["logistic"]) if labels == "noisy" else (STEP_GAIN, LINKS["step"])
        self._plan = Plan(networks, steps, epochs, decay, held_out)
        self._samples, self._burn_in = samples, burn_in
        self._data: Labelled | None = None
        self._heads: list[list[Laplace]] = []

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit the networks to `n x d` points and `n` labels, 1 valid and 0 not.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point is not finite, or a label neither 0 nor 1.
        """
        self._data = data = Labelled.of(X, y, conditional=self._conditional)
        if data.constant is not None:
            return self
        inputs = Inputs(data.d, self._conditional)
        sizes = (inputs.width, *self._hidden)
        whole = Network((*sizes, 1))
        body = Network(sizes, whole.activations[:-1])
        theta = train(
            whole, inputs(data.X), 0.5 * (1.0 + data.signs), plan=self._plan, rng=rng, loss_slope=_cross_entropy_slope
        )
        # The output layer is dropped: Laplace's method takes its place.
        theta = theta[:, : body.n_weights].astype(np.float64)
        self._features = Features(inputs, np.zeros((self._plan.stack, 1, 0)), body, theta, bias=True)
        self._heads = [
            sample_posteriors(basis, data.signs, gain=self._gain, samples=self._samples, burn_in=self._burn_in, rng=rng)
            for basis in self._features.values(data.X)
        ]
        return self

    def probability(self, X: ArrayLike) -> Floats:
        """Return P(valid) at `m x d` points under every sample: `S x m`.

        Raises:
            UsageError: before a fit, or when the points have other dimensions.
        """
        points, data = self._checked(X)
        if data.constant is not None:
            return data.flat(points)[0]
        latent = [
            head.predict(basis)
            for heads, basis in zip(self._heads, self._features.values(points), strict=True)
            for head in heads
        ]
        mean, var = np.array([m for m, _ in latent]), np.array([v for _, v in latent])
        return self._link.probability(mean, np.maximum(var, SMALLEST_VAR))

    def probability_gradient(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return P(valid), with its gradients `S x m x d`; refusals as in `probability`."""
        points, data = self._checked(X)
        if data.constant is not None:
            return data.flat(points)
        values, slopes = [], []
        for heads, basis, jacobian in zip(self._heads, *self._features.values_and_jacobian(points), strict=True):
            for head in heads:
                mean, var = head.predict(basis)
                var = np.maximum(var, SMALLEST_VAR)
                dmean, dvar = head.gradient(basis, jacobian)
                values.append(self._link.probability(mean, var))
                slopes.append(self._link.gradient(mean, var, dmean=dmean, dvar=dvar))
        return np.array(values), np.array(slopes)

    def state(self) -> dict[str, Any]:
        """Return an empty state: no fit continues another."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Do nothing: a fit depends on its generator alone."""

    def _checked(self, X: ArrayLike) -> tuple[Floats, Labelled]:
        """Check points against the columns of the fit."""
        return points_of_fit(X, self._data, "NetworkClassifier", conditional=self._conditional)


def _cross_entropy_slope(outputs: Array, targets: Array) -> Array:
    """Compute the slope of the cross-entropy by the outputs f, σ(f) - c."""
    result: Array = logistic(outputs) - targets
    return result
