"""Configurations of a space as rows of numbers: the encoder that histories, forecasts and surrogates share.

A row has one number for each hyperparameter (`warmstart.history_store.axes`), NaN = inactive. Two scales are built on
it. `to_unit` has the shares of ConfigSpace's `Configuration.get_array()`, bit for bit: histories and their forests use
them. `warmstart.bo.space.encoding.Encoding` has points of a cube that decode exactly, for optimisers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.axes import EXACT, Axis, Choice, Integer, Real, axis_of
from warmstart.history_store.clauses import condition_test, forbidden_test
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Numbering:
    """A space's axes, conditions and forbidden clauses, evaluated on many configurations at once.

    Attributes:
        axes: `h`, one for each hyperparameter, parents before children.
        column: of each name.
        children: columns of conditional hyperparameters.

    Raises:
        UsageError: when a condition or clause is of a kind from outside ConfigSpace.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self.space = space
        self.axes: list[Axis] = [axis_of(hyperparameter) for hyperparameter in space.values()]
        self.column = {axis.name: j for j, axis in enumerate(self.axes)}
        by_name = {axis.name: (j, axis) for j, axis in enumerate(self.axes)}
        self._conditions = sorted(
            ((self.column[c.child.name], condition_test(c, by_name)) for c in space.conditions),
            key=lambda pair: pair[0],
        )
        self._clauses = [(str(c), forbidden_test(c, by_name)) for c in space.forbidden_clauses]
        self.children = frozenset(child for child, _ in self._conditions)

    def parse(self, configs: Sequence[Config]) -> tuple[Floats, Bools, Bools]:
        """Convert n configurations to numbers and masks.

        Returns: `n x h` numbers, NaN for a missing or unfit value; mask of active hyperparameters; `n`, mask of
            configurations that do not fit, clauses aside.
        """
        present = np.array([[axis.name in config for axis in self.axes] for config in configs], dtype=np.bool_)
        present = present.reshape(-1, len(self.axes))
        numbers = np.full(present.shape, np.nan)
        for j, axis in enumerate(self.axes):
            rows = np.flatnonzero(present[:, j]).tolist()
            numbers[rows, j] = axis.parse([configs[row][axis.name] for row in rows])
        active = self.active(numbers)
        misfits = ((present != active) | (present & np.isnan(numbers))).any(axis=1)
        more = np.array([len(config) for config in configs], dtype=np.int64) > present.sum(axis=1)
        return numbers, active, misfits | more

    def parse_columns(self, columns: Mapping[str, Sequence[Any]], n: int) -> Floats:
        """Convert columns of `n` values, None = absent, to `n x h` numbers; NaN for an absent or unfit value."""
        numbers = np.full((n, len(self.axes)), np.nan)
        for j, axis in enumerate(self.axes):
            if axis.name in columns:
                numbers[:, j] = axis.parse(columns[axis.name])
        return numbers

    def active(self, numbers: Floats) -> Bools:
        """Return the mask of active hyperparameters of `n x h` numbers; those of inactive ones may be NaN or not."""
        rows, active = numbers.copy(), np.ones(numbers.shape, dtype=np.bool_)
        for child, meets in self._conditions:
            active[:, child] &= meets(rows)
            rows[~active[:, child], child] = np.nan
        return active

    def forbidden(self, numbers: Floats) -> Bools:
        """Return the mask of rows that a clause forbids: `n`."""
        forbidden = np.zeros(len(numbers), dtype=np.bool_)
        for _, meets in self._clauses:
            forbidden |= meets(numbers)
        return forbidden

    def clause(self, row: Floats) -> str:
        """Return the text of the clause that forbids a row."""
        return next(text for text, meets in self._clauses if meets(row[None])[0])

    def configs(self, numbers: Floats) -> list[dict[str, Value]]:
        """Return the configurations of `n x h` numbers, with Python values."""
        configs: list[dict[str, Value]] = [{} for _ in numbers]
        for axis, column in zip(self.axes, numbers.T.tolist(), strict=True):
            for config, number in zip(configs, column, strict=True):
                if not math.isnan(number):
                    config[axis.name] = axis.native(number)
        return configs

    def shares(self, numbers: Floats) -> Floats:
        """Return what ConfigSpace's `Configuration.get_array()` has for `n x h` numbers.

        Reals and integers become shares of their range in [0, 1], choices their positions. NaN also where only
        ConfigSpace itself can say: values beyond the range by rounding, and whole numbers that are no float64.
        """
        shares = numbers.copy()
        for j, (axis, hyperparameter) in enumerate(zip(self.axes, self.space.values(), strict=True)):
            if not isinstance(axis, Choice):
                shares[:, j] = _shares(hyperparameter, axis, numbers[:, j])
            elif hasattr(hyperparameter, "value"):  # of a constant, ConfigSpace has 1
                shares[:, j] += float(hyperparameter.to_vector(hyperparameter.value))
        return shares

    def fault(self, config: Config) -> str:
        """Describe why the space does not allow a configuration; empty if it does."""
        (numbers,), (active,), (misfit,) = self.parse([config])
        if not misfit:
            return f"one that is forbidden by {self.clause(numbers)}" if self.forbidden(numbers[None])[0] else ""
        unknown = config.keys() - self.column.keys()
        if unknown:
            return f"the unknown name {min(map(str, unknown))!r}; it has {', '.join(self.column)}"
        for axis, number in zip(self.axes, numbers, strict=True):
            if axis.name in config and math.isnan(number):
                return f"{axis.name}={config[axis.name]!r}, which is not {axis}"
        for axis, on in zip(self.axes, active, strict=True):
            if on and axis.name not in config:
                return f"none for {axis.name}, {axis}"
        name = next(axis.name for axis, on in zip(self.axes, active, strict=True) if not on and axis.name in config)
        return f"a value for {name}, which is inactive here"

    def refuse(self, config: Config) -> DataError:
        """Return the error of a configuration that the space does not allow."""
        name = f"space {self.space.name!r}" if self.space.name else "space"
        fault = self.fault(config) or "another"
        return DataError(
            f"configuration {dict(config)}: expected one that the {name} allows, got {fault}. Correct the name or the value."
        )


