"""Trials that are leased to clients elsewhere, beside workers of this machine."""

import math
import threading

import pytest
from problems import plane

from warmstart.history_store.errors import LeaseLostError, UsageError
from warmstart.history_store.space import dump_space
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.results.trial import ended_trials
from warmstart.studies.state.attributes import EXTRA
from warmstart.studies.state.lease import Lease
from warmstart.studies.state.leased_trials import LeasedTrials
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import open_store
from warmstart.studies.state.trial_queue import Run, begin, open_queue


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("warmstart.studies.state.trial_queue.lease_time", lambda: self.now)

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def queue(tmp_path):
    plan = StudySpec(
        space=dump_space(plane()),
        objective={"function": "m:f"},
        dataset=None,
        fingerprint=None,
        surrogate="gp-map",
        warm="none",
        n_startup_trials=50,
    )
    with begin(open_store(tmp_path / "s.journal"), "study", lambda wanted: wanted, plan) as found:
        yield found


@pytest.fixture
def trials(queue, clock):
    return LeasedTrials(queue, clock=clock)


def done(error=0.5):
    return Outcome(error, TrialStatus.OK, math.nan)


def states(queue):
    return [trial.status.value for trial in ended_trials(queue.trials())]


def test_the_same_key_gets_the_same_trial(trials):
    first = trials.ask("a", "k", lease_s=10)
    assert trials.ask("a", "k", lease_s=10).run == first.run
    assert trials.ask("b", "k", lease_s=10).run.number == 1  # another client's keys are its own
    trials.tell(0, "a", done())
    again = trials.ask("a", "k", lease_s=10)
    assert (again.run, again.is_over) == (first.run, True)


def test_the_same_request_after_the_end_of_its_lease_gets_the_trial_for_as_long_again(trials, clock):
    first = trials.ask("a", "k", lease_s=10)
    clock.now += 11
    again = trials.ask("a", "k", lease_s=10)
    assert (again.run, again.lease.until, again.is_over) == (first.run, clock.now + 10, False)
    assert trials.ask("b", "k", lease_s=10).run.number == 1
    assert trials.tell(0, "a", done()).state.is_finished()


def test_a_lease_is_renewed_by_reports_and_heartbeats(trials, clock):
    trials.ask("a", "k", lease_s=10)
    clock.now += 9
    assert trials.renew(0, "a", lease_s=10).until == clock.now + 10
    clock.now += 9
    stop, lease = trials.report(0, "a", 1, 0.75, lease_s=10)
    assert (stop, lease.until) == (False, clock.now + 10)
    clock.now += 9
    assert trials.ask("b", "k", lease_s=10).run.number == 1
    trials.tell(0, "a", done())
    assert ended_trials(trials.queue.trials())[0].curve == ((1.0, 0.75),)


def test_an_expired_trial_is_offered_again_once_and_a_late_result_is_kept(trials, clock, queue):
    first = trials.ask("a", "k", lease_s=10)
    clock.now += 11
    second = trials.ask("b", "k", lease_s=10)
    assert second.run == first.run
    with pytest.raises(LeaseLostError, match="which went to 'b'"):
        trials.ask("a", "k", lease_s=10)
    with pytest.raises(LeaseLostError, match="expected a lease that 'a' holds"):
        trials.renew(0, "a", lease_s=10)
    for _ in range(2):  # once, however often it is told
        with pytest.raises(LeaseLostError, match="It is kept as trial 1, an extra"):
            trials.tell(0, "a", done(0.25))
    clock.now += 11
    assert trials.ask("c", "k", lease_s=10).run.number == 2
    kept = queue.trials()
    assert kept[0].user_attrs["warmstart:outcome"]["note"] == "no word of a, b before their leases ended"
    assert kept[1].user_attrs[EXTRA] == {"of": 0, "client": "a"}
    assert kept[1].params == kept[0].params
    assert states(queue) == ["killed", "ok"]
    late = Outcome(0.125, TrialStatus.OK, math.nan, constraints={"memory": 2.0})
    for _ in range(2):
        with pytest.raises(LeaseLostError, match="It is kept as trial 3, an extra"):  # 2 is with c
            trials.tell(0, "b", late)
    kept = ended_trials(queue.trials())[-1]
    assert (kept.error, kept.feasible, kept.constraints) == (0.125, False, {"memory": 2.0})


