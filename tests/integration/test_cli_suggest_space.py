"""`suggest --space`: a history over one space answers for another."""

import json

import pytest
from ConfigSpace import Categorical, Configuration, ConfigurationSpace, EqualsCondition, Float, Integer

import warmstart
from history_store.errors import UsageError
from history_store.history import History


@pytest.fixture
def mine():
    """Natural names, other ranges, a condition, and one hyperparameter that the history lacks."""
    space = ConfigurationSpace(name="mine")
    optimizer, momentum = Categorical("optimizer", ["sgd", "adam"]), Float("momentum", (0.0, 0.99), default=0.9)
    space.add(Float("learning_rate", (1e-6, 1.0), log=True), Integer("batch_size", (8, 32)), optimizer, momentum)
    space.add(Integer("depth", (1, 9)), Float("dropout", (0.0, 0.9)), EqualsCondition(momentum, optimizer, "sgd"))
    return space


@pytest.fixture
def file(mine, tmp_path):
    mine.to_json(tmp_path / "mine.json")
    return tmp_path / "mine.json"


@pytest.fixture
def call(use_tiny, photos):
    return ["suggest", "--dataset", photos, "--no-cache"]


def test_suggestions_are_those_of_the_history_in_the_other_space(cli, call, mine, file):
    plain = cli(*call, "--format", "json").json()
    found = cli(*call, "--space", file, "--rename", "num_layers_conv=depth", "--format", "json")
    assert found.code == 0, found.err
    document = found.json()
    assert len(document["suggestions"]) == 3
    for theirs, ours in zip(plain["suggestions"], document["suggestions"], strict=True):
        assert Configuration(mine, values=ours["config"])
        there, here = theirs["config"], ours["config"]
        assert here["learning_rate"] == pytest.approx(10 ** there["log10_learning_rate"])
        assert (here["batch_size"], here["depth"]) == (there["batch_size"], there["num_layers_conv"])
        assert (here["dropout"], here["optimizer"], here["momentum"]) == (there["dropout_rate"], "sgd", 0.9)
        assert (ours["from"], ours["source_error"]) == (theirs["from"], theirs["source_error"])
        assert ours["expected_regret"] is None
        assert ours["natural"] == {}
    actions = {match["here"] or match["there"]: match["action"] for match in document["explanation"]["mapping"]}
    assert actions == {
        "learning_rate": "rescaled",
        "batch_size": "kept",
        "depth": "renamed",
        "dropout": "renamed",
        "optimizer": "filled",
        "momentum": "filled",
        "log10_decay_rate": "dropped",
        "num_layers_fc": "dropped",
    }
    assert "Put into your space by the 4 hyperparameters in common; log10_learning_rate (rescaled: 10^x; " in found.err
    assert "num_layers_fc (dropped: no such hyperparameter here" in found.err
    assert "explanation" not in plain


def test_every_format_speaks_of_the_other_space(cli, call, file):
    made = json.loads(cli(*call, "--space", file, "--format", "configspace").out)
    space = ConfigurationSpace.from_serialized_dict(made["space"])
    assert space.name == "mine"
    assert all(Configuration(space, values=values) for values in made["configurations"])
    assert "'learning_rate'" in cli(*call, "--space", file, "--format", "optuna").out
    assert "learning_rate" in cli(*call, "--space", file, "--explain").out
    explained = cli(*call, "--space", file, "--explain", "--format", "json").json()["explanation"]
    assert set(explained) == {"neighbours", "suggestions", "portfolio", "mapping"}


def test_the_same_space_loses_nothing(cli, call, tiny, tmp_path):
    with History.open(tiny.history) as history:
        (tmp_path / "same.json").write_text(history.space_json)
    plain = cli(*call, "--format", "json").json()
    for space in (tmp_path / "same.json", "compact"):
        same = cli(*call, "--space", space, "--format", "json").json()
        assert {match["action"] for match in same.pop("explanation")["mapping"]} == {"kept"}
        assert same == plain


def test_suggestions_that_fall_together_count_once(cli, call, tmp_path):
    ConfigurationSpace({"num_layers_fc": (1, 3), "other": (0, 1)}).to_json(tmp_path / "narrow.json")
    found = cli(*call, "--space", tmp_path / "narrow.json", "-k", 4, "--format", "json")
    configs = [suggestion["config"] for suggestion in found.json()["suggestions"]]
    assert 1 <= len(configs) <= 3
    assert len({json.dumps(config) for config in configs}) == len(configs)
    assert f"Only {len(configs)} of 4 suggestions differ in your space." in found.err


def test_from_python(use_tiny, photos, mine):
    designs = warmstart.suggest(photos, space=mine, rename={"num_layers_conv": "depth"}, cache=False)
    assert all(Configuration(mine, values=dict(design.config)) for design in designs)
    with pytest.raises(UsageError, match="--rename: expected a name of the source"):
        warmstart.suggest(photos, space=mine, rename={"x": "depth"}, cache=False)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--space", "no.json"], 2, "--space: expected compact, paper or a file of a space, got 'no.json'"),
        (["--space", "broken.json"], 3, "expected ConfigSpace JSON"),
        (["--space", "foreign.json"], 3, "--space: expected hyperparameters in common with alpha"),
        (["--space", "choices.json"], 3, "--space: expected hyperparameters in common with batch_size"),
        (["--rename", "a=b"], 2, "--rename: expected --space beside it"),
        (["--space", "compact", "--rename", "a"], 2, "--rename: expected name=value"),
    ],
)
def test_wrong_calls(cli, call, tmp_path, monkeypatch, options, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    ConfigurationSpace({"alpha": (0.0, 1.0)}).to_json("foreign.json")
    ConfigurationSpace({"batch_size": ["small", "large"]}).to_json("choices.json")
    run = cli(*call, *options, "--format", "json")
    assert (run.code, run.out) == (code, "")
    assert message in json.loads(run.err)["error"]["message"]
