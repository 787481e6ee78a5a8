"""Spaces to Optuna's distributions and back, and the spaces that trials show."""

import math

import pytest
from ConfigSpace import Categorical, ConfigurationSpace, Constant, Float, Integer
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial

from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space, load_space, same_space, space_difference
from warmstart.history_store.space_yaml import parse_space
from warmstart.integrations.optuna.space import Presence, snap_to_step, space_of_trials, to_distributions, to_space

DISTRIBUTIONS = {
    "real": FloatDistribution(-1.5, 2.0),
    "log": FloatDistribution(1e-7, 1.0, log=True),
    "thirds": FloatDistribution(1 / 3, 2 / 3),
    "stepped": FloatDistribution(-10.2, 10.2, step=0.1),
    "whole": IntDistribution(-10, 10),
    "power": IntDistribution(1, 1024, log=True),
    "even": IntDistribution(-10, 8, step=2),
    "kind": CategoricalDistribution(("a", "b", "c")),
    "mixed": CategoricalDistribution((None, True, "a", 2, 0.5)),
    "flag": CategoricalDistribution((True, False)),
    "only": CategoricalDistribution((7,)),
    "one": IntDistribution(3, 3),
    "point": FloatDistribution(0.25, 0.25, log=True),
    "coarse": FloatDistribution(1.0, 1.0, step=1.0),
}


def test_distributions_come_back_as_they_were_also_through_json():
    space = to_space(DISTRIBUTIONS)
    assert to_distributions(space) == DISTRIBUTIONS
    back = to_distributions(load_space(dump_space(space)))
    assert back == DISTRIBUTIONS
    assert [type(choice) for choice in back["mixed"].choices] == [type(None), bool, str, int, float]


def test_a_space_of_configspace_comes_back_as_it_was():
    space = ConfigurationSpace()
    space.add(
        Float("x", (-5.0, 10.0)),
        Float("rate", (1e-4, 1.0), log=True, default=0.01),
        Integer("n", (1, 64), log=True),
        Categorical("kind", ["sgd", None, 3]),
        Constant("version", "two"),
    )
    found = to_distributions(space)
    assert found == {
        "x": FloatDistribution(-5.0, 10.0),
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "n": IntDistribution(1, 64, log=True),
        "kind": CategoricalDistribution(("sgd", None, 3)),
        "version": CategoricalDistribution(("two",)),
    }
    assert Encoding(to_space(found)).names == Encoding(space).names
    assert to_distributions(to_space(found)) == found


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (CategoricalDistribution((1, True)), "ConfigSpace can express"),
        (FloatDistribution(1e-15, 1.0, log=True), "at most 13 decimals"),
        (FloatDistribution(0.0, 1.0, step=1e-5), "at most 10,001 steps, got 100,001"),
    ],
)
def test_distributions_that_have_no_space(distribution, message):
    with pytest.raises(UsageError, match=f"parameter p: expected .*{message}"):
        to_space({"p": distribution})


def test_a_condition_becomes_one_of_the_space():
    space = to_space(
        {"kind": DISTRIBUTIONS["kind"], "real": DISTRIBUTIONS["real"]}, {"real": Presence("kind", ("a", "c"))}
    )
    encoding = Encoding(space)
    assert encoding.encode([{"kind": "b"}, {"kind": "c", "real": 0.5}]).shape == (2, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.3, -10.2 + 105 * 0.1),
        (10.2, 10.2),
        ("x", "x"),
        (math.inf, math.inf),
        (10**400, 10**400),
    ],
)
def test_values_are_snapped_to_the_steps(value, expected):
    assert snap_to_step(DISTRIBUTIONS["stepped"], value) == expected
    assert snap_to_step(DISTRIBUTIONS["even"], -4) == -4
    assert snap_to_step(DISTRIBUTIONS["whole"], 3) == 3
    assert math.isnan(snap_to_step(DISTRIBUTIONS["stepped"], math.nan))


# --- what trials show ---


def trials(*rows):
    return [
        create_trial(params=row, distributions={name: DISTRIBUTIONS[name] for name in row}, value=0.0) for row in rows
    ]


def test_a_parameter_is_conditional_on_the_values_that_tell_when_it_is_there():
    rows = [
        {"kind": "a", "whole": 1, "real": 0.5},
        {"kind": "b", "whole": 2},
        {"kind": "a", "whole": 2, "real": 1.0},
        {"kind": "c", "whole": 1, "real": 1.5},
    ]
    distributions, conditions = space_of_trials(trials(*rows))
    assert list(distributions) == ["kind", "whole", "real"]
    assert conditions == {"real": Presence("kind", ("a", "c"))}


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        ((9,) * 3 + (20,) * 4, None),
        ((9,) * 3 + (20,) * 5, 20),
        ((9, 20, 9) + (20,) * 19, None),
        ((9, 20, 9) + (20,) * 20, 20),
        ((9,) * 3 + (20,) * 5 + (9,) * 20, 9),
    ],
)
def test_a_range_that_was_changed_for_good_counts_after_a_while(ends, kept):
    made = trials(*[{"kind": "a", "whole": 1}] * len(ends))
    for trial, end in zip(made, ends, strict=True):
        trial.distributions["whole"] = IntDistribution(0, end)
    assert space_of_trials(made)[0].get("whole") == (None if kept is None else IntDistribution(0, kept))


def test_choices_keep_their_written_order_for_optuna():
    space = parse_space("batch_size: [64, 16, 32]\nwidth: [1, 2, 3]")
    assert space["batch_size"].sequence == (16, 32, 64)
    found = to_distributions(load_space(dump_space(space)))
    assert found == {"batch_size": CategoricalDistribution((64, 16, 32)), "width": CategoricalDistribution((1, 2, 3))}
    sorted_before = parse_space("batch_size: [16, 32, 64]\nwidth: [1, 2, 3]")
    assert same_space(dump_space(sorted_before), dump_space(space))
    wider = parse_space("batch_size: [64, 16, 32]\nwidth: [1, 2, 4]")
    assert space_difference(dump_space(sorted_before), dump_space(wider)) == "changes width"
