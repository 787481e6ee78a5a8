"""Moments of functions that are sampled from a posterior, and conditioning on pending points.

Values are `S x M` for S functions and M points, gradients `S x M x d`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Fantasies = Literal["gaussian", "weights"]

SMALLEST_VAR = 1e-12
"""Predicted variances of standardised targets are at least this."""
LEAST_SHARE = 0.2
"""Least effective share of the functions under a fantasy."""
HALVINGS = 60
"""Halvings of the interval of the temperature."""


def moments(values: Floats) -> tuple[Floats, Floats]:
    """Compute mean and variance over functions: `M` each."""
    return values.mean(axis=0), np.maximum(values.var(axis=0), SMALLEST_VAR)


def moment_slopes(values: Floats, slopes: Floats) -> tuple[Floats, Floats]:
    """Compute the gradients of mean and variance over functions: `M x d` each."""
    centred = values - values.mean(axis=0)
    return slopes.mean(axis=0), 2.0 / len(values) * np.einsum("sm,smd->md", centred, slopes)


@dataclass(frozen=True, slots=True)
class Reweighting:
    """Weights of S functions under each of F fantasies.

    Attributes:
        weights: `F x S`, of the functions in the mean of each fantasy; rows sum to 1.
        root: `S x S`; the variance is ‖root (f - f̄)‖², f̄ the plain mean; None = the variance of the weighted
            functions.
    """

    weights: Floats
    root: Floats | None = None

    @classmethod
    def by_weights(cls, values: Floats, noise: Floats, targets: Floats) -> Self:
        """Weigh every function by the likelihood of the fantasies: w_s ∝ Π_j N(y_j; f_s(x_j), σ_s²)^t.

        t is 1, or the largest exponent that keeps an effective share of a fifth of the functions: few functions cannot
        follow many exact fantasies. The order of the pending points does not matter.

        Args:
            values: `S x J` at the pending points.
            noise: `S x J` variances.
            targets: `F x J`.
        """
        fit = -0.5 * (np.square(targets[:, None] - values) / noise + np.log(noise)).sum(axis=2)
        fit -= fit.max(axis=1, keepdims=True)
        least = LEAST_SHARE * len(values)
        low, high = np.zeros((2, len(fit), 1))
        high[:] = 1.0
        enough = _effective(_normalised(fit)) >= least
        # The effective share falls as the exponent grows, so bisection finds the limit.
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            fits = _effective(_normalised(middle * fit)) >= least
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return cls(_normalised(np.where(enough, 1.0, low) * fit))

    @classmethod
    def by_moments(cls, values: Floats, noise: Floats, targets: Floats) -> Self:
        """Condition the Gaussian process that has the functions' mean and covariance, as in the ensemble Kalman filter.

        Exact for the moments: over fantasies drawn from the process, the mean is kept on average, and all fantasies
        have the same variance. Arguments as in `by_weights`.
        """
        from scipy.linalg import cho_factor, cho_solve

        s = len(values)
        centred = (values - values.mean(axis=0)) / np.sqrt(s)
        level = noise.mean(axis=0)
        # In the span of S functions: precision I + Z D⁻¹ Zᵀ, Z = centred `S x J`.
        inner = cho_factor(np.eye(s) + (centred / level) @ centred.T, lower=True)
        shift = cho_solve(inner, (centred / level) @ (targets - values.mean(axis=0)).T)
        covariance = cho_solve(inner, np.eye(s))
        root = np.linalg.cholesky(0.5 * (covariance + covariance.T)).T / np.sqrt(s)
        return cls((1.0 / s + (shift - shift.mean(axis=0)) / np.sqrt(s)).T, root)

    def predict(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the mean, `F x M`, and the variance, `F x M` or `1 x M`."""
        mean = self.weights @ values
        if self.root is None:
            var = np.array([w @ np.square(values - m) for w, m in zip(self.weights, mean, strict=True)])
        else:
            var = np.square(self.root @ (values - values.mean(axis=0))).sum(axis=0, keepdims=True)
        return mean, np.maximum(var, SMALLEST_VAR)

    def slopes(self, values: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Compute the gradients of the mean, `F x M x d`, and of the variance, `F x M x d` or `1 x M x d`."""
        dmean = np.einsum("fs,smd->fmd", self.weights, slopes)
        if self.root is None:
            mean = self.weights @ values
            by_value = self.weights[:, :, None] * (values - mean[:, None])
        else:
            by_value = (self.root.T @ (self.root @ (values - values.mean(axis=0))))[None]
            by_value -= by_value.mean(axis=1, keepdims=True)
        return dmean, 2.0 * np.einsum("gsm,smd->gmd", by_value, slopes)


@dataclass(frozen=True, slots=True)
class Reweighted:
    """Surrogate of sampled functions, conditioned on fantasies; implements `warmstart.bo.surrogates.base.Conditioned`.

    Attributes:
        values: function of `m x d` points: values of the sampled functions, for standardised targets.
        gradients: function of points: these values and their gradients.
        reweighting: of the sampled functions.
        mean: of the targets.
        sd: of the targets.
        checked: function that checks points.
    """

    values: Callable[[Floats], Floats]
    gradients: Callable[[Floats], tuple[Floats, Floats]]
    reweighting: Reweighting
    mean: float
    sd: float
    checked: Callable[[ArrayLike], Floats]

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict `m x d` points: mean `1 x F x m` and variance `1 x F x m` or `1 x 1 x m`."""
        mean, var = self.reweighting.predict(self.values(self.checked(X)))
        return self.mean + self.sd * mean[None], self.sd**2 * var[None]

    def predict_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict, with the gradients of mean and variance."""
        values, slopes = self.gradients(self.checked(X))
        mean, var = self.reweighting.predict(values)
        dmean, dvar = self.reweighting.slopes(values, slopes)
        return (
            self.mean + self.sd * mean[None],
            self.sd**2 * var[None],
            self.sd * dmean[None],
            self.sd**2 * dvar[None],
        )


def _normalised(logs: Floats) -> Floats:
    """Compute the softmax of each row."""
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    result: Floats = weights / weights.sum(axis=1, keepdims=True)
    return result


def _effective(weights: Floats) -> Floats:
    """Compute the effective number of functions, 1 / Σ w²: `F x 1`."""
    result: Floats = 1.0 / np.square(weights).sum(axis=1, keepdims=True)
    return result
