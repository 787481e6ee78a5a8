"""What fits in a time and pays: by hand, against every other choice, and on several workers."""

import numpy as np

from warmstart.timing.schedule import plan_runs

ERRORS = np.array([[0.0, 0.1, 1.0, 0.5], [0.0, 0.1, 1.0, 0.5], [1.0, 0.9, 0.0, 0.5]])
EQUAL = np.ones(3)


def rows(runs):
    return [run.row for run in runs]


def test_what_pays_per_second_comes_first():
    # At first 1 gains (0.9 + 0.9 + 0.1) / 3 in 1 s; then 3 gains 0.4 / 3 in 1 s, 2 gains 0.9 / 3 in 5 s, 0 gains 0.2 / 3 in 10 s.
    seconds = np.array([10.0, 1.0, 5.0, 1.0])
    runs = plan_runs(ERRORS, seconds, limit=100, weights=EQUAL)
    assert rows(runs) == [1, 3, 2, 0]
    assert [run.begins for run in runs] == [0.0, *np.cumsum([run.seconds for run in runs])[:-1]]


def test_nothing_that_does_not_fit_is_planned():
    seconds = np.array([10.0, 20.0, 30.0, 4.0])
    assert plan_runs(ERRORS, seconds, limit=3.9, weights=EQUAL) == []
    assert rows(plan_runs(ERRORS, seconds, limit=9.9, weights=EQUAL)) == [3]
    runs = plan_runs(ERRORS, seconds, limit=40, weights=EQUAL)
    assert max(run.ends for run in runs) <= 40


def test_short_runs_do_not_crowd_out_the_one_that_counts():
    # 1 pays more per second, but leaves no room for 0, which wins all
    errors = np.array([[0.0, 0.9, 1.0]])
    runs = plan_runs(errors, np.array([10.0, 0.9, 1.0]), limit=10, weights=np.ones(1))
    assert rows(runs) == [0]


def test_workers_share_the_runs():
    errors = 1 - np.eye(4)
    runs = plan_runs(errors, np.full(4, 5.0), limit=10, weights=np.ones(4), workers=2)
    assert sorted(run.begins for run in runs) == [0, 0, 5, 5]
    assert len(plan_runs(errors, np.full(4, 5.0), limit=10, weights=np.ones(4))) == 2


def test_weights_most_and_first():
    seconds = np.ones(4)
    assert rows(plan_runs(ERRORS, seconds, limit=9, weights=np.array([0.1, 0.1, 5.0]), most=1)) == [2]
    assert rows(plan_runs(ERRORS, seconds, limit=9, weights=EQUAL, first=(3,)))[0] == 3
    assert 3 not in rows(plan_runs(ERRORS, np.array([1, 1, 1, 99.0]), limit=9, weights=EQUAL, first=(3,)))
    assert sorted(rows(plan_runs(ERRORS, seconds, limit=99, weights=EQUAL, first=(3, 3)))) == sorted(
        rows(plan_runs(ERRORS, seconds, limit=99, weights=EQUAL, first=(3,)))
    ), "a run is planned once"


def test_what_is_out_stays_out():
    seconds = np.array([np.nan, 1.0, 1.0, 1.0])
    assert 0 not in rows(plan_runs(ERRORS, seconds, limit=9, weights=EQUAL))
    errors = np.column_stack([ERRORS, np.full(3, np.nan)])
    assert 4 not in rows(plan_runs(errors, np.ones(5), limit=9, weights=EQUAL))


def test_a_plan_of_one_run_that_may_not_end_begins_with_one_that_does():
    errors, seconds = np.array([[0.0, 0.2, 1.0]]), np.array([9.5, 3.0, 1.0])
    plan = {"limit": 10, "weights": np.ones(1)}
    assert rows(plan_runs(errors, seconds, **plan)) == [0]
    assert rows(plan_runs(errors, seconds, chances=np.array([0.95, 1.0, 1.0]), **plan)) == [0]
    unsure = np.array([0.6, 1.0, 1.0])
    assert rows(plan_runs(errors, seconds, chances=unsure, **plan)) == [1], "the best of those that are sure to end"
    assert rows(plan_runs(errors, seconds, chances=unsure, limit=13, weights=np.ones(1))) == [1, 0]
    assert rows(plan_runs(errors, seconds, chances=np.array([0.6, 0.7, 0.8]), **plan)) == [0], "none is"
