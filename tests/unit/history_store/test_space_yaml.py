"""The short form of a space: what each entry becomes, YAML's traps, and mistakes named by their line."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from ConfigSpace import (
    AndConjunction,
    Categorical,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    InCondition,
    Integer,
    OrdinalHyperparameter,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution, distribution_to_json

from warmstart.history_store.errors import DataError
from warmstart.history_store.space_yaml import Source, build_space, parse_space

TEXT = """\
# my space
lr: {log: [1e-5, 0.1]}
dropout: [0, 0.5]
layers: {int: [1, 9]}
width: {log_int: [16, 1024]}
batch_size: [64, 16, 32]
model_name: [resnet18, resnet50, off, "0x3"]
flag: [true, false]
epochs: 30
optimizer:
  choice: [sgd, adam, 3]
  default: adam
momentum: {float: [0, 0.99], default: 0.9, if: {optimizer: sgd}}
optimizer.nesterov: {choice: [yes, no], if: {optimizer: [sgd, adam], layers: 3}}
size: {ordered: [small, medium, large]}
crop: {int: [8, 30], step: 8}
noise: {float: [0, 0.3], step: 0.1}
"""


def steps(kind: str, low: float, high: float, step: float) -> dict[str, str]:
    """Write what Optuna's own function writes."""
    made = (
        FloatDistribution(low, high, step=step)
        if kind == "Float"
        else IntDistribution(int(low), int(high), step=int(step))
    )
    return {"optuna": distribution_to_json(made)}


def expected() -> ConfigurationSpace:
    space = ConfigurationSpace()
    optimizer, momentum = Categorical("optimizer", ["sgd", "adam", 3], default="adam"), Float("momentum", (0, 0.99), default=0.9)  # fmt: skip
    nesterov, layers = Categorical("optimizer.nesterov", ["yes", "no"], default="yes"), Integer("layers", (1, 9))
    space.add(Float("lr", (1e-5, 0.1), log=True), Float("dropout", (0.0, 0.5)), layers, optimizer, momentum, nesterov)
    written = {"optuna": distribution_to_json(CategoricalDistribution([64, 16, 32]))}
    batch_size = OrdinalHyperparameter("batch_size", [16, 32, 64], default_value=32, meta=written)
    space.add(Integer("width", (16, 1024), log=True), batch_size)
    space.add(Categorical("model_name", ["resnet18", "resnet50", "off", "0x3"], default="resnet18"))
    space.add(Categorical("flag", [True, False], default=True), Constant("epochs", 30))
    space.add(OrdinalHyperparameter("size", ["small", "medium", "large"], default_value="medium"))
    space.add(OrdinalHyperparameter("crop", [8, 16, 24], default_value=16, meta=steps("Int", 8, 24, 8)))
    space.add(
        OrdinalHyperparameter("noise", [0.0, 0.1, 0.2, 0.3], default_value=0.1, meta=steps("Float", 0.0, 0.3, 0.1))
    )
    space.add(EqualsCondition(momentum, optimizer, "sgd"))
    space.add(AndConjunction(InCondition(nesterov, optimizer, ["sgd", "adam"]), EqualsCondition(nesterov, layers, 3)))
    return space


def test_every_entry_by_hand() -> None:
    assert parse_space(TEXT) == expected()


def test_a_dict_says_the_same() -> None:
    lines = TEXT.replace("yes, no", '"yes", "no"').replace("off", '"off"')  # PyYAML reads YAML 1.1
    entries = yaml.safe_load(lines)
    assert entries["lr"] == {"log": ["1e-5", 0.1]}, "the trap that this test is about"
    assert build_space(entries, Source("space")) == expected()
    tuples = {"lr": {"log": (np.float64(1e-5), 0.1)}, "layers": (1, np.int64(9)), "kind": ("a", "b")}
    built = build_space(tuples, Source("space"))
    with pytest.raises(DataError, match=r"may be either, got \(0, 1\). Write a: \(0.0, 1.0\) for any number between"):
        build_space({"a": (0, 1)}, Source("space"))
    assert (built["lr"].lower, built["layers"].upper, built["kind"].choices) == (1e-5, 9, ("a", "b"))


