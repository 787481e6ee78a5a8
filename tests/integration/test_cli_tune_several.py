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
from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState

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
    "--objective",
    "studies:objective",
    "--space",
    "space.json",
    "--no-warm",
    "--startup",
    "2",
    "--seed",
    "5",
    "--split",
    "gain",
)
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


def test_each_begins_with_its_own_warm_start_and_goes_to_the_history(cli, folder, tiny, monkeypatch):
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


def test_calls_that_are_refused(cli, folder, photos):
    def refused(*args, code=2, told):
        run = cli("tune", *args, "--trials", "2")
        assert run.code == code
        assert told in run.err

    refused(*TWO, "-d", "./a", *ARGS, told="got ./a, which is the same as a")
    shutil.copytree(photos, "copy")
    network = ("--no-warm", "--space", "compact")
    refused("-d", photos, "-d", "copy", *network, told="which is the same as")
    refused("-d", photos, "-d", "nowhere", *network, told="nowhere")
    refused(*TWO, *ARGS, "--surrogate", "gp-map", told="--dataset: expected --surrogate gp, dngo, bohamiann")
    refused(*TWO, *ARGS, "--save-model", "net.safetensors", told="--save-model cannot be used with your own objective")
    refused(*TWO, *ARGS, "--split", "best", told="--split")
    assert cli("tune", *TWO, *ARGS, "--trials", "1").code == 0
    assert cli("tune", "-d", "b", "-d", "a", *ARGS, "--trials", "1").code == 0
    assert cli("tune", *TWO, *ARGS, "--study", "s", "--trials", "1").code == 0
    refused(*TWO, *ARGS[:-2], "--study", "s", told="--split equal (the study has gain)")
    refused("-d", "a", *ARGS, "--study", "s-a", told="set of datasets tuned together, none (the study has s-a, s-b)")
    other = cli("tune", *TWO, *ARGS, "--seed", "6", "--trials", "1")
    assert "a-studies-objective-2 is a new study: --seed 6 instead of 5" in other.err


def test_every_trial_of_every_dataset_failed(cli, folder):
    run = cli("tune", *TWO, *ARGS[2:], "--objective", "studies:fail", "--trials", "3")
    assert run.code == 5
    assert "a-and-1-more: expected a trial that gives a result, got none of 3 (3 crashed; the last: " in run.err


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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_that_are_killed_lose_nothing_and_do_nothing_twice(tmp_path):
    folder, total = prepare(tmp_path / "f"), ("--workers", "2", "--trials", "8")
    kill(folder, 4, random.Random(3), *total)
    finish(folder, *total)
    rows, trials = stored(folder)
    assert sum(map(len, rows)) == sum(map(len, trials)) == 8
    for some in rows:
        configs = Counter(json.dumps(config, sort_keys=True) for _, config, *_ in some)
        assert max(configs.values()) == 1, "a configuration was chosen twice"
    assert {trial.state for some in trials for trial in some} <= {TrialState.COMPLETE, TrialState.FAIL}
    called = Counter(map(int, (folder / "calls").read_text().split()))
    assert called >= Counter(seed for some in rows for _, _, seed, *_ in some)
    assert sum(called.values()) <= 8 + 2
