"""Studies on a server: for clients anywhere, beside local workers, through kills."""

import json
import time

import numpy as np
import pytest
from stripes import pictures, write_folder

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from servers import Wire, running

from warmstart.client import Client
from warmstart.history_store.errors import DataError, LeaseLostError, UsageError
from warmstart.remote_study import RemoteTrial
from warmstart.studies.state.leased_trials import LeasedTrials

SPACE = {"x": [0.0, 1.0], "n": {"int": [1, 4]}}
FAST = {"space": SPACE, "surrogate": "gp-map", "startup": 500}
OBJECTIVE = "def f(config, seed):\n    return abs(config['x'] - 0.3) + config['n']\n"


@pytest.fixture
def url(tmp_path):
    with running(storage=tmp_path / "s.db") as found:
        yield found


def test_a_study_from_its_first_trial_to_its_last(url):
    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        assert client.begin_study("a", **FAST).show()["n_trials"] == 0
        with pytest.raises(UsageError, match="another `seed` 1"):
            client.begin_study("a", **FAST, seed=1)
        with pytest.raises(UsageError, match="expected the name of a study, got 'b'"):
            client.study("b").ask()
        first = study.ask(key="once")
        assert isinstance(first, RemoteTrial)
        assert study.ask(key="once").config == first.config
        assert first.report(1, 0.75) is False
        told = first.tell(0.5, duration=1.5)
        assert (told["state"], told["error"], told["curve"]) == ("ok", 0.5, [[1.0, 0.75]])
        assert first.tell(0.5, duration=1.5)["error"] == 0.5
        second = study.ask(trials=2)
        second.tell(status="crashed", note="no memory")
        assert study.ask(trials=2) is None
        with pytest.raises(UsageError, match="expected the number of a trial"):
            study.trial(7).heartbeat()
        shown = study.show()
        assert (shown["trials"], shown["best"]["number"]) == ({"ok": 1, "crashed": 1}, 0)
        assert client.studies() == [{"name": "a", "n_trials": 2, "n_ended": 2}]
        assert [each["state"] for each in study.trials()] == ["ok", "crashed"]


def test_a_lease_that_ends(url, monkeypatch):
    now = [1000.0]
    monkeypatch.setitem(LeasedTrials.__init__.__kwdefaults__, "clock", lambda: now[0])
    monkeypatch.setattr("warmstart.studies.state.trial_queue.lease_time", lambda: now[0])
    monkeypatch.setattr("warmstart.remote_study.BEATS", 600)  # ten a second
    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        lost = study.ask()
        now[0] += study.lease_s + 1
        other = client.study("a")
        assert other.ask().number == lost.number
        with pytest.raises(LeaseLostError, match="It is kept as trial 1, an extra"):
            lost.tell(0.25)
        assert [each["extra_of"] for each in study.trials()] == [None, 0]
        kept = client.study("a")
        held = kept.ask()
        with held.kept_alive():
            for _ in range(2):  # past the end of the first lease
                now[0] += 0.7 * kept.lease_s
                while study.trials()[held.number]["lease_until"] < now[0] + kept.lease_s:
                    time.sleep(0.05)
            assert client.study("a").ask().number != held.number
        held.tell(0.5)


def test_an_error_that_is_not_finite_is_a_failure(url):
    given = np.float32("nan")
    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        trial = study.ask()
        assert trial.report(1, given) is False
        told = trial.tell(given, curve=[(1, given), (2, 0.5)], metrics={"loss": given, "n": np.int64(3)})
        assert (told["state"], told["error"], told["curve"]) == ("failed", None, [[2.0, 0.5]])
        assert told["metrics"] == {"n": 3}
        assert told["note"] == f"expected an error that is one finite number, got {given}"
        told = study.ask().tell(0.5, constraints={"memory": given})
        assert (told["state"], told["constraints"]) == ("failed", {})
        assert "expected a constraint 'memory' that is one finite number" in told["note"]


def test_events_follow_a_study(url):
    import http.client

    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        study.ask().tell(0.5)
        connection = http.client.HTTPConnection(url.partition("//")[2], timeout=200)
        connection.request("GET", "/v1/studies/a/events")
        stream = connection.getresponse()
        assert stream.getheader("content-type").startswith("text/event-stream")

        def following():
            while line := stream.readline().decode():
                if line.startswith("data: "):
                    return json.loads(line[6:])
            return None

        def followed(number, state):
            """Read on: a trial that is being chosen or told is shown as it is so far."""
            while (found := following()) is not None:
                if (found["number"], found["state"]) == (number, state):
                    return found
            return None

        assert followed(0, "ok")["error"] == 0.5
        trial = study.ask()
        assert followed(1, "running")["error"] is None
        trial.tell(0.25)
        assert followed(1, "ok")["error"] == 0.25
        stream.close()
        connection.close()


