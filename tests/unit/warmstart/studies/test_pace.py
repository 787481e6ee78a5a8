"""What ends in time: the trials' own seconds, the deadline, and a sampler that keeps to what fits."""

import math
import time

import numpy as np
import optuna
import pytest
from ConfigSpace import ConfigurationSpace, Float

from bo.transfer.duration_forecast import TimedRun
from warmstart.integrations.optuna.sampler import WarmStartSampler
from warmstart.studies.execution.pace import Pace
from warmstart.studies.history.time_plan import TimedCall
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.suggestions.durations import no_durations

SPACE = ConfigurationSpace({"x": (0.0, 1.0)})


class Queue:
    """A study without trials."""

    @staticmethod
    def trials():
        return []


def pace(left, *told):
    runs = tuple(TimedRun(np.array([x]), seconds) for x, seconds in told)
    return Pace(time.monotonic() + left, no_durations(SPACE), runs)


def test_where_nothing_is_known_all_fits_until_the_end():
    assert pace(5).fits(Queue(), SPACE, [{"x": 0.1}, {"x": 0.9}]) == [True, True]
    assert pace(-1).fits(Queue(), SPACE, [{"x": 0.1}]) == [False]


def test_what_is_likely_to_end_in_time_fits():
    known = (0.0, 10.0), (0.0, 10.0), (1.0, 1000.0), (1.0, 1000.0)
    assert pace(100, *known).fits(Queue(), SPACE, [{"x": 0.0}, {"x": 1.0}]) == [True, False]
    assert pace(5, *known).fits(Queue(), SPACE, [{"x": 0.0}, {"x": 1.0}]) == [False, False]


def test_only_what_the_deadline_ended_is_no_failure():
    late = Outcome(None, TrialStatus.TIMEOUT, 12.0, "no result after 12 s")
    ended = pace(-1).ended(late)
    assert ended.status is TrialStatus.PRUNED
    assert ended.note == "ended with the time of the command, after 12 s"
    assert pace(100).ended(late) is late  # --trial-timeout
    failed = Outcome(None, TrialStatus.CRASHED, 1.0)
    assert pace(-1).ended(failed) is failed


@pytest.mark.parametrize(("seconds", "kept"), [(10.0, 2.0), (45.0, 9.0), (600.0, 10.0), (3600.0, 10.0)])
def test_some_time_is_kept_for_the_end(seconds, kept):
    call = TimedCall(time.monotonic(), seconds, 1, None, print)
    assert math.isclose(call.left, seconds - kept, abs_tol=0.2)


def test_more_is_kept_where_the_start_was_slow():
    call = TimedCall(time.monotonic() - 100.0, 600.0, 1, None, print)
    assert math.isclose(call.left, 600 - 100 - 150, abs_tol=0.2)


def asked(sampler, fits):
    study = optuna.create_study(sampler=sampler)
    sampler.choose_among(fits)
    return study, sampler.finds_one(study)


def test_a_sampler_goes_on_with_what_fits():
    warm = [{"x": 0.9}, {"x": 0.2}]
    sampler = WarmStartSampler(space=SPACE, initial=warm, n_startup_trials=2, seed=0)
    study, found = asked(sampler, lambda configs: [config["x"] < 0.5 for config in configs])
    assert found
    assert study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}).params == {"x": 0.2}
    assert study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}).params["x"] < 0.5


def test_a_sampler_says_where_nothing_fits():
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)))
    assert not asked(WarmStartSampler(space=space, seed=0), lambda configs: [False] * len(configs))[1]
