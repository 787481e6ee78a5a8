"""Coordinates of configurations, for forecasts over a history's space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.records import Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def coordinates(
    space: ConfigurationSpace, names: Sequence[str], configs: Sequence[Mapping[str, Value | None]]
) -> NDArray[np.float64]:
    """Return `n x p` coordinates in [0, 1], one column per hyperparameter; a missing value is 0.5.

    A number becomes the nearest one of the space: other programs write 0.1 + 0.2 for 0.3.
    """
    points = np.full((len(configs), len(names)), 0.5)
    for column, name in enumerate(names):
        hyperparameter = space[name]
        choices = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
        last = len(choices) - 1 if choices else 1
        for row, config in enumerate(configs):
            if (value := _nearest(config.get(name), choices)) is not None:
                points[row, column] = float(hyperparameter.to_vector(value)) / max(last, 1)
    return points


def _nearest(value: Value | None, choices: Sequence[Value] | None) -> Value | None:
    """Return the choice equal to a value, or nearest to a number; None if there is none. Without choices, the value."""
    if value is None or choices is None or value in choices:
        return value
    numbers = [choice for choice in choices if isinstance(choice, int | float) and not isinstance(choice, bool)]
    if isinstance(value, bool) or not isinstance(value, int | float) or not numbers:
        return None
    return min(numbers, key=lambda choice: abs(choice - value))
