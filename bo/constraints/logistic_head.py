"""Bayesian logistic regression on features by Laplace's method: the last layer of a network classifier.

It maximises Σ log σ(g tᵢ wᵀφᵢ) - α/2 ‖w‖², with t = ±1 and gain g. The posterior of the weights is N(w, H⁻¹) with
H = g² ΦᵀSΦ + αI and S = diag p(1 - p) [Snoek2015scalable] §3.2.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.constraints.link import logistic
from warmstart.bo.surrogates.slice_sampling import slice_step

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
