"""Suggestions in another space: always valid there, what is not measured is named, common names and scales are told."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from ConfigSpace import (
    Configuration,
    ConfigurationSpace,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.transfer.strategies import Choice
from warmstart.history_store.errors import UsageError
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.space_yaml import Source, build_space
from warmstart.suggestions.records import InitialDesign
from warmstart.suggestions.translation import TranslatedConfig, Translation, translate_configs
from warmstart.training.workloads.cnn.space import target_space

LOADED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = int(os.environ.get("WARMSTART_EXAMPLES", "40"))
"""More where a campaign asks for it."""
NAMES = [
    "lr",
    "log10_learning_rate",
    "learning_rate",
    "optimizer.lr",
    "wd",
    "weight_decay",
    "decay_rate",
    "batch_size",
    "bs",
]
NAMES += ["dropout", "model__dropout_rate", "n_layers", "num_layers_conv", "optimizer", "opt", "model_name", "x", "y"]
WORDS = ["sgd", "adam", "rmsprop", "a", "b", True, False, "16", "0.1"]


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a space in its short form."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    found: dict[str, Any] = {}
    for name in names:
        low = draw(st.sampled_from([1e-6, 1e-3, 0.5, 1, 8, 100]))
        high = low * draw(st.sampled_from([1.5, 10, 1000]))
        whole = [max(int(low), 1), max(int(low), 1) + draw(st.integers(1, 100))]
        entry: Any = draw(
            st.sampled_from(
                [
                    {"float": [low, high]},
                    {"float": [-5.0, 0.0]},
                    {"float": [0.0, 1.0], "step": 0.1},
                    {"log": [low, high]},
                    {"int": whole},
                    {"log_int": whole},
                    {"int": [whole[0], whole[0] + 40], "step": 8},
                ]
            )
            | st.lists(st.sampled_from([1, 2, 8, 16, 64, 0.1, 0.001, 1e-4]), min_size=1, max_size=5, unique=True).map(
                lambda values: {"choice": values}
            )
            | st.lists(st.sampled_from([1, 8, 16, 64, 0.1]), min_size=2, max_size=5, unique=True).map(
                lambda values: {"ordered": values}
            )
            | st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(lambda v: {"choice": v})
        )
        parents = [other for other, each in found.items() if isinstance(each.get("choice"), list) and "if" not in each]
        if parents and draw(st.booleans()):
            parent = draw(st.sampled_from(parents))
            entry = {**entry, "if": {parent: draw(st.sampled_from(found[parent]["choice"]))}}
        found[name] = entry
    return found


@st.composite
def spaces(draw: st.DrawFn) -> ConfigurationSpace:
    """Draw a space with conditions and forbidden clauses."""
    space = build_space(draw(entries()), Source("space"))
    choices = [name for name in space if hasattr(space[name], "choices") and not space.parents_of[name]]
    if len(choices) > 1 and draw(st.booleans()):
        first, second = choices[:2]
        pair = [ForbiddenEqualsClause(space[name], space[name].choices[-1]) for name in (first, second)]
        if all(space[name].default_value != space[name].choices[-1] for name in (first, second)):
            space.add(ForbiddenAndConjunction(*pair))
    numbers = [name for name in space if hasattr(space[name], "lower") and not space.parents_of[name]]
    if len(numbers) > 1 and draw(st.booleans()):
        low, high = sorted(numbers[:2], key=lambda name: float(space[name].default_value))
        if space[low].default_value < space[high].default_value:
            space.add(ForbiddenGreaterThanRelation(space[low], space[high]))
    return space


def native(config: Configuration) -> dict[str, Any]:
    """Return a configuration in Python's own types, as a history has it."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in config.items()}


def picks(translation: Translation, n: int, k: int, seed: int = 0) -> list[TranslatedConfig]:
    return translation.pick(lambda asked: [Choice(row) for row in range(min(asked, n))], k=k, seed=seed)


@settings(LOADED, max_examples=EXAMPLES)
@given(spaces(), spaces(), st.integers(1, 5))
def test_every_suggestion_is_valid_in_the_other_space(
    there: ConfigurationSpace, here: ConfigurationSpace, k: int
) -> None:
    there.seed(0)
    configs = [native(config) for config in there.sample_configuration(6)]
    translation = translate_configs(configs, there, here, rename={})
    picked = picks(translation, len(configs), k)
    encoding = Encoding(here)
    assert 1 <= len(picked) <= k
    assert len(picked) == min(k, encoding.size) or encoding.size > 1
    keys = set()
    for one in picked:
        Configuration(here, values=dict(one.config))  # ConfigSpace refuses what does not fit
        keys.add(encoding.key(one.config))
        assert set(one.not_measured) <= set(one.config)
        json.dumps(one.config)
    assert len(keys) == len(picked)
    designs = translation.designs(
        [InitialDesign(configs[one.choice.row], {}, "d", 0.1, 0.2, 0.3) for one in picked if one.choice], picked
    )
    for design, one in zip(designs, picked, strict=True):
        assert design.measured == (not design.not_measured)
        assert design.measured or (design.source_error is None and design.expected_regret is None)
        assert design.config == one.config
    assert all(translation.notes(picked, k))


