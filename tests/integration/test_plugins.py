"""A package that adds one of each kind is found by its metadata, used by name, and told apart where it is broken."""

import json
import sys

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float
from PIL import Image
from plugin import install

from warmstart.bo import Optimizer
from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.surrogates import SURROGATES, SurrogateInfo
from warmstart.bo.transfer.strategies import STRATEGIES, Query
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.readers import READERS, open_images
from warmstart.history_store.registry import PluginWarning, Registry, _warn_once
from warmstart.integrations.importers.registry import IMPORTERS, read_source
from warmstart.integrations.trackers.registry import TRACKERS, find_tracker
from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial
from warmstart.testing import WorkloadContract
from warmstart.training.workloads import WORKLOADS, get_workload, load_classifier


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install the example package for this process."""
    folder = install(tmp_path / "site")
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture(autouse=True)
def forget():
    """Forget the package after each test, whichever imported it."""
    yield
    for table in (ACQUISITIONS, READERS, STRATEGIES, SURROGATES, IMPORTERS, TRACKERS, WORKLOADS):
        table._loaded.clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "nightly"]:
        del sys.modules[name]


@pytest.fixture
def photos(tmp_path):
    """Make pictures with a `labels.csv`."""
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    lines = ["file,label"]
    for number in range(60):
        shade = rng.integers(0, 60, (16, 16, 3)) + 70 * (number % 3)
        Image.fromarray(shade.astype(np.uint8)).save(tmp_path / "photos" / f"{number}.png")
        lines.append(f"{number}.png,{'abc'[number % 3]}")
    (tmp_path / "photos" / "labels.csv").write_text("\n".join(lines))
    return tmp_path / "photos"


def test_a_reader_and_a_strategy_and_an_importer_are_used(plugin, photos, tmp_path):
    source = open_images(photos)
    assert (len(source), source.class_names) == (60, ("a", "b", "c"))
    errors = np.array([[0.1, 0.3, 0.2], [0.9, 0.3, 0.2], [0.9, 0.3, 0.5]])
    assert [choice.row for choice in STRATEGIES["median"](Query(errors, None, 2))] == [2, 1]
    (tmp_path / "runs.jsonl").write_text(
        '{"config": {"lr": 0.1}, "error": 0.2}\n{"config": {"lr": 0.3}, "error": 0.4}\n'
    )
    runs, _ = read_source(str(tmp_path / "runs.jsonl"))
    assert runs.params == {"lr": [0.1, 0.3]}
    with pytest.raises(UsageError, match=r"study cannot be used with .*runs\.jsonl"):
        read_source(str(tmp_path / "runs.jsonl"), study="s")


def test_a_tracker_is_used_by_name(plugin, tmp_path):
    tracker = find_tracker("table")(Destination("s", tmp_path))
    tracker.begin(TrackedTrial(4, 0, {"lr": 0.1}, "error", maximize=False))
    tracker.end(TrackedEnd("ok", 0.25, 1.5, "", {}))
    assert (tmp_path / "ended.csv").read_text().split() == ["4,ok,0.25,1.5"]


def test_a_surrogate_is_used_by_name_and_as_an_object(plugin):
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)))
    made = [
        Optimizer(space, surrogate=surrogate, n_startup_trials=3)
        for surrogate in ("gp-quick", SURROGATES["gp-quick"], SURROGATES["gp-quick"]())
    ]
    asked = []
    for optimizer in made:
        for _ in range(5):
            config = optimizer.ask()[0]
            optimizer.tell(config, (config["x"] - 0.3) ** 2)
        asked.append(optimizer.ask()[0]["x"])
    assert asked[0] == asked[1]
    assert asked[2] == pytest.approx(asked[0], abs=0.3)
    record = json.loads(json.dumps(made[2].to_dict()))
    assert record["settings"]["surrogate"] == "GaussianProcess"
    assert (
        Optimizer.from_dict(record, surrogate=SURROGATES["gp-quick"]()).ask()
        == Optimizer.from_dict(record, surrogate=SURROGATES["gp-quick"]()).ask()
    )
    with pytest.raises(ValueError, match=r"expected a run whose surrogate is one of .*got 'GaussianProcess'"):
        Optimizer.from_dict(record)


def test_the_command_line_takes_all_of_them(plugin, cli, photos, tmp_path, monkeypatch):
    """Collect, then tune, with the plug-in's workload, reader and surrogate: workers and trials find it too."""
    monkeypatch.chdir(tmp_path)

    def run(*args, code=0):
        done = cli(*args, "--format", "json", "-q")
        assert done.code == code, done.err
        return json.loads(done.out) if code == 0 else done.err

    run("history", "create", "h.h5", "--space", "softmax")
    run("history", "add", "h.h5", "--dataset", photos, "--name", "photos", "--group", "photos")
    options = ["--workload", "softmax", "--target-budget", "short", "--configs", "2", "--workers", "1"]
    assert run("history", "collect", "--history", "h.h5", *options)["measured"] == {"ok": 2}
    with History.open("h.h5") as history:
        assert {evaluation.origin for evaluation in history.evaluations()} == {"collect/softmax/short"}
    assert "expected workload among cnn, transfer, softmax" in run("history", "collect", "--workload", "forest", code=2)
    tuned = run(
        "tune", "--dataset", photos, "--workload", "softmax", "--space", "softmax", "--no-warm",
        "--trials", "1", "--budget", "10", "--surrogate", "gp-quick", "--acquisition", "lcb-3",
        "--save-model", "c.safetensors",
    )  # fmt: skip
    assert tuned["trials"] == {"ok": 1}
    assert load_classifier("c.safetensors").classes == ("a", "b", "c")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("site")])
    with pytest.raises(UsageError, match="expected workload among cnn, transfer, got 'softmax'"):
        load_classifier("c.safetensors")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            "nightly.nowhere:X",
            r"of the package nightly: expected an entry point that can be imported, got ModuleNotFound",
        ),
        (
            "nightly.strategy:median",
            r"of the package nightly: expected a warmstart.bo.surrogates.SurrogateInfo, got function",
        ),
    ],
)
def test_a_broken_package_is_named_when_it_is_asked_for(tmp_path, monkeypatch, value, told):
    changes = {"warmstart.surrogates": {"broken": value}}
    monkeypatch.syspath_prepend(install(tmp_path / "site", only="warmstart.surrogates", changes=changes))
    assert isinstance(SURROGATES["gp"], SurrogateInfo)
    with pytest.raises(UsageError, match=told):
        SURROGATES.find("broken")


