"""A timed call: which history plans for it, what a short run says, what people are told."""

import math
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import warmstart
from warmstart.history_store.history import History
from warmstart.studies import tune
from warmstart.studies.execution import pace
from warmstart.studies.execution.pace import Pace
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.history import timed_call as time_plan
from warmstart.studies.history.timed_call import TimedCall, known_durations, plan_lines
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.options import Sources
from warmstart.studies.tune_options import TuneOptions
from warmstart.timing import short_run
from warmstart.timing.short_run import SPREAD


class Runner:
    """Trains a step in a millisecond of a clock of its own, or fails."""

    def __init__(self, status=TrialStatus.OK):
        self.amounts, self.status, self.now = [], status, 0.0

    def run(self, config, *, seed, budget, timeout):
        self.amounts.append(budget)
        self.now += budget / 1000
        return Outcome(0.5 if self.status is TrialStatus.OK else None, self.status, 0.1, "it broke")


@pytest.fixture
def measured(tiny, tmp_path):
    """Copy the tiny history with runs of the usual workload, which took 0.5 s."""
    path = tmp_path / "measured.h5"
    shutil.copy(tiny.history, path)
    with History.open(path, write=True) as history:
        runs = [replace(run, duration=0.5, origin="collect/compact-400") for run in history.evaluations()]
        history.extend([*runs, *(replace(run, seed=5) for run in runs)])
    return path


@pytest.fixture
def asked(measured, tiny, photos, monkeypatch):
    """Ask the history for a study of the built-in network in a time, by the runner's clock."""

    def ask(seconds, runner, **more):
        said = []
        given = {"history": measured, "model": tiny.model, "device": "cpu", "on_message": said.append, "time": seconds}
        options = TuneOptions.of({**given, **more})
        spec = options.plan(str(photos), None, query=options.open(str(photos)))
        for module in (time_plan, pace):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: runner.now))
        call = TimedCall(0.0, seconds, 1, None, said.append)
        call.runner = runner
        monkeypatch.setattr(short_run, "time", SimpleNamespace(perf_counter=lambda: runner.now))
        return options.complete(spec, timed=call), call, said

    return ask


def test_the_history_plans_what_fits(asked):
    runner = Runner()
    spec, call, _ = asked(20.0, runner)
    assert runner.amounts == [1, 10, 40]
    assert call.plan.short_run.seconds == pytest.approx(0.4, rel=0.1)  # 400 steps of a millisecond
    planned = [dict(step.config) for step in call.plan.steps]
    assert [dict(each.config) for each in spec.configs][: len(planned)] == planned
    assert call.plan.total <= 16
    assert spec.design == len(spec.configs)
    lines = plan_lines(call, Pace(call.ends, call.plan.durations, call.plan.timed_runs), spec, n_ended=0)
    assert lines[0].startswith(f"Plan: {len(planned)} runs in ")
    assert re.search(r" The other \d\.\d s are for start, short run and end\.$", lines[0])
    assert len(repr(call.plan)) < 4000  # for a notebook: without what the forecast was fitted to
    assert lines[1].startswith("  1. batch_size ")
    assert lines[-1].startswith("  then the search: about ")
    unlike = replace(spec, configs=(*spec.configs, *[replace(spec.configs[0], measured=False)] * 2))
    last = plan_lines(call, Pace(call.ends, call.plan.durations, ()), unlike, n_ended=0)[-1]
    assert last.startswith("  then 2 configurations of unknown duration (the history did not measure them), then")


@pytest.fixture
def short_run_of(asked, monkeypatch):
    """Make the short run of a call of 40 s, 8 s of which are kept for its end, whose runs take seconds of a clock of ours."""
    spec, _, _ = asked(20.0, Runner())

    def make(loads, first, second):
        takes, now = iter([loads, first, second]), [0.0]

        class Slow:
            def run(self, config, *, seed, budget, timeout):
                wanted = next(takes)
                now[0] += min(wanted, timeout)
                is_ok = wanted <= timeout
                return Outcome(0.5 if is_ok else None, TrialStatus.OK if is_ok else TrialStatus.TIMEOUT, wanted, "")

        clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
        monkeypatch.setattr(time_plan, "time", clock)
        monkeypatch.setattr(short_run, "time", clock)
        return TimedCall(0.0, 40.0, 1, None, print, Slow()).short_run(spec, dict(spec.configs[0].config))

    return make


def test_what_the_process_loads_takes_nothing_of_the_short_run(short_run_of):
    found = short_run_of(7.0, 2.0, 4.0)
    assert (found.seconds, found.took) == (pytest.approx(28.0, rel=0.15), 13.0)
    assert SPREAD <= found.spread < 0.4


def test_whose_durations_count(measured, tiny, photos):
    sources = Sources(history=measured, model=tiny.model)

    def known(**more):
        options = TuneOptions.of({"history": measured, "model": tiny.model, "device": "cpu", **more})
        query = TuneOptions.of({"history": measured}).open(str(photos))
        return known_durations(options.plan(str(photos), None, query=query), sources=sources, query=query)

    assert known().forecaster.knows_level
    assert not known(budget=40.0).forecaster.knows_level  # which takes longer is known, not how long
    assert known(command="python train.py {batch_size} {warmstart.config}") is None
    assert known(space={"x": [0.0, 1.0]}, command="python train.py {x}") is None


def test_a_history_of_the_same_script_counts(measured, tiny, photos):
    with History.open(measured, write=True) as history:
        runs = [run for run in history.evaluations() if run.origin != "test"]
        own = [replace(run, origin="collect/own:train.py/all", seed=9 + n) for n, run in enumerate(runs * 2)]
        history.extend(own)
    command = "python train.py {warmstart.config}"
    options = TuneOptions.of({"history": measured, "model": tiny.model, "command": command})
    query = TuneOptions.of({"history": measured}).open(str(photos))
    spec = options.plan(str(photos), None, query=query)
    found = known_durations(spec, sources=options.sources, query=query)
    assert found.origin == "collect/own:train.py/all"
    other = replace(spec, objective={**spec.objective, "command": "python other.py {warmstart.config}"})
    assert known_durations(other, sources=options.sources, query=query) is None


@pytest.mark.parametrize(("workers", "seconds"), [(1, None), (2, 60.0)])
def test_an_objective_is_loaded_once_before_the_workers(tmp_path, monkeypatch, workers, seconds):
    starts, running = [], []
    start = TrialRunner.__enter__

    def enter(runner):
        starts.append(runner)
        return start(runner)

    monkeypatch.setattr(TrialRunner, "__enter__", enter)
    monkeypatch.setattr(tune, "_run", lambda *_args: running.extend(each for each in starts if each._child))
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("def f(config):\n    return config['x']\n")
    warmstart.tune(objective="own.py:f", space={"x": (0.0, 1.0)}, warm="none", trials=2, workers=workers, time=seconds)
    assert len(starts) == 1
    assert len(running) == (workers == 1), "the workers' own are others"


def test_more_is_kept_where_the_start_was_slow():
    call = TimedCall(time.monotonic() - 100.0, 600.0, 1, None, print)
    assert math.isclose(call.left, 600 - 100 - 100, abs_tol=0.2)
