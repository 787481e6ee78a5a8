"""Correlation functions of points, with gradients by shape parameters and by points."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.kernels import Kernel, correlations, cross_correlations, square_distances

Floats = NDArray[np.float64]


class Covariance(Protocol):
    """Interface of a correlation function with `size` shape parameters. The amplitude is not part of it."""

    @property
    def size(self) -> int:
        """Return the number of shape parameters."""
        ...

    def matrix(self, X: Floats, shape: Floats) -> Floats:
        """Compute the correlations of `n` points: `n x n`; only the upper triangle counts."""
        ...

    def matrix_and_pull(self, X: Floats, shape: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Compute the full matrix, and a function that maps its symmetric gradient to that of the shape, `size`."""
        ...

    def noise(self, X: Floats, shape: Floats, level: float) -> float | Floats:
        """Return the variance of the noise, of all points or `n`; `level` is that of the points to predict."""
        ...

    def pull_noise(self, X: Floats, shape: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Compute the gradients of the shape, `size`, and of the level from a gradient `n` of the noise."""
        ...

    def cross(self, X: Floats, Z: Floats, shape: Floats) -> Floats:
        """Compute the correlations of `m` with `n` points: `m x n`."""
        ...

    def cross_and_slopes(self, X: Floats, Z: Floats, shape: Floats) -> tuple[Floats, "Slopes"]:
        """Compute the correlations, and their derivatives by the m points."""
        ...


class Slopes(Protocol):
    """Interface of the derivatives of correlations `m x n` by the m points."""

    def weighted(self, weights: Floats) -> Floats:
        """Return the gradients of F sums over the n points, weighted by `n x F`: `F x m x d`."""
        ...

    def pull(self, gradient: Floats) -> Floats:
        """Compute the gradient of the m points, `m x d`, from a gradient `m x n` of the matrix."""
        ...


class Stationary:
    """Kernel of the distance between embedded points."""

    def __init__(self, kernel: Kernel, metric: Metric) -> None:
        self.kernel, self.metric = kernel, metric

    @property
    def size(self) -> int:
        """Return the number of shape parameters of the metric."""
        return self.metric.size

    def noise(self, X: Floats, shape: Floats, level: float) -> float:  # noqa: ARG002  one signature for all
        """Return the level, which is the noise of every point."""
        return level

    def pull_noise(self, X: Floats, shape: Floats, gradient: Floats) -> tuple[Floats, float]:  # noqa: ARG002  likewise
        """Return zeros for the shape, and the gradient of the level."""
        return np.zeros(self.size), float(gradient.sum())

    def matrix(self, X: Floats, shape: Floats) -> Floats:
        """Compute the correlations of points; only the upper triangle counts."""
        return correlations(self.metric.embed(X, shape), self.kernel)

    def matrix_and_pull(self, X: Floats, shape: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Compute the correlations of points, and a function that maps their gradient to that of the shape."""
        E = self.metric.embed(X, shape)
        r2 = square_distances(E, E)
        slope = self.kernel.slope(r2)

        def pull(gradient: Floats) -> Floats:
            by_distance = gradient * slope
            by_embedding = 4.0 * (by_distance.sum(axis=1, keepdims=True) * E - by_distance @ E)
            return self.metric.pull_shape(X, shape, by_embedding)

        return self.kernel.value(r2), pull

    def cross(self, X: Floats, Z: Floats, shape: Floats) -> Floats:
        """Compute the correlations of two sets of points."""
        return cross_correlations(self.metric.embed(X, shape), self.metric.embed(Z, shape), self.kernel)

    def cross_and_slopes(self, X: Floats, Z: Floats, shape: Floats) -> tuple[Floats, "StationarySlopes"]:
        """Compute the correlations of two sets of points, with slopes by the first."""
        E, F = self.metric.embed(X, shape), self.metric.embed(Z, shape)
        r2 = square_distances(E, F)
        slope = self.kernel.slope(r2)
        return self.kernel.value(r2), StationarySlopes(self.metric, X, shape, E, F, slope)


@dataclass(frozen=True, slots=True)
class StationarySlopes:
    """Slopes of a kernel of the distance of embedded points.

    Attributes:
        metric: of the embedding.
        X: `m x d` points.
        shape: of the metric.
        E: `m x e`, the m points, embedded.
        F: `n x e`, the n points, embedded.
        slope: `m x n`, of the correlation by the squared distance.
    """

    metric: Metric
    X: Floats
    shape: Floats
    E: Floats
    F: Floats
    slope: Floats

    def weighted(self, weights: Floats) -> Floats:
        """Return the gradients of weighted sums, by one matrix product, or one for each point if these are few."""
        f, e = weights.shape[1], self.F.shape[1]
        if len(self.slope) <= e:
            moments = (self.slope[:, None] * weights.T) @ self.F
        else:
            moments = (self.slope @ (weights[:, :, None] * self.F[:, None, :]).reshape(-1, f * e)).reshape(-1, f, e)
        by_embedding = 2.0 * ((self.slope @ weights)[:, :, None] * self.E[:, None, :] - moments)
        pulled = self.metric.pull_inputs(np.repeat(self.X, f, axis=0), self.shape, by_embedding.reshape(-1, e))
        return pulled.reshape(-1, f, self.X.shape[1]).swapaxes(0, 1)

    def pull(self, gradient: Floats) -> Floats:
        """Compute the gradient of the m points from a gradient of the matrix."""
        by_distance = gradient * self.slope
        by_embedding = 2.0 * (by_distance.sum(axis=1, keepdims=True) * self.E - by_distance @ self.F)
        return self.metric.pull_inputs(self.X, self.shape, by_embedding)
