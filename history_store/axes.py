"""Axes of the unit cube: from u in [0, 1) to a hyperparameter's number, and from the number to model columns.

The *number* of a real or an integer is its value. The number of a choice is its position among the choices. Every
number has an equal share of [0, 1); an integer on a logarithmic scale has a share in proportion to its logarithmic
width. Shares and scales are those of `warmstart.history_store.numbering.sobol_configs`. Priors of ConfigSpace (normal,
beta) do not bend an axis.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import as_tuple

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace.hyperparameters import Hyperparameter

Floats = NDArray[np.float64]

MAX_UNIT = float(np.nextafter(1.0, 0.0))
"""The largest coordinate, just below 1."""
TENS = np.array([float(f"1e{k}") for k in range(309)])
"""Powers of ten, each the nearest float64: what `pow` returns differs between machines."""
DIGITS = 14
"""Decimal places of a linear real whose range is 1."""
LOG_DIGITS = 12
"""Significant digits of a logarithmic real."""
EXACT = 2**53
"""Whole numbers up to this one, and down to its negative, are float64 exactly."""
_LOG_ROUNDING = 64
"""Rounding error of a logarithmic coordinate, in units in the last place."""
SLACK = 1e-12
"""Largest excess of a real over its range, as a share of it: other programs round values to decimals."""


@dataclass(frozen=True, slots=True)
class Real:
    """Real hyperparameter, linear or logarithmic, on a decimal grid that is too fine for a model to see.

    The grid makes encoding and decoding exact inverses in floating point. It also makes values equal that differ by
    rounding alone.
    """

    name: str
    low: float
    high: float
    log: bool = False
    size: float = field(default=math.inf, init=False)
    width: int = field(default=1, init=False)
    rounded: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        low, high = self._round(np.array([self.low, self.high])).tolist()
        object.__setattr__(self, "rounded", (low, high))

    def numbers(self, u: Floats) -> Floats:
        """Map `n` coordinates to `n` values on the grid; the bounds belong to it."""
        if self.log:
            return self.snap(np.exp(math.log(self.low) + u * math.log(self.high / self.low)))
        return self.snap(self.low + u * (self.high - self.low))

    def snap(self, values: Floats) -> Floats:
        """Round `n` values to the grid."""
        rounded, (low, high) = self._round(values), self.rounded
        return np.where(rounded >= high, self.high, np.where(rounded <= low, self.low, rounded))

    def units(self, numbers: Floats) -> Floats:
        """Map `n` values to `n` coordinates in [0, 1)."""
        if self.log:
            u = np.log(numbers / self.low) / math.log(self.high / self.low)
        else:
            u = (numbers - self.low) / (self.high - self.low)
        return np.clip(u, 0.0, MAX_UNIT)

    def columns(self, numbers: Floats) -> Floats:
        """Return the `n x 1` column of the model: the coordinate."""
        return self.units(numbers)[:, None]

    def native(self, number: float) -> Value:
        """Return the value as a Python float."""
        return number

    def parse(self, values: Sequence[Any]) -> Floats:
        """Convert `n` values to numbers; NaN for a value outside the range or of another kind."""
        numbers = _read_numbers(values)
        slack = SLACK * numbers if self.log else SLACK * (self.high - self.low)
        return np.where((numbers >= self.low - slack) & (numbers <= self.high + slack), numbers, np.nan)

    def __str__(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}]"

    def _round(self, values: Floats) -> Floats:
        if self.log:
            places = LOG_DIGITS - 1 - np.floor(np.log10(values)).astype(np.int64)
        else:
            places = np.array(DIGITS - math.ceil(math.log10(self.high - self.low)))
        up, down = TENS[np.clip(places, 0, 308)], TENS[np.clip(-places, 0, 308)]
        rounded: Floats = np.rint(values * up / down) * down / up + 0.0  # + 0.0: no negative zero
        return rounded


@dataclass(frozen=True, slots=True)
class Integer:
    """Integer hyperparameter, linear or logarithmic; in a wide range several values share a number."""

    name: str
    low: int
    high: int
    log: bool = False
    width: int = field(default=1, init=False)

    @property
    def size(self) -> float:
        """Return the number of values."""
        return self.high - self.low + 1

    @property
    def wide(self) -> bool:
        """Tell whether float64 cannot represent every value, or every share of [0, 1)."""
        shares = self.high * math.log(self.high / self.low) * _LOG_ROUNDING if self.log else 2 * self.size
        return max(-self.low, self.high, shares) > EXACT

    def numbers(self, u: Floats) -> Floats:
        """Map `n` coordinates to `n` whole numbers, rounded down on a linear scale, to nearest on a logarithmic one."""
        if self.log:
            first, ratio = self.low - 0.5, (self.high + 0.5) / (self.low - 0.5)
            numbers = np.rint(first * ratio**u)
        else:
            numbers = self.low + np.floor(u * self.size)
        return np.clip(numbers, float(self.low), float(self.high))

    def units(self, numbers: Floats) -> Floats:
        """Map `n` numbers to `n` coordinates: the middles of their shares."""
        u: Floats
        if self.log:
            first, ratio = self.low - 0.5, (self.high + 0.5) / (self.low - 0.5)
            u = np.log(np.sqrt((numbers - 0.5) / first) * np.sqrt((numbers + 0.5) / first)) / math.log(ratio)
        else:
            u = (numbers - self.low + 0.5) / self.size
        return np.clip(u, 0.0, MAX_UNIT)

    def columns(self, numbers: Floats) -> Floats:
        """Return the `n x 1` column of the model: 0 at the least value, 1 at the greatest, along the scale between."""
        if self.log:
            return (np.log(numbers / self.low) / math.log(self.high / self.low))[:, None]
        return ((numbers - self.low) / (self.high - self.low))[:, None]

    def native(self, number: float) -> Value:
        """Return the value as a Python int, clipped: float64 may round the bounds of a wide range outwards."""
        return min(max(int(number), self.low), self.high)

    def parse(self, values: Sequence[Any]) -> Floats:
        """Convert `n` values to numbers; NaN for a value outside the range or of another kind."""
        numbers = _read_numbers(values)
        fits = (numbers >= self.low) & (numbers <= self.high) & (numbers == np.rint(numbers))
        if self.wide:
            fits[fits] = [self.low <= plain(values[i]) <= self.high for i in np.flatnonzero(fits).tolist()]
        return np.where(fits, numbers, np.nan)

    def __str__(self) -> str:
        return f"a whole number in [{self.low}, {self.high}]"


@dataclass(frozen=True, slots=True)
class Choice:
    """Categorical hyperparameter. It has one column if ordered, constant or of two choices, else one per choice."""

    name: str
    choices: tuple[Any, ...]
    ordered: bool = False

    @property
    def size(self) -> float:
        """Return the number of values."""
        return len(self.choices)

    @property
    def width(self) -> int:
        """Return the number of model columns."""
        return 1 if self.ordered or len(self.choices) <= 2 else len(self.choices)

    def numbers(self, u: Floats) -> Floats:
        """Map `n` coordinates to `n` positions among the choices."""
        return np.clip(np.floor(u * self.size), 0.0, self.size - 1.0)

    def units(self, numbers: Floats) -> Floats:
        """Map `n` positions to `n` coordinates: the middles of their shares."""
        return (numbers + 0.5) / self.size

    def columns(self, numbers: Floats) -> Floats:
        """Return the `n x width` columns of the model: one-hot, or 0 at the first choice to 1 at the last."""
        if self.width > 1:
            hot = (numbers[:, None] == np.arange(self.width)).astype(np.float64)
            return np.where(np.isnan(numbers)[:, None], np.nan, hot)
        return (numbers / max(self.size - 1.0, 1.0))[:, None]

    def native(self, number: float) -> Value:
        """Return the choice that a number stands for."""
        value: Value = self.choices[int(number)]
        return value

    def parse(self, values: Sequence[Any]) -> Floats:
        """Convert `n` values to positions; NaN for a value that is no choice.

        1, 1.0 and True are one value, as in ConfigSpace, and so are a tuple and its list.
        """
        values, choices = [*map(as_tuple, values)], [*map(as_tuple, self.choices)]
        try:
            position = {choice: i for i, choice in enumerate(choices)}
            return np.array([position.get(value, math.nan) for value in values], dtype=np.float64)
        except TypeError:  # a choice or a value that cannot be hashed
            return np.array([choices.index(v) if v in choices else math.nan for v in values], dtype=np.float64)

    def nearest(self, value: Any) -> int | None:
        """Return the position of a choice, or of the number nearest to a number; None if there is none."""
        if value in self.choices:
            return self.choices.index(value)
        numbers = {c: i for i, c in enumerate(self.choices) if _is_number(c)}
        return numbers[min(numbers, key=lambda choice: abs(choice - value))] if numbers and _is_number(value) else None

    def __str__(self) -> str:
        listed = ", ".join(map(repr, self.choices[:8]))
        return f"one of {listed}{', ...' if len(self.choices) > 8 else ''}"


Axis = Real | Integer | Choice


def axis_of(hyperparameter: Hyperparameter) -> Axis:
    """Return the axis of one hyperparameter of ConfigSpace."""
    name: str = hyperparameter.name
    for attribute, ordered in (("choices", False), ("sequence", True)):
        if hasattr(hyperparameter, attribute):
            return Choice(name, tuple(plain(v) for v in getattr(hyperparameter, attribute)), ordered)
    if hasattr(hyperparameter, "value"):
        return Choice(name, (plain(hyperparameter.value),))
    low, high, log = hyperparameter.lower, hyperparameter.upper, bool(getattr(hyperparameter, "log", False))
    if math.isfinite(hyperparameter.size):
        return Integer(name, int(low), int(high), log)
    return Real(name, float(low), float(high), log)


def coordinates(space: ConfigurationSpace, names: Collection[str], configs: Sequence[Config]) -> Floats:
    """Return `n x p` coordinates in [0, 1] for forecasts, one for each name; 0.5 without a value.

    They are the shares of `to_unit`, choices too. A value that is no choice becomes the nearest one: other programs
    write 0.1 + 0.2 for 0.3.
    """
    points = np.full((len(configs), len(names)), 0.5)
    for column, name in enumerate(names):
        axis, hyperparameter = axis_of(space[name]), space[name]
        for row, config in enumerate(configs):
            value = config.get(name)
            if isinstance(axis, Choice) and axis.size > 1:
                position = None if value is None else axis.nearest(value)
                points[row, column] = 0.5 if position is None else position / (axis.size - 1.0)
            elif value is not None:
                points[row, column] = float(hyperparameter.to_vector(value))
    return points


def plain(value: Any) -> Any:
    """Convert numpy's scalars to Python's, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def plain_config(config: Config) -> dict[str, Value]:
    """Copy a configuration with Python's scalars; samples of ConfigSpace hold numpy's."""
    return {name: plain(value) for name, value in dict(config).items()}


def _read_numbers(values: Sequence[Any]) -> Floats:
    """Convert values to float64, NaN for values that are no numbers; digits in text and truth values are none."""
    kinds = set(map(type, values))
    if all(issubclass(kind, int | float | np.integer | np.floating) and kind is not bool for kind in kinds):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            return np.array([v if abs(v) < 2**1023 else math.nan for v in values], dtype=np.float64)
    return np.array([_read_numbers([v])[0] if _is_number(v) else math.nan for v in values], dtype=np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
