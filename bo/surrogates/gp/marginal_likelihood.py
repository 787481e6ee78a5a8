"""Marginal likelihood of an exact Gaussian process, by its hyperparameters."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.covariance import Covariance

Floats = NDArray[np.float64]

JITTERS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""Shares of the amplitude to add to the diagonal, tried in order until the matrix factors."""
LOG_2PI = math.log(2.0 * math.pi)


class Evidence:
    """log N(z; m, θ0 R + diag ν) as a function of hyperparameters, for fixed points and targets.

    Slice sampling calls the value often, so LAPACK is called directly and only one triangle is computed.
    Hyperparameters θ are `size + 3`: the shape of the covariance, log θ0 (amplitude, a variance), log ν (noise, a
    variance), m (mean). If the noise differs between points, the covariance computes it.

    Attributes:
        points: `n x d`.
        z: `n` targets.
        size: number of shape parameters.
    """

    def __init__(self, X: Floats, z: Floats, covariance: Covariance) -> None:
        from scipy.linalg import lapack

        self.points, self.z, self.covariance = X, z, covariance
        self.size = covariance.size
        self._n = len(X)
        self._below = np.tri(len(X), dtype=bool)
        self._lapack: Any = lapack

    def subset(self, rows: NDArray[np.intp]) -> Self:
        """Return the evidence of a subset of the points."""
        return type(self)(self.points[rows], self.z[rows], self.covariance)

    def correlation(self, shape: Floats) -> Floats:
        """Compute R: `n x n`, valid in the upper triangle."""
        return self.covariance.matrix(self.points, shape)

    def noise(self, shape: Floats, level: float) -> float | Floats:
        """Return the noise ν, of all points or `n`."""
        return self.covariance.noise(self.points, shape, level)

    def log_likelihood(self, correlation: Floats, amplitude: float, noise: float | Floats, mean: float) -> float:
        """Compute -½ z̃ᵀA⁻¹z̃ - Σ log L_ii - n/2 log 2π, z̃ = z - m; -inf if A has no Cholesky factor."""
        if not self._n:
            return 0.0
        lower = factor(correlation, amplitude, noise)
        if lower is None:
            return -math.inf
        white = self._lapack.dtrtrs(lower, self.z - mean, lower=1)[0]
        return float(-0.5 * (white @ white) - np.log(lower.ravel("F")[:: self._n + 1]).sum() - 0.5 * self._n * LOG_2PI)

    def value(self, theta: Floats) -> float:
        """Compute the log evidence of hyperparameters."""
        shape = theta[:-3]
        noise = self.noise(shape, math.exp(theta[-2]))
        return self.log_likelihood(self.correlation(shape), math.exp(theta[-3]), noise, float(theta[-1]))

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Compute the log evidence and its gradient `size + 3`; -inf and zeros without a Cholesky factor."""
        shape, amplitude, level = theta[:-3], math.exp(theta[-3]), math.exp(theta[-2])
        correlation, pull = self.covariance.matrix_and_pull(self.points, shape)
        lower = factor(correlation, amplitude, self.noise(shape, level))
        if lower is None:
            return -math.inf, np.zeros_like(theta)
        residual = self.z - theta[-1]
        weights = self._lapack.dpotrs(lower, residual, lower=1)[0]
        value = -0.5 * (residual @ weights) - np.log(lower.diagonal()).sum() - 0.5 * self._n * LOG_2PI
        half = self._lapack.dpotri(lower, lower=1)[0]  # below the diagonal
        inner = np.outer(weights, weights)  # dE = ½ tr(inner dA)
        inner -= np.where(self._below, half, half.T)
        by_amplitude = 0.5 * amplitude * np.vdot(inner, correlation)
        of_shape, of_level = self.covariance.pull_noise(self.points, shape, 0.5 * inner.diagonal())
        inner *= 0.5 * amplitude
        by_shape = pull(inner) + of_shape
        return float(value), np.array([*by_shape, by_amplitude, level * of_level, weights.sum()])


def factor(correlation: Floats, amplitude: float, noise: float | Floats) -> Floats | None:
    """Factor θ0 R + diag ν, R by its upper triangle.

    Returns: `n x n` lower triangle in Fortran order (entries above it are arbitrary), or None without a factor.
    """
    from scipy.linalg import lapack

    for jitter in JITTERS:
        matrix = amplitude * correlation
        matrix.ravel()[:: len(matrix) + 1] += noise + jitter * amplitude
        lower, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            result: Floats = lower
            return result
    return None
