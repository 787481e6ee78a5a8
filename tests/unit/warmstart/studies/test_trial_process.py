import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import weather

from warmstart.history_store.errors import BrokenImagesError, DataError, UsageError
from warmstart.studies.execution import child
from warmstart.studies.execution import trial_process as module
from warmstart.studies.execution.trial_process import TrialRunner

MB = 2**20


def clock(has_happened):
    """Make a clock that stands at 0 until something has happened, however long that takes, and at 0.6 s from then on."""
    return SimpleNamespace(monotonic=lambda: 0.6 if has_happened() else 0.0)


@pytest.fixture(scope="module")
def runner():
    """Of trials that end in all kinds of ways, one after the other."""
    with TrialRunner(weather.end) as runner:
        yield runner


@pytest.fixture
def ending(runner):
    """Run a trial that ends in a way."""
    return lambda way, **limits: runner.run({"way": way}, seed=0, **limits)


def gone(pid):
    """Tell whether a process is no more, or waits for whoever has to take note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until(true, *, within=60.0):
    until = time.monotonic() + within
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def test_a_report_that_nobody_hears_ends_the_trial_without_a_traceback():
    here, there = multiprocessing.Pipe()
    here.close()
    with pytest.raises(child.Pruned), there:
        child._Channel(there, "token", child.Refusals()).report(0, 0.5)


def test_the_child_is_kept_between_trials():
    with TrialRunner(weather.remember) as runner:
        first = runner.run({"x": 0.25}, seed=7, budget=3.0)
        second = runner.run({"x": 0.5}, seed=8)
    assert (first.error, first.status, first.note, first.curve) == (0.25, "ok", "", ())
    assert (first.metrics["calls"], first.metrics["seed"], first.metrics["budget"]) == (1, 7, 3)
    assert (second.error, second.metrics["calls"]) == (0.5, 2)
    assert first.metrics["pid"] == second.metrics["pid"] != os.getpid()
    assert gone(int(first.metrics["pid"]))


def test_pictures_that_cannot_be_decoded_end_the_study_and_no_trial():
    with (
        TrialRunner(weather.broken_picture) as runner,
        pytest.raises(BrokenImagesError, match=r"1 broken of 9: a\.png") as caught,
    ):
        runner.run({"x": 1}, seed=0)
    assert caught.value.paths == ("a.png",)


@pytest.mark.parametrize(
    ("way", "status", "note"),
    [
        ("raises", "crashed", r"^ValueError: a loss of \[31m many lines \(weather.py:\d+\)$"),
        ("sys.exit", "crashed", r"^SystemExit: 3 "),
        ("os._exit", "crashed", r"^its process ended with 3; the last line it printed: the last words$"),
        ("kill", "killed", r"^its process was killed by SIGKILL; the last line it printed: the last words$"),
        ("real-time signal", "killed", r"^its process was killed by signal 35"),
        ("fork and die", "killed", r"^its process was killed by SIGKILL"),
        ("memory error", "oom", r"MemoryError: Unable to allocate"),
        ("input", "crashed", r"^EOFError: EOF when reading a line"),
    ],
)
def test_every_end_is_an_outcome_and_the_next_trial_runs(ending, way, status, note):
    outcome = ending(way)
    assert (outcome.error, outcome.status) == (None, status)
    assert re.search(note, outcome.note), outcome.note
    assert 0 <= outcome.duration < 30
    assert ending("returns").error == 0.5


def test_ctrl_c_does_not_reach_a_trial(ending):
    assert ending("interrupt").error == 0.5


@pytest.mark.parametrize("way", ["hold the gil", "ignore terms"])
def test_a_trial_over_the_limit_is_ended(runner, ending, way, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.3)

    def has_spoken():
        return b"last words" in os.pread(runner._log.fileno(), 100, 0)

    monkeypatch.setattr(module, "time", clock(has_spoken))
    outcome = ending(way, timeout=0.5)
    assert outcome.status == "timeout"
    assert outcome.note == "no result after 0.5 s; the last line it printed: the last words"
    assert outcome.error is None
    assert outcome.duration == pytest.approx(0.6)
    assert ending("returns").error == 0.5


def test_a_trial_over_the_limit_may_clean_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 30.0)
    monkeypatch.setattr(module, "time", clock((tmp_path / "note.ready").exists))
    with TrialRunner(weather.clean_up) as runner:
        outcome = runner.run({"file": str(tmp_path / "note")}, seed=0, timeout=0.5)
    assert outcome.status == "timeout"
    assert (tmp_path / "note").read_text() == "clean"


def test_what_a_trial_started_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    monkeypatch.setattr(module, "time", clock((tmp_path / "pids").exists))
    with TrialRunner(weather.start_another) as runner:
        assert runner.run({"file": str(tmp_path / "pids"), "way": "sleep"}, seed=0, timeout=0.5).status == "timeout"
    child, other = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    assert gone(child)
    wait_until(lambda: gone(other))


def test_a_trial_that_takes_too_much_memory_is_ended():
    with TrialRunner(weather.grow) as runner:
        outcome = runner.run({"mb": 600, "child": True}, seed=0, memory=400 * MB)
        assert (outcome.error, outcome.status) == (None, "oom")
        assert outcome.note.endswith(f"bytes of memory, {400 * MB:,} allowed")
        assert runner.run({"mb": 100, "child": True}, seed=0, memory=400 * MB).error == 10


def test_a_log_keeps_what_trials_print(tmp_path):
    log = tmp_path / "trials.log"
    log.write_text("from before\n")
    with TrialRunner(weather.end, log=log) as runner:
        runner.run({"way": "returns"}, seed=0)
        runner.run({"way": "raises"}, seed=0, title="the second")
    lines = log.read_text().splitlines()
    assert lines[:3] == ["from before", "the last words", "== the second =="]
    assert any(line.startswith("the second | Traceback") for line in lines)


def test_reports_come_as_they_are_made_and_end_in_the_curve():
    heard = []
    with TrialRunner(weather.go_down) as runner:
        outcome = runner.run({"steps": 3}, seed=0, report=lambda step, error: heard.append((step, error)))
    assert outcome.curve == tuple(heard) == ((0, 1), (1, 1 / 2), (2, 1 / 3))
    assert outcome.error == 1 / 3


def test_a_trial_is_pruned_in_the_middle_and_its_child_lives_on(tmp_path):
    with TrialRunner(weather.go_down) as runner:
        child = runner._child.process.pid
        outcome = runner.run({"steps": 9, "file": str(tmp_path / "end")}, seed=0, report=lambda step, error: step >= 2)
        assert runner._child.process.pid == child
        assert runner.run({"steps": 1}, seed=0).error == 1.0
    assert (outcome.error, outcome.status, outcome.note) == (None, "pruned", "")
    assert outcome.curve == ((0, 1), (1, 1 / 2), (2, 1 / 3))
    assert (tmp_path / "end").read_text() == "2"


FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
REFUSED = r"report\(s\) or result\(s\) of another process or an earlier trial were refused"


@FORKS
@pytest.mark.parametrize("child", ["returns", "raises"])
def test_a_fork_that_returns_gives_nobody_its_value(child, tmp_path):
    with TrialRunner(weather.fork_and_return, log=tmp_path / "log") as runner:
        outcomes = [runner.run({"x": x, "child": child}, seed=0) for x in (0.1, 0.2, 0.3)]
    assert [outcome.error for outcome in outcomes] == [0.1, 0.2, 0.3]
    assert [outcome.curve for outcome in outcomes] == [((2, 0.1),), ((2, 0.2),), ((2, 0.3),)]
    assert all(re.search(f"2 {REFUSED}", outcome.note) for outcome in outcomes)
    assert "the result of process" in (tmp_path / "log").read_text()


def test_a_thread_that_reports_late_is_refused():
    heard = []
    with TrialRunner(weather.report_late) as runner:
        assert runner.run({"x": 0.0}, seed=0).error == 0.0
        outcome = runner.run({"x": 0.5}, seed=0, report=lambda step, error: heard.append(step))
    assert (outcome.error, outcome.curve, heard) == (0.5, ((1, 0.5), (2, 0.5)), [1, 2])
    assert re.search(f"^1 {REFUSED}$", outcome.note)


@pytest.mark.parametrize(("step", "caught"), [(float("nan"), False), (1e30, True), (-1.0, True)])
def test_a_step_that_no_storage_keeps_fails_the_trial(step, caught):
    with TrialRunner(weather.report_impossible) as runner:
        outcome = runner.run({"step": step, "caught": caught}, seed=0, report=lambda step, error: round(step) > 5)
        assert (outcome.error, outcome.status, outcome.curve) == (None, "failed", ())
        expected = "a step of 0 or more" if step < 0 else "a finite step below 2^63"
        assert outcome.note == f"expected {expected} in a report, got {step:g}"
        assert runner.run({"step": 2.0**62, "caught": False}, seed=0).error == 0.25


def test_a_report_that_fails_here_ends_the_trial():
    with TrialRunner(weather.go_down) as runner:
        child = runner._child.process.pid
        with pytest.raises(ConnectionError, match="storage"):
            runner.run({"steps": 9}, seed=0, report=lambda *_: (_ for _ in ()).throw(ConnectionError("storage gone")))
        assert gone(child)
        assert runner.run({"steps": 1}, seed=0).error == 1.0


def test_a_child_that_died_between_trials_is_replaced():
    with TrialRunner(weather.remember) as runner:
        first = runner.run({"x": 0.0}, seed=0)
        os.kill(int(first.metrics["pid"]), signal.SIGKILL)
        again = runner.run({"x": 0.5}, seed=0)
        assert (again.error, again.status, again.note) == (0.5, "ok", "")
        assert again.metrics["pid"] != first.metrics["pid"]


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("bad data", DataError, r"^photos: expected two classes, got one. Add one.$"),
        ("bug", UsageError, r"^objective: expected one that loads, got ZeroDivisionError: by zero \(weather.py:\d+\)"),
        ("exit", UsageError, r"^objective: expected one that loads, got SystemExit: no licence"),
        ("dies", UsageError, r"got a process that was killed by SIGKILL; the last line it printed: no room, 3 times"),
        ("hangs", UsageError, r"^objective: expected one that loads, got none after 0.5 s"),
    ],
)
def test_an_objective_that_cannot_load_is_the_callers(how, error, message, monkeypatch):
    monkeypatch.setattr(module, "START_S", 0.5 if how == "hangs" else 60.0)
    with pytest.raises(error, match=message), TrialRunner(weather.Prepared(how)):
        pass


def arrays(config, *, seed, budget, report):
    return {"error": 0.1, "constraints": {"a": np.array([1.0, 2.0])}}


def test_a_result_that_cannot_be_used_costs_no_child():
    with TrialRunner(arrays) as runner:
        child = runner._child
        assert runner.run({}, seed=0).note.startswith("expected a constraint 'a' that is one finite number")
        assert runner.run({}, seed=1).status == "failed"
        assert runner._child is child


@pytest.mark.parametrize("limits", [{"timeout": float("nan")}, {"memory": 0}])
def test_limits_are_positive(ending, limits):
    with pytest.raises(UsageError, match=r"trial: expected a positive timeout and memory"):
        ending("returns", **limits)


SCRIPT = """
import sys, time
import weather
from warmstart.studies.execution.trial_process import TrialRunner

if __name__ == "__main__":
    with TrialRunner(weather.start_another) as runner:
        runner.run({"file": sys.argv[1], "way": sys.argv[2]}, seed=0)
"""


@pytest.mark.parametrize(("number", "way"), [(signal.SIGKILL, "hold the gil"), (signal.SIGINT, "sleep")])
def test_a_trial_ends_with_the_one_that_runs_it(number, way, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    pids = tmp_path / "pids"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    script = [sys.executable, str(tmp_path / "script.py"), str(pids), way]
    with subprocess.Popen(script, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        wait_until(pids.exists, within=100)
        os.killpg(process.pid, number)  # as a terminal does on Ctrl-C: to the whole group
        _, said = process.communicate(timeout=200)
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: gone(int(pid)))


def test_an_error_in_a_report_is_a_number_that_may_be_nan():
    assert child._checked_report(np.int64(3), np.float32(0.5)) == (3.0, 0.5)
    assert math.isnan(child._checked_report(0, math.nan)[1])
    with pytest.raises(ValueError, match="expected an error that is one number in a report, got True"):
        child._checked_report(1, True)


def test_a_child_that_closes_its_pipe_is_ended(ending, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    assert ending("closes its files").status == "crashed"
