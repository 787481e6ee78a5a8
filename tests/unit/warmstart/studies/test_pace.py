"""What ends in time: the trials' own seconds, the deadline, and a sampler that keeps to what fits."""

import math
import socket
import time
from dataclasses import replace
from datetime import timedelta

import numpy as np
import optuna
import pytest
from ConfigSpace import ConfigurationSpace

from warmstart.integrations.optuna.sampler import WarmStartSampler
from warmstart.studies.execution.pace import Pace, cut_here, finished_here
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.attributes import CUT, OUTCOME, RUN, WORKER
from warmstart.studies.state.spec import WarmConfig
from warmstart.studies.state.trial_queue import Run
from warmstart.timing.durations import no_durations
from warmstart.timing.forecast import TimedRun

SPACE = ConfigurationSpace({"x": (0.0, 1.0)})


class Trial:
    """A trial as a study keeps it."""

    def __init__(self, x, *, error=None, seconds=1.0, cut=None):
        self.state = optuna.trial.TrialState.PRUNED if error is None else optuna.trial.TrialState.COMPLETE
        self.duration, self.intermediate_values = timedelta(seconds=seconds), {}
        outcome = {"status": "pruned" if error is None else "ok", "error": error, "duration": seconds}
        run, worker = {"config": {"x": x}, "seed": 0}, f"{socket.gethostname()}:1"
        self.user_attrs = {RUN: run, OUTCOME: outcome, WORKER: worker} | ({} if cut is None else {CUT: cut})


class Plan:
    """What a study was begun with: its warm configurations, and the step at which a trial ends."""

    def __init__(self, warm, length):
        self.configs, self._length = tuple(WarmConfig({"x": x}) for x in warm), length

    def length(self, config):
        return self._length


class Queue:
    """A study."""

    def __init__(self, *trials, warm=(), length=None):
        self._trials, self.plan = list(trials), Plan(warm, length)

    def trials(self):
        return self._trials

    def spread(self, n, *, rng):
        return [{"x": 0.99}]


def pace(left, *told):
    runs = tuple(TimedRun(np.array([x]), seconds) for x, seconds in told)
    return Pace(time.monotonic() + left, no_durations(SPACE), runs)


def test_what_is_likely_to_end_in_time_fits():
    known = (0.0, 10.0), (0.0, 10.0), (1.0, 1000.0), (1.0, 1000.0)
    assert pace(100, *known).fits(Queue(), SPACE, [{"x": 0.0}, {"x": 1.0}]) == [True, False]
    assert pace(5, *known).fits(Queue(), SPACE, [{"x": 0.0}, {"x": 1.0}]) == [False, False]


def test_only_what_the_deadline_ended_is_no_failure():
    late = Outcome(None, TrialStatus.TIMEOUT, 12.0, "no result after 12 s")
    ended = watched(-1, Queue()).final_outcome(late, timeout=math.inf)
    assert ended.status is TrialStatus.PRUNED
    assert ended.note == "ended with the time of the command, after 12 s"
    assert ended.whole >= 0
    assert watched(100, Queue(), ran=5).final_outcome(late, timeout=4) is late  # --trial-timeout
    failed = Outcome(None, TrialStatus.CRASHED, 1.0)
    assert watched(-1, Queue()).final_outcome(failed, timeout=math.inf) is failed


def watched(left, queue, *told, x=0.0, ran=0.0):
    """Follow a trial that began a while ago; so much is left now."""
    run = pace(left, *told).watch(queue, SPACE, Run(0, 0, {"x": x}, 0))
    run.began -= ran
    return run


KNOWN = (0.0, 10.0), (0.0, 10.0), (1.0, 40.0), (1.0, 40.0)
"""Seconds at both ends of the space."""


