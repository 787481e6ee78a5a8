"""Configurations as numbers, for forecasts over a history's own space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from history_store.records import Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def coordinates(
    space: ConfigurationSpace, names: Sequence[str], configs: Sequence[Mapping[str, Value | None]]
) -> NDArray[np.float64]:
    """Return `n x p` numbers in [0, 1], one column a hyperparameter; the middle where a configuration has no value."""
    found = np.full((len(configs), len(names)), 0.5)
    for column, name in enumerate(names):
        hyperparameter = space[name]
        choices = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
        last = len(choices) - 1 if choices else 1
        for row, config in enumerate(configs):
            if (value := config.get(name)) is not None:
                found[row, column] = float(hyperparameter.to_vector(value)) / max(last, 1)
    return found
