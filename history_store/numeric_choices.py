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
    """Numbers that a hyperparameter may take.

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
        """Read choices; None where one is no number, or two are the same."""
        values = [_number(choice) for choice in choices]
        if not values or any(math.isnan(value) for value in values) or len(set(values)) < len(values):
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        numbers = np.array([values[index] for index in order])
        return cls(tuple(choices), numbers, _is_logarithmic(numbers), tuple(order))

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the range within which a number has one of the choices near: half a step beyond the outermost."""
        places = self._places(self.numbers)
        steps = np.diff(places)
        low, high = (places[0], places[0]) if not steps.size else (places[0] - steps[0] / 2, places[-1] + steps[-1] / 2)
        return (float(np.exp(low)), float(np.exp(high))) if self.log else (float(low), float(high))

    def nearest(self, values: Floats) -> tuple[list[Any], NDArray[np.bool_]]:
        """Find the nearest choice to each of `n` numbers; a NaN has none.

        Returns: `n` choices, None for NaN; and `n` bool, whether it is another number than the one that came.
        """
        known = np.isfinite(values)
        within = np.clip(np.where(known, values, self.numbers[0]), self.numbers[0], self.numbers[-1])
        places, wanted = self._places(self.numbers), self._places(within)
        above = np.clip(np.searchsorted(places, wanted), 1, max(len(places) - 1, 1)) if len(places) > 1 else None
        if above is None:
            index = np.zeros(len(values), dtype=np.int64)
        else:
            index = np.where(wanted - places[above - 1] <= places[above] - wanted, above - 1, above)
        found = [self.choices[self._order[i]] if ok else None for i, ok in zip(index.tolist(), known, strict=True)]
        near = self.numbers[index]
        return found, known & (np.abs(near - values) > 1e-6 * np.maximum(np.abs(near), np.abs(values)))

    def _places(self, numbers: Floats) -> Floats:
        found: Floats = np.log(numbers) if self.log else numbers
        return found


def _is_logarithmic(numbers: Floats) -> bool:
    """Return whether ascending numbers grow by a factor rather than by a step."""
    if numbers[0] <= 0 or len(numbers) < 2:
        return False
    if len(numbers) == 2:
        return bool(numbers[1] >= 4 * numbers[0])
    factors, steps = np.diff(np.log(numbers)), np.diff(numbers)
    return bool(np.std(factors) / np.mean(factors) < np.std(steps) / np.mean(steps))


def _number(choice: Any) -> float:
    """Read a choice as a number; NaN where it is none."""
    if isinstance(choice, bool) or not isinstance(choice, int | float | str):
        return math.nan
    try:
        value = float(choice)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
