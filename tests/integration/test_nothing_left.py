"""Whatever a trial starts ends with it, with its study, and with whoever kills that."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from studies import write_space

from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.command import CommandObjective

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a chosen process")

WAYS = {
    "group": "timeout 300 {sleep}",
    "job control": "bash -c 'set -m; {sleep} & wait'",
    "session": "setsid -w {sleep}",
    "daemon": "bash -c '(setsid setsid {sleep} </dev/null >/dev/null 2>&1 &) ; exec tail -f /dev/null'",
    "deaf": "bash -c 'trap \"\" TERM HUP INT; {sleep}; {sleep}'",
    "python": '{python} -c "import os, time; os.fork() or os.setsid(); os.fork() or os.setsid(); time.sleep(301)" {mark}',
}


@pytest.fixture
def mark():
    """Return a word to find processes by; end those that a failed test left."""
    word = f"mark{uuid.uuid4().hex}"
    yield word
    for pid in marked(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(word, *, but=()):
    """List the processes that carry a word in their arguments and still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if word in (entry / "cmdline").read_text(errors="replace") and state not in "ZX":
                found.append(int(entry.name))
    return sorted({*found} - {os.getpid(), *but})


def wait_until(true, *, within=200.0):
    until = time.monotonic() + within
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)  # each look reads what /proc says of all processes


def command(way, mark):
    sleep = f"{sys.executable} -S -c 'import time; time.sleep(302)' {mark}".replace("'", '"')
    return WAYS[way].format(sleep=sleep, python=sys.executable, mark=mark)


def sleeps(mark):
    """Tell whether the innermost process of a command has begun."""
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"-S", b"-c"] or (words[1:2] == [b"-c"] and words[-2] == mark.encode()):
                return True
    return False


@linux
@pytest.mark.parametrize("way", ["job control", "daemon", "python"])
def test_a_trial_over_the_limit_leaves_nothing(way, mark):
    with TrialRunner(CommandObjective(command(way, mark), ())) as runner:
        assert runner.run({}, seed=0, timeout=1.5).status == "timeout"
        assert marked(mark) == []


def test_a_trial_ends_with_its_command(mark):
    code = f'{sys.executable} -S -c "import time; time.sleep(600)" {mark} & echo 0.5'
    with TrialRunner(CommandObjective(f"sh -c '{code}'", ())) as runner:
        outcomes = [runner.run({}, seed=0) for _ in range(2)]
        assert marked(mark) == []
    assert [outcome.error for outcome in outcomes] == [0.5, 0.5]


def leave_a_daemon(config, *, seed, budget, report):
    """Start a daemon as daemons start: forked twice, in a session of its own; then end as asked."""
    code = "import os, sys, time; os.fork() and sys.exit(); os.setsid(); os.fork() and sys.exit(); time.sleep(303)"
    subprocess.run([sys.executable, "-c", code, config["mark"]], check=True)
    wait_until(lambda: marked(config["mark"]))
    if config["dies"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0.25


@linux
@pytest.mark.parametrize("dies", [False, True])
def test_a_function_leaves_no_daemon(dies, mark):
    with TrialRunner(leave_a_daemon) as runner:
        outcome = runner.run({"mark": mark, "dies": dies}, seed=0)
        assert outcome.status == ("killed" if dies else "ok")
    assert marked(mark) == []


TUNE = ["-m", "warmstart", "tune", "--space", "space.json", "--no-warm", "--trials", "2", "--storage", "s.journal", "--command"]  # fmt: skip


def start(folder, way, mark, *more):
    write_space(folder)
    return subprocess.Popen(
        [sys.executable, *TUNE, f"env X={{config}} {command(way, mark)}", *more],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"},
    )


@linux
@pytest.mark.parametrize(
    ("way", "number", "more"),
    [
        ("group", signal.SIGKILL, ()),
        pytest.param("session", signal.SIGINT, ("--workers", "2"), marks=pytest.mark.slow),
        pytest.param("deaf", signal.SIGHUP, (), marks=pytest.mark.slow),
    ],
)
def test_a_study_that_ends_leaves_nothing(way, number, more, mark, tmp_path):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("run under nohup, which the study inherits")
    (tmp_path / "tmp").mkdir()
    with start(tmp_path, way, mark, *more) as study:
        wait_until(lambda: sleeps(mark) or study.poll() is not None)
        assert study.poll() is None, study.stderr.read()
        os.killpg(study.pid, number)
        _, said = study.communicate(timeout=200)
        assert study.returncode == (-number if number == signal.SIGKILL else 130), said
    wait_until(lambda: marked(mark) == [])
    assert list((tmp_path / "tmp").iterdir()) == []


@linux
def test_ctrl_c_twice(mark, tmp_path):
    (tmp_path / "tmp").mkdir()
    with start(tmp_path, "deaf", mark) as study:
        wait_until(lambda: sleeps(mark) or study.poll() is not None)
        assert study.poll() is None, study.stderr.read()
        os.killpg(study.pid, signal.SIGINT)
        time.sleep(0.5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(study.pid, signal.SIGINT)
        _, said = study.communicate(timeout=200)
    assert study.returncode == 130, said
    assert said.endswith("error: Interrupted.\n")
    assert "Traceback" not in said
    wait_until(lambda: marked(mark) == [])
