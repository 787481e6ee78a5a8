"""Studies that are killed, interrupted and shared: nothing is lost, nothing is done twice, the stream stays."""

import contextlib
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

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from studies import write_space  # noqa: E402

from warmstart.studies.results.trial import ended_trials  # noqa: E402
from warmstart.studies.state.storage import open_store  # noqa: E402
from warmstart.studies.state.trial_queue import open_queue  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_pictures_in_processes")

COMMAND = [
    sys.executable, "-m", "warmstart", "tune", "--objective", "studies:objective", "--space", "space.json",
    "--surrogate", "gp-map", "--seed", "5",
]  # fmt: skip


def prepare(folder):
    folder.mkdir()
    write_space(folder)
    shutil.copy(HERE / "studies.py", folder)
    return folder


def start(folder, *more):
    return subprocess.Popen(
        [*COMMAND, *more], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(folder, *more):
    process = start(folder, *more)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out) if "json" in more else out


def stored(folder, name="warmstart-studies.db"):
    with open_queue(open_store(folder / name), "studies-objective") as queue:
        trials = queue.trials()
        assert [trial.number for trial in trials] == list(range(len(trials)))
        return [(t.number, t.config, t.seed, t.error, t.status) for t in ended_trials(trials)], trials


def kill_at_random(folder, rng, *more):
    """Tune for a random time, then kill the whole group; tells whether it was over before."""
    process = start(folder, *more)
    calls = folder / "calls"
    known = calls.stat().st_size if calls.exists() else 0
    if rng.random() < 0.8:  # some way into it
        while process.poll() is None and (calls.stat().st_size if calls.exists() else 0) <= known:
            time.sleep(0.01)
    time.sleep(rng.random() * 0.6)
    over = process.poll() is not None
    if not over:
        os.killpg(process.pid, signal.SIGKILL)
    _, err = process.communicate()
    assert not over or process.returncode == 0, err
    return over


def check_so_far(folder, expected, storage):
    try:
        rows, trials = stored(folder, storage)
    except ValueError:  # killed before it was begun
        return
    assert rows == expected[: len(rows)]
    assert len(trials) <= len(rows) + 1


def test_a_killed_study_is_the_one_that_was_never_killed(tmp_path):
    settings = ("--trials", "4", "--storage", "s.db")
    whole, folder, rng = prepare(tmp_path / "whole"), prepare(tmp_path / "killed"), random.Random(1)
    finish(whole, *settings)
    expected, _ = stored(whole, "s.db")
    while kill_at_random(folder, rng, *settings):  # it was over before
        shutil.rmtree(folder)
        prepare(folder)
    if (folder / "s.db").exists():
        check_so_far(folder, expected, "s.db")
    finish(folder, *settings)
    assert stored(folder, "s.db")[0] == expected


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("storage", ["s.db", "s.journal"])
@pytest.mark.parametrize(
    "least", [pytest.param(8, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.campaign)]
)
def test_many_kills_of_workers(tmp_path, least, storage):
    kills = rounds = 0
    while kills < least:
        kills += check_shared(prepare(tmp_path / str(rounds)), 20, random.Random(rounds), storage)
        rounds += 1


def check_shared(folder, kills, rng, storage="s.db", *, total=40, workers=3):
    settings = ("--workers", str(workers), "--trials", str(total), "--storage", storage)
    done = 0
    for _ in range(kills):
        if kill_at_random(folder, rng, *settings):
            break
        done += 1
        if (folder / storage).exists():
            try:
                stored(folder, storage)
            except ValueError:
                continue
    process = start(folder, *settings)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    time.sleep(4 + 2 * rng.random())
    pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        pids = [pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if pids and process.poll() is None:
            os.kill(rng.choice(pids), signal.SIGKILL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    rows, trials = stored(folder, storage)
    assert len(rows) == len(trials) == total
    assert len({seed for _, _, seed, *_ in rows}) == total
    configs = Counter(json.dumps(config, sort_keys=True) for _, config, *_ in rows)
    assert max(configs.values()) == 1, "a configuration was chosen twice"
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    called = Counter(map(int, (folder / "calls").read_text().split()))
    assert called.keys() >= {seed for _, _, seed, *_ in rows}
    # A trial runs again only where it was under way in a kill: one for each worker that died.
    assert sum(called.values()) <= total + workers * done + 1
    return done


def test_ctrl_c_says_how_to_go_on(tmp_path):
    folder = prepare(tmp_path / "f")
    command = [*COMMAND[:4], "--objective", "studies:sleep", "--space", "space.json", "--workers", "2"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (folder / "began").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    said = [line for line in err.splitlines() if not line.startswith("tuning: ")]  # one a minute
    assert said == [
        "Stopped after 0 trials; all are kept.",
        "Run the same command again to continue.",
        "error: Interrupted.",
    ]