def to_unit(space: ConfigurationSpace, configs: Sequence[Config]) -> Floats:
    """Encode configurations as `n x h` float64: numbers in [0, 1], a choice as its position, NaN = inactive.

    Raises:
        DataError: when a configuration does not fit the space.
    """
    from ConfigSpace import Configuration
    from ConfigSpace.exceptions import ForbiddenValueError, HyperparameterNotFoundError

    numbering = Numbering(space)
    numbers, active, misfits = numbering.parse(configs)
    rows = numbering.shares(numbers)
    doubtful = misfits | numbering.forbidden(numbers) | (np.isnan(rows) & active).any(axis=1)
    for row in np.flatnonzero(doubtful).tolist():
        try:
            rows[row] = Configuration(space, values=dict(configs[row])).get_array()
        except (ValueError, KeyError, TypeError, ForbiddenValueError, HyperparameterNotFoundError) as error:
            raise numbering.refuse(configs[row]) from error
    return rows


def sobol_configs(space: ConfigurationSpace, n: int, *, seed: int = 0) -> list[dict[str, Value]]:
    """Draw n shared configurations from one scrambled Sobol sequence; the first m of n are those of any other n.

    Args:
        space: inactive conditional hyperparameters are left out of a configuration; forbidden ones are passed over.
        n: how many.
        seed: of the scrambling.

    Returns: n distinct configurations with native Python values.

    Raises:
        UsageError: when n < 1, or the space holds fewer than n distinct configurations.
    """
    from scipy.stats import qmc

    if n < 1:
        msg = f"sobol_configs: expected at least one configuration, got n={n}. Ask for 16, 32 or 64."
        raise UsageError(msg)
    size = space.estimate_size()
    if n > size:
        msg = f"sobol_configs: expected a space with at least {n} distinct configurations, got at most {size:.0f}. Ask for fewer."
        raise UsageError(msg)
    numbering = Numbering(space)
    sampler = qmc.Sobol(d=len(space), scramble=True, rng=np.random.default_rng(seed))
    configs: dict[str, dict[str, Value]] = {}
    for _ in range(64):
        for config in _decode(numbering, sampler.random(64 if len(configs) < 64 else 1024)):
            configs.setdefault(json.dumps(config, sort_keys=True), config)
            if len(configs) == n:
                return [*configs.values()]
    msg = (
        f"sobol_configs: expected a space with at least {n} distinct configurations, got {len(configs)}. Ask for fewer."
    )
    raise UsageError(msg)


def _decode(numbering: Numbering, points: Floats) -> list[dict[str, Value]]:
    """Turn `n x h` points of the unit cube into configurations, without those that a clause forbids.

    Reals are ConfigSpace's own, not on the grid of an axis: collections of 0.1 and 0.2 hold them.
    """
    numbers = points.copy()
    for j, axis in enumerate(numbering.axes):
        u = points[:, j]
        real = isinstance(axis, Real)
        numbers[:, j] = _rounded(numbering.space[axis.name].to_value(u)) if real else axis.numbers(u)
    # Collections of 0.1 and 0.2 also pass over points whose inactive values break a clause.
    allowed = numbers[~numbering.forbidden(numbers)]
    allowed = np.where(numbering.active(allowed), allowed, np.nan)
    return [config for config in numbering.configs(allowed[~numbering.forbidden(allowed)]) if config]


def _shares(hyperparameter: Any, axis: Real | Integer, numbers: Floats) -> Floats:
    """Return ConfigSpace's shares of `n` numbers of one hyperparameter, NaN where it must be asked itself."""
    sure = np.isfinite(numbers) & (np.abs(numbers) <= EXACT)
    values = np.where(sure, numbers, hyperparameter.default_value)
    sure &= hyperparameter.legal_value(values)
    values = np.where(sure, _rounded(values) if isinstance(axis, Real) else values, hyperparameter.default_value)
    return np.where(sure, hyperparameter.to_vector(values), np.nan)


def _rounded(values: Floats) -> Floats:
    """Round reals to the decimals that ConfigSpace keeps; numbers that overflow there have none."""
    from ConfigSpace.hyperparameters.hp_components import ROUND_PLACES

    with np.errstate(over="ignore"):
        rounded = np.round(values, ROUND_PLACES)
    return np.where(np.isfinite(rounded), rounded, values)
