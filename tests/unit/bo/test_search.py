"""Search over a table: its contract, whatever the errors are, and that it searches."""

import numpy as np
import pytest

from warmstart.bo.search import search_table
from warmstart.bo.surrogates import Task
from warmstart.bo.transfer.regret import random_curve, regret_curve
from warmstart.history_store.errors import DataError, UsageError

NAN = np.nan


def rng(seed=0):
    return np.random.default_rng(seed)


def table(c=40, d=3, seed=0):
    unit = rng(seed).random((c, d))
    return unit, np.sum((unit - 0.3) ** 2, axis=1)


@pytest.mark.parametrize(("surrogate", "acquisition"), [("gp", "ei"), ("gp-map", "pi"), ("gp-map", "lcb")])
def test_initial_rows_first_and_in_order_then_distinct_ones(surrogate, acquisition):
    unit, errors = table()
    initial = np.array([7, 3, 30])
    assert search_table(unit, errors, initial=initial, t=2, rng=rng()) == [7, 3]
    rows = search_table(unit, errors, initial=initial, t=9, rng=rng(), surrogate=surrogate, acquisition=acquisition)
    assert rows[:3] == [7, 3, 30]
    assert len(set(rows)) == len(rows) == 9
    assert all(type(row) is int and 0 <= row < 40 for row in rows)


def test_the_generator_is_the_only_randomness():
    unit, errors = table()
    runs = [search_table(unit, errors, initial=(), t=10, rng=rng(seed), surrogate="gp-map") for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_failed_runs_are_passed_over():
    unit, errors = table()
    broken = np.where(unit[:, 0] > 0.7, np.where(unit[:, 1] > 0.5, NAN, -np.inf), errors)
    rows = search_table(unit, broken, initial=(), t=20, rng=rng(), surrogate="gp-map")
    assert len(set(rows)) == 20
    assert np.nanargmin(np.where(np.isfinite(broken), broken, NAN)) in rows


def test_finds_the_least_of_a_bowl_long_before_chance():
    unit, errors = table(150, 2)
    curves = [regret_curve(errors, search_table(unit, errors, initial=(), t=14, rng=rng(seed))) for seed in range(3)]
    assert np.mean([curve[-1] for curve in curves]) < 0.15 * random_curve(errors, 14)[-1]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"errors": np.zeros(39)}, UsageError, r"got shapes \(40, 3\) and \(39,\)"),
        ({"unit": np.full((40, 3), 1.5)}, DataError, r"in \[0, 1\] or NaN, got unit\[0, 0\]=1.5"),
        ({"initial": [1, 1]}, UsageError, r"distinct initial rows in 0..39, got \[1, 1\]"),
        ({"initial": [40]}, UsageError, r"got \[40\]"),
        ({"t": 41}, UsageError, r"expected t in 0..40, the rows of the table, got t=41"),
        ({"t": 2.0}, UsageError, r"expected whole numbers for t and the initial rows, got t=2.0"),
        ({"surrogate": "forest"}, UsageError, "surrogate among gp, gp-map, .* got 'forest'"),
        (
            {"related": [Task(*table())]},
            UsageError,
            r"^search_table: related needs a surrogate for related tasks, mt-\.\.\., got 'gp'",
        ),
        ({"acquisition": "kg"}, UsageError, "acquisition among ei, pi, lcb, got 'kg'"),
    ],
)
def test_calls_that_cannot_be_carried_out(change, error, message):
    unit, errors = table()
    arguments = {"unit": unit, "errors": errors, "initial": (), "t": 3, "surrogate": "gp", "acquisition": "ei"} | change
    with pytest.raises(error, match=message):
        search_table(arguments.pop("unit"), arguments.pop("errors"), rng=rng(), **arguments)


def test_a_related_table_says_where_to_begin():
    unit, errors = table()
    related = [Task(unit[:25], 3.0 * errors[:25] + 1.0)]
    rows = search_table(unit, errors, initial=(), t=3, rng=rng(), surrogate="mt-gp", related=related)
    assert len(set(rows)) == 3
    assert regret_curve(errors, rows)[-1] < 0.05 < random_curve(errors, 3)[-1]
