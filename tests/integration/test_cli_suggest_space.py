"""`suggest --space`: a history over one space answers for another."""

import pytest
from ConfigSpace import Categorical, Configuration, ConfigurationSpace, EqualsCondition, Float, Integer

from warmstart.history_store.history import History


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
    for rank, (theirs, ours) in enumerate(zip(plain["suggestions"], document["suggestions"], strict=True)):
        assert Configuration(mine, values=ours["config"])
        there, here = theirs["config"], ours["config"]
        assert here["learning_rate"] == pytest.approx(10 ** there["log10_learning_rate"])
        assert (here["batch_size"], here["depth"]) == (there["batch_size"], there["num_layers_conv"])
        assert here["dropout"] == there["dropout_rate"]
        if rank == 0:
            assert (here["optimizer"], here["momentum"]) == ("sgd", 0.9), "the defaults come first"
        varied = ["momentum", "optimizer"] if here["optimizer"] == "sgd" else ["optimizer"]
        assert (ours["measured"], sorted(ours["not_measured"])) == (False, varied)
        assert (ours["from"], ours["source_error"]) == (theirs["from"], None), "no error of another configuration"
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
    assert {suggestion["config"]["optimizer"] for suggestion in document["suggestions"]} == {"sgd", "adam"}
    rules = {match["here"]: match["rule"] for match in document["explanation"]["mapping"]}
    assert rules == {
        "learning_rate": "same name but for its scale",
        "batch_size": "same name",
        "depth": "rename",
        "dropout": "common name",
        "optimizer": "",
        "momentum": "",
        None: "",
    }
    assert (
        "Known from the history: batch_size, depth (from num_layers_conv), dropout (from dropout_rate), learning_rate (from log10_learning_rate as 10^x)."
        in found.err
    )
    assert "Not measured there, so varied over the suggestions: optimizer, momentum." in found.err
    assert "Not in your space: log10_decay_rate, num_layers_fc." in found.err
    assert "explanation" not in plain
    table = cli(*call, "--space", file, "--rename", "num_layers_conv=depth").out
    assert table.count("never") == 3


def test_the_same_space_loses_nothing(cli, call, tiny, tmp_path):
    with History.open(tiny.history) as history:
        (tmp_path / "same.json").write_text(history.space_json)
    plain = cli(*call, "--format", "json").json()
    for space in (tmp_path / "same.json", "compact"):
        same = cli(*call, "--space", space, "--format", "json").json()
        assert {match["action"] for match in same.pop("explanation")["mapping"]} == {"kept"}
        assert same == plain


def test_a_space_in_a_few_lines(cli, call, tmp_path):
    """The space of a script of one's own: names and scales of its own, choices, words that the history never saw."""
    (tmp_path / "space.yaml").write_text(
        "lr: {log: [1e-5, 0.1]}\nweight_decay: {log: [1e-6, 1e-2]}\nbatch_size: [8, 16, 32]\nmodel_name: [resnet18, vit, mlp]\n"
    )
    document = cli(*call, "--space", tmp_path / "space.yaml", "--format", "json").json()
    configs = [suggestion["config"] for suggestion in document["suggestions"]]
    assert {config["model_name"] for config in configs} == {"resnet18", "vit", "mlp"}
    assert configs[0]["model_name"] == "resnet18"
    assert configs[0]["weight_decay"] == pytest.approx(1e-4)
    assert len({config["weight_decay"] for config in configs}) == 3
    assert {config["batch_size"] for config in configs} <= {8, 16, 32}
    for suggestion in document["suggestions"]:
        assert {"weight_decay", "model_name"} <= set(suggestion["not_measured"])
    actions = {match["here"]: match for match in document["explanation"]["mapping"] if match["here"]}
    assert actions["weight_decay"]["there"] is None, "the history's decay rate is one of the learning rate"
    assert actions["batch_size"]["action"] == "snapped"


@pytest.mark.parametrize("text", ["batch_size: [small, large]", "lr: {log: [1, 100]}"])
def test_a_space_of_which_nothing_is_known_is_filled_evenly(cli, call, tmp_path, text):
    (tmp_path / "space.yaml").write_text(text + "\nother: [a, b]\n")
    run = cli(*call, "--space", tmp_path / "space.yaml", "--format", "json")
    assert run.code == 0
    suggestions = run.json()["suggestions"]
    assert len(suggestions) == 3
    assert {(one["measured"], one["from"], one["source_error"]) for one in suggestions} == {(False, None, None)}
    assert "The history knows nothing about your space" in run.err
    assert run.json()["expected_error"] is None
    assert ("another scale" in run.err) == ("100" in text)
    table = cli(*call, "--space", tmp_path / "space.yaml", "--explain").out
    assert "Where they come from (spread evenly over your space)" in table
    assert "never" in table
    assert "Measured with" not in table
    assert "of 100 wrong" not in table
