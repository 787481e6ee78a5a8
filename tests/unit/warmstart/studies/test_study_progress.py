"""How far a study is: the time left, as long as the trials before tell it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from objectives import quick
from optuna.trial import TrialState, create_trial

from warmstart.studies.execution.worker import Limits
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results import watch as study_watch
from warmstart.studies.results.trial import Trial
from warmstart.studies.results.watch import Watch, warn_first_failure, warn_no_reports
from warmstart.studies.state.attributes import EXTRA, OUTCOME, RUN
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.tune import tune


def test_the_time_left_is_unknown_once_a_trial_outlives_all_before(tmp_path, monkeypatch):
    tune(objective=quick, space={"x": (0.0, 1.0)}, storage=tmp_path / "s.db", study="s", trials=2)
    told, now = [], [0.0]
    monkeypatch.setattr(study_watch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with StudyGroup.open(open_store(tmp_path / "s.db"), ["s"]) as group:
        watch = Watch(group, Limits(3), told.append, pytest.fail)
        watch.look()
        _, run = group.next(3)
        watch.look()
        assert told[-1].left_s == pytest.approx(0.5)
        now[0] += 0.25
        group.queues[0].report(run, 1, 0.5)
        group.queues[0].flush()
        watch.look()
        assert told[-1].left_s == pytest.approx(0.25)
        now[0] += 0.4
        group.queues[0].report(run, 2, 0.5)
        group.queues[0].flush()
        watch.look()
        assert math.isnan(told[-1].left_s)


def test_the_step_of_a_trial_under_way_is_the_one_that_it_reported(tmp_path):
    tune(objective=quick, space={"x": (0.0, 1.0)}, storage=tmp_path / "s.db", study="s", trials=1, budget=2.0)
    told = []
    with StudyGroup.open(open_store(tmp_path / "s.db"), ["s"]) as group:
        watch, (_, run) = Watch(group, Limits(3), told.append, pytest.fail), group.next(3)
        watch.look()
        for step in (0.25, 0.5):
            group.queues[0].report(run, step, 0.5)
        group.queues[0].flush()
        watch.look()
    (running,) = told[-1].running
    assert (running.step, running.error, running.share) == (0.5, 0.5, 0.25)


def test_results_that_came_too_late_are_listed_and_do_not_count(tmp_path):
    settings = {"objective": quick, "space": {"x": (0.0, 1.0)}, "storage": tmp_path / "s.db", "study": "s"}
    tune(**settings, trials=3)
    with StudyGroup.open(open_store(tmp_path / "s.db"), ["s"]) as group:
        study = group.queues[0].study
        of = study.get_trials()[0]
        attrs = {name: of.user_attrs[name] for name in (RUN, OUTCOME)} | {EXTRA: {"of": 0, "client": "c"}}
        late = create_trial(
            state=TrialState.COMPLETE,
            value=of.value,
            params=of.params,
            distributions=of.distributions,
            user_attrs=attrs,
        )
        study.add_trial(late)
    told, said = [], []
    found = tune(**settings, trials=4, progress=told.append, on_message=said.append)
    assert [trial.number for trial in found.trials] == [0, 1, 2, 3, 4]
    assert [told[0].done, told[-1].done] == [3, 4]
    assert said == []
    found = tune(**settings, trials=4, on_message=said.append)
    assert len(found.trials) == 5
    assert said == ["s: all 4 trials are there already: none was run. A larger `trials` adds more."]


def ended(number, error=None):
    status = TrialStatus.CRASHED if error is None else TrialStatus.OK
    return Trial(number, {}, error, status, duration=1.0, seed=0, note=f"note of {number}.")


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([[1], [0]], [1]),
        ([[1, 0], [2]], [0]),
        ([[], [3], [2, 4], [1]], [3]),
    ],
)
def test_the_first_failure_is_told_once_in_whatever_order_trials_end(ends, told):
    said, known = [], []
    for numbers in ends:
        new = [ended(number) for number in numbers]
        known = sorted([*known, *new], key=lambda trial: trial.number)
        warn_first_failure("s", new, known, said.append)
    assert said == [f"s: trial {n} gave no result (crashed): note of {n}. The study goes on." for n in told]


def test_a_failure_beside_an_error_or_of_an_earlier_call_is_not_told():
    good, bad = ended(0, error=0.5), ended(1)
    warn_first_failure("s", [good, bad], [good, bad], pytest.fail)
    warn_first_failure("s", [bad], [good, bad], pytest.fail)
    warn_first_failure("s", [ended(2)], [bad, ended(2)], pytest.fail)


def test_the_first_trial_without_a_report_is_told_once():
    said, silent, bad = [], ended(0, error=0.5), ended(1)
    warn_no_reports("s", [silent], [silent], said.append)
    assert said[0].startswith("s: trial 0 reported nothing while it ran")
    warn_no_reports("s", [ended(2, error=0.1)], [silent, ended(2, error=0.1)], pytest.fail)
    warn_no_reports("s", [bad], [bad], pytest.fail)
    reporting = replace(silent, curve=((1, 0.6),))
    warn_no_reports("s", [reporting], [reporting], pytest.fail)
