"""Studies that share their trials and what was told, and whose worker may be gone between any two writes."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from ConfigSpace import ConfigurationSpace, Float, Integer

from warmstart.bo.surrogates import SURROGATES, MultiTaskGaussianProcess
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.results.trial import ended_trials
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.study_group import StudyGroup, check_different
from warmstart.studies.state.trial_queue import count_begun

NAMES = ("a", "b", "c")
WRITES = (
    "create_new_trial",
    "set_study_user_attr",
    "set_trial_param",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "set_trial_state_values",
)
TOTAL = 11


class Killed(BaseException):
    """What stands for the end of a process."""


@pytest.fixture(autouse=True, scope="module")
def fits():
    """Shorten the chains, and note what each fit saw: errors of the dataset at hand, and of every other one."""
    seen = []

    class Short(MultiTaskGaussianProcess):
        def fit(self, X, y, *, rng):
            seen.append((len(y), [len(task.y) for task in self._related], self._meta.shape[1]))
            return super().fit(X, y, rng=rng)

    with pytest.MonkeyPatch.context() as patch:
        factory = partial(Short, samples=2, burn_in=2, sweeps=2)
        patch.setitem(SURROGATES._entries, "mt-gp", replace(SURROGATES["mt-gp"], factory=factory))
        yield seen


def reals():
    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)))
    return space


def plans(names=NAMES, space=None, **changes):
    settings = {
        "space": dump_space(space or reals()),
        "objective": {"function": "m:f"},
        "dataset": "d",
        "fingerprint": "d",
        "seed": 3,
        "surrogate": "gp",
        "acquisition": "ei",
        "pruner": "none",
        "budget": None,
        "warm": "none",
        "k": 2,
        "strategy": None,
        "exclude_group": (),
        "n_startup_trials": 2,
        "members": tuple(names),
        "split": "gain",
    }
    return {name: StudySpec(**settings | changes) for name in names}


def begin(path, wanted=None):
    return StudyGroup.begin(open_store(path), wanted or plans(), lambda plan: plan)


def bowl(i, config, scale=(1.0, 0.5, 0.2)):
    return scale[i] * ((config["x"] - 0.2 - 0.1 * i) ** 2 + (config["y"] - 0.5) ** 2)


def outcome(i, run):
    if i == 1 and run.seed % 3 == 0:
        return Outcome(None, TrialStatus.CRASHED, 1.0, "unlucky")
    return Outcome(bowl(i, run.config), TrialStatus.OK, 1.0)


def healthy(i, run):
    return Outcome(bowl(i, run.config), TrialStatus.OK, 1.0)


def work(group, total, result=outcome):
    """Run trials; gives whose each was."""
    order = []
    while (chosen := group.next(total)) is not None:
        i, run = chosen
        group.queues[i].end(run, result(i, run))
        order.append(i)
    return order


def rows(group):
    return [
        [(t.number, t.config, t.seed, t.error, t.status) for t in ended_trials(queue.trials())]
        for queue in group.queues
    ]


def mortal(group, lives):
    """Let the process of a fleet end before its write number `lives`."""
    left = itertools.count(lives - 1, -1)
    storage = group.queues[0].store.optuna

    def counted(write):
        def made(*args, **kwargs):
            if next(left) <= 0:
                raise Killed
            return write(*args, **kwargs)

        return made

    for name in WRITES:
        setattr(storage, name, counted(getattr(storage, name)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fleet_killed_between_writes_again_and_again_is_the_uninterrupted_one(tmp_path):
    with begin(tmp_path / "whole.db") as group:
        order = work(group, TOTAL)
        expected = rows(group)
    assert len(order) == sum(map(len, expected)) == TOTAL
    assert order[6:] != [number % 3 for number in range(6, TOTAL)], "it was no choice by gain"
    lives, deaths = itertools.cycle([9, 7, 12, 6, 10, 8, 11, 5]), 0
    while True:
        with begin(tmp_path / "s.db") as group:
            mortal(group, next(lives))
            try:
                work(group, TOTAL)
                break
            except Killed:
                deaths += 1
                assert deaths < 99
    with begin(tmp_path / "s.db") as group:
        assert rows(group) == expected
        assert group.next(TOTAL) is None
    assert deaths >= 10


def test_each_learns_from_what_was_told_of_the_others_by_then(tmp_path, fits):
    with begin(tmp_path / "s.db") as group:
        work(group, 8)
        fits.clear()
        trials = [ended_trials(queue.trials()) for queue in group.queues]
        known = [sum(trial.error is not None for trial in some) for some in trials]
        i, _ = group.next(9)
    own, others, _ = fits[-1]
    assert own == known[i]
    assert others == [n for j, n in enumerate(known) if j != i and n > 1], "two errors are the least that a task needs"


def test_a_dataset_whose_trials_all_fail_stops_no_other(tmp_path):
    def result(i, run):
        return Outcome(None, TrialStatus.CRASHED, 1.0) if i == 0 else healthy(i, run)

    with begin(tmp_path / "s.db") as group:
        counts = Counter(work(group, 12, result))
    assert counts[0] <= 4
    assert counts[1] + counts[2] >= 8


def test_equal_shares(tmp_path):
    with begin(tmp_path / "s.db", plans(split="equal")) as group:
        assert work(group, 8) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_spaces_that_are_exhausted_drop_out(tmp_path):
    space = ConfigurationSpace()
    space.add(Integer("x", (0, 3)))
    with begin(tmp_path / "s.db", plans("ab", space=space)) as group:
        order = work(group, 99, lambda i, run: Outcome(float(run.config["x"] + i), TrialStatus.OK, 1.0))
        assert Counter(order) == {0: 4, 1: 4}
        assert group.next(99) is None
        assert [count_begun(trials) for trials in group._trials()] == [4, 4]


def test_other_datasets_are_refused_before_a_study_is_made(tmp_path):
    begin(tmp_path / "s.db", plans("bc")).__exit__(None, None, None)
    for wanted, told in ((plans("abc"), "a, b, c"), (plans("b", members=()), "none")):
        with pytest.raises(
            UsageError, match=rf"s.db:b: .*set of datasets tuned together, {told} \(the study has b, c\)"
        ):
            begin(tmp_path / "s.db", wanted)
    with pytest.raises(UsageError, match=r"`split` equal \(the study has gain\)"):
        begin(tmp_path / "s.db", plans("bc", split="equal"))
    with pytest.raises(KeyError):
        open_store(tmp_path / "s.db").optuna.get_study_id_from_name("a")


def test_datasets_have_to_differ():
    check_different(["a", "b"], ["1", "2"])
    with pytest.raises(UsageError, match="at least two datasets, got 1"):
        check_different(["a"], ["1"])
    with pytest.raises(UsageError, match="got c, which is the same as a"):
        check_different(["a", "b", "c"], ["1", "2", "1"])
