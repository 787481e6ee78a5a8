"""Covariance between points of several tasks: a part that tasks share, and a part of the target's own."""

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
"""Prior of a task's place: N(2, 1.5²) along the first dimension, N(0, 1.5²) along the others; most tasks are alike."""
NOISE, NOISE_SD = -4.0, 3.0
"""Prior of the logit of the share of noise in a related task's targets: little, or nearly all."""


class Coregionalised:
    """Intrinsic coregionalisation [Swersky2013multi] with a part of its own for the target, the last task.

    The last column of a point is its task. Task t lies at v_t = u_t / √(1 + |u_t|²) in the unit ball. The correlation
    of points of tasks t ≠ t' is v_t · v_t' times the correlation of the points. Where tasks have meta-features it is
    also multiplied by exp(-½ |meta_t - meta_t'|²/λ²). The share 1 - |v|² of the target's variance has lengthscales of
    its own. With shared lengthscales alone, a rough related task would make a smooth target look rough, however little
    they correlate.

    The share ν_t of the standardised targets of a related task t is noise. Its covariance with task t' shrinks by √(1 -
    ν_t) √(1 - ν_t'). ν = 0 for the target, whose noise is that of the process: a task that is pure noise tells nothing
    about it.

    The shape parameters are those of the shared correlation, those of the target's own, u row by row, log λ, and logit
    ν_t of the T - 1 related tasks; with one task, the first alone.
    """

    def __init__(self, points: Stationary, meta: Floats) -> None:
        """Set up a correlation.

        Args:
            points: correlation of points without their task.
            meta: `T x q` reduced meta-features; q = 0 where tasks have none.
        """
        self._points, self._tasks = points, len(meta)
        several = self._tasks > 1
        square = ((meta[:, None] - meta) ** 2).sum(axis=2)
        self._has_meta = bool(square.any())
        self._square: Floats = square / np.median(square[square > 0.0]) if self._has_meta else square
        ends = np.cumsum(
            [0, points.size, several * points.size, several * RANK * self._tasks, self._has_meta, self._tasks - 1]
        ).tolist()
        self._shape, self._own, self._places, self._lambda, self._noises = (slice(i, j) for i, j in pairwise(ends))
        self.size: int = ends[-1]
        self._last: _Points | None = None

    def prior(self, points: list[Density]) -> list[Density]:
        """Return the prior of the shape, given that of the points' correlation; λ ~ LogNormal(1, 1), logit ν ~ N(-4, 3²)."""
        if self._tasks == 1:
            return points
        place = [normal(LOCATION if k == 0 else 0.0, SCALE) for k in range(RANK)]
        noises = [normal(NOISE, NOISE_SD)] * (self._tasks - 1)
        return points * 2 + place * self._tasks + [normal(1.0, 1.0)] * self._has_meta + noises

    def shares_of_noise(self, shape: Floats) -> Floats:
        """Return ν, the share of noise in the targets of related tasks: `T - 1`."""
        result: Floats = 1.0 / (1.0 + np.exp(-shape[self._noises]))
        return result

    def noise(self, X: Floats, shape: Floats, level: float) -> Floats:
        """Return the noise of every point's task; `level` is the target's."""
        result: Floats = np.append(self.shares_of_noise(shape), level)[self._known_points(X).task]
        return result

    def pull_noise(self, X: Floats, shape: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Carry a gradient back to the shape and to the target's noise."""
        by_task, noise, result = (
            np.bincount(_task(X), gradient, self._tasks),
            self.shares_of_noise(shape),
            np.zeros(self.size),
        )
        result[self._noises] = by_task[:-1] * noise * (1.0 - noise)
        return result, float(by_task[-1])

    def matrix(self, X: Floats, shape: Floats) -> Floats:
        """Correlate, the upper triangle alone."""
        if self._tasks == 1:
            return self._points.matrix(X[:, :-1], shape[self._shape])
        shared, last = self._shared(shape), self._known_points(X)
        result: Floats = last.everywhere(shape[self._shape]) * shared.ravel()[last.pairs]
        result[last.own] += (1.0 - shared[-1, -1]) * last.within(shape[self._own])
        return result

    def matrix_and_pull(self, X: Floats, shape: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Correlate, and carry a gradient back to points and tasks."""
        if self._tasks == 1:
            return self._points.matrix_and_pull(X[:, :-1], shape[self._shape])
        shared, rows = self._shared(shape), self._of_target(X)
        own = np.ix_(rows, rows)
        correlation, pull_shared = self._points.matrix_and_pull(X[:, :-1], shape[self._shape])
        within, pull_own = self._points.matrix_and_pull(X[rows, :-1], shape[self._own])
        between, rest = _gather(shared, X, X), 1.0 - shared[-1, -1]
        member = np.eye(self._tasks)[_task(X)]
        matrix = correlation * between
        matrix[own] += rest * within

        def pull(gradient: Floats) -> Floats:
            by_tasks = member.T @ (gradient * correlation) @ member
            by_tasks[-1, -1] -= np.vdot(gradient[own], within)
            parts = pull_shared(gradient * between), pull_own(rest * gradient[own]), self._pull_tasks(by_tasks, shape)
            return np.concatenate(parts)

        return matrix, pull

    def cross(self, X: Floats, Z: Floats, shape: Floats) -> Floats:
        """Correlate two sets of points."""
        result = self._points.cross(X[:, :-1], Z[:, :-1], shape[self._shape])
        if self._tasks == 1:
            return result
        shared, rows, columns = self._shared(shape), self._of_target(X), self._of_target(Z)
        result *= _gather(shared, X, Z)
        within = self._points.cross(X[rows, :-1], Z[columns, :-1], shape[self._own])
        result[np.ix_(rows, columns)] += (1.0 - shared[-1, -1]) * within
        return result

    def cross_and_slopes(self, X: Floats, Z: Floats, shape: Floats) -> tuple[Floats, "TaskSlopes"]:
        """Correlate, with slopes by the columns of points without their task."""
        correlation, slopes = self._points.cross_and_slopes(X[:, :-1], Z[:, :-1], shape[self._shape])
        if self._tasks == 1:
            return correlation, TaskSlopes((slopes,), (np.arange(len(Z)),))
        shared, columns = self._shared(shape), self._of_target(Z)
        between = _gather(shared, X, Z)
        within, own = self._points.cross_and_slopes(X[:, :-1], Z[columns, :-1], shape[self._own])
        rest = (1.0 - shared[-1, -1]) * (_task(X) == self._tasks - 1)[:, None]
        correlation *= between
        correlation[:, columns] += rest * within
        parts = replace(slopes, slope=slopes.slope * between), replace(own, slope=own.slope * rest)
        return correlation, TaskSlopes(parts, (np.arange(len(Z)), columns))

    def _known_points(self, X: Floats) -> "_Points":
        """Return what is known of points: those of the last call, most of the time."""
        if self._last is None or self._last.X is not X:
            self._last = _Points(self._points, self._tasks, X)
        return self._last

    def _of_target(self, X: Floats) -> NDArray[np.intp]:
        """Find the rows of the target."""
        return np.flatnonzero(_task(X) == self._tasks - 1)

    def _ball(self, shape: Floats) -> tuple[Floats, Floats]:
        """Return places `T x RANK` in the unit ball, and √(1 + |u|²): `T x 1`."""
        u = shape[self._places].reshape(self._tasks, RANK)
        length: Floats = np.sqrt(1.0 + (u * u).sum(axis=1, keepdims=True))
        return u / length, length

    def _likeness(self, shape: Floats) -> Floats:
        """Correlate meta-features: `T x T`; 1 where there are none."""
        if not self._has_meta:
            return np.ones_like(self._square)
        result: Floats = np.exp(-0.5 * self._square * np.exp(-2.0 * shape[self._lambda]))
        return result

    def _alike(self, shape: Floats) -> Floats:
        """Correlate what tasks share: `T x T`, 1 on the diagonal but for the target's |v|²."""
        if self._tasks == 1:
            return np.ones((1, 1))
        v, _ = self._ball(shape)
        result: Floats = v @ v.T
        if self._has_meta:
            result *= self._likeness(shape)
        result.ravel()[: -1 : self._tasks + 1] = 1.0
        return result

    def _shared(self, shape: Floats) -> Floats:
        """Covariance of what tasks share: `T x T`."""
        return self._alike(shape) * self._signal(shape)

    def _signal(self, shape: Floats) -> Floats:
        """Return what the noise leaves of covariances: `T x T`."""
        left = np.sqrt(np.append(1.0 - self.shares_of_noise(shape), 1.0))
        result: Floats = np.outer(left, left)
        return result

    def _pull_tasks(self, gradient: Floats, shape: Floats) -> Floats:
        """Carry a symmetric gradient `T x T` of what is shared back to places, λ and noise."""
        by_noise = -self.shares_of_noise(shape) * (gradient * self._shared(shape))[:-1].sum(axis=1)
        gradient = gradient * self._signal(shape)
        gradient.ravel()[: -1 : self._tasks + 1] = 0.0
        (v, length), likeness = self._ball(shape), self._likeness(shape)
        by_place = 2.0 * (gradient * likeness) @ v / length
        by_place -= v * (v * by_place).sum(axis=1, keepdims=True)
        if not self._has_meta:
            return np.concatenate([by_place.ravel(), by_noise])
        shrunk = self._square * np.exp(-2.0 * shape[self._lambda])
        return np.array([*by_place.ravel(), np.vdot(gradient, v @ v.T * likeness * shrunk), *by_noise])


class _Points:
    """Points with their tasks, and their correlations as they were asked for last: most steps of a chain change tasks alone.

    Attributes:
        X: `n x (d + 1)`.
        task: `n`.
        pairs: `n x n`, where tasks of two points stand in a flat table of all pairs of tasks.
        own: rows and columns of the target.
    """

    def __init__(self, points: Stationary, tasks: int, X: Floats) -> None:
        self.X, self.task = X, _task(X)
        self.pairs = tasks * self.task[:, None] + self.task
        rows = np.flatnonzero(self.task == tasks - 1)
        self.own = np.ix_(rows, rows)
        self.everywhere = _Last(points, X[:, :-1])
        self.within = _Last(points, X[rows, :-1])


class _Last:
    """Correlation of points under the last shape that was asked for."""

    def __init__(self, points: Stationary, X: Floats) -> None:
        self._points, self._X = points, X
        self._known: tuple[Floats, Floats] | None = None

    def __call__(self, shape: Floats) -> Floats:
        """Correlate, the upper triangle alone; the matrix is not to be changed."""
        if self._known is None or not np.array_equal(self._known[0], shape):
            self._known = shape.copy(), self._points.matrix(self._X, shape)
        return self._known[1]


@dataclass(frozen=True, slots=True)
class TaskSlopes:
    """Slopes of a sum of correlations, each of some of the n points.

    Attributes:
        parts: one a correlation.
        columns: the points of each.
    """

    parts: tuple[StationarySlopes, ...]
    columns: tuple[NDArray[np.intp], ...]

    def weighted(self, weights: Floats) -> Floats:
        """Return gradients of weighted sums."""
        pairs = zip(self.parts, self.columns, strict=True)
        total: Floats = np.sum([part.weighted(weights[columns]) for part, columns in pairs], axis=0)
        return total

    def pull(self, gradient: Floats) -> Floats:
        """Carry a gradient back."""
        pairs = zip(self.parts, self.columns, strict=True)
        total: Floats = np.sum([part.pull(gradient[:, columns]) for part, columns in pairs], axis=0)
        return total


def _task(X: Floats) -> NDArray[np.intp]:
    """Read the task of every point."""
    return X[:, -1].astype(np.intp)


def _gather(tasks: Floats, X: Floats, Z: Floats) -> Floats:
    """Look up what the tasks of points have in common: `m x n`."""
    result: Floats = np.take(tasks[_task(X)], _task(Z), axis=1)
    return result
