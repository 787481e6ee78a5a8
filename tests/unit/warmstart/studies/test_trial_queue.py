"""The trials of a study, whose worker may be gone between any two writes."""

import itertools
import json
import math
import subprocess
import sys
import warnings
from dataclasses import replace

import optuna
import pytest
from problems import mixed, plane

from warmstart.history_store.errors import DataError, StorageError, UsageError
from warmstart.history_store.space import dump_space
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.results.trial import best_of, ended_trials
from warmstart.studies.state import trial_queue
from warmstart.studies.state.attributes import PLAN
from warmstart.studies.state.spec import StudySpec, WarmConfig
from warmstart.studies.state.step_pruner import StepPruner
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import begin, find_plan, open_queue, trial_seed

WARM = (
    WarmConfig({"rate": 0.01, "layers": 2, "kind": "adam"}),
    WarmConfig({"rate": 0.1, "layers": 3, "kind": "sgd", "momentum": 0.5}),
)
TOTAL = 7
WRITES = (
    "create_new_trial",
    "set_trial_param",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "set_trial_state_values",
)


class Killed(BaseException):
    """What stands for the end of a process."""


def plan(**changes):
    settings = {
        "space": dump_space(mixed()),
        "objective": {"function": "m:f"},
        "dataset": None,
        "fingerprint": None,
        "seed": 3,
        "surrogate": "gp-map",
        "acquisition": "ei",
        "pruner": "none",
        "budget": None,
        "warm": "design",
        "k": 2,
        "strategy": None,
        "exclude_group": (),
        "n_startup_trials": 3,
        "configs": WARM,
    }
    return StudySpec(**settings | changes)


def outcome(config, seed):
    if seed % 3 == 1:  # by the trial, so that no stream of configurations is without one
        return Outcome(None, TrialStatus.CRASHED, 1.0, "unlucky")
    error = abs(config["rate"] - 0.1) + config["layers"] / 10 + seed % 7 / 1000
    constraints = {"small": config["layers"] - 4.5}
    return Outcome(error, TrialStatus.OK, 1.0, curve=((1.0, error + 1),), constraints=constraints)


def work(queue, total):
    while (run := queue.next(total)) is not None:
        result = outcome(run.config, run.seed)
        for step, error in result.curve:
            queue.report(run, step, error)
        queue.end(run, result)


def rows(queue):
    return [(t.number, t.config, t.seed, t.error, t.status, t.feasible) for t in ended_trials(queue.trials())]


def begun(path, wanted=None):
    return begin(open_store(path), "s", lambda given: given, wanted or plan())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    with begun(tmp_path_factory.mktemp("whole") / "s.journal") as queue:
        work(queue, TOTAL)
        return rows(queue)


def mortal(queue, lives):
    """Let a ledger's process end before its write number `lives`."""
    left = itertools.count(lives - 1, -1)

    def counted(write):
        def made(*args, **kwargs):
            if next(left) <= 0:
                raise Killed
            return write(*args, **kwargs)

        return made

    for name in WRITES:
        setattr(queue.store.optuna, name, counted(getattr(queue.store.optuna, name)))
    queue._reports._write = counted(queue._reports._write)


def work_under_kills(path, lives, total=TOTAL):
    """Work through one short-lived process after the other; counts them."""
    for deaths, life in enumerate(lives):
        with begun(path) as queue:
            mortal(queue, life)
            try:
                work(queue, total)
            except Killed:
                continue
            return deaths
    pytest.fail("never done")


@pytest.mark.parametrize("suffix", ["db", "journal"])
def test_a_study_killed_between_writes_again_and_again_is_the_uninterrupted_one(uninterrupted, tmp_path, suffix):
    deaths = work_under_kills(tmp_path / f"s.{suffix}", itertools.cycle([9, 6, 12, 7, 8, 10, 5, 11]))
    with begun(tmp_path / f"s.{suffix}") as queue:
        assert rows(queue) == uninterrupted
        assert queue.next(TOTAL) is None
    assert deaths >= 8
    assert len({status for *_, status, _ in uninterrupted}) == 2
    assert [row[1] for row in uninterrupted[:2]] == [dict(warm.config) for warm in WARM]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "apart", [pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.campaign)]
)
def test_a_kill_before_any_write(uninterrupted, tmp_path, apart):
    for life in range(1, 200, apart):
        path = tmp_path / f"{life}.db"
        deaths = work_under_kills(path, [life, 10**6])
        with begun(path) as queue:
            assert rows(queue) == uninterrupted, f"killed before write {life}"
        if not deaths:
            break
    assert life > 70


def test_seeds_are_of_the_study_and_the_trial(uninterrupted):
    assert [seed for _, _, seed, *_ in uninterrupted] == [trial_seed(3, number) for number in range(TOTAL)]
    assert len({trial_seed(seed, number) for seed in range(20) for number in range(50)}) == 1000
    assert all(0 <= trial_seed(0, number) < 2**31 for number in range(50))


