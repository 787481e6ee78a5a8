"""Plans for a time: what an answer says, how fast a machine is found to be, and what is refused."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

import warmstart
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.measured_with import measured_with, workload_of
from warmstart.timing import short_run
from warmstart.timing.plan import TimeLimit
from warmstart.timing.short_run import ShortRun, short_run_by


@pytest.fixture
def timed(tiny, tmp_path):
    """A copy of the tiny history whose last two configurations take ten times as long."""
    path = tmp_path / "timed.h5"
    shutil.copy(tiny.history, path)
    with History.open(path, write=True) as history:
        runs = [
            replace(run, duration=(20.0 if history.configs.index(run.config) > 5 else 2.0), seed=2, origin="slow")
            for run in history.evaluations()
        ]
        history.extend([*runs, *(replace(run, seed=3) for run in runs)])
    return path


def plan_of(timed, tiny, photos, **more):
    return warmstart.answer(photos, history=timed, model=tiny.model, **more)


def test_what_fits_is_planned_with_its_seconds(timed, tiny, photos):
    found = plan_of(timed, tiny, photos, time=7)
    plan = found.plan
    assert plan.short_run is None  # nothing of ours was measured: the history's seconds hold
    assert 1 <= len(plan.steps) <= 3
    assert plan.total <= 7
    assert all(1.5 < step.seconds.value < 2.5 for step in plan.steps)
    assert [design.config for design in found.suggestions] == [step.config for step in plan.steps]
    assert [design.seconds for design in found.suggestions] == [step.seconds for step in plan.steps]
    document = found.to_dict()["plan"]
    assert (document["time_s"], document["workers"], document["short_run"]) == (7.0, 1, None)
    assert [run["config"] for run in document["runs"]] == [dict(step.config) for step in plan.steps]
    assert document["total_s"] + document["left_s"] == pytest.approx(7.0, abs=0.01)
    assert "by the history's machine" in plan.line
    assert "takes" not in plan.line


def test_a_short_run_says_how_fast_this_machine_is(timed, tiny, photos):
    asked = []

    def measure(origin, config):
        asked.append((origin, dict(config)))
        return ShortRun(config, 20.0, took=1.0)  # ten times as slow

    advisor = warmstart.Advisor(timed, tiny.model)
    found = advisor.suggest(photos, time=TimeLimit(70.0, measure))
    assert len(asked) == 1
    assert asked[0][0] == "slow"
    assert all(15 < step.seconds.value < 30 for step in found.plan.steps)
    assert "by a short run of 1.0 s" in found.plan.line
    spent = advisor.suggest(photos, time=TimeLimit(70.0, measure, spent=lambda: 60.0))
    assert spent.suggestions == ()
    assert spent.plan.line.startswith("Nothing fits in 10 s")
    assert len(advisor.suggest(photos, time=TimeLimit(25.0, measure, workers=2)).suggestions) == 2


@pytest.fixture
def short_runs(monkeypatch):
    """Time short runs of 400 steps, each of which takes `start + step * amount` on a clock of ours, times a jolt."""

    def run(start, step, *, longer_s=0.0, jolts=(), stops_at=math.inf):
        now, trained, jolt = [0.0], [], iter(jolts)

        def train(config, amount):
            trained.append(amount)
            now[0] += (start + step * amount) * next(jolt, 1.0)
            return amount < stops_at

        monkeypatch.setattr(short_run.time, "perf_counter", lambda: now[0])
        return short_run_by(train, {"x": 1}, 400, longer_s=longer_s), trained

    return run


def test_short_runs_are_extrapolated(short_runs):
    found, trained = short_runs(0.0, 0.02)
    assert trained == [1, 10, 40]
    assert found.seconds == pytest.approx(8.0, rel=0.15)
    assert found.spread == pytest.approx(short_run.SPREAD, abs=0.01)
    assert found.took == pytest.approx(0.02 * 51)


def test_longer_moments_follow_where_two_leave_much_open(short_runs):
    """Looking at many validation images takes 2.4 s, 400 steps 6.7 s."""
    rough, trained = short_runs(2.4, 0.0167)
    assert trained == [1, 10, 40]
    assert rough.spread > 0.4
    assert abs(math.log(rough.seconds / 9.1)) < rough.spread
    sure, trained = short_runs(2.4, 0.0167, longer_s=30.0)
    assert trained == [1, 10, 40, 80, 160]
    assert sure.seconds == pytest.approx(9.1, rel=0.15)
    assert sure.spread <= short_run.ENOUGH
    assert short_runs(2.4, 0.0167, longer_s=7.0)[1] == [1, 10, 40, 80], "160 steps could take 8 s"


@pytest.mark.parametrize("jolts", [(1, 1.5), (1, 1, 1.4)])
def test_a_busy_moment_does_not_mislead(short_runs, jolts):
    for longer_s in (0.0, 30.0):
        found, _ = short_runs(2.4, 0.0167, jolts=jolts, longer_s=longer_s)
        assert abs(math.log(found.seconds / 9.1)) < 2 * found.spread
        assert 9.1 / 2 < found.seconds < 9.1 * 2.5


def test_whose_runs_can_be_repeated_here():
    assert workload_of("collect/compact-400")[0].name == "cnn"
    assert workload_of("tune/compact-400")[1] == "compact-400"
    assert workload_of("tune/compact-400, budget 40") is None  # its seconds are not those of 400 updates
    told = measured_with({"tune/compact-400, budget 40": 3}, stored_size=32)
    assert (told.budget, told.program) == ("40 updates", None)
    mixed = measured_with({"collect/compact-400": 6200, "tune/train.py": 2}, stored_size=32)
    assert mixed.line.endswith("400 updates; 2 of 6202 runs were measured otherwise.")
    assert workload_of("collect/own:train.py/all") is None
    assert workload_of("import/smac") is None


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"time": "soon"}, "expected a length of time above 0, got 'soon'"),
        ({"time": True}, "expected text or a number, got True"),
        ({"time": 9, "strategy": "nearest"}, "expected joint or portfolio with `time`, got 'nearest'"),
        ({"time": 9, "space": {"x": [0.0, 1.0]}}, "cannot be used with `space`"),
        ({"time": 9, "workload": "transfer"}, "needs a history that measured transfer"),
    ],
)
def test_what_cannot_be_planned(tiny, photos, more, told):
    with pytest.raises(UsageError, match=told):
        warmstart.answer(photos, history=tiny.history, model=tiny.model, **more)


def test_a_history_without_durations(tiny, tmp_path, photos):
    path = tmp_path / "untimed.h5"
    with History.open(tiny.history) as old, History.create(path, old.space_json, configs=old.configs) as new:
        new.extend(
            [replace(run, duration=float("nan")) for run in old.evaluations()],
            datasets=[old.dataset(name) for name in old.names],
        )
        assert np.isnan(new.evaluations()[0].duration)
    with pytest.raises(UsageError, match="expected a history that knows how long its runs took"):
        warmstart.answer(photos, history=path, model=tiny.model, time=60, strategy="portfolio")


def test_the_command_shows_the_plan(cli, timed, tiny, photos):
    asked = ("suggest", photos, "--history", timed, "--model", tiny.model, "--time", "7s")
    table = cli(*asked)
    assert table.code == 0, table.err
    assert "takes" in table.out
    assert "2 s" in table.out
    assert " of 7.0 s, by the history's machine" in " ".join(table.out.split())
    assert cli(*asked, "--format", "json").json()["plan"]["time_s"] == 7.0
    assert "seconds" in cli(*asked, "--format", "csv").out.splitlines()[0]
    refused = cli(*asked, "--server", "http://127.0.0.1:1")
    assert (refused.code, refused.out) == (2, "")