def test_the_first_trial_is_one_that_surely_ends():
    queue = Queue(warm=(1.0, 0.0))
    assert pace(43, *KNOWN).fits(queue, SPACE, [{"x": 1.0}, {"x": 0.0}]) == [False, True]
    assert pace(90, *KNOWN).fits(queue, SPACE, [{"x": 1.0}, {"x": 0.0}]) == [True, True]
    done = Queue(Trial(0.0, error=0.1, seconds=10.0), warm=(1.0, 0.0))
    assert pace(43, *KNOWN).fits(done, SPACE, [{"x": 1.0}]) == [True], "there is a result"
    assert pace(9, *KNOWN).fits(queue, SPACE, [{"x": 1.0}, {"x": 0.0}]) == [False, True], "it may end, and nothing else"
    assert pace(9, *KNOWN).fits(done, SPACE, [{"x": 0.0}]) == [False]
    assert pace(2, *KNOWN).fits(queue, SPACE, [{"x": 0.0}]) == [False], "it will not end"
    alone = Queue(warm=(1.0,))
    assert pace(43, *KNOWN).fits(alone, SPACE, [{"x": 1.0}]) == [True], "nothing is surer"


def test_a_trial_that_is_too_slow_gives_way_to_one_that_ends():
    queue = Queue(warm=(0.0, 1.0), length=100)
    run = watched(60, queue, *KNOWN, x=1.0, ran=0.0)
    run.reports.append((run.began + 1.0, 0.05))
    run.began -= 20.0
    run.reports[0] = (run.began + 5.0, 0.05)
    assert run.report(20)  # 15 s for 15 %: 80 s more, and 60 are left
    assert run.whole == pytest.approx(100, rel=0.05)
    ended = run.final_outcome(Outcome(None, TrialStatus.PRUNED, 20.0, curve=((20, 0.4),)), timeout=math.inf)
    assert ended.whole == pytest.approx(100, rel=0.05)
    assert ended.note.startswith("ended after 20 s for a shorter one: at its pace it takes 1 min")
    run.pace.choices.append(52.0)
    assert not run.report(20), "choosing another takes all but 8 s, and the shortest takes 10 s"
    quick = watched(90, queue, *KNOWN, x=1.0)
    quick.began -= 20.0
    quick.reports.append((quick.began + 5.0, 0.05))
    assert not quick.report(20), "80 s of 90"


def test_without_reports_time_is_kept_for_a_shorter_one():
    assert watched(100, Queue(warm=(0.0, 1.0)), *KNOWN, x=1.0).seconds == pytest.approx(100 / (1 + 13 / 40), rel=0.05)
    assert watched(100, Queue(warm=(1.0,)), *KNOWN, x=1.0).seconds == pytest.approx(100, rel=0.01), "none is shorter"
    done = Queue(Trial(0.5, error=0.1), warm=(0.0, 1.0))
    assert watched(100, done, *KNOWN, x=1.0).seconds == pytest.approx(100, rel=0.01), "there is a result"
    assert watched(45, Queue(warm=(0.0, 1.0)), *KNOWN, x=1.0).seconds == pytest.approx(45, rel=0.01), "no room for both"
    run = watched(50, Queue(warm=(0.0, 1.0)), *KNOWN, x=1.0, ran=80)
    ended = run.final_outcome(Outcome(None, TrialStatus.TIMEOUT, 80.0), timeout=math.inf)
    assert ended.status is TrialStatus.PRUNED
    assert ended.whole >= 80
    assert ended.note == "ended after 80 s for a shorter one: it takes longer than foreseen"


def test_a_trial_that_was_cut_tells_how_long_it_takes_at_least():
    cut = Trial(0.5, seconds=30.0, cut=100.0)
    assert cut_here([cut, Trial(0.2, error=0.1)]) == [({"x": 0.5}, 100.0)]
    assert pace(60).fits(Queue(cut, warm=(0.5,)), SPACE, [{"x": 0.5}]) == [False]
    assert pace(200).fits(Queue(cut, warm=(0.5,)), SPACE, [{"x": 0.5}]) == [True], "in another call it is tried again"


