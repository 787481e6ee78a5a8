"""Live trackers, each with its real package where that is installed."""

import json
from collections import Counter

import pytest

import warmstart
from warmstart.history_store.errors import UsageError
from warmstart.integrations.importers.registry import read_source
from warmstart.integrations.trackers.registry import TRACKERS
from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial
from warmstart.studies.tune_options import TuneOptions

CONFIGS = ({"lr": 0.01, "optimizer": "adam", "augment": True}, {"lr": 0.1, "optimizer": "sgd", "augment": False})
CURVES = ((0.5, 0.75), (0.25,))


def play(name, destination):
    """Let a tracker see a trial that ends well and one that crashes."""
    tracker = TRACKERS[name](destination)
    for number, (config, curve) in enumerate(zip(CONFIGS, CURVES, strict=True)):
        tracker.begin(TrackedTrial(number, 7, config, "val_acc", maximize=True))
        for step, value in enumerate(curve, 1):
            tracker.report(step, value)
        ended = (
            TrackedEnd("ok", 0.8, 2.5, "", {"f1": 0.7}) if number == 0 else TrackedEnd("crashed", None, 1.0, "boom", {})
        )
        tracker.end(ended)
    return tracker.where(destination)


def test_tensorboard_reads_scalars_and_hyperparameters(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    runs, _ = read_source(play("tensorboard", Destination("s", tmp_path)), metric="val_acc")
    assert sorted(runs.params["lr"]) == [0.01, 0.1]
    assert sorted(runs.params["optimizer"]) == ["adam", "sgd"]
    row = list(runs.params["lr"]).index(0.01)
    assert [value for _, value in runs.curves[row]] == [0.5, 0.75]


def test_runs_of_weights_and_biases_are_written_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    where = play("wandb", Destination("my study", tmp_path))
    wandb.teardown()
    assert str(tmp_path / "wandb") in where
    runs = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(runs) == 2
    text = b"".join(path.read_bytes() for path in runs)
    for word in (b"val_acc", b"my-study", b"my study-0", b"crashed"):
        assert word in text


@pytest.mark.filterwarnings("ignore")  # of what it needs
def test_runs_of_mlflow_have_their_curves(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/m.db")
    monkeypatch.chdir(tmp_path)
    where = play("mlflow", Destination("s", tmp_path))
    play("mlflow", Destination("s", tmp_path))  # another worker finds the experiment
    assert where == f"sqlite:///{tmp_path}/m.db, experiment s"
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("s").experiment_id])
    assert Counter(run.info.status for run in runs) == {"FINISHED": 2, "FAILED": 2}
    first = next(run for run in runs if run.data.params["lr"] == "0.01")
    assert [point.value for point in client.get_metric_history(first.info.run_id, "val_acc")] == [0.5, 0.75]
    assert first.data.metrics["result/val_acc"] == 0.8


class Broken:
    """A tracker of an installed package, which fails in the middle of a trial."""

    reports = 0

    def __init__(self, destination):
        self.destination = destination

    @staticmethod
    def where(destination):
        return f"nowhere, {destination.study}"

    def begin(self, trial):
        pass

    def report(self, step, value):
        Broken.reports += 1
        raise ConnectionError("no such host")

    end = begin


def objective(config, reporter):
    for step in (1, 2):
        reporter(step, config["x"] / step)
    return {"error": config["x"], "f1": 0.5}


def test_a_tracker_that_fails_gets_one_line_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setitem(TRACKERS._entries, "broken", Broken)
    said = []
    call = {"objective": objective, "space": {"x": [0.0, 1.0]}, "study": "s", "storage": tmp_path / "s.journal"}
    found = warmstart.tune(**call, trials=2, track=["broken", "jsonl"], on_message=said.append, report=True)
    assert [line for line in said if "track" in line] == [
        "`track` broken failed (ConnectionError: no such host): the study goes on without it."
    ]
    assert (len(found.trials), Broken.reports) == (2, 1)
    folder = tmp_path / "s-reports" / "s"
    assert found.tracked == {"broken": "nowhere, s", "jsonl": str(folder / "events.jsonl")}
    assert str(folder / "events.jsonl") in (folder / "report.md").read_text()
    assert json.loads((folder / "report.json").read_text())["tracked"] == found.tracked
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [(event["trial"], event["event"]) for event in events] == [
        (trial, event) for trial in (0, 1) for event in ("begin", "report", "report", "end")
    ]
    assert events[3]["value"] == found.trials[0].error
    assert events[3]["numbers"] == {"f1": 0.5}


def test_a_tracker_that_there_is_not_is_refused_before_anything_runs():
    with pytest.raises(
        UsageError, match="track: expected tracker among wandb, mlflow, tensorboard, jsonl, got 'neptune'"
    ):
        TuneOptions.of({"track": "neptune"})
