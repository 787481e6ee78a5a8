"""What the last suggestion promises, in the unit of the error."""

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float
from scipy.stats import norm

from warmstart.bo.optimizer import Optimizer


@pytest.fixture
def space():
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)))
    return space


def told(space, *, unit=1.0, duration=None, **options):
    """Ask once more after five evaluations of a bowl."""
    run = Optimizer(space, seed=3, n_startup_trials=0, **options)
    for i in range(5):
        x, y = (0.1 + 0.17 * i, 0.9 - 0.13 * i)
        error = unit * ((x - 0.3) ** 2 + abs(y - 0.4))
        run.tell({"x": x, "y": y}, error, duration=None if duration is None else duration(i))
    return run, run.ask()[0]


def test_a_design_promises_nothing(space):
    run = Optimizer(space, initial=[{"x": 0.5, "y": 0.5}])
    assert run.log_gain is None
    for _ in range(3):
        run.ask()
        assert run.log_gain is None


def test_it_is_the_expected_improvement_over_the_best_mean(space):
    run, config = told(space)
    beliefs = run._fitted
    evidence, _ = run._promised
    here, units = beliefs.predict(evidence, run._log.columns([run._log.locate(config)[0]]))
    best = beliefs.predict(evidence, evidence.X)[0].mean.min(axis=1)
    mean, sd = units.errors(here.mean[:, 0]), units.scale * np.sqrt(here.var[:, 0])
    gap = units.errors(best) - mean
    improvement = gap * norm.cdf(gap / sd) + sd * norm.pdf(gap / sd)
    assert np.exp(run.log_gain) == pytest.approx(improvement.mean(), rel=1e-6)


@pytest.mark.parametrize("acquisition", ["pi", "lcb"])
def test_it_is_in_the_unit_of_the_error_whatever_is_maximised(space, acquisition):
    one, ten = (told(space, unit=unit, acquisition=acquisition)[0].log_gain for unit in (1.0, 10.0))
    assert ten - one == pytest.approx(np.log(10), abs=1e-6)


def test_per_second_it_is_that_of_a_second(space):
    plain = told(space)[0].log_gain
    timed, unknown = (
        told(space, acquisition="ei-per-second", duration=duration)[0].log_gain for duration in (lambda _: 20.0, None)
    )
    assert timed == pytest.approx(plain - np.log(20.0))
    assert unknown == pytest.approx(plain)
    slow, fast = (
        told(space, acquisition="ei-per-second", duration=lambda i, unit=unit: unit * (1 + i))[0].log_gain
        for unit in (60.0, 1.0)
    )
    assert fast - slow == pytest.approx(np.log(60.0), abs=0.05)
