"""Encoding of a search space: configurations to and from the unit cube, and to the columns that a surrogate sees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.space.axes import BELOW_ONE, Axis, Choice, Integer, Real, axis_of, plain_config
from warmstart.bo.space.clauses import condition_test, forbidden_test, mentioned
from warmstart.bo.space.sampling import Design, unit_points
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

INACTIVE = 0.5
"""The coordinate that `encode` gives a hyperparameter that is inactive."""
CELLS = 65_536
"""Spaces with at most so many combinations of values are counted and searched whole."""
DRAWS = 262_144
"""Points after which a design on a larger space gives up looking for a configuration that is new and allowed."""
WIDE = 0.25
"""The wider step of `neighbours` is drawn up to this share of the range."""
OTHERS = 16
"""Other choices that `neighbours` tries where there are more."""
REACHES, TRIES = 4.0 ** -np.arange(1, 21), 1024
"""How far `beside` moves a coordinate at most, the furthest first, and the points that it draws at each of these."""


class Encoding:
    """A ConfigSpace space as the cube `[0, 1)^p`, with a block of model columns for each hyperparameter.

    Designs and the search for the next point use the cube. Every point stands for one configuration: that of its
    rounded values, without inactive hyperparameters. Reals are evaluated on a decimal grid (`warmstart.bo.space.axes.Real`), and
    whole numbers above 2**53 are equal where their float64s are; what others give is kept as it is.
    Constants are part of configurations, not of the cube. Activity and clauses follow ConfigSpace.

    Attributes:
        p: hyperparameters with more than one value: dimensions of the cube.
        d: columns of the model; numbers, ordered and two-valued choices have one, other choices one a choice.
        names: the p hyperparameters.
        conditional: columns that are NaN where their hyperparameter is inactive.
        real: `p`, which hyperparameters vary without steps: their coordinate is their column, gradient 1.
        column: `p`, the first model column of each.

    Raises:
        UsageError: when the space names no hyperparameter, or holds a clause that ConfigSpace itself does not have.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        if not len(space):
            msg = "space: expected at least one hyperparameter, got none. Add one with ConfigurationSpace.add."
            raise UsageError(msg)
        self.space = space
        self._axes: list[Axis] = [axis_of(hyperparameter) for hyperparameter in space.values()]
        self._index = {axis.name: j for j, axis in enumerate(self._axes)}
        by_name = {axis.name: (j, axis) for j, axis in enumerate(self._axes)}
        self._conditions = sorted(  # parents come before children in a space
            ((self._index[c.child.name], condition_test(c, by_name)) for c in space.conditions),
            key=lambda pair: pair[0],
        )
        self._forbidden = [(str(c), forbidden_test(c, by_name)) for c in space.forbidden_clauses]
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
        asked = set().union(*map(mentioned, [*space.conditions, *space.forbidden_clauses]))
        self._tested = [k for k, name in enumerate(self.names) if name in asked]
        self._stepped = [k for k in range(self.p) if not self.real[k]]
        children = {child for child, _ in self._conditions}
        self.conditional = tuple(
            column
            for j, start, end in zip(self._free, ends[:-1], ends[1:], strict=True)
            if j in children
            for column in range(start, end)
        )

    def columns(self, U: ArrayLike) -> Floats:
        """Return what a surrogate sees of points: `n x p` -> `n x d`, rounded to what is evaluated, NaN where inactive.

        Reals are left as they are: their grid is finer than 1e-13 of the range.
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
        """Return which of `n x p` points no clause forbids, after rounding."""
        return ~self._forbids(self._numbers(self._checked(U), self._tested))

    def decode(self, U: ArrayLike) -> list[dict[str, Value]]:
        """Return the configurations of `n x p` points with native Python values, inactive hyperparameters left out.

        Raises:
            DataError: when a clause forbids one.
        """
        points = self._checked(U)
        numbers = self._numbers(points)
        for row in np.flatnonzero(self._forbids(numbers)).tolist():
            msg = f"point {row}: expected a configuration that the space {self.space.name!r} allows, got one that is forbidden by {self._clause(numbers[row])}. Ask `valid` first."
            raise DataError(msg)
        configs: list[dict[str, Value]] = [{} for _ in points]
        for j, axis in enumerate(self._axes):
            for config, number in zip(configs, numbers[:, j].tolist(), strict=True):
                if not math.isnan(number):
                    config[axis.name] = axis.native(number)
        for k, axis in self._wide:
            for config, u in zip(configs, points[:, k].tolist(), strict=True):
                if axis.name in config and u in self._exact[k]:
                    config[axis.name] = self._exact[k][u]
        return configs

    def encode(self, configs: Sequence[Config]) -> Floats:
        """Return the points of n configurations: `n x p` in [0, 1), 0.5 where inactive; `decode` gives them back exactly.

        Reals that are not on the grid of decimals, and whole numbers that are no float64, are kept here, with the point that
        stands for them.

        Raises:
            DataError: when a configuration does not fit the space; the message names it and what is wrong.
        """
        given = [_as_dict(config) for config in configs]
        numbers, active, misfits = self._read(given)
        for row in np.flatnonzero(misfits).tolist():
            raise DataError(self._misfit(given[row], active[row], numbers[row]))
        for row in np.flatnonzero(self._forbids(numbers)).tolist():
            raise DataError(_expected(given[row], f"one that is forbidden by {self._clause(numbers[row])}"))
        points = np.full((len(given), self.p), INACTIVE)
        for k, j in enumerate(self._free):
            points[active[:, j], k] = self._axes[j].units(numbers[active[:, j], j])
        for k, axis in self._wide:
            for row in np.flatnonzero(active[:, self._free[k]]).tolist():
                _keep(self._exact[k], points[row], k, int(given[row][axis.name]))
        return self._kept(points, numbers)

    def fits(self, configs: Sequence[Config]) -> Bools:
        """Return which of n configurations the space allows: those that `encode` takes."""
        numbers, _, misfits = self._read([_as_dict(config) for config in configs])
        return ~(misfits | self._forbids(numbers))

    def key(self, config: Config) -> str:
        """Return a text that is equal for configurations that are equal after rounding."""
        return self.keys(self.encode([config]))[0]

    def keys(self, U: ArrayLike) -> list[str]:
        """Return the key of each of `n x p` points."""
        numbers = self._numbers(self._checked(U))
        for k, j in enumerate(self._free):
            axis = self._axes[j]
            if isinstance(axis, Real) and self._exact[k]:
                known = np.isfinite(numbers[:, j])
                numbers[known, j] = axis.snap(numbers[known, j])
        return [row.tobytes().hex() for row in numbers[:, self._free]]

    def values(self, k: int, u: Floats) -> list[Value]:
        """Return the values that `n` coordinates of the k-th hyperparameter stand for, wherever it is active."""
        axis = self._axes[self._free[k]]
        return [axis.native(number) for number in axis.numbers(u).tolist()]

    def neighbours(self, u: ArrayLike, *, rng: np.random.Generator) -> Floats:
        """Return the allowed points that differ from one by one step of one active hyperparameter that is not real.

        Whole numbers and ordered choices step by one and by a wider random step, either way; other choices are
        exchanged for every other one, for 16 random ones where there are more.

        Args:
            u: `p` coordinates.
            rng: draws the wider steps.

        Returns: `m x p`, distinct configurations, none that of u.
        """
        point = self._checked(np.atleast_2d(np.asarray(u, dtype=np.float64)))
        numbers = self._numbers(point)[0]
        rows = [point]
        for k, j in enumerate(self._free):
            axis = self._axes[j]
            if isinstance(axis, Real) or math.isnan(numbers[j]):
                continue
            others = _steps(axis, float(numbers[j]), rng)
            moved = np.repeat(point, len(others), axis=0)
            moved[:, k] = axis.units(others)
            rows.append(moved)
        found = np.concatenate(rows)
        allowed, first = self.valid(found), _first_rows(self.keys(found), ())
        return found[[row for row in first if row and allowed[row]]]

    @cached_property
    def size(self) -> float:
        """Return the number of distinct configurations: inf where a real varies; above 65,536 combinations, that number."""
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

        What the design repeats or may not use is made up from its continuation, a Latin hypercube's from uniform
        points. Where next to nothing is allowed, the space's default configuration follows, and points beside what is known.

        Args:
            n: how many.
            design: `uniform`, `latin`, `halton` or `sobol`.
            rng: the only source of randomness.
            exclude: keys of configurations to leave out.
            around: `k x p` allowed points that are known.

        Returns: `m x p`; m < n where the space is exhausted, or where 262,144 points of a larger one, and some beside known
            ones, held no more.

        Raises:
            UsageError: when there is no such design, or n < 0.
        """
        if n < 0:
            msg = f"sample: expected a number of configurations, got n={n}. Ask for 0 or more."
            raise UsageError(msg)
        if n == 0:
            return np.empty((0, self.p))
        small = math.prod(self._axes[j].size for j in self._free) <= CELLS
        limit = min(4 * n + 64, DRAWS) if small else DRAWS + n
        found, drawn, seen = np.empty((0, self.p)), 0, set(exclude)
        for batch in unit_points(design, self.p, n=n, rng=rng):
            found = np.concatenate([found, self._new(batch, n - len(found), seen)])
            drawn += len(batch)
            if len(found) == n or drawn >= limit:
                break
        if small and len(found) < n:
            rest = self._new(rng.permutation(self._cells), n - len(found), seen)
            found = np.concatenate([found, rest])
        elif len(found) < n:
            known = np.concatenate([self._default, found, np.empty((0, self.p)) if around is None else around])
            found = np.concatenate([found, self._new(self._default, n - len(found), seen)])
            found = np.concatenate([found, self.beside(known, n - len(found), rng=rng, exclude=seen)])
        return found

    def beside(
        self, known: ArrayLike, n: int, *, rng: np.random.Generator, exclude: Collection[str] = frozenset()
    ) -> Floats:
        """Draw up to n allowed points of distinct configurations beside `k x p` known ones, some of whose coordinates are moved.

        The space may allow so little that a design finds nothing. Moves are as wide as leads to an allowed point.
        """
        points, seen, found = self._checked(known), set(exclude), np.empty((0, self.p))
        for reach in REACHES if len(points) else ():
            rows = points[rng.integers(len(points), size=TRIES)]
            moves = rng.uniform(-reach, reach, rows.shape) * (rng.random(rows.shape) < 0.5)
            folded = 1.0 - np.abs(1.0 - np.abs(rows + moves))  # no heap of points at the bounds
            found = np.concatenate([found, self._new(folded, n - len(found), seen)])
            if len(found) == n:
                break
        return found

    @cached_property
    def _default(self) -> Floats:
        """Return the space's default configuration where it is allowed: `1 x p`, else `0 x p`."""
        config = plain_config(self.space.get_default_configuration())
        return self.encode([config] if self.fits([config])[0] else [])

    @cached_property
    def _cells(self) -> Floats:
        """Every allowed configuration of a space of at most 65,536 combinations, once: `m x p`."""
        middles = [self._axes[j].units(_values(self._axes[j])) for j in self._free]
        grid = (
            np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, self.p) if middles else np.empty((1, 0))
        )
        return self._new(grid, len(grid), set())

    def _new(self, points: Floats, n: int, seen: set[str]) -> Floats:
        """Return the first n points that are allowed and whose keys are not seen, and mark their keys as seen."""
        allowed = points[self.valid(points)]
        keys = self.keys(allowed)
        first = _first_rows(keys, seen)[:n]
        seen.update(keys[i] for i in first)
        return allowed[first]

    def _checked(self, U: ArrayLike) -> Floats:
        points = np.asarray(U, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.p or not np.all((points >= 0.0) & (points <= 1.0)):
            got = f"shape {points.shape}" if points.ndim != 2 or points.shape[1] != self.p else "values outside"
            msg = f"points: expected `n x {self.p}` in [0, 1], got {got}. Give one coordinate for each of {', '.join(self.names)}."
            raise UsageError(msg)
        return np.minimum(points, BELOW_ONE)

    def _numbers(self, points: Floats, which: Collection[int] | None = None) -> Floats:
        """Round points to numbers, `n x h`, one column a hyperparameter with the constants, NaN where inactive.

        Coordinates that are not in `which` are not asked for, nor does activity depend on them: any number will do.
        """
        numbers = np.zeros((len(points), len(self._axes)))
        for k in range(self.p) if which is None else which:
            j = self._free[k]
            numbers[:, j] = self._axes[j].numbers(points[:, k])
            if exact := self._exact[k]:
                for row in np.flatnonzero(np.isin(points[:, k], np.fromiter(exact, dtype=np.float64))):
                    numbers[row, j] = exact[points[row, k]]
        return np.where(self._active(numbers), numbers, np.nan)

    def _read(self, configs: Sequence[Config]) -> tuple[Floats, Bools, Bools]:
        """Read n configurations.

        Returns: their numbers, NaN where there is none or it does not fit; what is active by them; which configurations do not fit,
            clauses left aside.
        """
        present = np.array([[axis.name in config for axis in self._axes] for config in configs], dtype=np.bool_)
        present = present.reshape(-1, len(self._axes))
        numbers = np.full(present.shape, np.nan)
        for j, axis in enumerate(self._axes):
            given = np.flatnonzero(present[:, j]).tolist()
            numbers[given, j] = axis.parse([configs[row][axis.name] for row in given])
        active = self._active(numbers)
        misfits = ((present != active) | (present & np.isnan(numbers))).any(axis=1)
        more = np.array([len(config) for config in configs], dtype=np.int64) > present.sum(axis=1)
        return numbers, active, misfits | more

    def _kept(self, points: Floats, numbers: Floats) -> Floats:
        """Remember the reals that are not on the grid, by coordinates that stand for nothing else: those of decimals are the decimals'."""
        for k, j in enumerate(self._free):
            axis, exact = self._axes[j], self._exact[k]
            if not isinstance(axis, Real):
                continue
            known = np.flatnonzero(np.isfinite(numbers[:, j]))
            off = known[axis.numbers(points[known, k]) != numbers[known, j]]
            for row, decimal in zip(off, axis.units(axis.snap(numbers[off, j])).tolist(), strict=True):
                _keep(exact, points[row], k, float(numbers[row, j]), reserved=decimal)
        return points

    def _active(self, numbers: Floats) -> Bools:
        """Return which hyperparameters are active, whether the numbers of inactive ones are NaN already or not."""
        rows, active = numbers.copy(), np.ones(numbers.shape, dtype=np.bool_)
        for child, meets in self._conditions:
            active[:, child] = meets(rows)
            rows[~active[:, child], child] = np.nan
        return active

    def _forbids(self, numbers: Floats) -> Bools:
        """Return which rows a clause forbids."""
        forbidden = np.zeros(len(numbers), dtype=np.bool_)
        for _, meets in self._forbidden:
            forbidden |= meets(numbers)
        return forbidden

    def _clause(self, numbers: Floats) -> str:
        """Name the clause that forbids one row."""
        return next(text for text, meets in self._forbidden if meets(numbers[None])[0])

    def _misfit(self, config: Config, active: Bools, numbers: Floats) -> str:
        """Say why a configuration does not fit the space."""
        unknown = config.keys() - self._index.keys()
        if unknown:
            return _expected(config, f"the unknown name {min(map(str, unknown))!r}; it has {', '.join(self._index)}")
        for axis, number in zip(self._axes, numbers, strict=True):
            if axis.name in config and math.isnan(number):
                return _expected(config, f"{axis.name}={config[axis.name]!r}, which is not {axis}")
        for axis, on in zip(self._axes, active, strict=True):
            if on and axis.name not in config:
                return _expected(config, f"none for {axis.name}, {axis}")
        name = next(axis.name for axis, on in zip(self._axes, active, strict=True) if not on and axis.name in config)
        return _expected(config, f"a value for {name}, which is inactive here")


def _as_dict(config: Config) -> dict[str, Value]:
    """Copy a configuration, ConfigSpace's own included."""
    try:
        return dict(config)
    except (TypeError, ValueError) as error:
        msg = f"configuration {config!r}: expected values by name, got {type(config).__name__}. Give a dict."
        raise DataError(msg) from error


def _expected(config: Config, got: str) -> str:
    return (
        f"configuration {dict(config)}: expected one that the space allows, got {got}. Correct the name or the value."
    )


def _first_rows(keys: Sequence[str], seen: Collection[str]) -> list[int]:
    """Return the rows in which a key occurs first, those seen before left out."""
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    return [row for key, row in first.items() if key not in seen]


def _keep(exact: dict[float, float], point: Floats, k: int, number: float, *, reserved: float = math.nan) -> None:
    """Let the coordinate stand for a number; where it stands for another one, or is reserved, the next free float64 towards the middle."""
    u = float(point[k])
    towards = 0.0 if u > INACTIVE else 1.0
    while u == reserved or exact.get(u, number) != number:
        u = math.nextafter(u, towards)
    point[k], exact[u] = u, number


def _values(axis: Axis) -> Floats:
    """Return every number of a hyperparameter that is not real."""
    start = axis.low if isinstance(axis, Integer) else 0
    return start + np.arange(axis.size)


def _steps(axis: Axis, number: float, rng: np.random.Generator) -> Floats:
    """Return the numbers that `neighbours` tries in place of one."""
    if isinstance(axis, Choice) and not axis.ordered:
        others = np.setdiff1d(_values(axis), [number])
        return others if len(others) <= OTHERS else rng.choice(others, OTHERS, replace=False)
    low, high = (axis.low, axis.high) if isinstance(axis, Integer) else (0, axis.size - 1)
    wide = axis.units(np.array([number])) + rng.uniform(0.0, WIDE) * np.array([-1.0, 1.0])
    steps = np.concatenate([[number - 1.0, number + 1.0], axis.numbers(np.clip(wide, 0.0, BELOW_ONE))])
    return np.setdiff1d(np.clip(steps, low, high), [number])
