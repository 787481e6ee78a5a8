"""Covariance between points of several tasks: a part that tasks share, and a part of the target alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.covariance import Stationary, StationarySlopes
from warmstart.bo.surrogates.gp.priors import Density, normal

Floats = NDArray[np.float64]

RANK = 2
"""Dimensions in which tasks lie."""
LOCATION, SCALE = 2.0, 1.5
"""Prior of a task's position u: N(2, 1.5²) along the first dimension, N(0, 1.5²) along the others; most tasks are
alike."""
NOISE, NOISE_SD = -4.0, 3.0
"""Prior of the logit of the share of noise in a related task's targets: little, or nearly all."""


class Coregionalised:
    """Intrinsic coregionalisation [Swersky2013multi] with an extra part for the target, the last task.

    The last column of a point is its task. Task t lies at v_t = u_t / √(1 + |u_t|²) in the unit ball. The correlation
    of points of tasks t ≠ t' is v_t · v_t' times the correlation of the points, and with meta-features also times
    exp(-½ |meta_t - meta_t'|²/λ²). The share 1 - |v|² of the target's variance has separate lengthscales. With shared
    lengthscales alone, a rough related task would make a smooth target look rough, however little they correlate.

    The share ν_t of the standardised targets of a related task t is noise. Its covariance with task t' shrinks by √(1 -
    ν_t) √(1 - ν_t'). ν = 0 for the target, whose noise is that of the process: a task of pure noise does not
    inform it.

    The shape parameters are those of the shared correlation, those of the target's part, u row by row, log λ, and logit
    ν_t of the T - 1 related tasks; with one task, only the first.
    """

    def __init__(self, points: Stationary, meta: Floats) -> None:
        """Build the covariance of points of several tasks.

        Args:
            points: correlation of points without their task.
            meta: `T x q` reduced meta-features; q = 0 for tasks without.
        """
        self._points, self._tasks = points, len(meta)
        several = self._tasks > 1
        square = ((meta[:, None] - meta) ** 2).sum(axis=2)
        self._has_meta = bool(square.any())
        self._square: Floats = square / np.median(square[square > 0.0]) if self._has_meta else square
        ends = np.cumsum(
            [0, points.size, several * points.size, several * RANK * self._tasks, self._has_meta, self._tasks - 1]
        ).tolist()
        self._shape, self._target_shape, self._positions, self._lambda, self._noises = (
            slice(i, j) for i, j in pairwise(ends)
        )
        self.size: int = ends[-1]
        self._last: _Points | None = None

    def prior(self, points: list[Density]) -> list[Density]:
        """Return the prior of the shape from that of the correlation; λ ~ LogNormal(1, 1), logit ν ~ N(-4, 3²)."""
        if self._tasks == 1:
            return points
        position = [normal(LOCATION if k == 0 else 0.0, SCALE) for k in range(RANK)]
        noises = [normal(NOISE, NOISE_SD)] * (self._tasks - 1)
        return points * 2 + position * self._tasks + [normal(1.0, 1.0)] * self._has_meta + noises

    def shares_of_noise(self, shape: Floats) -> Floats:
        """Return ν, the share of noise in the targets of related tasks: `T - 1`."""
        result: Floats = 1.0 / (1.0 + np.exp(-shape[self._noises]))
        return result

    def noise(self, X: Floats, shape: Floats, level: float) -> Floats:
        """Return the noise of every point's task; `level` is the target's."""
        result: Floats = np.append(self.shares_of_noise(shape), level)[self._cached(X).task]
        return result

    def pull_noise(self, X: Floats, shape: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Compute the gradients of the shape and of the target's noise from a gradient of the noise."""
        by_task, noise, result = (
            np.bincount(_task(X), gradient, self._tasks),
            self.shares_of_noise(shape),
            np.zeros(self.size),
        )
        result[self._noises] = by_task[:-1] * noise * (1.0 - noise)
        return result, float(by_task[-1])

    def matrix(self, X: Floats, shape: Floats) -> Floats:
        """Compute the covariance of points; only the upper triangle counts."""
        if self._tasks == 1:
            return self._points.matrix(X[:, :-1], shape[self._shape])
        shared, last = self._shared(shape), self._cached(X)
        result: Floats = last.everywhere(shape[self._shape]) * shared.ravel()[last.pairs]
        result[last.target] += (1.0 - shared[-1, -1]) * last.within(shape[self._target_shape])
        return result

    def matrix_and_pull(self, X: Floats, shape: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Compute the covariance of points, and a function that maps its gradient to that of the shape."""
        if self._tasks == 1:
            return self._points.matrix_and_pull(X[:, :-1], shape[self._shape])
        shared, rows = self._shared(shape), self._of_target(X)
        target = np.ix_(rows, rows)
        correlation, pull_shared = self._points.matrix_and_pull(X[:, :-1], shape[self._shape])
        within, pull_target = self._points.matrix_and_pull(X[rows, :-1], shape[self._target_shape])
        between, rest = _gather(shared, X, X), 1.0 - shared[-1, -1]
        member = np.eye(self._tasks)[_task(X)]
        matrix = correlation * between
        matrix[target] += rest * within

        def pull(gradient: Floats) -> Floats:
            by_tasks = member.T @ (gradient * correlation) @ member
            by_tasks[-1, -1] -= np.vdot(gradient[target], within)
            parts = (
                pull_shared(gradient * between),
                pull_target(rest * gradient[target]),
                self._pull_tasks(by_tasks, shape),
            )
            return np.concatenate(parts)

        return matrix, pull

    def cross(self, X: Floats, Z: Floats, shape: Floats) -> Floats:
        """Compute the covariance of two sets of points."""
        result = self._points.cross(X[:, :-1], Z[:, :-1], shape[self._shape])
        if self._tasks == 1:
            return result
        shared, rows, columns = self._shared(shape), self._of_target(X), self._of_target(Z)
        result *= _gather(shared, X, Z)
        within = self._points.cross(X[rows, :-1], Z[columns, :-1], shape[self._target_shape])
        result[np.ix_(rows, columns)] += (1.0 - shared[-1, -1]) * within
        return result

    def cross_and_slopes(self, X: Floats, Z: Floats, shape: Floats) -> tuple[Floats, "TaskSlopes"]:
        """Compute the covariance of two sets of points, with slopes by the columns without the task."""
        correlation, slopes = self._points.cross_and_slopes(X[:, :-1], Z[:, :-1], shape[self._shape])
        if self._tasks == 1:
            return correlation, TaskSlopes((slopes,), (np.arange(len(Z)),))
        shared, columns = self._shared(shape), self._of_target(Z)
        between = _gather(shared, X, Z)
        within, target_slopes = self._points.cross_and_slopes(X[:, :-1], Z[columns, :-1], shape[self._target_shape])
        rest = (1.0 - shared[-1, -1]) * (_task(X) == self._tasks - 1)[:, None]
        correlation *= between
        correlation[:, columns] += rest * within
        parts = replace(slopes, slope=slopes.slope * between), replace(target_slopes, slope=target_slopes.slope * rest)
        return correlation, TaskSlopes(parts, (np.arange(len(Z)), columns))

    def _cached(self, X: Floats) -> "_Points":
        """Return cached correlations of points; most calls are for the points of the last call."""
        # By identity, not by value: a chain passes the same array in each of its many steps.
        if self._last is None or self._last.X is not X:
            self._last = _Points(self._points, self._tasks, X)
        return self._last

    def _of_target(self, X: Floats) -> NDArray[np.intp]:
        """Return the rows of the target."""
        return np.flatnonzero(_task(X) == self._tasks - 1)

    def _ball(self, shape: Floats) -> tuple[Floats, Floats]:
        """Return positions v, `T x RANK` in the unit ball, and √(1 + |u|²): `T x 1`."""
        u = shape[self._positions].reshape(self._tasks, RANK)
        length: Floats = np.sqrt(1.0 + (u * u).sum(axis=1, keepdims=True))
        return u / length, length

    def _likeness(self, shape: Floats) -> Floats:
        """Compute the correlations of meta-features: `T x T`; 1 without any."""
        if not self._has_meta:
            return np.ones_like(self._square)
        result: Floats = np.exp(-0.5 * self._square * np.exp(-2.0 * shape[self._lambda]))
        return result

    def _alike(self, shape: Floats) -> Floats:
        """Compute the correlations of the shared part: `T x T`, 1 on the diagonal but for the target's |v|²."""
        if self._tasks == 1:
            return np.ones((1, 1))
        v, _ = self._ball(shape)
        result: Floats = v @ v.T
        if self._has_meta:
            result *= self._likeness(shape)
        # A stride of T + 1 meets the diagonal; the last entry, that of the target, stays.
        result.ravel()[: -1 : self._tasks + 1] = 1.0
        return result

    def _shared(self, shape: Floats) -> Floats:
        """Compute the covariances of the shared part: `T x T`."""
        return self._alike(shape) * self._signal(shape)

    def _signal(self, shape: Floats) -> Floats:
        """Compute the factors by which noise shrinks covariances: `T x T`."""
        left = np.sqrt(np.append(1.0 - self.shares_of_noise(shape), 1.0))
        result: Floats = np.outer(left, left)
        return result

    def _pull_tasks(self, gradient: Floats, shape: Floats) -> Floats:
        """Compute the gradients of positions, λ and noise from a symmetric gradient `T x T` of the shared part."""
        by_noise = -self.shares_of_noise(shape) * (gradient * self._shared(shape))[:-1].sum(axis=1)
        gradient = gradient * self._signal(shape)
        gradient.ravel()[: -1 : self._tasks + 1] = 0.0
        (v, length), likeness = self._ball(shape), self._likeness(shape)
        by_position = 2.0 * (gradient * likeness) @ v / length
        by_position -= v * (v * by_position).sum(axis=1, keepdims=True)
        if not self._has_meta:
            return np.concatenate([by_position.ravel(), by_noise])
        shrunk = self._square * np.exp(-2.0 * shape[self._lambda])
        return np.array([*by_position.ravel(), np.vdot(gradient, v @ v.T * likeness * shrunk), *by_noise])


class _Points:
    """Points with their tasks and cached correlations: most steps of a chain change only the tasks.

    Attributes:
        X: `n x (d + 1)`.
        task: `n`.
        pairs: `n x n` indices into the flat table of all pairs of tasks.
        target: rows and columns of the target.
    """

    def __init__(self, points: Stationary, tasks: int, X: Floats) -> None:
        self.X, self.task = X, _task(X)
        self.pairs = tasks * self.task[:, None] + self.task
        rows = np.flatnonzero(self.task == tasks - 1)
        self.target = np.ix_(rows, rows)
        self.everywhere = _CachedCorrelation(points, X[:, :-1])
        self.within = _CachedCorrelation(points, X[rows, :-1])


class _CachedCorrelation:
    """Correlation of points, cached for the last shape."""

    def __init__(self, points: Stationary, X: Floats) -> None:
        self._points, self._X = points, X
        self._cache: tuple[Floats, Floats] | None = None

    def __call__(self, shape: Floats) -> Floats:
        """Compute the correlations; only the upper triangle counts. Callers must not change the matrix."""
        if self._cache is None or not np.array_equal(self._cache[0], shape):
            self._cache = shape.copy(), self._points.matrix(self._X, shape)
        return self._cache[1]


@dataclass(frozen=True, slots=True)
class TaskSlopes:
    """Slopes of a sum of correlations, each over a subset of the n points.

    Attributes:
        parts: one for each correlation.
        columns: its subset of the points.
    """

    parts: tuple[StationarySlopes, ...]
    columns: tuple[NDArray[np.intp], ...]

    def weighted(self, weights: Floats) -> Floats:
        """Return the gradients of weighted sums."""
        pairs = zip(self.parts, self.columns, strict=True)
        total: Floats = np.sum([part.weighted(weights[columns]) for part, columns in pairs], axis=0)
        return total

    def pull(self, gradient: Floats) -> Floats:
        """Compute the gradient of the points from a gradient of the matrix."""
        pairs = zip(self.parts, self.columns, strict=True)
        total: Floats = np.sum([part.pull(gradient[:, columns]) for part, columns in pairs], axis=0)
        return total


def _task(X: Floats) -> NDArray[np.intp]:
    """Return the task of every point."""
    return X[:, -1].astype(np.intp)


def _gather(tasks: Floats, X: Floats, Z: Floats) -> Floats:
    """Expand a table of tasks to pairs of points: `m x n`."""
    result: Floats = np.take(tasks[_task(X)], _task(Z), axis=1)
    return result
