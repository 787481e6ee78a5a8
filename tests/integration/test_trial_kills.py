import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from warmstart.studies.execution.trial_process import TrialRunner

KILLS = 60


def step_by_step(config, *, seed, budget, report):
    for step in range(5):
        time.sleep(0.01)
        report(step, 1.0)
    return config["x"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kills_at_any_moment_end_trials_and_nothing_else():
    rng, outcomes, done = random.Random(0), [], threading.Event()
    kills = 0

    def kill():
        nonlocal kills
        while not done.wait(rng.uniform(0.0, 0.4)):
            child = runner._child
            if child is not None and child.pid:  # the trial's own process, or the guardian above it
                victim = rng.choice([child.pid, child.pid, child.process.pid])
                os.kill(victim, rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
                kills += 1

    def harass():
        while not done.is_set():
            with contextlib.suppress(ProcessLookupError, AttributeError):
                kill()

    with TrialRunner(step_by_step) as runner:
        thread = threading.Thread(target=harass)
        thread.start()
        try:
            while kills < KILLS:
                outcomes.append(runner.run({"x": len(outcomes)}, seed=0, report=lambda step, error: False))
        finally:
            done.set()
            thread.join()
    for number, outcome in enumerate(outcomes):
        assert outcome.status in ("ok", "killed")
        assert outcome.error == (number if outcome.status == "ok" else None)
        assert outcome.curve == tuple((step, 1.0) for step in range(len(outcome.curve)))
    killed = sum(outcome.status == "killed" for outcome in outcomes)
    assert 0.5 * KILLS < killed <= kills < len(outcomes) + KILLS
    assert children() == []


def children():
    """List the processes that this one started and that still run."""
    return [entry for entry in Path("/proc").glob("[0-9]*") if runs(entry)]


def runs(entry):
    with contextlib.suppress(OSError):
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        command = (entry / "cmdline").read_text()
        return int(parent) == os.getpid() and state not in "ZX" and "resource_tracker" not in command
    return False