HOLDER = """
import sys
from warmstart.studies.state.trial_queue import open_queue
from warmstart.studies.state.step_pruner import StepPruner
from warmstart.studies.state.storage import open_store
with open_queue(open_store(sys.argv[1]), "s") as ledger:
    run = ledger.next(3)
    print(run.number, flush=True)
    sys.stdin.read()
"""


def test_a_trial_belongs_to_one_process_until_that_ends(tmp_path):
    path = tmp_path / "s.db"
    begun(path).store.optuna.get_all_studies()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "0\n"
    with begun(path) as queue:
        mine = queue.next(2)
        assert mine.number == 1
        queue.end(mine, outcome(mine.config, mine.seed))
        assert queue.next(2) == "wait"
        other.kill()
        other.communicate()
        taken = queue.next(2)
        assert (taken.number, taken.config) == (0, dict(WARM[0].config))
        queue.end(taken, outcome(taken.config, taken.seed))
        assert queue.next(2) is None


def test_trials_that_break_a_constraint_are_not_the_best(tmp_path):
    with begun(tmp_path / "s.db") as queue:
        for error, small in ((0.1, 1.0), (0.2, -1.0), (0.3, 0.0)):
            run = queue.next(3)
            queue.end(run, Outcome(error, TrialStatus.OK, 1.0, constraints={"small": small}))
        assert best_of(ended_trials(queue.trials())).error == 0.2


def test_pruners_stop_what_lags_behind(tmp_path):
    pruned = []
    with (
        begun(tmp_path / "s.journal", plan(pruner="median", warm="none", configs=(), n_startup_trials=16)) as queue,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        while (run := queue.next(16)) is not None:
            hopeless = run.number > 5
            stop = any(queue.report(run, step, 1.0 / step + hopeless) for step in range(1, 17))
            pruned.append(stop)
            queue.end(run, Outcome(None if stop else 0.1, TrialStatus.PRUNED if stop else TrialStatus.OK, 1.0))
        states = [trial.state.name for trial in queue.trials()]
    assert pruned.count(True) == states.count("PRUNED")
    assert any(pruned[6:])


def stops(path, pruner, unit, curves):
    """Return after how many reports each trial is stopped, None where it is not."""
    found = []
    wanted = plan(pruner=pruner, warm="none", configs=(), n_startup_trials=len(curves))
    with begun(path, wanted) as queue, warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        for curve in curves:
            run = queue.next(len(curves))
            at = (k for k, error in enumerate(curve, 1) if queue.report(run, k * unit, error))
            found.append(next(at, None))
            status = TrialStatus.OK if found[-1] is None else TrialStatus.PRUNED
            queue.end(run, Outcome(None if found[-1] else curve[-1], status, 1.0))
    return found


def test_steps_of_any_size_are_judged_as_whole_ones(tmp_path):
    pruner, unit = "asha", 12.345678901
    shift = [0, 3, 1, 2, 4, 9, 0.5, 7, 2.5, 0.1, 12, 5]
    curves = [[1 / k + each / 50 + (each > 6) / k for k in range(1, 13)] for each in shift]
    whole = stops(tmp_path / "whole.journal", pruner, 1, curves)
    assert any(whole)
    assert stops(tmp_path / "s.journal", pruner, unit, curves) == whole


def test_what_is_reported_between_whole_steps_is_kept_and_read_back(tmp_path):
    reports = {0: 0.9, 0.1: 0.8, 0.25: 0.7, 1 / 3: 0.6, 1: 0.5, 1.5: math.nan, 2: 0.3, 1e-9: 0.2, 7: 0.1, 7.5: math.inf, 2**40: 0.0}  # fmt: skip
    for suffix, pruner in (("db", "none"), ("journal", "median")):
        path, wanted = tmp_path / f"{pruner}.{suffix}", plan(pruner=pruner)
        with begun(path, wanted) as queue:
            run = queue.next(3)
            for step, error in [*reports.items(), (0.25, 0.75), (1, 0.55)]:  # the last of a step counts
                queue.report(run, step, error)
        with begun(path, wanted) as queue:  # its worker is gone: the next one reports the same and more
            assert queue.next(3) == run
            for step in (0.1, 2, 0.2):
                queue.report(run, step, 0.45)
            queue.flush()
            (trial,) = queue.trials()
            told = reports | {0.25: 0.75, 1: 0.55, 0.1: 0.45, 2: 0.45, 0.2: 0.45}
            assert trial.intermediate_values == pytest.approx(told, nan_ok=True)
            assert isinstance(max(trial.intermediate_values), int)
            kept = queue.study.get_trials()[0].intermediate_values  # as Optuna's programs see it
            assert [kept[number] for number in range(4)] == [0.9, 0.45, 0.75, 0.6]
            queue.end(run, Outcome(0.0, TrialStatus.OK, 1.0))


def test_a_study_that_rounds_its_steps_goes_on_with_that(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(trial_queue, "STEPS", "warmstart:not-yet")
        begun(tmp_path / "s.db", plan(pruner="median"))
    with begun(tmp_path / "s.db", plan(pruner="median")) as queue:
        run = queue.next(1)
        for step, error in ((0.1, 0.9), (0.9, 0.7), (1.2, 0.6)):
            queue.report(run, step, error)
        assert queue.trials()[0].intermediate_values == {0: 0.9, 1: 0.6}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"space": dump_space(plane())}, r"`space`: adds x, y, lacks kind, layers, rate, momentum"),
        ({"space": dump_space(mixed(layers=9))}, r"`space`: changes layers"),
        ({"objective": {"command": "a {x}"}}, r"`objective` none \(the study has m:f\); `command` a {x} \(the study has none\)"),
        ({"seed": 4, "surrogate": "gp"}, r"`seed` 4 \(the study has 3\); `surrogate` gp \(the study has gp-map\)"),
        ({"warm": "none"}, r"`warm` none \(the study has design\)"),
        ({"fingerprint": "listing:1"}, r"`dataset`: other pictures than it was begun with"),
    ],
)  # fmt: skip
def test_another_problem_under_the_same_name_is_refused(tmp_path, changes, told):
    begun(tmp_path / "s.db")
    with pytest.raises(UsageError, match=rf"s.db:s: expected what this study was begun with, got another {told}"):
        begun(tmp_path / "s.db", plan(**changes))


