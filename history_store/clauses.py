"""Conditions and forbidden clauses, evaluated on many configurations at once.

A configuration is a row of numbers (`warmstart.history_store.axes`), NaN = inactive. ConfigSpace treats an inactive
hyperparameter as comparisons treat NaN: it differs from every value and is never equal, less or greater.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.axes import Axis, Choice
from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from ConfigSpace.conditions import ConditionLike
    from ConfigSpace.forbidden import ForbiddenLike

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Test = Callable[[Floats], Bools]
"""Function of `n x h` numbers, one column for each hyperparameter: a mask of the rows that meet the clause.
Picklable."""


def condition_test(condition: ConditionLike, axes: Mapping[str, tuple[int, Axis]]) -> Test:
    """Return a function that tests whether the child of a condition is active.

    Args:
        condition: of ConfigSpace; a child of an inactive parent is active only by `NotEqualsCondition`.
        axes: each hyperparameter's column and axis, by name.

    Raises:
        UsageError: when the condition is of a kind from outside ConfigSpace.
    """
    from ConfigSpace import conditions as cs

    compares = {
        cs.EqualsCondition: np.equal,
        cs.NotEqualsCondition: np.not_equal,
        cs.LessThanCondition: np.less,
        cs.GreaterThanCondition: np.greater,
    }
    kind: Any = type(condition)
    if kind in (cs.AndConjunction, cs.OrConjunction):
        join = np.logical_and if kind is cs.AndConjunction else np.logical_or
        return functools.partial(_joined, join, [condition_test(part, axes) for part in condition.components])
    if kind is cs.InCondition:
        column, axis = axes[condition.parent.name]
        return functools.partial(_among, column, axis.parse(list(condition.values)))
    if kind in compares:
        column, axis = axes[condition.parent.name]
        return functools.partial(_compared, compares[kind], column, axis.parse([condition.value])[0])
    msg = f"space: expected conditions of ConfigSpace's own kinds, got {condition!r} ({kind.__name__}). Write it with EqualsCondition, InCondition, AndConjunction and the like."
    raise UsageError(msg)


def forbidden_test(clause: ForbiddenLike, axes: Mapping[str, tuple[int, Axis]]) -> Test:
    """Return a function that tests rows for a forbidden clause.

    A clause about an inactive hyperparameter forbids nothing.

    Args:
        clause: of ConfigSpace.
        axes: each hyperparameter's column and axis, by name.

    Raises:
        UsageError: when the clause is of a kind from outside ConfigSpace.
    """
    from ConfigSpace import forbidden as cs

    values = {
        cs.ForbiddenEqualsClause: np.equal,
        cs.ForbiddenLessThanClause: np.less,
        cs.ForbiddenLessThanEqualsClause: np.less_equal,
        cs.ForbiddenGreaterThanClause: np.greater,
        cs.ForbiddenGreaterThanEqualsClause: np.greater_equal,
    }
    relations = {
        cs.ForbiddenEqualsRelation: np.equal,
        cs.ForbiddenLessThanRelation: np.less,
        cs.ForbiddenLessThanEqualsRelation: np.less_equal,
        cs.ForbiddenGreaterThanRelation: np.greater,
        cs.ForbiddenGreaterThanEqualsRelation: np.greater_equal,
    }
    kind: Any = type(clause)
    if kind in (cs.ForbiddenAndConjunction, cs.ForbiddenOrConjunction):
        join = np.logical_and if kind is cs.ForbiddenAndConjunction else np.logical_or
        return functools.partial(_joined, join, [forbidden_test(part, axes) for part in clause.components])
    if kind is cs.ForbiddenInClause:
        column, axis = axes[clause.hyperparameter.name]
        return functools.partial(_among, column, axis.parse(list(clause.values)))
    if kind in values:
        column, axis = axes[clause.hyperparameter.name]
        return functools.partial(_compared, values[kind], column, axis.parse([clause.value])[0])
    if kind in relations:
        return functools.partial(_related, relations[kind], axes[clause.left.name], axes[clause.right.name])
    msg = f"space: expected forbidden clauses of ConfigSpace's own kinds, got {clause!r} ({kind.__name__}). Write it with ForbiddenEqualsClause, ForbiddenAndConjunction and the like."
    raise UsageError(msg)


def mentioned(clause: ConditionLike | ForbiddenLike) -> set[str]:
    """Return the names of the hyperparameters whose values a condition or a forbidden clause uses."""
    roles = ("parent", "hyperparameter", "left", "right")
    return {
        getattr(part, role).name for part in getattr(clause, "dlcs", (clause,)) for role in roles if hasattr(part, role)
    }


def _joined(join: Any, tests: Sequence[Test], rows: Floats) -> Bools:
    met: Bools = functools.reduce(join, [test(rows) for test in tests])
    return met


def _among(column: int, numbers: Floats, rows: Floats) -> Bools:
    return np.isin(rows[:, column], numbers)


def _compared(compare: Any, column: int, number: float, rows: Floats) -> Bools:
    met: Bools = compare(rows[:, column], number)
    return met


def _related(compare: Any, left: tuple[int, Axis], right: tuple[int, Axis], rows: Floats) -> Bools:
    """Compare two hyperparameters by their values, not by their positions."""
    (i, first), (j, second) = left, right
    met = np.isfinite(rows[:, i]) & np.isfinite(rows[:, j])
    met[met] = compare(_values(first, rows[met, i]), _values(second, rows[met, j])).astype(np.bool_)
    return met


def _values(axis: Axis, numbers: Floats) -> NDArray[Any]:
    """Return the values of numbers; for choices an object array."""
    if not isinstance(axis, Choice):
        return numbers
    values = np.empty(len(numbers), dtype=object)
    values[:] = [axis.choices[int(number)] for number in numbers]
    return values
