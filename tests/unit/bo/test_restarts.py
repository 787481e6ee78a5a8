"""Searches that have converged go on elsewhere, and come back where that was no good idea."""

import json

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float

from warmstart.bo import Optimizer
from warmstart.bo.restarts import LAST, SAME_BASIN, STALLED, FreshProcess, has_converged

NOTHING = [-20.0] * LAST


def errors(n, *, last=0):
    """Errors of 1, a best one of 0, and so many more."""
    return [1.0] * (n - 1 - last) + [0.0] + [1.0] * last


@pytest.mark.parametrize(
    ("told", "gains", "expected"),
    [
        (errors(40, last=8), NOTHING, True),
        (errors(39, last=8), NOTHING, False),
        (errors(40, last=7), NOTHING, False),
        (errors(40, last=8), NOTHING[1:], False),
        (errors(40, last=8), [-20.0, -1.0, -20.0], True),
        (errors(40, last=8), [-1.0, -20.0, -1.0], False),
        (errors(40, last=8), [np.log(0.0049)] * 3, True),
        (errors(40, last=8), [np.log(0.0051)] * 3, False),
        ([0.5] * 40, NOTHING, False),
        ([0.0] * 25 + [1.0] * 15, NOTHING, True),
        ([0.0] * 25 + [1.0] * 15, [np.log(0.0051)] * 3, False),
    ],
)
def test_a_search_has_converged(told, gains, expected):
    """Where promises are next to nothing beside the median error, and nothing came of the last ones; not before 40 evaluations."""
    assert has_converged(told, gains, least=40) is expected
    unit = 1e-9
    in_unit = [float(gain) + np.log(unit) for gain in gains]
    assert has_converged([unit * error for error in told], in_unit, least=40) is expected


def test_a_process_is_over_where_it_comes_back_or_converges():
    process, known = FreshProcess(), [np.full(2, 0.5)]
    process.begin()
    far, beside = np.full((4, 2), 0.1), np.full((4, 2), 0.5 + 0.9 * SAME_BASIN)
    told = [1.0, 2.0, 3.0, 4.0]
    assert not process.is_over(told, far, known, design=3)
    assert process.is_over(told, beside, known, design=3)
    assert not process.is_over(told[:3], beside[:3], known, design=3), "its design is nowhere in particular"
    process.log_gains = list(NOTHING)
    assert process.is_over(errors(20, last=8), np.full((20, 2), 0.1), known, design=3)
    process.begin(basin=far[0])
    assert (process.number, process.log_gains, process.keys) == (2, [], {})
    assert process.is_over(told, far, [], design=3), "a basin that an earlier one found"


# --- within a run ---


def two_wells(config):
    """A wide well at 0.2 of depth 1, and a narrower one at 0.85 of depth 1.3."""
    x, y = config["x"], config["y"]
    wide = np.exp(-((x - 0.2) ** 2 + (y - 0.2) ** 2) / 0.1)
    return 2.0 - wide - 1.3 * np.exp(-((x - 0.85) ** 2 + (y - 0.8) ** 2) / 0.015)


def square():
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)))
    return space


def converged_run(**settings):
    """Tell what fills the wide well, and three promises of nothing."""
    run, rng = (
        Optimizer(square(), **{"surrogate": "gp-map", "n_startup_trials": 0, "warp_errors": False} | settings),
        np.random.default_rng(0),
    )
    points = np.clip(0.2 + 0.1 * rng.standard_normal((45, 2)), 0.0, 1.0)
    points[36] = 0.2
    for x, y in points.tolist():
        run.tell({"x": x, "y": y}, two_wells({"x": x, "y": y}))
    run._restarts.log_gains = [-30.0] * LAST
    return run


def test_a_converged_run_says_so_and_what_comes_next():
    assert converged_run().converged == "nothing more is expected here: restarting elsewhere, or stop"
    assert converged_run(restarts=False).converged == "nothing more is expected here: stop, or start another search"
    assert Optimizer(square()).converged is None


def told_run(value, points):
    """Tell a function at points of a cube, the best of them last, and promises of nothing."""
    space = ConfigurationSpace()
    space.add(*(Float(f"x{k}", (0.0, 1.0)) for k in range(points.shape[1])))
    run = Optimizer(space, surrogate="gp-map", n_startup_trials=0, warp_errors=False)
    order = np.argsort([-value(point) for point in points], kind="stable")
    for point in points[[*order, *order[-1:].repeat(STALLED)]]:
        run.tell({f"x{k}": float(u) for k, u in enumerate(point)}, value(point))
    run._restarts.log_gains = [-30.0] * LAST
    return run


def bowl(point):
    """A function that a process knows everywhere after a few dozen points."""
    return float(((point - 0.4) ** 2).sum())


def test_a_process_that_knows_the_whole_space_does_not_look_elsewhere():
    run = told_run(bowl, np.random.default_rng(0).random((60, 2)))
    run._restarts.fresh.number = 1
    assert run.converged == "nothing more is expected here: restarting elsewhere, or stop", "what has begun goes on"
    run._restarts.fresh.number = 0
    assert run.converged == "nothing more is expected here: stop, or start another search"
    run.ask(4)
    assert run._restarts.fresh.number == 0


def test_four_of_five_suggestions_come_from_elsewhere():
    run = converged_run()
    before = set(run._restarts.fresh.keys)
    asked = []
    for _ in range(10):
        config = run.ask()[0]
        asked.append(len(run._restarts.fresh.keys) > len(before))
        before = set(run._restarts.fresh.keys)
        run.tell(config, 1.999)
        run._restarts.log_gains = [-30.0] * LAST
    assert asked == [True] * 4 + [False] + [True] * 4 + [False]
    assert run._restarts.fresh.number == 1


def test_a_restarted_run_goes_on_as_if_it_had_not_been_interrupted():
    run = converged_run()
    for _ in range(7):
        config = run.ask()[0]
        run.tell(config, two_wells(config))
        run._restarts.log_gains = [-30.0] * LAST
    other = Optimizer.from_dict(json.loads(json.dumps(run.to_dict(), allow_nan=False)))
    third = Optimizer(square(), surrogate="gp-map", n_startup_trials=0)
    for told in run.history():
        third.tell(told.config, told.error)
    third.resume(json.loads(json.dumps(run.checkpoint())))
    for _ in range(6):
        config = run.ask()[0]
        assert other.ask() == third.ask() == [config]
        for each in (run, other, third):
            each.tell(config, two_wells(config))


def test_looking_changes_nothing():
    """Also between two tells, where no suggestion has fitted the models yet."""
    run = converged_run(warp_errors=True)
    before = json.dumps(run.to_dict())
    assert run.converged == run.converged
    assert json.dumps(run.to_dict()) == before
    run.ask()
    before = json.dumps(run.to_dict())
    assert run.log_gain == run.log_gain
    assert json.dumps(run.to_dict()) == before


def test_a_run_that_was_saved_before_there_were_restarts_goes_on():
    record = json.loads(json.dumps(converged_run().to_dict()))
    del record["restarts"], record["settings"]["restarts"]
    assert Optimizer.from_dict(record).ask()


@pytest.mark.parametrize(
    "settings", [{"surrogate": "dngo"}, {"acquisition": "lcb"}, {"candidates": [{"x": 0.5, "y": 0.5}]}]
)
def test_where_it_was_not_measured_a_search_stays(settings):
    assert not Optimizer(square(), **settings)._may_restart