def test_tune_on_a_server_and_on_from_there_at_home(tiny, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "secret", *pictures(1))
    (tmp_path / "own.py").write_text(
        OBJECTIVE.replace("config['x'] - 0.3", "config['dropout_rate'] - 0.3").replace("config['n']", "seed * 0")
    )
    own = ("tune", "--objective", "own.py:f", "--dataset", "secret", "--model", str(tiny.model), "-q")
    own += ("--surrogate", "gp-map", "--study", "s")
    with running(history=tiny.history, model=tiny.model, storage=tmp_path / "s.db") as url:
        wire = Wire(int(url.rpartition(":")[2]))
        with wire.open() as relayed:
            report = ("--report", "told.md")
            found = cli(*own, "--server", relayed, "--trials", "4", *report, "--format", "json")
        assert found.code == 0, found.err
        assert b"secret" not in bytes(wire.sent)
        document = json.loads(found.out)
        assert document["trials"] == {"ok": 4}
        assert len(document["warm"]) == 3
        with pytest.raises(UsageError), Client(url) as client:
            client.begin_study("s", **FAST)
        refused = cli(*own, "--server", url, "--history", str(tiny.history))
        assert (refused.code, "--history cannot be used with --server" in refused.err) == (2, True)
        for option in (("--storage", "x.db"), ("--record", "d"), ("--save-model", "m.pt"), ("--workers", "2")):
            refused = cli(*own, "--server", url, *option)
            assert refused.code == 2, option
            assert option[0] in refused.err
            assert not (tmp_path / "x.db").exists()
        assert json.loads((tmp_path / "told.json").read_text())["settings"]["surrogate"] == "gp-map"
        assert document["report"] == "told.md"
        assert (tmp_path / "told.html").is_file()
        assert (tmp_path / "trials.log").is_file()
    at_home = cli(*own, "--storage", "s.db", "--history", str(tiny.history), "--trials", "5", "--format", "json")
    assert at_home.code == 0, at_home.err
    assert json.loads(at_home.out)["trials"] == {"ok": 5}


def test_reports_are_answered_by_the_curves_of_the_history(url, tmp_path):
    same = {"space": {"lr": {"log": [1e-5, 1.0]}}, "pruner": "history", "surrogate": "gp-map"}
    with Client(url) as client:
        with pytest.raises(UsageError, match="history needs `dataset`"):
            client.begin_study("none", **same)
        photos = tmp_path / "photos"
        write_folder(photos, *pictures(0))
        described = client.describe(photos, workload="cnn")
        study = client.begin_study("a", **same, descriptor=described, budget=20, initial=[{"lr": 1e-3}, {"lr": 0.5}])
        first = study.ask()
        first.report(5, 0.3)
        first.tell(0.03)
        second = study.ask()
        told = second._post("report", {"step": 5, "error": 0.9, "lease_s": 60})
    assert told["stop"]
    assert 0.03 < told["expected_error"]["low"] < told["expected_error"]["value"] < told["expected_error"]["high"] <= 1


def test_importance_of_hyperparameters(url):
    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        with pytest.raises(DataError, match="expected at least 5 trials with a result"):
            client.transport.get("/studies/a/importance")
        for _ in range(8):
            trial = study.ask()
            trial.tell(trial.config["n"] + 0.01 * trial.config["x"])
        found = client.transport.get("/studies/a/importance")
        assert (found["surrogate"], found["n_trials"]) == ("gp-map", 8)
        first, second = found["hyperparameters"]
        assert first["name"] == "n"
        assert first["total"] > 0.8 > 0.2 > second["total"]
        for share in (first, second):
            assert 0 <= share["alone"] <= share["total"] + 1e-4 <= share["high"] + 2e-4
            assert share["low"] <= share["total"]
        assert client.transport.get("/studies/a/importance") == found
        study.ask().tell(2.0)
        assert client.transport.get("/studies/a/importance")["n_trials"] == 9


def test_a_trial_is_given_back_at_the_end(url):
    with Client(url) as client:
        study = client.begin_study("a", **FAST)
        for error in (KeyboardInterrupt, SystemExit, KeyboardInterrupt):
            trial = study.ask()
            assert trial.number == 0
            with pytest.raises(error), trial.kept_alive():
                raise error
        with pytest.raises(ValueError, match="no"), study.ask().kept_alive():
            raise ValueError("no")  # the trial may be told of yet
        assert client.study("a").ask().number == 1


def test_a_server_that_takes_no_trial_back(tmp_path, monkeypatch):
    from warmstart.service import studies

    kept = [route for route in studies.router.routes if not route.path.endswith(":release")]
    monkeypatch.setattr(studies.router, "routes", kept)
    with running(storage=tmp_path / "s.db") as url, Client(url) as client:
        study = client.begin_study("a", **FAST)
        trial = study.ask()
        assert trial.release() is False
        with pytest.raises(KeyboardInterrupt), trial.kept_alive():
            raise KeyboardInterrupt
        assert trial.tell(0.5)["error"] == 0.5


def test_numbers_are_told_as_they_are_here(url):
    with Client(url) as client:
        study = client.begin_study("a", **FAST, metric="loss")
        trial = study.ask()
        with pytest.raises(UsageError, match="expected an error that is one number, got 'low'"):
            trial.report(1, "low")
        with pytest.raises(UsageError, match="expected a metric 'm' that is one number"):
            trial.tell(0.5, metrics={"m": [1.0]})
        with pytest.raises(UsageError, match="expected texts, truth values and finite numbers, which JSON has"):
            client.begin_study("b", space={"x": [0.0, float("inf")]})
        told = trial.tell(
            value=np.float32(0.5), duration=float("nan"), constraints={"a": True, "b": np.False_, "c": -1.0}
        )
        assert (told["state"], told["error"], told["duration"]) == ("ok", 0.5, None)
        assert told["constraints"] == {"a": 0.0, "b": 1.0, "c": -1.0}


def test_a_look_leaves_no_storage(tmp_path):
    with running(storage=tmp_path / "s.db") as url, Client(url) as client:
        assert client.studies() == []
        with pytest.raises(UsageError, match="expected the name of a study, got 'a'"):
            client.study("a").ask()
        assert not list(tmp_path.iterdir())
        client.begin_study("a", **FAST)
        assert (tmp_path / "s.db").is_file()
        assert [each["name"] for each in client.studies()] == ["a"]
