"""Posterior of a Gaussian process for one vector of hyperparameters and several versions of the targets."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.covariance import Covariance
from warmstart.bo.surrogates.gp.marginal_likelihood import factor

Floats = NDArray[np.float64]

ROWS = 1024
"""Points predicted at a time, which bounds the memory."""
JOINT_JITTER = 1e-10
"""Share of the amplitude on the diagonal of a joint covariance, which equal points make singular."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Latent function given `n` points, for F versions of their targets.

    Attributes:
        covariance: of the process.
        theta: hyperparameters, as in `Evidence`.
        points: `n x d`.
        lower: `n x n` Cholesky factor of θ0 R + diag ν; entries above the triangle are arbitrary.
        white: `n x F`, L⁻¹ (z - m).
        weights: `n x F`, A⁻¹ (z - m).
    """

    covariance: Covariance
    theta: Floats
    points: Floats
    lower: Floats
    white: Floats
    weights: Floats

    @classmethod
    def of(cls, covariance: Covariance, theta: Floats, points: Floats, z: Floats) -> Self:
        """Condition the process on `n` targets.

        Raises:
            FloatingPointError: when the covariance cannot be factored.
        """
        shape = theta[:-3]
        noise = covariance.noise(points, shape, math.exp(theta[-2]))
        lower = factor(covariance.matrix(points, shape), math.exp(theta[-3]), noise)
        if lower is None:
            msg = f"GaussianProcess: expected a positive definite covariance, got none at θ={theta.tolist()}. Report the data."
            raise FloatingPointError(msg)
        white = _solve(lower, (z - theta[-1])[:, None])
        return cls(covariance, theta, points, lower, white, _solve(lower, white, transposed=True))

    @property
    def amplitude(self) -> float:
        """Return the prior variance."""
        return math.exp(self.theta[-3])

    @property
    def mean(self) -> float:
        """Return the prior mean."""
        return float(self.theta[-1])

    def predict(self, X: Floats) -> tuple[Floats, Floats]:
        """Predict `m` points: mean `F x m` and variance `m`; rounding may make it negative."""
        means, var = np.empty((self.weights.shape[1], len(X))), np.empty(len(X))
        for i in range(0, len(X), ROWS):
            cross = self._cross(X[i : i + ROWS])
            means[:, i : i + ROWS] = self.mean + (cross @ self.weights).T
            white = _solve(self.lower, cross.T, overwrite=True)
            var[i : i + ROWS] = self.amplitude - np.square(white, out=white).sum(axis=0)
        return means, var

    def predict_gradient(self, X: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict, with the gradients of mean, `F x m x d`, and of variance, `m x d`."""
        correlation, slopes = self.covariance.cross_and_slopes(X, self.points, self.theta[:-3])
        cross = self.amplitude * correlation
        white = _solve(self.lower, cross.T)
        backward = _solve(self.lower, white, transposed=True)
        dmean = self.amplitude * slopes.weighted(self.weights)
        dvar = slopes.pull(-2.0 * self.amplitude * backward.T)
        return self.mean + (cross @ self.weights).T, self.amplitude - np.square(white).sum(axis=0), dmean, dvar

    def joint(self, X: Floats) -> tuple[Floats, Floats]:
        """Predict `m` points jointly: mean `F x m` and the upper triangle of their covariance `m x m`."""
        cross = self._cross(X)
        white = _solve(self.lower, cross.T)
        prior = self.amplitude * self.covariance.matrix(X, self.theta[:-3])
        return self.mean + (cross @ self.weights).T, prior - white.T @ white

    def joint_gradient(self, X: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict `m` points jointly, with the gradients of mean, `F x m x d`, and of covariance, `m x m x d`.

        The gradient of a covariance is by the first of its two points.
        """
        correlation, slopes = self.covariance.cross_and_slopes(X, self.points, self.theta[:-3])
        prior, prior_slopes = self.covariance.cross_and_slopes(X, X, self.theta[:-3])
        cross = self.amplitude * correlation
        white = _solve(self.lower, cross.T)
        backward = _solve(self.lower, white, transposed=True)
        dcovariance = self.amplitude * (prior_slopes.weighted(np.eye(len(X))) - slopes.weighted(backward)).swapaxes(
            0, 1
        )
        mean = self.mean + (cross @ self.weights).T
        return (
            mean,
            self.amplitude * prior - white.T @ white,
            self.amplitude * slopes.weighted(self.weights),
            dcovariance,
        )

    def draw(self, X: Floats, normals: Floats) -> Floats:
        """Convert standard normals `n x m` to joint draws `n x m` of the latent function, for the first version."""
        mean, covariance = self.joint(X)
        lower = self._factor_joint(covariance, 0.0)
        draws: Floats = mean[0] + normals @ lower.T
        return draws

    def conditioned(self, X: Floats, Z: Floats) -> Self:
        """Return the posterior with J more points and targets `F x J`, by one factorisation of J x J for all versions.

        The posterior must have a single version of the targets.
        """
        n, j = len(self.points), len(X)
        between = _solve(self.lower, self._cross(X).T)
        prior = self.amplitude * self.covariance.matrix(X, self.theta[:-3])
        # In the order of LAPACK, which would otherwise copy the factor in every solve.
        lower = np.empty((n + j, n + j), order="F")
        lower[:n, :n] = self.lower
        lower[n:, :n] = between.T
        lower[n:, n:] = self._factor_joint(prior - between.T @ between, math.exp(self.theta[-2]))
        tail = _solve(lower[n:, n:], (Z - self.mean).T - between.T @ self.white)
        white = np.concatenate([np.repeat(self.white, len(Z), axis=1), tail])
        weights = _solve(lower, white, transposed=True)
        return type(self)(self.covariance, self.theta, np.concatenate([self.points, X]), lower, white, weights)

    def _cross(self, X: Floats) -> Floats:
        """Compute the covariance of `m` points with the data: `m x n`."""
        cross = self.covariance.cross(X, self.points, self.theta[:-3])
        cross *= self.amplitude
        return cross

    def _factor_joint(self, covariance: Floats, noise: float) -> Floats:
        """Factor a covariance, read from its upper triangle, plus noise: lower triangle, zeros above."""
        if not len(covariance):
            return covariance
        lower = factor(covariance / self.amplitude, self.amplitude, noise + JOINT_JITTER * self.amplitude)
        if lower is None:
            msg = f"GaussianProcess: expected a positive definite covariance, got none at θ={self.theta.tolist()}. Report the points."
            raise FloatingPointError(msg)
        return np.tril(lower)


def _solve(lower: Floats, right: Floats, *, transposed: bool = False, overwrite: bool = False) -> Floats:
    """Solve L x = b, or Lᵀ x = b, for `n x k` right-hand sides."""
    from scipy.linalg import lapack

    if not right.size:
        return right
    solution: tuple[Any, int] = lapack.dtrtrs(lower, right, lower=1, trans=int(transposed), overwrite_b=int(overwrite))
    result: Floats = solution[0]
    return result
