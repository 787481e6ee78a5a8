"""Configurations from one space to another: hand values for each thing that can happen."""

from __future__ import annotations

import pytest
from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    Integer,
    OrdinalHyperparameter,
)

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import ForeignParameter, as_columns
from warmstart.history_store.mapping import Mapped, Match, Wishes, describe_space, map_configs


def space() -> ConfigurationSpace:
    ours = ConfigurationSpace(name="ours")
    optimizer, momentum = Categorical("optimizer", ["sgd", "adam"]), Float("momentum", (0.0, 0.99), default=0.9)
    ours.add(optimizer, momentum, EqualsCondition(momentum, optimizer, "sgd"))
    ours.add(Float("log10_rate", (-5.0, 0.0)), Integer("layers", (1, 9)), Categorical("width", [8, "all", True]))
    ours.add(OrdinalHyperparameter("size", [1, 2, 4]), Constant("epochs", 3))
    ours.add(ForbiddenAndConjunction(ForbiddenEqualsClause(optimizer, "adam"), ForbiddenEqualsClause(ours["size"], 4)))
    return ours


def mapped(rows: list[dict[str, object]], wishes: Wishes | None = None, **known: ForeignParameter) -> Mapped:
    return map_configs(as_columns(rows), space(), n=len(rows), wishes=wishes, known=known)


def match(result: Mapped, name: str) -> Match:
    (found,) = [each for each in result.matches if name in (each.here, each.there)]
    return found


FULL: dict[str, object] = {"optimizer": "sgd", "momentum": 0.5, "log10_rate": -2.0, "layers": 3, "width": 8, "size": 2, "epochs": 3}  # fmt: skip


def test_the_same_space_changes_nothing() -> None:
    ours = space()
    ours.seed(1)
    configs = [dict(config) for config in ours.sample_configuration(200)]
    result = map_configs(as_columns(configs), ours, n=200, known=describe_space(ours))
    assert list(result.configs) == configs
    assert {(each.action, each.there == each.here) for each in result.matches} == {("kept", True)}
    assert {each.reason for each in result.matches} <= {
        "same name",
        "same name; 0.9, the default here, where it is missing",
    }
    assert result.lost == {}


def test_rate_becomes_its_logarithm() -> None:
    rows = [{**FULL, "rate": rate} for rate in (1e-3, 1e-7)]
    for row in rows:
        del row["log10_rate"]
    result = mapped(rows, rate=ForeignParameter(1e-7, 1.0, log=True))
    assert [config and config["log10_rate"] for config in result.configs] == [-3.0, -5.0]
    matched = match(result, "rate")
    assert (matched.here, matched.action, matched.clipped) == ("log10_rate", "clipped", 1)
    assert matched.reason == "log10(x); by name; 1e-07 .. 1 (log) there, -5 .. 0 here; outside -5 .. 0"
    inside = mapped(rows[:1])
    assert match(inside, "rate").action == "rescaled"
    assert match(inside, "rate").reason == "log10(x); by name"


def test_choices_by_type_number_text() -> None:
    widths = [8, 8.0, "8", "ALL", True, "true", "True", "none"]
    result = mapped([FULL | {"width": width} for width in widths])
    found = [None if config is None else config["width"] for config in result.configs]
    assert found == [8, 8, 8, "all", True, True, True, None]
    assert [type(value) for value in found[:7]] == [int, int, int, str, bool, bool, bool]
    assert match(result, "width").lost == 1
    assert match(result, "width").reason == "none not among 8, all, True here"


def test_what_is_missing_is_filled_where_it_is_active() -> None:
    rows = [FULL, FULL | {"optimizer": "adam", "momentum": None}, FULL | {"momentum": None}]
    result = mapped(rows)
    assert [config and config.get("momentum") for config in result.configs] == [0.5, None, None]
    assert result.configs[2] is None, "our default is not what that run had"
    assert result.lost == {"without momentum, which others have (`fill` momentum=VALUE takes them)": 1}
    wished = mapped(rows, Wishes(fill={"momentum": 0.25}))
    assert [None if config is None else config.get("momentum") for config in wished.configs] == [0.5, None, 0.25]
    assert match(wished, "momentum").reason == "same name; 0.25, as --fill says, where it is missing"
    unread = mapped([FULL | {"layers": 1000}], Wishes(fill={"layers": 7}))
    assert unread.configs[0] == FULL | {"layers": 7}
    sparse = mapped([{"layers": 3}, {"layers": 4}], Wishes(fill={"size": "4", "log10_rate": "-1.5"}))
    assert sparse.configs[0] == {"epochs": 3, "layers": 3, "log10_rate": -1.5, "momentum": 0.9, "optimizer": "sgd", "size": 4, "width": 8}  # fmt: skip
    assert match(sparse, "size") == Match(None, "size", "filled", "missing there; 4, as --fill says", filled=2)
    assert match(sparse, "epochs").reason == "missing there; 3, the only value"
    assert match(sparse, "momentum").reason == "missing there; 0.9, the default here"


