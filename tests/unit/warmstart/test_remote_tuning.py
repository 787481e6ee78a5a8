"""What `tune --server` reads of the trials of a study that a server keeps."""

from types import SimpleNamespace

import pytest

from warmstart import remote_tuning
from warmstart.history_store.errors import LeaseLostError, StorageError
from warmstart.remote_tuning import _Queue, _Worker
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.trial_queue import Run

TRIAL = {"config": {}, "state": "ok", "duration": 1.0, "seed": 0, "note": "", "constraints": {}, "curve": []}


def test_results_that_came_too_late_are_no_trials_of_those_asked_for():
    trials = [
        TRIAL | {"number": 0, "error": 0.5, "extra_of": None},
        TRIAL | {"number": 1, "error": 0.25, "extra_of": 0},
    ]
    running = TRIAL | {"number": 2, "state": "running", "error": None, "extra_of": None}
    queue = _Queue(SimpleNamespace(name="s", trials=lambda: [*trials, running]), plan=None, on_message=print)
    told = []
    options = SimpleNamespace(progress=told.append, on_message=print)
    worker = _Worker([queue], options, SimpleNamespace(trials=3))
    worker.look()
    trials.append(TRIAL | {"number": 3, "error": 0.75, "extra_of": None})
    worker.look()
    assert queue.n_extra == 1
    assert [(each.done, each.total, each.best.error) for each in told] == [(1, 3, 0.25), (2, 3, 0.25)]


class Server:
    """A study on a server that is away for some calls."""

    def __init__(self, away, lease_s=60.0):
        self.name, self.lease_s, self.away, self.told = "s", lease_s, away, []

    def trial(self, number):
        return SimpleNamespace(number=number, report=self.answer, tell=self.answer)

    def answer(self, *given, **options):
        self.away -= 1
        if self.away >= 0:
            raise StorageError("no server there.")
        self.told.append((given, options))
        return False


def queue_of(server, monkeypatch):
    said = []
    monkeypatch.setattr(remote_tuning, "WAIT_S", 0.0)
    return _Queue(server, plan=None, on_message=said.append), said


RUN = Run(3, 3, {"x": 0.5}, 0)


def test_a_trial_goes_on_while_no_server_answers_its_reports(monkeypatch):
    server = Server(2)
    queue, said = queue_of(server, monkeypatch)
    assert [queue.report(RUN, step, 0.5) for step in (1, 2, 3)] == [False] * 3
    assert said == ["no server there. The trial goes on."], "once an outage"
    server.away = 1
    assert queue.report(RUN, 4, 0.5) is False
    assert len(said) == 2


def test_a_result_is_sent_until_a_server_takes_it(monkeypatch):
    server = Server(2)
    queue, said = queue_of(server, monkeypatch)
    queue.end(RUN, Outcome(0.25, TrialStatus.OK, 1.0))
    assert [given for given, _ in server.told] == [(0.25,)]
    assert said == ["no server there. The result of trial 3 is sent again."]


def test_a_result_that_no_server_takes_for_as_long_as_its_lease_ends_the_command(monkeypatch):
    queue, _ = queue_of(Server(10**9, lease_s=0.05), monkeypatch)
    with pytest.raises(StorageError, match="no server there"):
        queue.end(RUN, Outcome(0.25, TrialStatus.OK, 1.0))


def test_a_result_that_came_too_late_is_told_once(monkeypatch):
    server = Server(0)
    queue, said = queue_of(server, monkeypatch)

    def lost(*_, **__):
        raise LeaseLostError("It is kept as an extra.")

    server.answer = lost
    queue.end(RUN, Outcome(0.25, TrialStatus.OK, 1.0))
    assert said == ["It is kept as an extra."]
