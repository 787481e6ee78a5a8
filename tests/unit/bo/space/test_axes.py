"""Axes of the unit cube: hand values, exact inverses on the grid, equal shares."""

import math

import numpy as np
import pytest
from ConfigSpace import Categorical, Constant, Float, Integer, Normal, OrdinalHyperparameter

from warmstart.bo.space import axes
from warmstart.bo.space.axes import MAX_UNIT, Choice, Real, axis_of
from warmstart.history_store.space import _value_at

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
    axis = axis_of(hyperparameter)
    u = np.random.default_rng(0).random(500)
    for x, number in zip(u, axis.numbers(u), strict=True):
        value, other = axis.native(number), _value_at(hyperparameter, x)
        assert value == (pytest.approx(other, rel=1e-11, abs=1e-13) if isinstance(other, float) else other)


def test_numbers_come_back_from_their_coordinates(hyperparameter):
    axis = axis_of(hyperparameter)
    numbers = axis.numbers(np.concatenate([np.random.default_rng(1).random(2000), [0.0, MAX_UNIT]]))
    u = axis.units(numbers)
    assert np.all((u >= 0) & (u < 1))
    assert np.array_equal(axis.numbers(u), numbers)
    assert np.array_equal(axis.parse([axis.native(number) for number in numbers]), numbers)


@pytest.mark.parametrize("low", [-5.0, 1.0, 1e-8, 2 / 3, 1e6, -1e-20])
@pytest.mark.parametrize("reach", [1e-3, 1.0, 7.3, 1e12, 1e-20])
@pytest.mark.parametrize("log", [False, True])
def test_reals_of_any_range_come_back(low, reach, log):
    if (log and (low <= 0 or reach < 1e-6 * low)) or low + reach == low:
        pytest.skip("no such range")
    axis = Real("x", low, low + reach, log)
    numbers = axis.numbers(np.concatenate([np.random.default_rng(2).random(500), [0.0, MAX_UNIT]]))
    assert np.array_equal(axis.numbers(axis.units(numbers)), numbers)
    assert np.array_equal(axis.snap(numbers), numbers)
    assert numbers[-2] == low
    assert numbers[-1] == low + reach


def test_decimals_that_people_write_are_on_the_grid():
    rng = np.random.default_rng(3)
    values = np.array(
        [float(f"{m}e{k}") for m, k in zip(rng.integers(1, 10**7, 2000), rng.integers(-9, 2, 2000), strict=True)]
    )
    logarithmic, linear = Real("x", 1e-9, 1e9, log=True), Real("x", 0.0, 1e9)
    for axis, written in (
        (logarithmic, values),
        (linear, np.round(values, 5)),
    ):  # the grid of a range of 1e9 ends at 1e-5
        assert np.array_equal(axis.snap(written), written)
        assert np.array_equal(axis.numbers(axis.units(written)), written)


def test_integers_have_equal_shares():
    axis = axes.Integer("x", 1, 4)
    u = np.linspace(0, 1, 4000, endpoint=False)
    assert np.bincount(axis.numbers(u).astype(int)).tolist() == [0, 1000, 1000, 1000, 1000]
    assert axis.units(np.array([1.0, 4.0])).tolist() == [0.125, 0.875]


def test_integers_on_a_logarithmic_scale_have_logarithmic_shares():
    axis = axes.Integer("x", 1, 1000, log=True)
    share = np.mean(axis.numbers(np.linspace(0, 1, 100_000, endpoint=False)) <= 31)
    assert share == pytest.approx(math.log(31.5 / 0.5) / math.log(1000.5 / 0.5), abs=1e-4)


def test_columns():
    assert Real("x", 0.0, 4.0).columns(np.array([1.0, np.nan]))[0] == [0.25]
    assert axes.Integer("x", 1, 3).columns(np.array([1.0, 2.0, 3.0])).ravel().tolist() == [0.0, 0.5, 1.0]
    assert axes.Integer("x", 1, 100, log=True).columns(np.array([10.0]))[0, 0] == pytest.approx(0.5)
    assert Choice("x", ("a", "b")).columns(np.array([0.0, 1.0])).ravel().tolist() == [0.0, 1.0]
    assert Choice("x", (1, 5, 9), ordered=True).columns(np.array([1.0])).tolist() == [[0.5]]
    hot = Choice("x", ("a", "b", "c")).columns(np.array([2.0, np.nan]))
    assert hot[0].tolist() == [0, 0, 1]
    assert np.isnan(hot[1]).all()


@pytest.mark.parametrize("axis", [Real("x", 0.0, 2.0), axes.Integer("x", 0, 2)], ids=["real", "integer"])
def test_what_is_no_number_of_the_range_is_not_read(axis):
    numbers = axis.parse([1, 2.0, np.float32(1), np.int64(2), 3, -1, "1", True, None, math.nan, math.inf, 10**400, [1]])
    assert numbers[:4].tolist() == [1, 2, 1, 2]
    assert np.isnan(numbers[4:]).all()
    assert np.isnan(axis.parse([10**400, 1])).tolist() == [True, False]


def test_a_part_of_a_whole_number_is_not_read():
    assert np.isnan(axes.Integer("x", 0, 9).parse([2.5]))[0]


def test_the_bounds_of_a_wide_range_are_exact():
    axis = axes.Integer("x", -(2**62) - 1, 2**62 + 1)
    assert [axis.native(number) for number in axis.numbers(np.array([0.0, 1.0]))] == [-(2**62), 2**62]
    assert np.isfinite(axis.parse([2**53 + 1, 2**62 + 1, -(2**62) - 1, np.int64(2**62), 2.0**62])).all()
    assert np.isnan(axis.parse([2**62 + 2, -(2**62) - 2, "1", None])).all()
    close = axes.Integer("x", 2**53, 2**62 - 1)
    assert [close.native(number) for number in close.numbers(np.array([0.0, 1.0]))] == [2**53, 2**62 - 1]
    assert np.isnan(close.parse([2.0**62]))[0]


def test_reals_rounded_over_their_bound_are_read():
    axis = Real("x", 0.0, 2 / 3)
    assert axis.parse([0.6666666666667]).tolist() == [0.6666666666667]
    assert np.isnan(axis.parse([0.66667]))[0]


def test_choices_that_cannot_be_hashed():
    axis = Choice("x", ([1, 2], [3, 4], "a"))
    assert axis.parse([[3, 4], "a"]).tolist() == [1, 2]
    assert np.isnan(axis.parse([[5], {}])).all()
    assert np.isnan(Choice("x", ("a", "b")).parse([["a"], "c"])).all()


def test_numpy_choices_become_plain():
    axis = axis_of(Categorical("x", [np.int64(3), np.str_("a")]))
    assert [type(choice) for choice in axis.choices] == [int, str]


def test_axes_say_what_they_hold():
    assert str(Real("x", 0.0, 2.0)) == "a number in [0, 2]"
    assert str(axes.Integer("x", 0, 2)) == "a whole number in [0, 2]"
    assert str(Choice("x", ("a", 1))) == "one of 'a', 1"
    assert str(Choice("x", tuple(range(20)))).endswith("7, ...")