def shipped() -> tuple[list[dict[str, Any]], ConfigurationSpace]:
    """Return configurations such as the shipped history has."""
    space = target_space("compact")
    return [dict(config) for config in sobol_configs(space, 64)], space


def translated(form: dict[str, Any], **rename: str) -> Translation:
    return translate_configs(*shipped(), build_space(form, Source("space")), rename=rename)


def pairs(translation: Translation) -> dict[str | None, str | None]:
    return {match.here: match.there for match in translation.matches if match.here is not None}


LR = {"log": [1e-5, 0.1]}


@pytest.mark.parametrize(
    ("name", "entry", "there"),
    [
        ("lr", LR, "log10_learning_rate"),
        ("optimizer.lr", LR, "log10_learning_rate"),
        ("model__lr", LR, "log10_learning_rate"),
        ("lr", {"choice": [1e-4, 1e-3, 1e-2]}, "log10_learning_rate"),
        ("log10_lr", {"float": [-4.0, -1.0]}, "log10_learning_rate"),
        ("lr", {"float": [-4.0, -1.0]}, "log10_learning_rate"),
        ("lr", {"float": [0.0, 0.1]}, "log10_learning_rate"),
        ("bs", [16, 32, 64], "batch_size"),
        ("train_batch_size", ["16", "32"], "batch_size"),
        ("dropout", [0, 0.5], "dropout_rate"),
        ("dropout", {"float": [0, 100]}, "dropout_rate"),
        ("n_layers", {"int": [1, 20]}, "num_layers_conv"),
        ("n_fc", {"int": [1, 3]}, "num_layers_fc"),
        ("lr_decay", {"log": [1e-8, 1e-4]}, "log10_decay_rate"),
        # what is something else, or on another scale
        ("weight_decay", {"log": [1e-6, 1e-2]}, None),
        ("optimizer.weight_decay", {"log": [1e-8, 1e-4]}, None),
        ("lr_decay", {"float": [0.5, 0.99]}, None),
        ("lr", {"log": [1, 100]}, None),
        ("lr", ["slow", "fast"], None),
        ("batch_size", [64, 128, 256], None),
        ("momentum", {"float": [0, 0.99]}, None),
        ("rate", LR, None),
    ],
)
def test_which_name_is_which_with_the_scale_checked(name: str, entry: Any, there: str | None) -> None:
    translation = translated({name: entry, "other": ["x", "y"]})
    assert pairs(translation)[name] == there
    assert all(name in one.not_measured for one in picks(translation, 64, 3)) or there is not None


def test_a_rename_goes_before_everything_and_takes_natural_names() -> None:
    form = {"lr": LR, "rate": LR, "depth": {"int": [1, 3]}}
    assert pairs(translated(form, learning_rate="rate", num_layers_fc="depth")) == {
        "rate": "log10_learning_rate",
        "depth": "num_layers_fc",
        "lr": None,
    }
    with pytest.raises(UsageError, match="rename: expected a name of the source"):
        translated(form, momentum="lr")


def test_numbers_go_to_the_nearest_choice_on_the_scale_of_the_choices() -> None:
    config = {"batch_size": 22, "log10_learning_rate": np.log10(4e-4), "dropout_rate": 0.26, "num_layers_conv": 4, "log10_decay_rate": -6.0, "num_layers_fc": 2}  # fmt: skip
    here = build_space(
        {
            "batch_size": [16, 32, 64],
            "lr": {"choice": [1e-2, 1e-3, 1e-4]},
            "dropout": {"float": [0, 0.5], "step": 0.1},
            "n_layers": {"choice": ["2", "3", "6"]},
        },
        Source("space"),
    )
    translation = translate_configs([config], target_space("compact"), here, rename={})
    (one,) = picks(translation, 1, 1)
    # 22 lies nearer to 16 by factors (1.375 and 1.455); 4e-4 to 1e-3 by factors, to 1e-4 by differences
    assert one.config == {"batch_size": 16, "lr": 1e-3, "dropout": 0.3, "n_layers": "3"}
    assert set(one.not_measured) == {"batch_size", "lr", "dropout", "n_layers"}


