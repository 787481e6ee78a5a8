"""Optuna's own loop over a study on a server: values of its metric, configurations that are not the server's, the end."""

import logging

import optuna
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from servers import running

from warmstart.client import Client
from warmstart.history_store.errors import SpaceExhaustedError, UsageError
from warmstart.integrations.optuna_remote import RemoteSampler

LINE = {"space": {"x": [0.0, 1.0]}, "surrogate": "gp-map", "startup": 500}
MIXED = LINE | {"space": {"x": [0.0, 1.0], "k": ["a", "b"]}}


@pytest.fixture
def client(tmp_path):
    with running(storage=tmp_path / "s.db") as url, Client(url) as found:
        yield found


def over(remote, **options):
    return optuna.create_study(sampler=RemoteSampler(remote), **options)


def mixed(trial):
    return trial.suggest_float("x", 0.0, 1.0) + (trial.suggest_categorical("k", ["a", "b"]) == "a")


def kept(remote):
    return [(each["config"], each["error"]) for each in remote.trials() if each["state"] != "running"]


def test_values_are_those_of_the_metric(client):
    def objective(trial):
        trial.report(80.0, 1)
        return 90 + 5 * trial.suggest_float("x", 0.0, 1.0)

    remote = client.begin_study("a", **LINE, metric="accuracy", maximize=True, scale="percent")
    study = over(remote, direction="maximize")
    study.optimize(objective, n_trials=3)
    best = remote.show()["best"]
    assert best["value"] == pytest.approx(study.best_value)
    assert best["error"] == pytest.approx(1 - study.best_value / 100)
    assert [each["curve"] for each in remote.trials()] == [[[1.0, pytest.approx(0.2)]]] * 3
    assert all(each["duration"] > 0 for each in remote.trials())
    plain = client.begin_study("b", **LINE)
    study = over(plain, direction="maximize")
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=2)
    assert plain.show()["best"]["error"] == -study.best_value


def test_what_the_server_did_not_choose_is_not_told_to_it(client, caplog):
    remote = client.begin_study("a", **MIXED)
    study = over(remote)
    study.enqueue_trial({"x": 0.25})
    study.enqueue_trial({"x": 0.25, "k": "a"})
    with caplog.at_level(logging.WARNING, "warmstart"):
        study.optimize(mixed, n_trials=4)
        study.optimize(lambda trial: trial.suggest_float("x", 0.5, 0.5), n_trials=1)
    assert [trial.params["x"] for trial in study.trials[:2]] == [0.25, 0.25]
    assert kept(remote) == [(trial.params, trial.value) for trial in study.trials[2:4]]
    assert caplog.text.count("trial 0: its configuration is not one that the server chose") == 1
    assert caplog.text.count("is not one that the server chose") == 1


@pytest.mark.parametrize(
    ("objective", "match"),
    [
        (lambda trial: trial.suggest_float("x", 0.0, 1e-9), "parameter x: expected a range that holds"),
        (lambda trial: trial.suggest_float("z", 0.0, 1.0), r"expected a parameter of study 'a' on the server \(x\)"),
    ],
)
def test_refuses_what_the_space_of_the_server_is_not(client, objective, match):
    remote = client.begin_study("a", **LINE)
    with pytest.raises(UsageError, match=match):
        over(remote).optimize(objective, n_trials=2)
    assert [each["state"] for each in remote.trials()] == ["running"]
    assert client.study("a").ask().number == 0


def test_an_inactive_parameter_may_be_asked_for(client):
    space = {"kind": ["sgd", "adam"], "momentum": {"float": [0.0, 0.9], "if": {"kind": "sgd"}}}
    remote = client.begin_study("a", **LINE | {"space": space})

    def objective(trial):
        return trial.suggest_float("momentum", 0.0, 0.9) + (trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd")

    study = over(remote)
    study.optimize(objective, n_trials=6)
    assert {len(config) for config, _ in kept(remote)} == {1, 2}
    assert [error for _, error in kept(remote)] == [trial.value for trial in study.trials]


def test_ctrl_c_gives_the_trial_back(client):
    def interrupted(trial):
        trial.suggest_float("x", 0.0, 1.0)
        raise KeyboardInterrupt

    remote = client.begin_study("a", **LINE)
    with pytest.raises(KeyboardInterrupt):
        over(remote).optimize(interrupted, n_trials=1)
    over(remote).optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
    assert [each["state"] for each in remote.trials()] == ["ok"]


def test_the_last_configuration_stops_the_loop(client):
    def objective(trial):
        return ord(trial.suggest_categorical("k", ["a", "b", "c"]))

    remote = client.begin_study("a", **LINE | {"space": {"k": ["a", "b", "c"]}})
    study = over(remote)
    study.optimize(objective, n_trials=10)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    later = over(remote)
    later.optimize(objective, n_trials=10)
    assert [trial.state.name for trial in later.trials] == ["PRUNED"]
    by_hand = over(remote).ask()
    with pytest.raises(SpaceExhaustedError, match="every one had its own"):
        by_hand.suggest_categorical("k", ["a", "b", "c"])
    assert remote.show()["n_trials"] == 3


def test_a_value_outside_the_scale_is_a_failure(client, caplog):
    remote = client.begin_study("a", **LINE, metric="acc", maximize=True)
    with caplog.at_level(logging.WARNING, "warmstart"):
        over(remote, direction="maximize").optimize(lambda trial: 90 + trial.suggest_float("x", 0.0, 1.0), n_trials=1)
    (trial,) = remote.trials()
    assert (trial["state"], trial["error"]) == ("failed", None)
    assert "expected acc of at most 1 with `maximize`, got 9" in trial["note"]
    assert trial["note"] in caplog.text