def test_a_dict_may_have_arrays_and_ranges() -> None:
    odd = {"a": np.array([16, 32, 64]), "b": range(1, 5), "c": range(8, 1, -2), "d": {"choice": range(2)}}
    plain = {"a": [16, 32, 64], "b": {"int": [1, 4]}, "c": {"int": [2, 8], "step": 2}, "d": {"choice": [0, 1]}}
    assert build_space(odd, Source("space")) == build_space(plain, Source("space"))
    with pytest.raises(
        DataError, match=r"space: a: expected a range, .*, got {'x'}. Write a list: a set has no order."
    ):
        build_space({"a": {"x"}}, Source("space"))
    for empty in (range(0), range(3, 4)):
        with pytest.raises(DataError, match="space: a int: expected two"):
            build_space({"a": empty}, Source("space"))


@pytest.mark.parametrize("number", ["1e-5", "1E-5", "1.e-5", "1.0e-5", "+1e-5", ".1e-4", "0.00001"])
def test_small_numbers_however_written(number: str) -> None:
    assert parse_space(f"lr: {{log: [{number}, 1]}}")["lr"].lower == 1e-5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: expected a space, one hyperparameter a line"),
        ("lr", "s.yaml: expected a space, one hyperparameter a line .*, got 'lr'"),
        ("[1, 2]", "s.yaml: expected a space"),
        ("{}", "s.yaml: expected a space with at least one hyperparameter, got none"),
        ("a: [1.5, 3]\nlr: {log: [0.1, 1e-5]}", r"s.yaml, line 2: lr log: expected two numbers, the lower one first, got \[0.1, 1e-05\]"),
        ("a: [1.5, 3]\n\nlr:\n  default: 3\n  log: [0, 1]", "s.yaml, line 5: lr log: expected numbers from 1e-12 on"),
        ("a: [0, 1]", r"line 1: a: expected a range or two choices, and this may be either, got \[0, 1\]. Write a: {float: \[0, 1\]}"),
        ("a: {min: 0, max: 1}", r"expected float, .* got 'min'. Write a: {float: \[0, 1\]}"),
        ("a: {low: 1, high: 9}", r"got 'low'. Write a: {int: \[1, 9\]}"),
        ("a: {lower: 0.5, upper: 2}", r"got 'lower'. Write a: {float: \[0.5, 2\]}"),
        ("a: {float: [0, 1]}\nb: {float: [0, 1], if: {a: 0.5}}", r"line 2: b if: expected a hyperparameter of choices or whole numbers: .* got 'a'. Make a a choice"),
        ("a: [16, 32]", r"may be either, got \[16, 32\]. Write a: {int: \[16, 32\]} for any whole number between, or a: {choice: \[16, 32\]}"),
        ("a: {choices: [x, y]}", "line 1: a choices: expected float, log, .* or if, got 'choices'. Write choice."),
        ("a: {flaot: [1, 2]}", "got 'flaot'. Write float."),
        ("a: {lr: [1, 2]}", r"got 'lr'. Write a: {log: \[1e-5, 0.1\]}"),
        ("a: {float: [0, 2], int: [3, 4]}", "expected one key of float, log, .*, got 'float and int'"),
        ("a: {default: 3}", "expected one key of float, log, .*, got none"),
        ("a: 1\nb: 2\na: 3", "s.yaml, line 3: expected each name once, got 'a'"),
        ("a: [x, x]", "line 1: a choice: expected choices that differ"),
        ("a: [1, 1.0, 3]", "expected choices that differ"),
        ("a: [x, null]", "expected a text, a number, true or false, got null. Write 'none' in quotes"),
        ("a:", "line 1: a: expected a range, a list of choices or one value, got None"),
        ("a: [[1, 2], x]", "expected a text, a finite number"),
        ("a: &x [1, 2]\nb: *x", "line 2: expected values written out, got an alias"),
        ("a: [1, 2\nb: 3", "line 2: expected ConfigSpace JSON, or a space in YAML"),
        ("a: b: c", "line 1: expected ConfigSpace JSON, or a space in YAML .*, got 'a: b: c'"),
        ("{", "line 1: expected ConfigSpace JSON, or a space in YAML .*, got '{'"),
        ('{"a": [1, 2],\n "b": [1,,2]}', "line 2: expected"),
        ("[" * 1200, "nested too deep"),
        ("a: {int: [1, 2.5]}", "line 1: a int: expected two whole numbers"),
        ("a: {float: [0, .inf]}", "expected two numbers, the lower one first"),
        ("a: {log: [1, x]}", "expected two numbers, the lower one first"),
        ("a: {int: [3, 3]}", r"the lower one first, got \[3, 3\]. Write a: 3 for a constant"),
        ("a: {log_int: [0, 8]}", "expected numbers from 1 on"),
        ("a: {float: [0, 1e300]}", "expected numbers up to 1e"),
        ("a: []", "expected a list of at least one choice"),
        ("'': [1, 3]", "expected a name of a hyperparameter"),
        ("3: [1, 3]", "expected a name of a hyperparameter, got 3"),
        ("? [1]\n: 3", "line 1: expected a name of a hyperparameter, got .1.. Write"),
        ("a: {float: [0, 1], default: 3}", "a default: expected a number in 0 .. 1, got 3"),
        ("a: {choice: [x, y], default: z}", "a default: expected one of x, y, got 'z'"),
        ("a: {float: [0, 1], step: 3}", "a step: expected a number above 0, at most 1, got 3"),
        ("a: {int: [0, 9], step: 0.5}", "a step: expected a whole number above 0"),
        ("a: {log: [1, 9], step: 2}", "a step: expected steps beside float or int"),
        ("a: {float: [0, 1], step: 1e-5}", "a step: expected at most 10,001 values"),
        ("a: [x, y]\nb: {float: [0, 2], if: {c: x}}", r"line 2: b if: expected another hyperparameter of the space \(a\), got 'c'"),
        ("a: [x, y]\nb: {float: [0, 2], if: {a: z}}", r"line 2: b if: expected a value of a \(x, y\), got 'z'"),
        ("a: [x, y]\nb: {float: [0, 2], if: a}", "b if: expected the value, or values, of another hyperparameter"),
        ("a: [x, y]\nb: {float: [0, 2], if: {a: []}}", "b if: expected at least one value of a"),
        ("a: {choice: [x, y], if: {b: x}}\nb: {choice: [x, y], if: {a: x}}", "line 2: b if: expected conditions that run in no circle"),
        ("a: {log: [1, 2]}\nb: {float: [0, 2], if: {a: 7}}", r"line 2: b if: expected a value of a \(1 .. 2\), got 7"),
        ("a: {float: [0, 2], if: {a: 1}}", r"expected another hyperparameter of the space \(there is none\), got 'a'"),
        ("a: !!python/name:os.system [x, y]", "line 1: expected values written out, got a tag"),
        ('{"hyperparameters": []}', "expected ConfigSpace JSON with at least one hyperparameter"),
        ('{"hyperparameters": [{"name": "x"}]}', "expected ConfigSpace JSON"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_space(text, "s.yaml")


LOADED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9)
PLAIN = NUMBERS | st.booleans() | st.text(max_size=5)
ENTRIES = st.dictionaries(
    st.text(max_size=4),
    PLAIN
    | st.lists(PLAIN, max_size=4)
    | st.dictionaries(
        st.sampled_from(["float", "log", "int", "log_int", "choice", "ordered", "value", "step", "default", "if", "x"]),
        PLAIN | st.lists(PLAIN, max_size=4) | st.dictionaries(st.text(max_size=2), PLAIN, max_size=2),
        max_size=3,
    ),
    max_size=4,
)


