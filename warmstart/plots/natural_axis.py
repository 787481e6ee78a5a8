"""Axes of hyperparameters in natural units: positions between 0 and 1, and ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.history_store.axes import Axis, Choice, Integer, axis_of
from warmstart.plots.style import short

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOG = "log10_"


@dataclass(frozen=True, slots=True)
class NaturalAxis:
    """The axis of one hyperparameter, with a title and ticks for people; choices lie in the middles of equal parts."""

    axis: Axis

    @property
    def name(self) -> str:
        """Return the name in the space."""
        return self.axis.name

    @property
    def title(self) -> str:
        """Return the name for people; `log10_learning_rate` is "learning rate"."""
        return short(self.name.removeprefix(_LOG).replace("_", " "), 24)

    @property
    def choices(self) -> tuple[Any, ...]:
        """Return the values, if the axis is not a range."""
        return self.axis.choices if isinstance(self.axis, Choice) else ()

    def position(self, value: Any) -> float:
        """Return the position of a configuration's value, 0 to 1; NaN without a value of the space."""
        numbers = self.axis.parse([value])
        return float(self.axis.units(numbers)[0] if self.choices else self.axis.columns(numbers)[0, 0])

    def ticks(self, most: int = 5) -> tuple[list[float], list[str]]:
        """Return positions and texts of about `most` readable values."""
        if isinstance(self.axis, Choice):
            step = max(1, math.ceil(len(self.choices) / max(most, 2)))
            rows = np.arange(0.0, self.axis.size, step)
            return self.axis.units(rows).tolist(), [short(str(self.choices[int(i)]), 12) for i in rows]
        low, high = self.axis.low, self.axis.high
        # The powers of ten must be finite floats.
        if self.name.startswith(_LOG) and -300 < low < high < 300:
            values = _decades(10.0**low, 10.0**high, most)
            numbers = np.log10(values)
        else:
            whole = isinstance(self.axis, Integer)
            values = _decades(low, high, most) if self.axis.log else _steps(low, high, most, whole)
            numbers = np.array(values)
        return self.axis.columns(numbers)[:, 0].tolist(), [write_number(value) for value in values]


def axes_of(space: ConfigurationSpace) -> list[NaturalAxis]:
    """Return the axes of a ConfigSpace space in its order, without constants."""
    return [NaturalAxis(axis) for axis in map(axis_of, space.values()) if axis.size > 1]


def write_number(value: float) -> str:
    """Format a number shortly: 0.001, 250, 2.5×10⁻⁵."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return (f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}").replace("-", "−")
    # The power of the rounded number: 9.999 is written as 10.
    power = int(f"{value:.2e}".partition("e")[2])
    head = f"{value / 10.0**power:.3g}"
    exponent = f"10{str(power).translate(_SUPER)}"
    return (exponent if head == "1" else f"{head}×{exponent}").replace("-", "−")


def _decades(low: float, high: float, most: int) -> list[float]:
    """Return powers of ten in a range; with fewer than two, multiples by 1, 2 and 5."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = [10.0**power for power in range(first, last + 1)]
    if len(powers) >= 2:
        step = math.ceil(len(powers) / most)
        return powers[::step]
    fine = [m * 10.0**power for power in range(first - 2, last + 2) for m in (1, 2, 5)]
    within = [value for value in fine if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    return within[:: max(1, math.ceil(len(within) / most))] if len(within) >= 2 else [low, high]


def _steps(low: float, high: float, most: int, whole: bool) -> list[float]:  # noqa: FBT001
    """Return multiples of 1, 2, 2.5 or 5 times a power of ten in a range."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    fine_step = next((m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9)), 10 * power)
    step = max(1.0, math.ceil(fine_step)) if whole else fine_step
    first = math.ceil(low / step - 1e-9)
    values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return values if len(values) >= 2 else [low, high]