def test_a_trial_that_is_given_back_is_offered_again_at_once_and_as_often_as_before(trials, clock, queue):
    first = trials.ask("a", "ann k", lease_s=10)
    for client in ("a", "b", "c"):
        assert trials.ask(client, "ann k", lease_s=10).run == first.run
        for _ in range(2):  # the same word again changes nothing
            lease = Lease.of(trials.release(0, client))
        assert (lease.client, lease.clients, lease.keys, lease.last) == ("", (), (), client)
        assert [lease.is_for(client, token) for token in ("ann", "bob")] == [True, False], "also after a release"
    with pytest.raises(LeaseLostError, match="expected a lease that 'a' holds, got one that ended"):
        trials.renew(0, "a", lease_s=10)
    with pytest.raises(
        LeaseLostError, match=r"got one of a trial that was given back[.] It is kept as trial 1, an extra"
    ):
        trials.tell(0, "a", done(0.25))
    with pytest.raises(LeaseLostError, match="expected one that was offered to 'd'"):
        trials.release(0, "d")
    trials.ask("d", "k", lease_s=10)
    with pytest.raises(LeaseLostError, match="expected a lease that 'a' holds"):
        trials.release(0, "a")
    clock.now += 11
    assert trials.ask("e", "k", lease_s=10).run == first.run
    trials.tell(0, "e", done())
    with pytest.raises(LeaseLostError, match="got one that ended as it was told"):
        trials.release(0, "e")
    assert states(queue) == ["ok", "ok"]


def test_extras_do_not_count_towards_the_total(trials, clock):
    trials.ask("a", "k", lease_s=1)
    clock.now += 2
    with pytest.raises(LeaseLostError):
        trials.tell(0, "a", done())
    assert trials.ask("b", "1", lease_s=10, total=2).run.number == 0
    assert trials.ask("b", "2", lease_s=10, total=2).run.number == 2
    assert trials.ask("b", "3", lease_s=10, total=2) == "wait"
    trials.tell(0, "b", done())
    trials.tell(2, "b", done())
    assert trials.ask("b", "3", lease_s=10, total=2) is None


def test_a_result_told_twice_changes_nothing_and_another_one_is_refused(trials, queue):
    trials.ask("a", "k", lease_s=10)
    trials.tell(0, "a", done())
    trials.tell(0, "a", done())
    with pytest.raises(LeaseLostError, match="expected to be told once"):
        trials.tell(0, "a", done(0.75))
    with pytest.raises(LeaseLostError, match="expected one that was offered to 'b'"):
        trials.tell(0, "b", done())
    with pytest.raises(UsageError, match="expected the number of a trial of 'study', got 7"):
        trials.tell(7, "a", done())
    assert states(queue) == ["ok"]


def test_workers_of_this_machine_leave_leased_trials_alone_until_they_expire(trials, clock, tmp_path):
    offered = trials.ask("a", "k", lease_s=10).run
    with open_queue(open_store(tmp_path / "s.journal"), "study") as worker:
        own = worker.next(10)
        assert isinstance(own, Run)
        assert own.number == 1
        clock.now += 11
        taken = worker.next(10)
        assert (taken.number, taken.config, taken.seed) == (0, offered.config, offered.seed)
        worker.end(taken, done())
    with pytest.raises(LeaseLostError, match="expected to be told once"):
        trials.tell(0, "a", done(0.75))


def test_nobody_waits_for_who_chooses(trials, queue, monkeypatch):
    held, choosing, chosen, start = trials.ask("a", "1", lease_s=60), threading.Event(), threading.Event(), queue.start

    def slowly():
        choosing.set()
        assert chosen.wait(60)
        return start()

    monkeypatch.setattr(queue, "start", slowly)
    found = []
    asking = threading.Thread(target=lambda: found.append(trials.ask("b", "1", lease_s=60)))
    asking.start()
    assert choosing.wait(60)
    trials.renew(held.run.number, "a", lease_s=90)
    trials.report(held.run.number, "a", 1, 0.75, lease_s=90)
    assert trials.tell(held.run.number, "a", done()).value == 0.5
    chosen.set()
    asking.join(200)
    assert found[0].run.number == 1