@LOADED
@given(ENTRIES)
def test_anything_is_a_space_or_an_error_of_ours(entries: dict[str, object]) -> None:
    try:
        space = build_space(entries, Source("space"))
    except DataError:
        return
    space.sample_configuration()
    assert set(space) == set(entries)


def test_a_number_in_quotes_is_one_of_the_numbers() -> None:
    """PyYAML's own loaders read `1e-4` as a text."""
    text = "lr: {choice: [1e-4, 1e-3], default: 1e-3}\nnoise: {float: [0.0, 0.5], if: {lr: 1e-4}}\n"
    entries = yaml.safe_load(text)
    assert entries["lr"]["default"] == entries["lr"]["choice"][1] == "1e-3"
    assert build_space(entries, Source("space")) == parse_space(text)
    words = build_space({"lr": {"choice": ["1e-4", "off"], "default": "1e-4"}}, Source("space"))
    assert words["lr"].default_value == "1e-4"


def test_a_range_with_the_word_of_its_scale_is_no_choice() -> None:
    with pytest.raises(DataError, match=r"Write lr: \{log: \[1e-05, 1\]\} for a number between"):
        parse_space("lr: [1.0e-5, 1.0, log]")
    assert parse_space("size: [16, 32, auto]")["size"].choices == (16, 32, "auto")
