"""Which networks are saved: the best, and beside them one that is trained on where that is expected to pay."""

import math
from types import SimpleNamespace

import pytest

from warmstart.studies.execution.last_training import Candidate, LastTraining
from warmstart.training.workloads import get_workload

HEAD = {"backbone": "b", "image_size": 32, "depth": "full", "flip_copies": False, "steps": 0}
TUNED = {
    **HEAD,
    **{name: value for name, value in get_workload("transfer").usual_configs()[-1].items() if name not in HEAD},
    "steps": 400,
}


def last(name, budget=None):
    workload = get_workload(name)
    return LastTraining(workload, workload.budget(budget))


def chosen(*errors_of_heads, tuned=None, k=3, seconds=200.0, **about):
    made = [Candidate(HEAD, error, 5.0, 0) for error in errors_of_heads]
    made += [] if tuned is None else [Candidate(TUNED, tuned, **{"seconds": 60.0, "steps": 100} | about)]
    return last("transfer").choose(made, k, seconds=seconds)


def test_the_best_are_saved_and_equal_ones_as_they_stand():
    assert chosen(0.3, 0.1, 0.2, 0.1) == [1, 3, 2]
    assert chosen(0.3, 0.1) == [1, 0]
    assert chosen() == []


def test_one_that_is_trained_on_gets_the_last_place_where_it_is_expected_to_be_better():
    # 3.33 times as many steps: 0.31 comes to 0.31 x 3.33^-0.15 = 0.2588.
    assert chosen(0.2, 0.25, 0.26, tuned=0.31) == [0, 1, 3]
    assert chosen(0.2, 0.25, 0.258, tuned=0.31) == [0, 1, 2]
    assert chosen(0.2, 0.25, 0.26, tuned=0.31, seconds=150.0) == [0, 1, 2], "with less time it is not"
    assert chosen(0.2, 0.25, 0.26, tuned=0.31, steps=1200) == [0, 1, 2], "nor where no more steps are made"


def test_nothing_changes_where_one_is_among_the_best_or_nothing_is_trained_on():
    assert chosen(0.2, 0.25, 0.26, tuned=0.1) == [3, 0, 1]
    assert chosen(0.2, 0.25, 0.26, tuned=0.31, k=1) == [0], "what is saved alone is what was measured"
    assert chosen(0.2, 0.25, 0.26, tuned=0.31, seconds=math.inf) == [0, 1, 2]
    assert chosen(0.2, 0.25, 0.26, tuned=0.27, steps=0) == [0, 1, 2], "nobody knows how far it came"
    networks = [Candidate({}, error, 60.0, 100) for error in (0.3, 0.2, 0.1, 0.301)]
    assert last("cnn").choose(networks, 3, seconds=200.0) == [2, 1, 0]


@pytest.mark.parametrize("k", [2, 3, 10])
def test_several_that_are_trained_on_compete_by_what_is_expected_of_them(k):
    ours = SimpleNamespace(
        steps_again=lambda config, _: config["again"], error_again=lambda config, error, **_: config["later"]
    )
    made = [Candidate({"again": 0}, 0.1, 5.0, 0)] * 3 + [
        Candidate({"again": 9, "later": later}, error, 5.0, 9)
        for error, later in ((0.3, 0.2), (0.5, 0.05), (0.4, 0.06))
    ]
    assert LastTraining(ours, None).choose(made, k, seconds=9.0) == {2: [0, 4], 3: [0, 1, 4], 10: [0, 1, 2, 3, 5, 4]}[k]


def tuned(steps=400, done=100, seconds=60.0, error=0.3):
    return Candidate({**TUNED, "steps": steps}, error, seconds, done)


def test_the_first_that_gains_by_more_time_leads():
    head, whole = Candidate(HEAD, 0.2, 5.0, 0), tuned(steps=120, done=120)
    assert last("transfer").leading([head, whole, tuned(), tuned()], seconds=200.0) == 2
    assert last("transfer").leading([head, tuned(done=1200)], seconds=200.0) is None, "it makes no more steps"
    assert last("transfer").leading([head, tuned()], seconds=70.0) is None, "nor in about the same time"
    assert last("transfer").leading([head, tuned()], seconds=math.inf) is None, "no time was kept for it"
    assert last("transfer", "steps").leading([tuned(done=400)], seconds=900.0) is None, "its steps are its budget"
    assert last("cnn").leading([Candidate({}, 0.2, 60.0, 100)], seconds=900.0) is None