def test_a_study_of_another_program_is_left_alone(tmp_path):
    store = open_store(tmp_path / "s.db")
    study = optuna.create_study(storage=store.optuna, study_name="s")
    study.add_trial(optuna.trial.create_trial(value=1.0))
    for opened in (lambda: begun(tmp_path / "s.db"), lambda: open_queue(store, "s")):
        with pytest.raises(DataError, match="expected a study 's' that warmstart made, got one of another program"):
            opened()
    with pytest.raises(DataError, match="expected a study 't', got none of that name"):
        open_queue(store, "t")
    assert find_plan(store, "t") is None


@pytest.mark.parametrize("damage", ["{", '{"schema_version": 1}'])
def test_a_damaged_plan_is_told(tmp_path, damage):
    begun(tmp_path / "s.db").study.set_user_attr(PLAN, damage)
    with pytest.raises(StorageError, match="got a damaged record"):
        find_plan(open_store(tmp_path / "s.db"), "s")


@pytest.mark.parametrize("suffix", ["db", "journal"])
@pytest.mark.parametrize("pruner", ["none", "median"])
def test_a_study_has_the_values_of_its_metric_and_its_workers_see_errors(tmp_path, suffix, pruner):
    score = plan(metric="val_acc", maximize=True, scale="percent", pruner=pruner)
    with begin(open_store(tmp_path / f"s.{suffix}"), "s", lambda new: new, score) as queue:
        for error in (0.3, 0.25):
            run = queue.next(2)
            queue.report(run, 1, error + 0.1)
            queue.end(run, Outcome(error, TrialStatus.OK, 1.0))
        shown, raw = queue.trials(), optuna.load_study(study_name="s", storage=queue.store.optuna)
    assert [(trial.value, trial.intermediate_values) for trial in raw.trials] == [(70.0, {1: 60.0}), (75.0, {1: 65.0})]
    assert (raw.direction.name, raw.best_value, raw.metric_names) == ("MAXIMIZE", 75.0, ["val_acc"])
    assert [trial.value for trial in shown] == pytest.approx([0.3, 0.25])
    assert [trial.intermediate_values[1] for trial in shown] == pytest.approx([0.4, 0.35])
    with open_queue(open_store(tmp_path / f"s.{suffix}"), "s") as again:
        assert [item.error for item in again.observations(again.trials())] == pytest.approx([0.3, 0.25])
        assert json.loads(again.plan.to_json())["schema_version"] == 3, "earlier versions would take these for errors"


def test_a_study_that_was_begun_with_errors_stays_one(tmp_path):
    store = open_store(tmp_path / "s.db")
    optuna.create_study(storage=store.optuna, study_name="s", direction="minimize")
    with begin(store, "s", lambda new: new, plan(metric="val_acc", maximize=True)) as queue:
        queue.end(queue.next(1), Outcome(0.25, TrialStatus.OK, 1.0))
        raw = optuna.load_study(study_name="s", storage=store.optuna)
    assert (raw.best_value, raw.metric_names) == (0.25, ["error"])


def test_the_pruner_of_a_history_sees_steps_as_they_are_reported(tmp_path):
    seen = []

    class History:
        def prune(self, study, trial):
            seen.append((trial.intermediate_values, [t.intermediate_values for t in study.get_trials(deepcopy=False)]))
            return False

    with begun(tmp_path / "s.db", plan(pruner="median")) as queue:
        queue._pruner = StepPruner(replace(queue.plan, pruner="history"), History())
        for reports in ({0.5: 0.5, 1.0: 0.4}, {0.5: 0.3, 1.0: 0.2}):
            run = queue.next(2)
            for step, error in reports.items():
                queue.report(run, step, error)
            queue.end(run, Outcome(0.1, TrialStatus.OK, 1.0))
    assert seen[-1] == ({0.5: 0.3, 1.0: 0.2}, [{0.5: 0.5, 1.0: 0.4}, {0.5: 0.3, 1.0: 0.2}])
