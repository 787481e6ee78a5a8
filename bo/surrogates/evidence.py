"""Marginal likelihood of an exact Gaussian process: how well hyperparameters explain the targets."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bo.kernels import Kernel, scaled_square_distances, square_differences

Floats = NDArray[np.float64]

JITTERS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""Shares of the amplitude added to the diagonal, one after another, until it factors."""
LOG_2PI = math.log(2.0 * math.pi)


class Evidence:
    """log N(z; m, θ0 R + ν I) as a function of hyperparameters, for fixed points and targets.

    The value alone is the hot path of slice sampling: distances are computed once, LAPACK is called directly.
    Hyperparameters θ are `d + 3`: log ℓ_1..ℓ_d, log θ0 (amplitude, a variance), log ν (noise, a variance), m (mean).
    """

    def __init__(self, X: Floats, z: Floats, kernel: Kernel) -> None:
        from scipy.linalg import lapack

        self.points = X
        self.n, self.d = X.shape
        self._square = square_differences(X, X)
        self._z = z
        self._kernel = kernel
        self._lapack: Any = lapack

    def correlation(self, log_lengthscales: Floats) -> Floats:
        """Compute R: `n x n`, 1 on the diagonal."""
        return self._kernel.value(scaled_square_distances(self._square, log_lengthscales))

    def factor(self, correlation: Floats, amplitude: float, noise: float) -> Floats | None:
        """Factor θ0 R + ν I: `n x n` lower triangle (what lies above it is not cleared), or None where it has no factor."""
        for jitter in JITTERS:
            matrix = amplitude * correlation
            matrix.ravel()[:: self.n + 1] += noise + jitter * amplitude
            lower, info = self._lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
            if info == 0:
                factor: Floats = lower
                return factor
        return None

    def given_correlation(self, correlation: Floats, amplitude: float, noise: float, mean: float) -> float:
        """Compute -½ z̃ᵀA⁻¹z̃ - Σ log L_ii - n/2 log 2π, z̃ = z - m; -inf where A has no Cholesky factor."""
        lower = self.factor(correlation, amplitude, noise)
        if lower is None:
            return -math.inf
        white = self._lapack.dtrtrs(lower, self._z - mean, lower=1)[0]
        return float(-0.5 * (white @ white) - np.log(lower.ravel("F")[:: self.n + 1]).sum() - 0.5 * self.n * LOG_2PI)

    def value(self, theta: Floats) -> float:
        """Compute the log evidence of hyperparameters."""
        return self.given_correlation(
            self.correlation(theta[: self.d]), math.exp(theta[-3]), math.exp(theta[-2]), float(theta[-1])
        )

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Compute the log evidence and its gradient `d + 3`; -inf and zeros where there is no Cholesky factor."""
        inverse_squares = np.exp(-2.0 * theta[: self.d])
        amplitude, noise = math.exp(theta[-3]), math.exp(theta[-2])
        r2 = scaled_square_distances(self._square, theta[: self.d])
        slope = self._kernel.slope(r2)
        correlation = self._kernel.value(r2)
        lower = self.factor(correlation, amplitude, noise)
        if lower is None:
            return -math.inf, np.zeros_like(theta)
        residual = self._z - theta[-1]
        weights = self._lapack.dpotrs(lower, residual, lower=1)[0]
        value = -0.5 * (residual @ weights) - np.log(lower.diagonal()).sum() - 0.5 * self.n * LOG_2PI
        precision = np.tril(self._lapack.dpotri(lower, lower=1)[0])
        precision = precision + np.tril(precision, -1).T
        inner = np.outer(weights, weights) - precision  # dE = ½ tr(inner dA)
        gradient = np.empty_like(theta)
        by_distance = (inner * slope).ravel()
        gradient[: self.d] = -amplitude * inverse_squares * (self._square.reshape(self.d, -1) @ by_distance)
        gradient[-3] = 0.5 * amplitude * np.vdot(inner, correlation)
        gradient[-2] = 0.5 * noise * np.trace(inner)
        gradient[-1] = weights.sum()
        return float(value), gradient

    def predict(self, square: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Predict under one θ from squared differences `d x m x n` to the points.

        Returns: mean `m` and latent variance `m`, which rounding may have made negative.
        """
        amplitude, noise, mean = math.exp(theta[-3]), math.exp(theta[-2]), float(theta[-1])
        lower = self.factor(self.correlation(theta[: self.d]), amplitude, noise)
        if lower is None:
            msg = f"GaussianProcess: expected a positive definite covariance, got none at θ={theta.tolist()}. Report the data."
            raise FloatingPointError(msg)
        cross = amplitude * self._kernel.value(scaled_square_distances(square, theta[: self.d]))
        means: Floats = mean + cross @ self._lapack.dpotrs(lower, self._z - mean, lower=1)[0]
        white = self._lapack.dtrtrs(lower, cross.T, lower=1, overwrite_b=1)[0]
        return means, amplitude - np.square(white, out=white).sum(axis=0)
