"""Search over a table: its contract, whatever the errors are, and that it searches."""

import subprocess
import sys

import numpy as np
import pytest

from warmstart.bo.acquisition.registry import ACQUISITIONS
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


@pytest.fixture(params=["gp", "gp-map"])
def surrogate(request):
    """Name a process: networks, which need more points and time, keep to the contract of surrogates."""
    return request.param


@pytest.mark.parametrize("acquisition", sorted(ACQUISITIONS.keys() - {"ei-per-second"}))
def test_initial_rows_first_and_in_order_then_distinct_ones(surrogate, acquisition):
    unit, errors = table()
    rows = search_table(unit, errors, initial=[7, 3, 30], t=9, rng=rng(), surrogate=surrogate, acquisition=acquisition)
    assert rows[:3] == [7, 3, 30]
    assert len(set(rows)) == len(rows) == 9
    assert all(type(row) is int and 0 <= row < 40 for row in rows)


def test_without_initial_rows_two_random_ones_start():
    unit, errors = table(12)
    starts = {tuple(search_table(unit, errors, initial=(), t=2, rng=rng(seed))) for seed in range(60)}
    assert len(starts) > 30
    assert all(len(set(start)) == 2 for start in starts)


@pytest.mark.parametrize("t", [0, 1, 2])
def test_short_runs_are_the_initial_rows(t):
    unit, errors = table()
    assert search_table(unit, errors, initial=np.array([5, 1]), t=t, rng=rng()) == [5, 1][:t]
    assert len(search_table(unit, errors, initial=(), t=t, rng=rng())) == t


@pytest.mark.parametrize("errors", ["table", "constant", "failures", "half"])
def test_a_table_is_exhausted(surrogate, errors):
    unit, known = table(12)
    targets = {
        "table": known,
        "constant": np.full(12, 0.5),
        "failures": np.full(12, NAN),
        "half": np.where(np.arange(12) % 2, known, NAN),
    }[errors]
    rows = search_table(unit, targets, initial=[11], t=12, rng=rng(), surrogate=surrogate)
    assert sorted(rows) == list(range(12))


