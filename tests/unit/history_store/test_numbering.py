"""Whole columns of configurations against ConfigSpace's own answer, one configuration at a time."""

from __future__ import annotations

import numpy as np
import pytest
from ConfigSpace import (
    AndConjunction,
    Categorical,
    Configuration,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
    ForbiddenInClause,
    ForbiddenLessThanEqualsClause,
    GreaterThanCondition,
    InCondition,
    Integer,
    NotEqualsCondition,
    OrdinalHyperparameter,
)

from warmstart.history_store.errors import DataError
from warmstart.history_store.numbering import Numbering, to_unit


def space(*, relation: bool = False) -> ConfigurationSpace:
    """Every kind of hyperparameter, conditions two deep, forbidden clauses."""
    result = ConfigurationSpace(name="all")
    kind, flag = Categorical("kind", ["a", "b", 3]), Categorical("flag", [True, False])
    rate, depth = Float("rate", (1e-4, 1.0), log=True), Integer("depth", (1, 64), log=True)
    width, size = Integer("width", (-3, 9)), OrdinalHyperparameter("size", ["s", "m", "l"])
    inner, last = Float("inner", (0.0, 2.0)), Float("last", (0.0, 1.0))
    result.add(kind, flag, rate, depth, width, size, inner, last, Constant("fixed", "x"))
    result.add(InCondition(rate, kind, ["a", 3]), GreaterThanCondition(inner, depth, 4))
    result.add(AndConjunction(EqualsCondition(width, flag, True), NotEqualsCondition(width, kind, "b")))
    result.add(GreaterThanCondition(last, width, 0))
    result.add(ForbiddenAndConjunction(ForbiddenEqualsClause(kind, "b"), ForbiddenInClause(size, ["l"])))
    if relation:
        result.add(ForbiddenGreaterThanRelation(last, inner))
    return result


def one_by_one(space_: ConfigurationSpace, config: dict[str, object]) -> np.ndarray | None:
    try:
        return np.asarray(Configuration(space_, values=config).get_array())
    except Exception:  # noqa: BLE001 - ConfigSpace has many
        return None


def candidates(space_: ConfigurationSpace, n: int, seed: int = 0) -> list[dict[str, object]]:
    """Valid configurations, and the same with a value changed, added or taken away."""
    rng = np.random.default_rng(seed)
    space_.seed(seed)
    drawn = [dict(config) for config in space_.sample_configuration(n)]
    names, pool = list(space_), [None, True, False, 0, 1, 3, 3.0, 0.5, 99, -3, "a", "b", "l", "x", 2**60, float("nan")]
    for config in drawn[::2]:
        name = names[rng.integers(len(names))]
        if name in config and rng.random() < 0.3:
            del config[name]
        else:
            config[name] = pool[rng.integers(len(pool))]
    return drawn


@pytest.mark.parametrize("relation", [False, True])
def test_encoding_says_what_configspace_says_of_each(relation: bool) -> None:
    space_ = space(relation=relation)
    drawn = candidates(space_, 200)
    expected = [one_by_one(space_, config) for config in drawn]
    assert 50 < sum(row is None for row in expected) < 150
    for config, row in zip(drawn, expected, strict=True):
        if row is None:
            with pytest.raises(DataError, match="expected one that the space 'all' allows"):
                to_unit(space_, [config])
        else:
            np.testing.assert_array_equal(to_unit(space_, [config])[0], row)
    fine = [(config, row) for config, row in zip(drawn, expected, strict=True) if row is not None]
    np.testing.assert_array_equal(to_unit(space_, [config for config, _ in fine]), [row for _, row in fine])


def test_activity_and_clauses_by_hand() -> None:
    space_ = space()
    columns = {
        "kind": ["a", "b", "b", 3],
        "flag": [True, True, False, True],
        "depth": [4, 5, 64, 1],
        "width": [0, 1, 1, 9],
        "size": ["s", "l", "m", "l"],
    }
    numbering = Numbering(space_)
    numbers = numbering.parse_columns(columns, 4)
    active = dict(zip(space_, numbering.active(numbers).T.tolist(), strict=True))
    assert active["rate"] == [True, False, False, True]
    assert active["inner"] == [False, True, True, False]
    assert active["width"] == [True, False, False, True]
    assert active["last"] == [False, False, False, True]
    assert numbering.forbidden(numbers).tolist() == [False, True, False, False]


def test_a_clause_about_lesser_values_forbids_these() -> None:
    space_ = ConfigurationSpace()
    space_.add(Float("x", (0.0, 1.0), default=0.75))
    space_.add(ForbiddenLessThanEqualsClause(space_["x"], 0.5))
    assert to_unit(space_, [{"x": 0.75}]).tolist() == [[0.75]]
    with pytest.raises(DataError, match="got one that is forbidden by"):
        to_unit(space_, [{"x": 0.25}])
