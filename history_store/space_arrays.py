"""Arrays of many configurations of one space: encoding, activity and forbidden clauses at once.

Columns hold one value a configuration, None = absent. Numbers are those of `Configuration.get_array()`: reals and
integers in [0, 1], a choice as its number, NaN where absent. ConfigSpace itself decides doubtful cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_EXACT = 2**53


def encode_columns(
    space: ConfigurationSpace, columns: Mapping[str, Sequence[Any]], n: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Encode columns of values.

    Args:
        space: with `d` hyperparameters.
        columns: `n` values by name; names that the space does not have are ignored.
        n: number of configurations.

    Returns: `n x d` float64; and `n` bool: every value present is surely legal.
    """
    unit, sure = np.full((n, len(space)), np.nan), np.ones(n, dtype=np.bool_)
    for index, (name, hyperparameter) in enumerate(space.items()):
        if name in columns:
            unit[:, index], fine = _encode(hyperparameter, columns[name])
            sure &= fine
    return unit, sure


def active_values(space: ConfigurationSpace, unit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which hyperparameters are active.

    A value of an inactive parent meets no condition but `NotEqualsCondition`, as in ConfigSpace.

    Args:
        space: with `d` hyperparameters, parents before children.
        unit: `n x d`; NaN = absent.

    Returns: `n x d` bool.
    """
    rows, active = unit.T.copy(), np.ones(unit.T.shape, dtype=np.bool_)
    for name, index in space.index_of.items():
        for condition in space.parent_conditions_of[name]:
            active[index] &= condition.satisfied_by_vector_array(rows)
        rows[index, ~active[index]] = np.nan
    return active.T


def forbidden_rows(space: ConfigurationSpace, unit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which of `n x d` configurations a clause forbids: `n` bool."""
    from ConfigSpace.forbidden import ForbiddenRelation

    forbidden = np.zeros(len(unit), dtype=np.bool_)
    for clause in space.forbidden_clauses:
        if any(isinstance(part, ForbiddenRelation) for part in getattr(clause, "dlcs", (clause,))):
            forbidden |= np.array([bool(clause.is_forbidden_vector(row)) for row in unit], dtype=np.bool_)
        else:
            forbidden |= clause.is_forbidden_vector_array(unit.T)
    return forbidden


def _encode(hyperparameter: Any, values: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Encode one column: `n` numbers, and which values are absent or surely legal."""
    if not hasattr(hyperparameter, "lower"):
        return _encode_choices(hyperparameter, values)
    from ConfigSpace.hyperparameters import FloatHyperparameter
    from ConfigSpace.hyperparameters.hp_components import ROUND_PLACES

    absent = np.array([value is None for value in values], dtype=np.bool_)
    plain = {type(value) for value in values} <= {int, float, np.float64, np.int64, type(None)}
    if not plain or any(isinstance(value, int) and abs(value) > _EXACT for value in values):
        return np.full(len(values), np.nan), absent
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    legal = hyperparameter.legal_value(np.where(absent, hyperparameter.default_value, numbers))
    if isinstance(hyperparameter, FloatHyperparameter):
        # Numbers that overflow here have no decimal places to round.
        with np.errstate(over="ignore"):
            rounded = np.round(numbers, ROUND_PLACES)
        numbers = np.where(np.isfinite(rounded), rounded, numbers)
    unit = hyperparameter.to_vector(np.where(absent | ~legal, hyperparameter.default_value, numbers))
    return np.where(absent | ~legal, np.nan, unit), legal


def _encode_choices(hyperparameter: Any, values: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    encoded: dict[tuple[type, Any], tuple[float, bool]] = {}
    for key in {(type(value), value) for value in values}:
        legal = key[1] is not None and bool(hyperparameter.legal_value(key[1]))
        encoded[key] = (float(hyperparameter.to_vector(key[1])) if legal else np.nan, legal or key[1] is None)
    pairs = np.array([encoded[type(value), value] for value in values], dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1] > 0
