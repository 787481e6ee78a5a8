"""Trials of a database that are read by table, and once for several questions, beside Optuna's own way."""

import optuna
import pytest
from optuna.storages import RDBStorage
from problems import plane
from sqlalchemy import event

from warmstart.history_store.space import dump_space
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.leased_trials import LeasedTrials
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import begin

PLAN = StudySpec(space=dump_space(plane()), objective={"function": "m:f"}, dataset=None, fingerprint=None, warm="none")


@pytest.fixture
def trials(tmp_path):
    store = open_store(str(tmp_path / "s.db"))
    with begin(store, "s", lambda plan: plan, PLAN) as queue:
        yield LeasedTrials(queue)


def read_by_optuna(trials):
    """Return all trials as another process reads them in Optuna's own way."""
    url, options = "sqlite:///studies.db", {"creator": trials.queue.storage._backend.engine.pool._creator}
    storage = RDBStorage(url, engine_kwargs=options)
    return storage.get_all_trials(storage.get_study_id_from_name("s"), deepcopy=False)


def same(trials):
    """Compare all trials, and each alone, with Optuna's own way."""
    expected = read_by_optuna(trials)
    storage = trials.queue.storage
    assert trials.queue.study.get_trials(deepcopy=False) == expected
    assert [storage._backend.get_trial(trial._trial_id) for trial in expected] == expected
    return expected


def test_what_changes_of_a_trial_is_read_again(trials):
    assert same(trials) == []
    for number in range(3):
        trials.ask("w", str(number), lease_s=60)
        same(trials)
    assert len(trials.queue.storage._backend._begun) == 3
    trials.report(0, "w", 1, 0.5, lease_s=600)
    trials.report(0, "w", 1.5, 0.25, lease_s=600)  # a step between two of Optuna's
    same(trials)
    trials.tell(0, "w", Outcome(0.25, TrialStatus.OK, 1.0, constraints={"size": -1.0}))
    trials.release(1, "w")
    same(trials)
    assert trials.ask("v", "again", lease_s=60).run.number == 1
    trials.tell(1, "v", Outcome(None, TrialStatus.FAILED, 1.0))
    trials.queue.study.enqueue_trial({"x": 0.5})
    states = [trial.state.name for trial in same(trials)]
    assert states == ["COMPLETE", "FAIL", "RUNNING", "WAITING"]
    assert len(trials.queue.storage._backend._begun) == 1
    with pytest.raises(KeyError):
        trials.queue.storage.get_trial(99)
    with pytest.raises(KeyError):
        trials.queue.storage.get_all_trials(99)


def test_trials_of_a_block_are_read_once_until_one_is_ended(trials):
    trials.ask("w", "1", lease_s=60)
    statements = []
    event.listen(
        trials.queue.storage._backend.engine, "before_cursor_execute", lambda *sent: statements.append(sent[2])
    )
    study, store = trials.queue.study, trials.queue.store
    with store.one_read():
        first = study.get_trials(deepcopy=False)
        n = len(statements)
        assert study.get_trials(deepcopy=False) == first
        assert len(statements) == n
        study.tell(0, 0.5)
        assert study.get_trials(deepcopy=False)[0].state == optuna.trial.TrialState.COMPLETE
    n = len(statements)
    study.get_trials(deepcopy=False)
    assert len(statements) > n


def test_an_ask_reads_the_trials_of_its_study_once(trials):
    trials.ask("w", "1", lease_s=60)
    statements = []
    event.listen(
        trials.queue.storage._backend.engine, "before_cursor_execute", lambda *sent: statements.append(sent[2])
    )
    trials.ask("w", "2", lease_s=60)
    assert sum("trials.trial_id >" in statement for statement in statements) == 1


def test_a_lease_that_was_renewed_since_all_were_read_is_not_taken(trials, monkeypatch):
    trials.ask("w", "1", lease_s=60)
    queue = trials.queue
    with queue.ask_lock():
        monkeypatch.setattr("warmstart.studies.state.trial_queue.is_leased", lambda trial, now: trial in renewed)
        renewed = []
        queue.study.get_trials(deepcopy=False)
        renewed.append(queue.storage.get_trial(queue.study.get_trials(deepcopy=False)[0]._trial_id))
        renewed[0].user_attrs["as"] = "now"
        monkeypatch.setattr(queue, "_open_trial", lambda number: renewed[0])
        assert queue.take_orphan() == (None, 1)
