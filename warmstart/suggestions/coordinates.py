"""Configurations as numbers, for forecasts over a history's own space."""

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
    """Return `n x p` numbers in [0, 1], one column a hyperparameter; the middle where a configuration has no value of it.

    Of numbers the nearest that the space has counts: other programs write 0.1 + 0.2 for 0.3.
    """
    found = np.full((len(configs), len(names)), 0.5)
    for column, name in enumerate(names):
        hyperparameter = space[name]
        choices = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
        last = len(choices) - 1 if choices else 1
        for row, config in enumerate(configs):
            if (value := _nearest(config.get(name), choices)) is not None:
                found[row, column] = float(hyperparameter.to_vector(value)) / max(last, 1)
    return found


def _nearest(value: Value | None, choices: Sequence[Value] | None) -> Value | None:
    """Return a value, among choices the nearest number or the very same; None where there is none."""
    if value is None or choices is None or value in choices:
        return value
    numbers = [each for each in choices if isinstance(each, int | float) and not isinstance(each, bool)]
    if isinstance(value, bool) or not isinstance(value, int | float) or not numbers:
        return None
    return min(numbers, key=lambda each: abs(each - value))