def test_forbidden_configurations_are_given_up() -> None:
    result = mapped([FULL | {"optimizer": "adam", "size": 4}, FULL])
    assert result.configs[0] is None
    assert result.lost == {"forbidden by the space": 1}


def test_rivals_are_left_to_the_person() -> None:
    rows: list[dict[str, object]] = [{"layers": 3, "a/size": 1, "b/size": 2}]
    with pytest.raises(DataError, match=r"mapping: expected one name of size, got a/size, b/size\. Say which it is"):
        mapped(rows)
    filled = mapped(rows, Wishes(fill={"size": 4}))
    assert "not alone in what could be size: use --rename" in match(filled, "a/size").reason
    chosen = mapped(rows, Wishes(rename={"b/size": "size"}))
    assert chosen.configs[0] is not None
    assert chosen.configs[0]["size"] == 2
    assert match(chosen, "b/size").reason == "as --rename says"


@pytest.mark.parametrize(
    "rows",
    [[FULL | {"layers": "few"}, FULL | {"layers": "many"}], [FULL | {"width": "broad"}], [FULL | {"layers": 1000}],
     [FULL | {"layers": [1]}, FULL | {"layers": [2]}]],
)  # fmt: skip
def test_a_column_of_which_no_value_fits_is_refused_until_a_wish_speaks_of_it(rows: list[dict[str, object]]) -> None:
    with pytest.raises(DataError, match=r"expected values of (layers|width) .*Say what these runs had with `fill`"):
        mapped(rows)
    wishes = Wishes(fill={"layers": 3, "width": 8})
    assert [config and (config["layers"], config["width"]) for config in mapped(rows, wishes).configs] == [
        (3, 8)
    ] * len(rows)
    assert set(mapped(rows, Wishes(outside="drop")).configs) == {None}


def test_one_hyperparameter_under_several_names_is_joined_run_by_run() -> None:
    bare = {name: value for name, value in FULL.items() if name != "layers"}
    result = mapped([bare | {"n_layers": 2}, bare | {"numLayers": 4}, bare | {"Layers": 5}])
    assert [config and config["layers"] for config in result.configs] == [2, 4, 5]
    assert {each.reason for each in result.matches if each.there in ("numLayers", "Layers")} == {
        "another name of n_layers"
    }
    with pytest.raises(DataError, match="expected one name of layers, got n_layers, numLayers"):
        mapped([bare | {"n_layers": 2, "numLayers": 4}])


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (Wishes(rename={"no": "layers"}), "rename: expected a name of the source"),
        (Wishes(fill={"no": 1}), "fill: expected a hyperparameter of the space"),
        (Wishes(fill={"size": 3}), "fill: expected a value of size .1, 2, 4., got 3"),
        (Wishes(fill={"momentum": 2}), r"fill: expected a value of momentum \(0 \.\. 0\.99\), got 2"),
        (Wishes(fill={"momentum": "x"}), "fill: expected a value of momentum"),
        (Wishes(rescale={"no": "1/x"}), "rescale: expected a name of the source"),
        (Wishes(rescale={"layers": "sin"}), "rescale: expected one of x, "),
    ],
)
def test_wrong_wishes_are_refused(wishes: Wishes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mapped([{"layers": 3}], wishes)


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(DataError, match=r"mapping: expected hyperparameters in common with .*layers.*, got a, b"):
        mapped([{"a": 1, "b": 2}])
    with pytest.raises(DataError, match="got none"):
        mapped([{}])


def test_a_value_and_its_logarithm_are_one_and_must_agree() -> None:
    result = mapped([{"rate": 0.01, "log10_rate": -2.0}, {"rate": 0.1}, {"log10_rate": -3.0}])
    assert [config["log10_rate"] for config in result.configs if config] == [-2.0, pytest.approx(-1.0), -3.0]
    assert match(result, "log10_rate").action == "kept"
    with pytest.raises(UsageError, match=r"expected rate to be 10\^log10_rate, got 0\.1 and -2 in run 2"):
        mapped([{"rate": 0.01, "log10_rate": -2.0}, {"rate": 0.1, "log10_rate": -2.0}])


def test_a_rescaling_can_be_asked_for() -> None:
    rows = [FULL | {"momentum": value} for value in (0.1, 0.5)]
    result = mapped(rows, Wishes(rescale={"momentum": "1-x"}))
    assert [config and config["momentum"] for config in result.configs] == [0.9, 0.5]
    assert match(result, "momentum").action == "rescaled"
    assert "as --rescale says" in match(result, "momentum").reason
