"""A workload's own plan of the time of a call: which trial comes next."""

import math
import time
from types import SimpleNamespace

import pytest

from warmstart.spaces import read_space
from warmstart.studies.execution.pace import PlannedPace
from warmstart.studies.state.attributes import OUTCOME, RUN
from warmstart.studies.state.spec import WarmConfig
from warmstart.studies.state.trial_queue import Run
from warmstart.timing.durations import no_durations

SPACE = read_space({"x": [1e-4, 1.0]})


class Plan:
    """Three configurations, tried in turn; what it was asked is kept."""

    configs = ({"x": 0.1}, {"x": 0.001}, {"x": 0.5})

    def next(self, runs, *, left):
        self.runs = runs
        return next((index for index in range(3) if index not in runs), None)


def trial(number, x, *, error=0.2, is_finished=True):
    outcome = {OUTCOME: {"error": error, "metrics": {"m": 1.0}}} if is_finished else {}
    state = SimpleNamespace(is_finished=lambda: is_finished)
    return SimpleNamespace(number=number, state=state, user_attrs={RUN: {"config": {"x": x}}, **outcome})


def queue_of(*trials, configs=Plan.configs):
    return SimpleNamespace(trials=lambda: trials, plan=SimpleNamespace(configs=[WarmConfig(each) for each in configs]))


def pace_of(queue, seconds=60.0):
    ends = time.monotonic() + seconds
    return PlannedPace(ends, no_durations(SPACE), over=ends).of(Plan(), queue)


def chosen(pace, queue):
    return [config["x"] for config in Plan.configs if pace.fits(queue, SPACE, [config, {"x": 0.3}])[0]]


def test_the_configurations_of_the_plan_come_in_turn_and_nothing_else_does():
    pace = pace_of(queue_of())
    assert chosen(pace, queue_of()) == [0.1]
    assert pace.fits(queue_of(), SPACE, [{"x": 0.3}]) == [False]
    assert chosen(pace, queue_of(trial(0, 0.1))) == [0.001]
    assert chosen(pace, queue_of(trial(0, 0.1), trial(1, math.nextafter(0.001, 1)))) == [0.5], "floats are rounded"
    assert chosen(pace_of(queue_of(), seconds=-1.0), queue_of()) == []


def test_a_plan_is_told_what_ran_in_this_call_and_in_earlier_ones():
    old = trial(0, 0.1)
    pace = pace_of(queue_of(old))
    pace.watch(queue_of(old), SPACE, Run(1, 1, {"x": 0.001}, 0))
    assert chosen(pace, queue_of(old, trial(1, 0.001, error=0.4))) == [0.5]
    first, second = pace.run_plan.runs[0], pace.run_plan.runs[1]
    assert (first.is_earlier, first.seconds) == (True, 0.0)
    assert (second.is_earlier, second.error, second.metrics) == (False, 0.4, {"m": 1.0})
    assert second.seconds > 0


def test_a_trial_that_lost_its_worker_goes_on():
    queue = queue_of(trial(0, 0.1, is_finished=False))
    pace = pace_of(queue)
    assert pace.fits(queue, SPACE, [{"x": 0.1}]) == [True]
    assert chosen(pace, queue) == [0.001]


@pytest.mark.parametrize(("configs", "expected"), [(Plan.configs[1:], [0.001]), (Plan.configs[2:], [0.5])])
def test_what_the_space_of_a_study_lacks_counts_as_done(configs, expected):
    queue = queue_of(configs=configs)
    assert chosen(pace_of(queue), queue) == expected


def test_a_trial_that_the_end_of_its_call_cut_off_is_tried_again():
    from optuna.trial import TrialState

    from warmstart.studies.state.attributes import CUT

    attributes = {RUN: {"config": {"x": 0.1}}, CUT: 90.0}
    cut = SimpleNamespace(number=0, state=TrialState.PRUNED, user_attrs=attributes, intermediate_values={})
    assert chosen(pace_of(queue_of()), queue_of(cut)) == [0.001], "not in its own call"
    assert chosen(pace_of(queue_of(cut)), queue_of(cut)) == [0.1]
