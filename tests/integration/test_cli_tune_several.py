"""`warmstart tune` with several datasets, as a shell sees it: shared, killed and gone on with."""

import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warmstart.history_store.history import History
from warmstart.studies.results.trial import ended_trials
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from studies import write_space  # noqa: E402

RATE = """
def rate(config, dataset):
    scale = 1 if dataset.endswith("stripes0") else 0.1
    return min(scale * abs(config["log10_learning_rate"] + 3) / 5, 1.0)
"""
ARGS = (
    "--objective", "studies:objective", "--space", "space.json", "--no-warm", "--startup", "2", "--seed", "5",
    "--split", "gain",
)  # fmt: skip
TWO = ("--dataset", "a", "--dataset", "b")
COMMAND = [sys.executable, "-m", "warmstart", "tune", *TWO, *ARGS, "--storage", "s.db"]
NAMES = ("a-studies-objective", "b-studies-objective")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return prepare(tmp_path)


def prepare(folder):
    folder.mkdir(exist_ok=True)
    write_space(folder)
    shutil.copy(HERE / "studies.py", folder)
    (folder / "own.py").write_text(RATE)
    return folder


def stored(folder):
    with StudyGroup.open(open_store(folder / "s.db"), NAMES) as group:
        every = [queue.trials() for queue in group.queues]
    assert all([trial.number for trial in trials] == list(range(len(trials))) for trials in every)
    return [[(t.number, t.config, t.seed, t.error, t.status) for t in ended_trials(trials)] for trials in every], every


def test_each_begins_with_its_own_warm_start_and_goes_to_the_history(cli, folder, tiny, monkeypatch, short_chains):
    own = Path(shutil.copy(tiny.history, folder / "own.h5"))
    monkeypatch.setenv("WARMSTART_HISTORY", str(own))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    paths = [f"{tiny.history}::stripes4", f"{tiny.history}::stripes0"]
    asked = [cli("suggest", "--dataset", path, "-k", "2", "--format", "json").json()["suggestions"] for path in paths]
    command = ("tune", "-d", paths[0], "-d", paths[1], "--objective", "own:rate", "-k", "2", "--study", "s")
    run = cli(*command, "--trials", "6", "--record", "mine", "--format", "json", "-v")
    assert run.code == 0, run.err
    found = run.json()
    assert [each["dataset"] for each in found["studies"]] == paths
    assert sum(found["trials"].values()) == 6
    assert sum(sum(each["trials"].values()) for each in found["studies"]) == 6
    for designs, each in zip(asked, found["studies"], strict=True):
        assert [warm["config"] for warm in each["warm"]] == [design["config"] for design in designs]
        assert each["gain"] >= 0
    names = [each["study"] for each in found["studies"]]
    assert names == [f"s-{tiny.history.name}-stripes4", f"s-{tiny.history.name}-stripes0"]
    assert run.err.count(f"{names[0]}, trial ") >= 2
    with History.open(own) as history:
        recorded = [len(history.evaluations(name.replace("s-", "mine-", 1))) for name in names]
    assert recorded == [sum(each["trials"].values()) for each in found["studies"]]
    report = json.loads((folder / "warmstart-studies-reports" / "s" / "report.json").read_text())
    assert [len(each["all"]) for each in report["studies"]] == recorded
    with StudyGroup.open(open_store(None), names) as group:
        assert len({queue.plan.meta_feature for queue in group.queues} - {None}) == 2
    again = cli(*command, "--trials", "6", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(again.out)))
    assert [float(row["error"]) for row in rows] == [each["best"]["error"] for each in found["studies"]]
    table = cli(*command, "--trials", "6").out
    assert table.startswith("2 datasets in ")
    text = Path("warmstart-studies-reports/s/report.md").read_text()
    assert f"| {paths[0]} | {recorded[0]} |" in text
    assert f"## Study {names[0]}\n" in text


def finish(folder, *more):
    process = subprocess.run([*COMMAND, *more], cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def kill(folder, calls, rng, *more):
    """Tune until the objective was called so often in all, then kill the whole group a little later."""
    process = subprocess.Popen([*COMMAND, *more], cwd=folder, stderr=subprocess.PIPE, start_new_session=True)
    file = folder / "calls"
    while process.poll() is None and (len(file.read_text().split()) if file.exists() else 0) < calls:
        time.sleep(0.01)
    time.sleep(rng.random() * 0.5)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_and_gone_on_with_they_are_those_that_were_never_killed(tmp_path):
    whole, folder = prepare(tmp_path / "whole"), prepare(tmp_path / "killed")
    finish(whole, "--trials", "8")
    expected, _ = stored(whole)
    assert sum(map(len, expected)) == 8
    rng = random.Random(1)
    for calls in (3, 7):
        kill(folder, calls, rng, "--trials", "8")
        rows, trials = stored(folder)
        assert all(some == all_[: len(some)] for some, all_ in zip(rows, expected, strict=True))
        assert sum(map(len, trials)) <= sum(map(len, rows)) + 1
    finish(folder, "--trials", "8")
    assert stored(folder)[0] == expected
