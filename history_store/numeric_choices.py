"""Numeric choices, and the one nearest to a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NumericChoices:
    """Numeric choices of a hyperparameter.

    Attributes:
        choices: as the space has them: numbers, or texts of numbers.
        numbers: their values, ascending.
        log: distances count on a logarithmic scale.
    """

    choices: tuple[Any, ...]
    numbers: Floats
    log: bool
    _order: tuple[int, ...] = field(repr=False)

    @classmethod
    def of(cls, choices: Sequence[Any]) -> NumericChoices | None:
        """Read choices; None if one is no number, or two are equal."""
        values = [_number(choice) for choice in choices]
        if not values or any(math.isnan(value) for value in values) or len(set(values)) < len(values):
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        numbers = np.array([values[index] for index in order])
        return cls(tuple(choices), numbers, _is_logarithmic(numbers), tuple(order))

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the range of numbers near the choices: half a step beyond the outermost."""
        positions = self._positions(self.numbers)
        steps = np.diff(positions)
        low, high = (
            (positions[0], positions[0])
            if not steps.size
            else (positions[0] - steps[0] / 2, positions[-1] + steps[-1] / 2)
        )
        return (float(np.exp(low)), float(np.exp(high))) if self.log else (float(low), float(high))

    def nearest(self, values: Floats) -> tuple[list[Any], NDArray[np.bool_]]:
        """Return the nearest choice to each of `n` numbers; None for a NaN.

        Returns: `n` choices, None for NaN; and `n` bool, whether the choice differs from the number.
        """
        is_finite = np.isfinite(values)
        within = np.clip(np.where(is_finite, values, self.numbers[0]), self.numbers[0], self.numbers[-1])
        positions, targets = self._positions(self.numbers), self._positions(within)
        above = (
            np.clip(np.searchsorted(positions, targets), 1, max(len(positions) - 1, 1)) if len(positions) > 1 else None
        )
        if above is None:
            index = np.zeros(len(values), dtype=np.int64)
        else:
            index = np.where(targets - positions[above - 1] <= positions[above] - targets, above - 1, above)
        nearest = [
            self.choices[self._order[i]] if ok else None for i, ok in zip(index.tolist(), is_finite, strict=True)
        ]
        nearest_numbers = self.numbers[index]
        return nearest, is_finite & (
            np.abs(nearest_numbers - values) > 1e-6 * np.maximum(np.abs(nearest_numbers), np.abs(values))
        )

    def _positions(self, numbers: Floats) -> Floats:
        positions: Floats = np.log(numbers) if self.log else numbers
        return positions


def _is_logarithmic(numbers: Floats) -> bool:
    """Return whether ascending numbers grow by a factor rather than by a step."""
    if numbers[0] <= 0 or len(numbers) < 2:
        return False
    if len(numbers) == 2:
        return bool(numbers[1] >= 4 * numbers[0])
    factors, steps = np.diff(np.log(numbers)), np.diff(numbers)
    return bool(np.std(factors) / np.mean(factors) < np.std(steps) / np.mean(steps))


def _number(choice: Any) -> float:
    """Read a choice as a number; NaN if it is none."""
    if isinstance(choice, bool) or not isinstance(choice, int | float | str):
        return math.nan
    try:
        value = float(choice)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