def test_what_was_never_measured_is_varied_the_first_has_the_defaults() -> None:
    form = {
        "lr": LR,
        "weight_decay": {"log": [1e-6, 1e-2], "default": 5e-4},
        "model_name": {"choice": ["a", "b", "c", "d", "e"], "default": "c"},
    }
    picked = picks(translated(form), 64, 5)
    assert picked[0].config["weight_decay"] == pytest.approx(5e-4)
    assert picked[0].config["model_name"] == "c"
    assert {one.config["model_name"] for one in picked} == {"a", "b", "c", "d", "e"}
    fifths = {int((np.log10(float(one.config["weight_decay"])) + 6) / 4 * 5) for one in picked}
    assert fifths == {0, 1, 2, 3, 4}
    assert [one.choice.row for one in picked if one.choice] == [0, 1, 2, 3, 4], "the order of the history's answer"
    assert [one.config for one in picks(translated(form), 64, 5)] == [one.config for one in picked]
    assert picks(translated(form), 64, 5, seed=1)[1].config != picked[1].config


def test_a_parent_that_was_never_measured_brings_its_children() -> None:
    form = {
        "optimizer": ["sgd", "adam"],
        "sgd.lr": {**LR, "if": {"optimizer": "sgd"}},
        "adam.lr": {**LR, "if": {"optimizer": "adam"}},
        "momentum": {"float": [0, 0.99], "default": 0.9, "if": {"optimizer": "sgd"}},
    }
    translation = translated(form)
    assert pairs(translation)["sgd.lr"] == pairs(translation)["adam.lr"] == "log10_learning_rate"
    first, second = picks(translation, 64, 2)
    assert (first.config["optimizer"], second.config["optimizer"]) == ("sgd", "adam")
    assert (first.not_measured, second.not_measured) == (("optimizer", "momentum"), ("optimizer",))
    assert "sgd.lr" in first.config
    assert "momentum" not in second.config
    together = {"a.lr": LR, "b.lr": LR}
    assert set(pairs(translated(together)).values()) == {None}, "which of the two is not known"


@pytest.mark.parametrize(
    ("entry", "chosen", "not_measured"),
    [
        ({"optimizer": ["sgd", "adam"]}, "adam", ()),
        ({"train.Optimiser": ["SGD", "AdamW", "Adam"]}, "Adam", ()),
        ({"opt": ["sgd", "adamw"]}, "adamw", ("opt",)),
    ],
)
def test_learning_rates_keep_the_optimiser_they_were_found_with(
    entry: dict[str, Any], chosen: str, not_measured: tuple[str, ...]
) -> None:
    here, (name,) = build_space({"lr": LR, **entry}, Source("space")), entry
    translation = translate_configs(*shipped(), here, rename={}, optimiser="Adam")
    picked = picks(translation, 64, 3)
    assert {one.config[name] for one in picked} == {chosen}
    assert {tuple(each for each in one.not_measured if each != "lr") for one in picked} == {not_measured}
    assert f"Measured with Adam there, so {name} is {chosen} in all of these." in translation.notes(picked, 3)
    assert not any("varied" in note for note in translation.notes(picked, 3))


def test_an_inactive_child_that_was_never_measured_says_nothing() -> None:
    lr: dict[str, Any] = {"log": [1e-4, 0.1]}
    there = build_space({"steps": {"ordered": [0, 40]}, "lr": lr}, Source(""))
    form = {"steps": {"ordered": [0, 40]}, "lr": lr, "decay": {"float": [0, 1], "if": {"steps": 40}}}
    configs = [{"steps": 0, "lr": 0.01}, {"steps": 40, "lr": 0.01}]
    translation = translate_configs(configs, there, build_space(form, Source("")), rename={})
    frozen, tuned = picks(translation, 2, 2)
    assert (frozen.not_measured, tuned.not_measured) == ((), ("decay",))
    promised = [InitialDesign(config, {}, "d", 0.1, 0.2, 0.3) for config in configs]
    first, second = translation.designs(promised, [frozen, tuned])
    assert (first.measured, first.expected_regret) == (True, promised[0].expected_regret)
    assert (second.measured, second.expected_regret) == (False, None)
    assert not any("Not measured" in note for note in translation.notes([frozen], 1))
    assert any("Not measured there, so varied over the suggestions: decay." in note for note in translation.notes([frozen, tuned], 2))  # fmt: skip