def test_a_registry_of_texts_imports_when_asked():
    table = Registry("warmstart.none", "thing", {"pi": "math:pi", "one": 1})
    assert (table["pi"], dict(table)["one"], len(table)) == (np.pi, 1, 2)
    table.register("two", 2)
    assert list(table) == ["pi", "one", "two"]
    with pytest.raises(KeyError):
        table["three"]
    with pytest.raises(UsageError, match=r"^box: expected thing among pi, one, two, got 'three'"):
        table.find("three", "box")


class TestSoftmax(WorkloadContract):
    """The example keeps the contract that it is an example of."""

    registered = False

    @pytest.fixture(autouse=True)
    def _installed(self, plugin):
        pass

    def make(self):
        return get_workload("softmax")

    def short(self, workload):
        return workload.budget(amount=16)


def test_a_name_that_is_taken_is_not_used_and_said_once(tmp_path, monkeypatch):
    changes = {"warmstart.strategies": {"joint": "nightly.strategy:median"}}
    monkeypatch.syspath_prepend(install(tmp_path / "site", only="warmstart.strategies", changes=changes))
    _warn_once.cache_clear()
    with pytest.warns(PluginWarning, match="strategy 'joint' of the package nightly: expected a name of its own"):
        assert list(STRATEGIES) == ["joint", "nearest", "portfolio", "average-rank"]
    assert STRATEGIES["joint"].__module__ == "warmstart.bo.transfer.strategies.joint"
