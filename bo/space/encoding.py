"""Encoding of a search space: configurations to and from the unit cube, and to the columns of a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.space.sampling import Design, unit_points
from warmstart.history_store.axes import MAX_UNIT, Axis, Choice, Integer, Real, plain_config
from warmstart.history_store.clauses import mentioned
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.numbering import Numbering
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

INACTIVE = 0.5
"""Coordinate of an inactive hyperparameter in points of `encode`."""
CELLS = 65_536
"""Largest number of combinations of values of a space that is enumerated."""
DRAWS = 262_144
"""Points of a design on a larger space before it stops the search for a new, allowed configuration."""
WIDE = 0.25
"""Largest wide step of `neighbours`, as a share of the range."""
MOST_CHOICES = 16
"""Most choices of one hyperparameter among `neighbours`."""
REACHES, TRIES = 4.0 ** -np.arange(1, 21), 1024
"""Largest moves of a coordinate by `beside`, in this order, and points drawn at each."""


class Encoding:
    """A ConfigSpace space as the cube `[0, 1)^p`, with a block of model columns for each hyperparameter.

    Designs and the search for the next point use the cube. Every point stands for one configuration: its rounded
    values, without inactive hyperparameters. Suggested reals lie on a decimal grid (`warmstart.history_store.axes.Real`),
    and whole numbers above 2**53 are equal if their float64s are. Values of a caller's configuration are stored
    exactly. Constants are part of configurations, not of the cube. Activity and clauses follow ConfigSpace.

    Attributes:
        p: hyperparameters with more than one value: dimensions of the cube.
        d: columns of the model; numbers, ordered and two-valued choices have one, others one for each choice.
        names: of the p hyperparameters.
        conditional: columns of conditional hyperparameters, NaN when inactive.
        real: `p`, mask of real hyperparameters, whose coordinate is their column, gradient 1.
        column: `p`, the first model column of each.

    Raises:
        UsageError: when the space has no hyperparameter, or a clause from outside ConfigSpace.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        if not len(space):
            msg = "space: expected at least one hyperparameter, got none. Add one with ConfigurationSpace.add."
            raise UsageError(msg)
        self.space = space
        self._numbering = Numbering(space)
        self._axes = self._numbering.axes
        self._free = [j for j, axis in enumerate(self._axes) if axis.size > 1]
        self._exact: list[dict[float, float]] = [{} for _ in self._free]
        free = [self._axes[j] for j in self._free]
        self._wide = [(k, axis) for k, axis in enumerate(free) if isinstance(axis, Integer) and axis.wide]
        self.p = len(free)
        self.names = tuple(axis.name for axis in free)
        self.real = np.array([isinstance(axis, Real) for axis in free], dtype=np.bool_)
        ends = list(itertools.accumulate((axis.width for axis in free), initial=0))
        self.d = ends[-1]
        self.column = np.array(ends[:-1], dtype=np.int64)
        in_clauses = set().union(*map(mentioned, [*space.conditions, *space.forbidden_clauses]))
        self._tested = [k for k, name in enumerate(self.names) if name in in_clauses]
        self._stepped = [k for k in range(self.p) if not self.real[k]]
        self.conditional = tuple(
            column
            for j, start, end in zip(self._free, ends[:-1], ends[1:], strict=True)
            if j in self._numbering.children
            for column in range(start, end)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"space": self.space, "_exact": self._exact}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Encoding.__init__(self, state["space"])
        self._exact = state["_exact"]

    def columns(self, U: ArrayLike) -> Floats:
        """Return the model columns `n x d` of `n x p` points, rounded to configurations, NaN where inactive.

        Reals are not rounded: their grid is finer than 1e-13 of the range.
        """
        points = self._checked(U)
        numbers = self._numbers(points, {*self._stepped, *self._tested})[:, self._free]
        X = np.empty((len(points), self.d))
        X[:, self.column[self.real]] = np.where(np.isnan(numbers), np.nan, points)[:, self.real]
        for k in self._stepped:
            axis = self._axes[self._free[k]]
            X[:, self.column[k] : self.column[k] + axis.width] = axis.columns(numbers[:, k])
        return X

    def valid(self, U: ArrayLike) -> Bools:
        """Return the mask of `n x p` points that no clause forbids, after rounding."""
        return ~self._numbering.forbidden(self._numbers(self._checked(U), self._tested))

    def decode(self, U: ArrayLike) -> list[dict[str, Value]]:
        """Return the configurations of `n x p` points with Python values, without inactive hyperparameters.

        Raises:
            DataError: when a clause forbids a point.
        """
        points = self._checked(U)
        numbers = self._numbers(points)
        for row in np.flatnonzero(self._numbering.forbidden(numbers)).tolist():
            msg = f"point {row}: expected a configuration that the space {self.space.name!r} allows, got one that is forbidden by {self._numbering.clause(numbers[row])}. Ask `valid` first."
            raise DataError(msg)
        configs = self._numbering.configs(numbers)
        for k, axis in self._wide:
            for config, u in zip(configs, points[:, k].tolist(), strict=True):
                if axis.name in config and u in self._exact[k]:
                    config[axis.name] = self._exact[k][u]
        return configs

    def encode(self, configs: Sequence[Config]) -> Floats:
        """Return the points of n configurations: `n x p` in [0, 1), 0.5 when inactive; `decode` inverts it exactly.

        Reals off the decimal grid, and whole numbers that are no float64, are stored here under their coordinate.

        Raises:
            DataError: when a configuration does not fit the space; the message names the configuration and the reason.
        """
        dicts = [_as_dict(config) for config in configs]
        numbers, active, misfits = self._numbering.parse(dicts)
        for row in np.flatnonzero(misfits | self._numbering.forbidden(numbers)).tolist():
            raise self._numbering.refuse(dicts[row])
        points = np.full((len(dicts), self.p), INACTIVE)
        for k, j in enumerate(self._free):
            points[active[:, j], k] = self._axes[j].units(numbers[active[:, j], j])
        for k, axis in self._wide:
            for row in np.flatnonzero(active[:, self._free[k]]).tolist():
                _store_exact(self._exact[k], points[row], k, int(dicts[row][axis.name]))
        return self._with_exact_reals(points, numbers)

    def fits(self, configs: Sequence[Config]) -> Bools:
        """Return the mask of n configurations that the space allows, which `encode` takes."""
        numbers, _, misfits = self._numbering.parse([_as_dict(config) for config in configs])
        return ~(misfits | self._numbering.forbidden(numbers))

    def key(self, config: Config) -> str:
        """Return the key of a configuration; configurations that are equal after rounding share it."""
        return self.keys(self.encode([config]))[0]

    def keys(self, U: ArrayLike) -> list[str]:
        """Return the key of each of `n x p` points."""
        numbers = self._numbers(self._checked(U))
        for k, j in enumerate(self._free):
            axis = self._axes[j]
            if isinstance(axis, Real) and self._exact[k]:
                active = np.isfinite(numbers[:, j])
                numbers[active, j] = axis.snap(numbers[active, j])
        return [row.tobytes().hex() for row in numbers[:, self._free]]

    def values(self, k: int, u: Floats) -> list[Value]:
        """Return the values at `n` coordinates of the k-th hyperparameter, as if it were active."""
        axis = self._axes[self._free[k]]
        return [axis.native(number) for number in axis.numbers(u).tolist()]

    def neighbours(self, u: ArrayLike, *, rng: np.random.Generator) -> Floats:
        """Return the allowed points at one step of one active integer or choice from a point.

        Whole numbers and ordered choices step by one and by a wider random step, either way; a choice steps to every
        alternative, or to 16 random ones.

        Args:
            u: `p` coordinates.
            rng: draws the wider steps.

        Returns: `m x p`, distinct configurations, without that of u.
        """
        point = self._checked(np.atleast_2d(np.asarray(u, dtype=np.float64)))
        numbers = self._numbers(point)[0]
        rows = [point]
        for k, j in enumerate(self._free):
            axis = self._axes[j]
            if isinstance(axis, Real) or math.isnan(numbers[j]):
                continue
            steps = _steps(axis, float(numbers[j]), rng)
            moved = np.repeat(point, len(steps), axis=0)
            moved[:, k] = axis.units(steps)
            rows.append(moved)
        points = np.concatenate(rows)
        allowed, first = self.valid(points), _first_rows(self.keys(points), ())
        return points[[row for row in first if row and allowed[row]]]

    @cached_property
    def size(self) -> float:
        """Return the number of distinct configurations, inf with a real; above 65,536, the number of combinations."""
        cells = math.prod(self._axes[j].size for j in self._free)
        return len(self._cells) if cells <= CELLS else cells

    def sample(
        self,
        n: int,
        *,
        design: Design = "sobol",
        rng: np.random.Generator,
        exclude: Collection[str] = frozenset(),
        around: ArrayLike | None = None,
    ) -> Floats:
        """Draw n allowed points of distinct configurations, in the order of a design.

        The continuation of the design replaces its repeats and forbidden points; uniform points continue a Latin
        hypercube. If clauses forbid nearly everything, the default configuration and points near allowed ones follow.

        Args:
            n: their number.
            design: `uniform`, `latin`, `halton` or `sobol`.
            rng: the only source of randomness.
            exclude: keys of configurations to leave out.
            around: `k x p` allowed points.

        Returns: `m x p`; m < n when the space is exhausted, or 262,144 points of a larger one, and points near allowed
            ones, held no more.

        Raises:
            UsageError: when the design is unknown, or n < 0.
        """
        if n < 0:
            msg = f"sample: expected a number of configurations, got n={n}. Ask for 0 or more."
            raise UsageError(msg)
        if n == 0:
            return np.empty((0, self.p))
        small = math.prod(self._axes[j].size for j in self._free) <= CELLS
        limit = min(4 * n + 64, DRAWS) if small else DRAWS + n
        points, drawn, taken = np.empty((0, self.p)), 0, set(exclude)
        for batch in unit_points(design, self.p, n=n, rng=rng):
            points = np.concatenate([points, self._new(batch, n - len(points), taken)])
            drawn += len(batch)
            if len(points) == n or drawn >= limit:
                break
        if small and len(points) < n:
            rest = self._new(rng.permutation(self._cells), n - len(points), taken)
            points = np.concatenate([points, rest])
        elif len(points) < n:
            centres = np.concatenate([self._default, points, np.empty((0, self.p)) if around is None else around])
            points = np.concatenate([points, self._new(self._default, n - len(points), taken)])
            points = np.concatenate([points, self.beside(centres, n - len(points), rng=rng, exclude=taken)])
        return points

    def beside(
        self, around: ArrayLike, n: int, *, rng: np.random.Generator, exclude: Collection[str] = frozenset()
    ) -> Floats:
        """Draw up to n allowed points of distinct configurations near `k x p` allowed points, by random moves.

        For spaces whose clauses forbid nearly everything. Moves shrink until they lead to allowed points.
        """
        points, taken, near = self._checked(around), set(exclude), np.empty((0, self.p))
        for reach in REACHES if len(points) else ():
            rows = points[rng.integers(len(points), size=TRIES)]
            moves = rng.uniform(-reach, reach, rows.shape) * (rng.random(rows.shape) < 0.5)
            folded = 1.0 - np.abs(1.0 - np.abs(rows + moves))  # reflection: clipping would heap points at the bounds
            near = np.concatenate([near, self._new(folded, n - len(near), taken)])
            if len(near) == n:
                break
        return near

    @cached_property
    def _default(self) -> Floats:
        """Return the point of the default configuration, `1 x p`, or `0 x p` if it is forbidden."""
        config = plain_config(self.space.get_default_configuration())
        return self.encode([config] if self.fits([config])[0] else [])

    @cached_property
    def _cells(self) -> Floats:
        """Return all allowed configurations of a small space: `m x p`."""
        middles = [self._axes[j].units(_values(self._axes[j])) for j in self._free]
        grid = (
            np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, self.p) if middles else np.empty((1, 0))
        )
        return self._new(grid, len(grid), set())

    def _new(self, points: Floats, n: int, taken: set[str]) -> Floats:
        """Return the first n allowed points with new keys, and add these keys to the set."""
        allowed = points[self.valid(points)]
        keys = self.keys(allowed)
        first = _first_rows(keys, taken)[:n]
        taken.update(keys[i] for i in first)
        return allowed[first]

    def _checked(self, U: ArrayLike) -> Floats:
        points = np.asarray(U, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.p or not np.all((points >= 0.0) & (points <= 1.0)):
            got = f"shape {points.shape}" if points.ndim != 2 or points.shape[1] != self.p else "values outside"
            msg = f"points: expected `n x {self.p}` in [0, 1], got {got}. Give one coordinate for each of {', '.join(self.names)}."
            raise UsageError(msg)
        return np.minimum(points, MAX_UNIT)

    def _numbers(self, points: Floats, needed: Collection[int] | None = None) -> Floats:
        """Round points to numbers, `n x h`, one column for each hyperparameter and constant, NaN when inactive.

        Only the coordinates in `needed` are computed; other columns have 0, so activity must not depend on them.
        """
        numbers = np.zeros((len(points), len(self._axes)))
        for k in range(self.p) if needed is None else needed:
            j = self._free[k]
            numbers[:, j] = self._axes[j].numbers(points[:, k])
            if exact := self._exact[k]:
                for row in np.flatnonzero(np.isin(points[:, k], np.fromiter(exact, dtype=np.float64))):
                    numbers[row, j] = exact[points[row, k]]
        return np.where(self._numbering.active(numbers), numbers, np.nan)

    def _with_exact_reals(self, points: Floats, numbers: Floats) -> Floats:
        """Store reals off the grid under coordinates of their own, and return the points with these coordinates."""
        for k, j in enumerate(self._free):
            axis, exact = self._axes[j], self._exact[k]
            if not isinstance(axis, Real):
                continue
            active = np.flatnonzero(np.isfinite(numbers[:, j]))
            off = active[axis.numbers(points[active, k]) != numbers[active, j]]
            for row, decimal in zip(off, axis.units(axis.snap(numbers[off, j])).tolist(), strict=True):
                _store_exact(exact, points[row], k, float(numbers[row, j]), reserved=decimal)
        return points


def _as_dict(config: Config) -> dict[str, Value]:
    """Copy a configuration, a dict or one of ConfigSpace's."""
    try:
        return dict(config)
    except (TypeError, ValueError) as error:
        msg = f"configuration {config!r}: expected values by name, got {type(config).__name__}. Give a dict."
        raise DataError(msg) from error


def _first_rows(keys: Sequence[str], taken: Collection[str]) -> list[int]:
    """Return the rows of first occurrences of new keys."""
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    return [row for key, row in first.items() if key not in taken]


def _store_exact(
    exact: dict[float, float], point: Floats, k: int, number: float, *, reserved: float = math.nan
) -> None:
    """Map a coordinate to its exact number; a taken or reserved one moves to the next free float64 towards 0.5."""
    u = float(point[k])
    towards = 0.0 if u > INACTIVE else 1.0
    while u == reserved or exact.get(u, number) != number:
        u = math.nextafter(u, towards)
    point[k], exact[u] = u, number


def _values(axis: Axis) -> Floats:
    """Return every number of an integer or a choice."""
    start = axis.low if isinstance(axis, Integer) else 0
    return start + np.arange(axis.size)


def _steps(axis: Axis, number: float, rng: np.random.Generator) -> Floats:
    """Return the neighbouring numbers of a number."""
    if isinstance(axis, Choice) and not axis.ordered:
        choices = np.setdiff1d(_values(axis), [number])
        return choices if len(choices) <= MOST_CHOICES else rng.choice(choices, MOST_CHOICES, replace=False)
    low, high = (axis.low, axis.high) if isinstance(axis, Integer) else (0, axis.size - 1)
    wide = axis.units(np.array([number])) + rng.uniform(0.0, WIDE) * np.array([-1.0, 1.0])
    steps = np.concatenate([[number - 1.0, number + 1.0], axis.numbers(np.clip(wide, 0.0, MAX_UNIT))])
    return np.setdiff1d(np.clip(steps, low, high), [number])
