"""Axes of the unit cube: hand values, exact inverses on the grid, equal shares."""

import math

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, Constant, Float, Integer, Normal, OrdinalHyperparameter

from warmstart.history_store import axes
from warmstart.history_store.axes import MAX_UNIT, Choice, Real, axis_of
from warmstart.history_store.numbering import Numbering, _decode

HYPERPARAMETERS = [
    Float("a", (-5.0, 0.0)),
    Float("b", (1e-9, 1e3), log=True),
    Float("c", (-3.0, 3.0), distribution=Normal(0, 1)),
    Integer("d", (1, 9)),
    Integer("e", (4, 512), log=True),
    Integer("f", (1, 3), log=True),
    Integer("g", (-7, 1_000_000)),
    Categorical("h", ["x", 2, 0.5, True]),
    Categorical("i", ["only"]),
    OrdinalHyperparameter("j", ["s", "m", "l"]),
    Constant("k", "v"),
]


@pytest.fixture(params=HYPERPARAMETERS, ids=lambda h: h.name)
def hyperparameter(request):
    return request.param


def test_values_are_those_of_shared_configurations(hyperparameter):
    space = ConfigurationSpace()
    space.add(hyperparameter)
    axis, u = axis_of(hyperparameter), np.random.default_rng(0).random(500)
    for number, config in zip(axis.numbers(u), _decode(Numbering(space), u[:, None]), strict=True):
        value, other = axis.native(number), config[axis.name]
        assert value == (pytest.approx(other, rel=1e-11, abs=1e-13) if isinstance(other, float) else other)


def test_numbers_come_back_from_their_coordinates(hyperparameter):
    axis = axis_of(hyperparameter)
    numbers = axis.numbers(np.concatenate([np.random.default_rng(1).random(2000), [0.0, MAX_UNIT]]))
    u = axis.units(numbers)
    assert np.all((u >= 0) & (u < 1))
    assert np.array_equal(axis.numbers(u), numbers)
    assert np.array_equal(axis.parse([axis.native(number) for number in numbers]), numbers)


def test_integers_have_equal_shares():
    axis = axes.Integer("x", 1, 4)
    u = np.linspace(0, 1, 4000, endpoint=False)
    assert np.bincount(axis.numbers(u).astype(int)).tolist() == [0, 1000, 1000, 1000, 1000]
    assert axis.units(np.array([1.0, 4.0])).tolist() == [0.125, 0.875]


def test_columns():
    assert Real("x", 0.0, 4.0).columns(np.array([1.0, np.nan]))[0] == [0.25]
    assert axes.Integer("x", 1, 3).columns(np.array([1.0, 2.0, 3.0])).ravel().tolist() == [0.0, 0.5, 1.0]
    assert axes.Integer("x", 1, 100, log=True).columns(np.array([10.0]))[0, 0] == pytest.approx(0.5)
    assert Choice("x", ("a", "b")).columns(np.array([0.0, 1.0])).ravel().tolist() == [0.0, 1.0]
    assert Choice("x", (1, 5, 9), ordered=True).columns(np.array([1.0])).tolist() == [[0.5]]
    hot = Choice("x", ("a", "b", "c")).columns(np.array([2.0, np.nan]))
    assert hot[0].tolist() == [0, 0, 1]
    assert np.isnan(hot[1]).all()


@pytest.mark.parametrize(("axis", "odd"), [(Real("x", 0.0, 2.0), []), (axes.Integer("x", 0, 2), [1.5])])
def test_what_is_no_number_of_the_range_is_not_read(axis, odd):
    numbers = axis.parse(
        [1, 2.0, np.float32(1), np.int64(2), 3, -1, "1", True, None, math.nan, math.inf, 10**400, [1], *odd]
    )
    assert numbers[:4].tolist() == [1, 2, 1, 2]
    assert np.isnan(numbers[4:]).all()
    assert np.isnan(axis.parse([10**400, 1])).tolist() == [True, False]


def test_the_bounds_of_a_wide_range_are_exact():
    axis = axes.Integer("x", -(2**62) - 1, 2**62 + 1)
    assert [axis.native(number) for number in axis.numbers(np.array([0.0, 1.0]))] == [-(2**62), 2**62]
    assert np.isfinite(axis.parse([2**53 + 1, 2**62 + 1, -(2**62) - 1, np.int64(2**62), 2.0**62])).all()
    assert np.isnan(axis.parse([2**62 + 2, -(2**62) - 2, "1", None])).all()
    close = axes.Integer("x", 2**53, 2**62 - 1)
    assert [close.native(number) for number in close.numbers(np.array([0.0, 1.0]))] == [2**53, 2**62 - 1]
    assert np.isnan(close.parse([2.0**62]))[0]


def test_choices_that_cannot_be_hashed():
    axis = Choice("x", ([1, 2], [3, 4], "a"))
    assert axis.parse([[3, 4], "a"]).tolist() == [1, 2]
    assert np.isnan(axis.parse([[5], {}])).all()
    assert np.isnan(Choice("x", ("a", "b")).parse([["a"], "c"])).all()
