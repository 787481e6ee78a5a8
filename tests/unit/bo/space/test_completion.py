"""Configurations completed: what is known stays, what is open is spread, everything is allowed and new."""

from __future__ import annotations

import numpy as np
import pytest
from ConfigSpace import (
    Categorical,
    Configuration,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    Integer,
)

from warmstart.bo.space.completion import Completion, anchored_design
from warmstart.history_store.errors import DataError


def test_the_design_is_a_latin_hypercube_with_a_given_first_point() -> None:
    anchor = np.array([0.0, 0.5, 0.999])
    points = anchored_design(anchor, 7, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(points[0], anchor)
    np.testing.assert_array_equal(np.sort(np.floor(points * 7), axis=0).T, np.tile(np.arange(7), (3, 1)))
    np.testing.assert_allclose(points[1:] * 7 % 1, 0.5)
    np.testing.assert_array_equal(anchored_design(anchor, 1, rng=np.random.default_rng(0)), anchor[None])


def space() -> ConfigurationSpace:
    made = ConfigurationSpace()
    kind, gamma = Categorical("kind", ["a", "b", "c"], default="b"), Float("gamma", (1e-4, 1.0), log=True)
    made.add(kind, gamma, Integer("n", (1, 3)), EqualsCondition(gamma, kind, "b"))
    made.add(ForbiddenAndConjunction(ForbiddenEqualsClause(kind, "c"), ForbiddenEqualsClause(made["n"], 1)))
    return made


def completion(n: int) -> Completion:
    return Completion(space(), n=n, rng=np.random.default_rng(0))


def test_the_first_has_the_defaults_and_all_differ() -> None:
    making = completion(3)
    found = [making.complete({"n": 2}) for _ in range(3)]
    assert found[0] == {"n": 2, "kind": "b", "gamma": pytest.approx(1e-2)}
    assert {config["kind"] for config in found if config} == {"a", "b", "c"}
    for config in found:
        Configuration(space(), values=config)


def test_known_values_stay_as_they_are_where_they_are_active() -> None:
    value = 0.012345678901234567
    assert completion(1).complete({"kind": "b", "gamma": value}) == {"n": 2, "kind": "b", "gamma": value}
    assert completion(1).complete({"kind": "a", "gamma": value}) == {"n": 2, "kind": "a"}


def test_what_is_forbidden_or_given_is_passed_over() -> None:
    making = completion(2)
    assert making.complete({"kind": "c", "n": 1}) is None
    assert {(making.complete({"kind": "c"}) or {})["n"] for _ in range(2)} == {2, 3}
    assert making.complete({"kind": "c"}) is None
    rest = making.fill(4)
    assert len(making.keys) == 6
    assert {"kind": "c", "n": 1} not in rest


def test_a_value_that_the_space_does_not_have_is_refused() -> None:
    with pytest.raises(DataError, match=r"configuration: expected a whole number in \[1, 3\] for n, got 7"):
        completion(1).complete({"n": 7})
