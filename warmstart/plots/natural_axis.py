"""Axes of hyperparameters in natural units: positions between 0 and 1, and ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warmstart.plots.style import short

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOG = "log10_"


@dataclass(frozen=True, slots=True)
class NaturalAxis:
    """The axis of one hyperparameter.

    Attributes:
        name: in the space.
        title: for people; `log10_learning_rate` is "learning rate".
        low: natural value at 0.
        high: natural value at 1.
        log: whether it is drawn on a logarithmic scale.
        whole: whether its values are integers.
        exponent: whether configurations have the logarithm to base 10.
        choices: its values, if not a range; drawn at the middles of equal parts.
    """

    name: str
    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    exponent: bool = False
    choices: tuple[Any, ...] = ()

    def position(self, value: Any) -> float:
        """Return the position of a configuration's value, 0 to 1; NaN without a value."""
        if self.choices:
            return (self.choices.index(value) + 0.5) / len(self.choices) if value in self.choices else math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            return math.nan
        if self.exponent:
            low, high = math.log10(self.low), math.log10(self.high)
            return _share(value, low, high)
        return self._position(float(value))

    def ticks(self, most: int = 5) -> tuple[list[float], list[str]]:
        """Return positions and texts of about `most` readable values."""
        if self.choices:
            step = max(1, math.ceil(len(self.choices) / max(most, 2)))
            rows = range(0, len(self.choices), step)
            return [(i + 0.5) / len(self.choices) for i in rows], [short(str(self.choices[i]), 12) for i in rows]
        values = _decades(self.low, self.high, most) if self.log else _steps(self.low, self.high, most, self.whole)
        return [self._position(value) for value in values], [write_number(value) for value in values]

    def _position(self, value: float) -> float:
        if not self.log:
            return _share(value, self.low, self.high)
        if value <= 0:
            return math.nan
        return _share(math.log(value), math.log(self.low), math.log(self.high))


def axes_of(space: Any) -> list[NaturalAxis]:
    """Return the axes of a ConfigSpace space in its order, without constants."""
    return [axis for hyperparameter in space.values() if (axis := _axis(hyperparameter)) is not None]


def write_number(value: float) -> str:
    """Format a number shortly: 0.001, 250, 2.5×10⁻⁵."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return (f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}").replace("-", "−")
    # The power of the rounded number: 9.999 is written as 10.
    power = int(f"{value:.2e}".partition("e")[2])
    head = f"{value / 10.0**power:.3g}"
    exponent = f"10{str(power).translate(_SUPER)}"
    return (exponent if head == "1" else f"{head}×{exponent}").replace("-", "−")


def _axis(hyperparameter: Any) -> NaturalAxis | None:
    name = hyperparameter.name
    title = short(name.removeprefix(_LOG).replace("_", " "), 24)
    choices: Sequence[Any] | None = getattr(hyperparameter, "choices", None) or getattr(
        hyperparameter, "sequence", None
    )
    if choices is not None:
        values = tuple(getattr(choice, "item", lambda choice=choice: choice)() for choice in choices)
        return NaturalAxis(name, title, choices=values) if len(values) > 1 else None
    lower, upper = getattr(hyperparameter, "lower", None), getattr(hyperparameter, "upper", None)
    if lower is None or upper is None or lower == upper:
        return None
    # The powers of ten must be finite floats.
    if name.startswith(_LOG) and -300 < lower < upper < 300:
        return NaturalAxis(name, title, 10.0 ** float(lower), 10.0 ** float(upper), log=True, exponent=True)
    whole = "Integer" in type(hyperparameter).__name__
    return NaturalAxis(name, title, float(lower), float(upper), log=bool(hyperparameter.log), whole=whole)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low)


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