def test_the_generator_is_the_only_randomness(surrogate):
    unit, errors = table()
    runs = [search_table(unit, errors, initial=(), t=10, rng=rng(seed), surrogate=surrogate) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_errors_that_were_not_evaluated_are_not_looked_at(surrogate):
    unit, errors = table()
    rows = search_table(unit, errors, initial=[7, 3], t=8, rng=rng(), surrogate=surrogate)
    others = np.where(np.isin(np.arange(40), rows), errors, -1e6)
    assert search_table(unit, others, initial=[7, 3], t=8, rng=rng(), surrogate=surrogate) == rows


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_failed_runs_are_passed_over(surrogate, value):
    unit, errors = table()
    broken = np.where(unit[:, 0] > 0.7, value, errors)
    rows = search_table(unit, broken, initial=(), t=20, rng=rng(), surrogate=surrogate)
    assert len(set(rows)) == 20
    assert np.nanargmin(np.where(np.isfinite(broken), broken, NAN)) in rows


@pytest.mark.parametrize("scale", [1e-8, 1e8, 1e200])
def test_units_of_the_errors_do_not_matter(surrogate, scale):
    unit, errors = table()
    expected = search_table(unit, errors, initial=[7, 3], t=7, rng=rng(), surrogate=surrogate)
    got = search_table(unit, errors * scale, initial=[7, 3], t=7, rng=rng(), surrogate=surrogate)
    assert np.mean(np.array(got) == expected) > 0.5


@pytest.mark.parametrize(
    "unit",
    [
        np.linspace(0, 1, 10)[:, None],
        np.full((10, 2), 0.5),
        np.repeat(np.eye(2), 5, axis=0),
        np.column_stack([np.linspace(0, 1, 10), np.full(10, NAN)]),
        np.full((10, 1), NAN),
        np.linspace(0, 1, 20, dtype=np.float32).reshape(10, 2),
    ],
    ids=["one dimension", "one point", "two points", "never active", "nothing active", "float32"],
)
def test_awkward_tables(surrogate, unit):
    rows = search_table(unit, rng().random(10), initial=(), t=10, rng=rng(), surrogate=surrogate)
    assert sorted(rows) == list(range(10))


def test_learns_which_branch_of_a_conditional_space_is_good(surrogate):
    """The second half never has less than 1; only the hyperparameter that is active there tells it."""
    values = rng().random(60)
    unit = np.column_stack([np.where(np.arange(60) < 30, values, NAN), np.where(np.arange(60) < 30, NAN, values)])
    errors = np.where(np.arange(60) < 30, np.abs(values - 0.6), 1.0 + values)
    rows = search_table(unit, errors, initial=[0, 59, 31, 1], t=14, rng=rng(), surrogate=surrogate)
    assert np.mean(np.array(rows[4:]) < 30) > 0.7


def test_finds_the_least_of_a_bowl_long_before_chance(surrogate):
    unit, errors = table(150, 2)
    curves = [
        regret_curve(errors, search_table(unit, errors, initial=(), t=14, rng=rng(seed), surrogate=surrogate))
        for seed in range(5)
    ]
    assert np.mean([curve[-1] for curve in curves]) < 0.15 * random_curve(errors, 14)[-1]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"unit": np.zeros(3)}, UsageError, r"got shapes \(3,\) and \(40,\)"),
        ({"unit": np.zeros((0, 3)), "errors": np.zeros(0)}, UsageError, r"got shapes \(0, 3\) and \(0,\)"),
        ({"errors": np.zeros(39)}, UsageError, r"got shapes \(40, 3\) and \(39,\)"),
        ({"unit": np.full((40, 3), 1.5)}, DataError, r"in \[0, 1\] or NaN, got unit\[0, 0\]=1.5"),
        ({"unit": np.full((40, 3), -np.inf)}, DataError, r"got unit\[0, 0\]=-inf"),
        ({"initial": [1, 1]}, UsageError, r"distinct initial rows in 0..39, got \[1, 1\]"),
        ({"initial": [40]}, UsageError, r"got \[40\]"),
        ({"initial": [-1]}, UsageError, r"got \[-1\]"),
        ({"initial": [0.5]}, UsageError, "expected whole numbers"),
        ({"t": 41}, UsageError, r"expected t in 0..40, the rows of the table, got t=41"),
        ({"t": -1}, UsageError, "got t=-1"),
        ({"t": 2.0}, UsageError, r"expected whole numbers for t and the initial rows, got t=2.0"),
        ({"surrogate": "forest"}, UsageError, "surrogate among gp, gp-map, .* got 'forest'"),
        ({"acquisition": "kg"}, UsageError, "acquisition among ei, pi, lcb, got 'kg'"),
    ],
)
def test_calls_that_cannot_be_carried_out(change, error, message):
    unit, errors = table()
    arguments = {"unit": unit, "errors": errors, "initial": (), "t": 3, "surrogate": "gp", "acquisition": "ei"} | change
    with pytest.raises(error, match=message):
        search_table(arguments.pop("unit"), arguments.pop("errors"), rng=rng(), **arguments)


def test_importing_loads_no_scipy():
    code = "import sys, warmstart.bo.search; print([m for m in ('scipy', 'sklearn', 'torch', 'ConfigSpace') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_related_table_says_where_to_begin():
    unit, errors = table()
    related = [Task(unit[:25], 3.0 * errors[:25] + 1.0)]
    rows = search_table(unit, errors, initial=(), t=3, rng=rng(), surrogate="mt-gp", related=related)
    assert len(set(rows)) == 3
    assert regret_curve(errors, rows)[-1] < 0.05 < random_curve(errors, 3)[-1]
    after = search_table(unit, errors, initial=[3], t=2, rng=rng(), surrogate="mt-gp", related=related)
    assert after[0] == 3


def test_related_tables_need_a_surrogate_for_them():
    unit, errors = table()
    with pytest.raises(
        UsageError, match=r"search_table: related needs a surrogate for related tasks, mt-\.\.\., got 'gp'"
    ):
        search_table(unit, errors, initial=(), t=3, rng=rng(), related=[Task(unit, errors)])