def test_the_first_trial_of_a_worker_tells_less_of_the_pace_than_the_later_ones():
    """It loads what the later ones find loaded: planned runs that fit by their own time are still begun."""
    slow, usual = Trial(0.0, error=0.1, seconds=40.0), Trial(0.5, error=0.1, seconds=10.0)
    history = replace(no_durations(SPACE).forecaster, level=math.log(10.0), level_spread=math.log(2.0))
    durations = replace(no_durations(SPACE), forecaster=replace(history, effect_spread=0.1))
    call = Pace(time.monotonic() + 30, durations)
    assert call.fits(Queue(slow, warm=(1.0,)), SPACE, [{"x": 1.0}]) == [True]
    again = Trial(0.2, error=0.1, seconds=40.0)
    assert call.fits(Queue(slow, again, warm=(1.0,)), SPACE, [{"x": 1.0}]) == [False], "the second one is believed"
    assert call.fits(Queue(slow, usual, warm=(1.0,)), SPACE, [{"x": 1.0}]) == [True]
    by_clock, own = timedelta(seconds=9.0), slow.user_attrs[OUTCOME]["duration"]
    slow.duration = by_clock + timedelta(seconds=own)
    assert finished_here([slow, usual]) == ([({"x": 0.0}, own)], [({"x": 0.5}, 10.0)])


def test_nothing_is_begun_that_ends_less_surely_than_what_is_planned():
    done = Trial(0.0, error=0.1, seconds=10.0), Trial(0.0, error=0.1, seconds=10.0)
    likely = {"x": 0.9}
    assert pace(40, *KNOWN).fits(Queue(*done), SPACE, [likely]) == [True]
    assert pace(40, *KNOWN).fits(Queue(*done, warm=(0.1,)), SPACE, [likely, {"x": 0.1}]) == [False, True]
    assert pace(40, *KNOWN).fits(Queue(*done, warm=(0.1,)), SPACE, [{"x": 0.0}]) == [True], "this ends as surely"
    assert pace(45, *KNOWN).fits(Queue(*done, warm=(1.0,)), SPACE, [likely]) == [True], (
        "the planned one ends less surely"
    )


def test_the_reading_of_pictures_is_no_slow_machine():
    """Two trials take 43 s each, 40 of them to read: another size is read again, and is not taken for fourteen times as long."""
    space = ConfigurationSpace({"x": (0.0, 1.0), "image_size": [32, 64]})
    bare = no_durations(space)
    known = replace(bare.forecaster, level=math.log(3.0), level_spread=math.log(2.0), effect_spread=0.1)
    durations = replace(bare, forecaster=known, reads={32: 40.0, 64: 50.0})
    done, later = [Trial(x, error=0.1, seconds=43.0) for x in (0.0, 0.5)], {"x": 1.0, "image_size": 64}
    for each in done:
        each.user_attrs[RUN]["config"]["image_size"] = 32
    queue = Queue(*done)
    assert Pace(time.monotonic() + 70, durations).fits(queue, space, [later]) == [True]
    assert Pace(time.monotonic() + 48, durations).fits(queue, space, [later]) == [False], "it is read again"
    unaware = replace(durations, reads={})
    assert Pace(time.monotonic() + 20, unaware).fits(queue, space, [later]) == [False], "20 s beside the reading, too"


def asked(sampler, fits):
    study = optuna.create_study(sampler=sampler)
    sampler.choose_among(fits)
    return study, sampler.has_fitting(study)


def test_a_sampler_goes_on_with_what_fits():
    warm = [{"x": 0.9}, {"x": 0.2}]
    sampler = WarmStartSampler(space=SPACE, initial=warm, n_startup_trials=2, seed=0)
    study, found = asked(sampler, lambda configs: [config["x"] < 0.5 for config in configs])
    assert found
    assert study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}).params == {"x": 0.2}
    assert study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}).params["x"] < 0.5
