"""Configurations to begin with: every format that `suggest` writes, and what is said of those that do not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ConfigSpace import ForbiddenAndConjunction, ForbiddenEqualsClause

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.quoting import in_json, in_yaml, to_csv
from warmstart.history_store.space_yaml import Source, build_space
from warmstart.suggestions.answer import Answer, suggestion_rows, to_configspace, to_ray
from warmstart.suggestions.initial_configs import convert_initial, read_initial
from warmstart.suggestions.records import Confidence, DatasetSummary, InitialDesign

CONFIGS: list[dict[str, Any]] = [
    {"log10_learning_rate": -3.0, "batch_size": 22, "flag": True, "model": "a"},
    {"log10_learning_rate": -2.5, "batch_size": 8, "flag": False, "model": "off"},
]
SPACE = build_space(
    {"lr": {"log": [1e-5, 0.1]}, "batch_size": {"choice": [16, 32]}, "flag": [True, False], "model": ["a", "off"]},
    Source("space"),
)
EXPECTED = [
    {"batch_size": 16, "flag": True, "lr": 1e-3, "model": "a"},
    {"batch_size": 16, "flag": False, "lr": 10**-2.5, "model": "off"},
]


def answer() -> Answer:
    space_json = json.dumps({"hyperparameters": []})
    designs = tuple(InitialDesign(each, {"learning_rate": 10 ** each["log10_learning_rate"]}) for each in CONFIGS)
    about = DatasetSummary("d", 1, 1, "f"), (), designs, "joint", Confidence(True, None, "")
    return Answer(*about, "h", "m", 0, space_json)


FILES = {
    "s.json": lambda: in_json(answer().to_dict()),
    "s.yaml": lambda: in_yaml(answer().to_dict()),
    "s.csv": lambda: to_csv(suggestion_rows(answer())),
    "ray.json": lambda: to_ray(answer()),
    "configspace.json": lambda: to_configspace(answer()),
    "list.yaml": lambda: yaml.safe_dump(CONFIGS),
    "own.yml": lambda: (
        "- {lr: 1e-3, batch_size: 22, flag: true, model: a}\n- {lr: 3.1622776601683795e-3, batch_size: 8, flag: false, model: off}\n"
    ),
    "natural.csv": lambda: "learning_rate,bs,flag,model\n0.001,22,True,a\n0.0031622776601683795,8,False,off\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_says_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name]())
    found = convert_initial(SPACE, read_initial(tmp_path / name), rename={}, seed=0)
    assert [list(each) for each in found.configs] == [sorted(each) for each in EXPECTED]
    for mine, theirs in zip(found.configs, EXPECTED, strict=True):
        assert mine["lr"] == pytest.approx(theirs["lr"], rel=1e-12)
        assert {**mine, "lr": 0} == {**theirs, "lr": 0}
    assert found.notes == ("Moved to the nearest value that your space allows: batch_size.",)


def test_what_is_missing_is_varied_and_what_repeats_is_told() -> None:
    configs = [{"lr": 0.01, "batch_size": 16, "flag": True}, {"lr": 0.02, "depth": 3}, {"lr": 0.02}]
    found = convert_initial(SPACE, configs, rename={}, seed=0)
    assert [config["lr"] for config in found.configs] == [0.01, 0.02, 0.02]
    assert len({json.dumps(config) for config in found.configs}) == 3
    assert found.notes == (
        "Not given, so varied over the initial configurations: model, batch_size, flag.",
        "Not in your space: depth.",
    )
    whole = EXPECTED[0]
    assert convert_initial(SPACE, [whole, whole], rename={}, seed=0).notes == (
        "1 of 2 initial configurations repeat another one.",
    )


def test_both_scales_of_a_value_must_agree() -> None:
    assert read_initial([{"learning_rate": 1e-3, "log10_learning_rate": -3.0}]) == [{"log10_learning_rate": -3.0}]
    for natural in (1e-2, None):
        with pytest.raises(UsageError, match=r"^initial: expected learning_rate to be 10\^log10_learning_rate, got .* in configuration 2"):  # fmt: skip
            read_initial([CONFIGS[0], {"learning_rate": natural, "log10_learning_rate": -3.0}])


def test_what_the_space_cannot_express_is_refused() -> None:
    forbidden = build_space({"a": ["y", "x"], "b": ["x", "y"]}, Source("space"))
    forbidden.add(
        ForbiddenAndConjunction(ForbiddenEqualsClause(forbidden["a"], "x"), ForbiddenEqualsClause(forbidden["b"], "x"))
    )
    for space, config, message in (
        (SPACE, {"model": "z", "lr": 0.1}, r"^initial: expected configurations of the space, got number 2, .*model: z not among a, off here"),
        (SPACE, {"model": "z"}, r"number 2, .*model: z not among"),
        (SPACE, {"lr": "x"}, r"number 2, .*lr: expected numbers, got 'x'"),
        (SPACE, {"lr": 0.1, "learning_rate": 0.2}, "one value for lr and learning_rate, .*, got 0.1 and 0.2 in configuration 2"),
        (forbidden, {"a": "x", "b": "x"}, r"number 2, .*a combination that the space forbids"),
    ):  # fmt: skip
        fine = {"model": "a"} if space is SPACE else {"a": "x", "b": "y"}
        with pytest.raises(UsageError, match=message):
            convert_initial(space, [fine, config], rename={}, seed=0)
    with pytest.raises(
        UsageError, match=r"number 1, .*none of the space's hyperparameters batch_size, flag, lr, model; `rename` says"
    ):
        convert_initial(SPACE, [{"depth": 3}], rename={}, seed=0)


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("no.json", None, MissingPathError, r"^initial: expected a file of configurations, got .*which is not there. Write one with `warmstart suggest"),
        ("a.json", "3", DataError, "expected configurations, got 3"),
        ("a.json", "[{}]", UsageError, "^initial: expected configurations, .*got {}"),
        ("a.json", '[{"lr": 3', DataError, "a.json, line 1: expected configurations in JSON or YAML"),
        ("a.csv", "", DataError, "got an empty file"),
        ("a.csv", "lr,bs\n0.1,16\n0.1,2,3\n", DataError, "got 3 cells for 2 names in line 3"),
        ("a.json", '[{"lr": [1]}]', UsageError, r"got lr=\[1\] in configuration 1 of .*a.json. Write one value"),
        ("a.yaml", "lr: [1\nx", DataError, "a.yaml, line 2: expected configurations in JSON or YAML"),
    ],
)  # fmt: skip
def test_files_that_hold_none(
    tmp_path: Path, name: str, text: str | None, error: type[Exception], message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        read_initial(tmp_path / name)


def test_hyperparameters_that_are_named_like_our_columns_survive_a_table(tmp_path: Path) -> None:
    configs = [{"rank": 8, "distance": 0.5, "lr": 0.1}, {"rank": 16, "distance": 0.25, "lr": 0.2}]
    named = replace(answer(), suggestions=tuple(InitialDesign(each, {}) for each in configs))
    path = tmp_path / "s.csv"
    path.write_text(to_csv(suggestion_rows(named)))
    assert path.read_text().startswith("rank,config.rank,config.distance,lr,from,distance")
    assert read_initial(path) == configs
    path.write_text("rank,lr\n8,0.1\n")  # somebody's own table
    assert read_initial(path) == [{"rank": 8, "lr": 0.1}]


def test_the_result_of_tune_is_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"best": {"config": CONFIGS[0], "error": 0.1}, "trials": {"ok": 3}}))
    (tmp_path / "one.yaml").write_text("lr: 1e-3\nbatch_size: 16\n")
    assert read_initial(tmp_path / "t.json") == [CONFIGS[0]]
    assert read_initial(tmp_path / "one.yaml") == [{"lr": 1e-3, "batch_size": 16}]
