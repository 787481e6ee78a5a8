"""Functions of a script, of standard input and of a person's session are tuned without their script being run again."""

import functools
import os
import subprocess
import sys
import threading
import time

import pytest
from ConfigSpace import ConfigurationSpace
from objectives import Model, inner, shifted

import warmstart
from warmstart.history_store.errors import AllTrialsFailedError, UsageError
from warmstart.studies.objectives.function import FunctionObjective

SPACE = ConfigurationSpace({"x": (-1.0, 1.0)})
SCRIPT = """
import sys
import threading
import warmstart
from ConfigSpace import ConfigurationSpace

open("began", "a").write("once ")
lock = threading.Lock()
offset = 0.25

def helper(x):
    return (x - offset) ** 2

def f(config, seed):
    BODY

found = warmstart.tune(objective=f, space=ConfigurationSpace({"x": (-1.0, 1.0)}), surrogate="gp-map", trials=3)
assert all(trial.error == (trial.config["x"] - 0.25) ** 2 for trial in found.trials), found
print(found.counts)
"""


def script(body='return helper(config["x"])'):
    return SCRIPT.replace("BODY", body)


def python(*arguments, folder, stdin=""):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *arguments], input=stdin, cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_unguarded_script_runs_once(tmp_path):
    run = python("-", folder=tmp_path, stdin=script())
    assert (run.stdout, run.returncode) == ("{'ok': 3}\n", 0), run.stderr
    assert (tmp_path / "began").read_text() == "once "


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_whose_function_cannot_be_sent_is_imported_or_told(guarded, tmp_path):
    text = script('with lock: return helper(config["x"])')
    if guarded:
        before, after = text.split("found =")
        text = before + 'if __name__ == "__main__":\n    ' + ("found =" + after).strip().replace("\n", "\n    ")
    (tmp_path / "own.py").write_text(text)
    run = python("own.py", folder=tmp_path)
    if guarded:
        assert run.stdout == "{'ok': 3}\n", run.stderr
    else:
        assert "own.py:f, which tunes when it is imported. Put its last lines under if __name__" in run.stderr
    assert (tmp_path / "began").read_text() == "once once "


@pytest.mark.parametrize(
    "function",
    [Model(0.5).fit, Model(0.5), functools.partial(shifted, 0.5), inner(0.5)],
    ids=["method", "object", "partial", "closure"],
)
def test_functions_of_every_kind(function):
    found = warmstart.tune(objective=function, space=SPACE, trials=1, study="s")
    assert found.trials[0].error == abs(found.trials[0].config["x"] - 0.5)


def test_limits_hold_for_a_function_that_was_sent():
    with pytest.raises(AllTrialsFailedError, match=r"none of 1 \(1 timeout; the last: no result after 1 s"):
        warmstart.tune(objective=lambda config: time.sleep(60), space=SPACE, trials=1, study="s", trial_timeout=1.0)


_lock = threading.Lock()


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()

    def held(config, log=_lock):
        return lock

    step = "Make that inside the function, or put the function into a file"
    with pytest.raises(
        UsageError, match=rf"objective: expected .* sent .*it uses 'log' \(a lock\), 'lock' \(a lock\)\). {step}"
    ):
        warmstart.tune(objective=held, space=SPACE, trials=1)
    with pytest.raises(UsageError, match=r"a partial of shifted .* 'argument 0' \(a lock\)"):
        warmstart.tune(objective=functools.partial(shifted, lock), space=SPACE, trials=1)
    with pytest.raises(UsageError, match=r"Model.fit .* 'self.best' \(a lock\)"):
        warmstart.tune(objective=Model(lock).fit, space=SPACE, trials=1)
    with pytest.raises(UsageError, match=r"^objective: expected a function, or text that names one, got 3"):
        FunctionObjective(3)
