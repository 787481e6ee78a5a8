"""Warm starts of Optuna's studies: what is enqueued, under which names, and what is said of what gets lost."""

import logging
import pickle
import warnings
from dataclasses import replace

import optuna
import pytest

from warmstart.api import suggest
from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.history import History
from warmstart.integrations.optuna import WarmStartSampler, warm_start
from warmstart.spaces import read_space


@pytest.fixture(autouse=True)
def quiet(use_tiny):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def ask_all(trial, designs):
    return {name: trial.suggest_float(name, -1e3, 1e3) for name in designs[0].config}


def test_suggestions_run_first_and_in_order_and_carry_their_origin():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    designs = warm_start(study, dataset="sklearn:digits", k=3)
    assert designs == list(suggest("sklearn:digits", k=3))
    study.optimize(lambda trial: sum(ask_all(trial, designs).values()), n_trials=3)
    assert [trial.params for trial in study.trials] == [design.config for design in designs]
    assert [trial.user_attrs["warmstart"]["from"] for trial in study.trials] == [design.source for design in designs]


@pytest.mark.parametrize("workload", ["cnn", "transfer"])
def test_a_workload_is_answered_by_its_history_or_its_usual_configurations(workload):
    study = optuna.create_study()
    designs = warm_start(study, dataset="sklearn:digits", k=2, workload=workload)
    assert designs == list(suggest("sklearn:digits", k=2, workload=workload))
    for trial, design in zip(study.trials, designs, strict=True):
        assert design.config.items() <= trial.system_attrs["fixed_params"].items()
    with pytest.raises(UsageError, match="workload"):
        warm_start(study, dataset="sklearn:digits", workload="none")


def test_a_logarithm_goes_by_both_names_or_by_the_one_that_is_renamed():
    study = optuna.create_study()
    (design,) = warm_start(study, dataset="sklearn:digits", k=1)
    assert study.trials[0].system_attrs["fixed_params"] == {**design.config, **design.natural}
    study = optuna.create_study()
    warm_start(study, dataset="sklearn:digits", k=1, rename={"learning_rate": "lr", "log10_decay_rate": "decay"})
    fixed = study.trials[0].system_attrs["fixed_params"]
    assert fixed["lr"] == pytest.approx(10 ** design.config["log10_learning_rate"])
    assert fixed["decay"] == design.config["log10_decay_rate"]
    assert not fixed.keys() & {"learning_rate", "log10_learning_rate", "decay_rate", "log10_decay_rate"}


FORM = {
    "lr": {"log": [1e-5, 0.1]},
    "batch_size": [16, 32, 64],
    "depth": {"int": [2, 8], "step": 2},
    "model": ["a", "b"],
    "drop": {"float": [0, 0.5], "step": 0.1},
}
DISTRIBUTIONS = {
    "lr": optuna.distributions.FloatDistribution(1e-5, 0.1, log=True),
    "batch_size": optuna.distributions.CategoricalDistribution([16, 32, 64]),
    "depth": optuna.distributions.IntDistribution(2, 8, step=2),
    "model": optuna.distributions.CategoricalDistribution(["a", "b"]),
    "drop": optuna.distributions.FloatDistribution(0, 0.5, step=0.1),
}


def ask_own(trial):
    """Ask as a script of one's own does: Optuna raises where an enqueued value is none of the choices."""
    rate = trial.suggest_float("lr", 1e-5, 0.1, log=True)
    batch = trial.suggest_categorical("batch_size", [16, 32, 64])
    depth = trial.suggest_int("depth", 2, 8, step=2)
    depth += trial.suggest_float("drop", 0, 0.5, step=0.1)
    return rate + batch / 100 + depth + len(trial.suggest_categorical("model", ["a", "b"]))


@pytest.mark.parametrize("space", [FORM, DISTRIBUTIONS, read_space(FORM)], ids=["short", "optuna", "configspace"])
@pytest.mark.parametrize(
    "sampler", [optuna.samplers.RandomSampler(seed=0), WarmStartSampler(surrogate="gp-map", seed=0)]
)
def test_a_space_of_ones_own_never_raises_in_a_study(space, sampler):
    study = optuna.create_study(sampler=sampler)
    designs = warm_start(study, dataset="sklearn:digits", k=4, space=space, rename={"num_layers_conv": "depth"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns of enqueued values that are out of range
        study.optimize(ask_own, n_trials=6)
    asked = [trial.params for trial in study.trials[:4]]
    for name in FORM:
        values = [design.config[name] for design in designs]
        assert [params[name] for params in asked] == (values if name == "model" else pytest.approx(values, rel=1e-12))
    assert {trial.params["model"] for trial in study.trials[:4]} == {"a", "b"}
    origin = study.trials[0].user_attrs["warmstart"]
    assert (origin["measured"], origin["source_error"]) == (False, None)
    assert "model" in origin["not_measured"]


def test_what_an_objective_never_asks_for_is_said(caplog):
    study = optuna.create_study(sampler=WarmStartSampler(surrogate="gp-map", seed=0))
    warm_start(study, dataset="sklearn:digits", k=1)
    with caplog.at_level(logging.WARNING, "warmstart"):
        study.optimize(
            lambda trial: trial.suggest_float("learning_rate", 1e-6, 1.0, log=True) + trial.suggest_int("width", 1, 9),
            n_trials=2,
        )
    (line,) = [record.getMessage() for record in caplog.records if "never asked" in record.getMessage()]
    assert line.startswith("trial 0: the objective never asked for ")
    assert "num_layers_conv" in line
    assert "learning_rate" not in line


def test_names_and_paths_that_are_not_there():
    study = optuna.create_study()
    with pytest.raises(UsageError, match=r"rename: expected names among .*got 'lr'"):
        warm_start(study, dataset="sklearn:digits", rename={"lr": "learning_rate"})
    with pytest.raises(MissingPathError):
        warm_start(study, dataset="no/such/folder")
    assert study.trials == []


@pytest.mark.parametrize(
    ("rename", "match"),
    [
        (
            {"learning_rate": "lr", "num_layers_conv": "lr"},
            "rename: expected a name of its own for each value, got 'lr' for",
        ),
        ({"learning_rate": "num_layers_conv"}, "got 'num_layers_conv' for .* Rename one of them otherwise"),
        ({"learning_rate": "lr", "log10_learning_rate": "lr"}, "got 'lr' for log10_learning_rate and learning_rate"),
        (["learning_rate"], "rename: expected names by names, got"),
    ],
)
def test_refuses_a_rename_that_loses_a_value(rename, match):
    study = optuna.create_study()
    with pytest.raises(UsageError, match=match) as caught:
        warm_start(study, dataset="sklearn:digits", k=2, rename=rename)
    assert caught.value.params == ("rename",)
    assert study.trials == []


def test_a_waiting_trial_in_sqlite_is_taken_by_one_of_many_threads(tmp_path):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/s.db", sampler=optuna.samplers.RandomSampler(seed=0))
    warm_start(study, dataset="sklearn:digits", k=3)
    for x in range(20):
        study.enqueue_trial({"x": x})
    ran = []

    def objective(trial):
        ran.append(trial.number)
        return trial.suggest_float("x", 0, 100)

    study.optimize(objective, n_trials=23, n_jobs=6)
    assert sorted(ran) == list(range(23))
    assert pickle.loads(pickle.dumps(study)).trials == study.trials


def test_a_history_of_one_run_gives_what_it_has(tmp_path, caplog, tiny):
    with History.open(tiny.history) as old, History.create(tmp_path / "one.h5", old.space_json) as history:
        run = old.evaluations()[0]
        history.extend(
            [run], datasets=[replace(old.dataset(run.dataset), n_train=0, n_val=0, n_test=0, class_counts=())]
        )
    study = optuna.create_study()
    designs = warm_start(study, dataset="sklearn:digits", k=3, history=tmp_path / "one.h5", model=tiny.model)
    assert [dict(design.config) for design in designs] == [dict(run.config)]
    assert len(study.trials) == 1
    assert "3 configurations were asked for, the history has 1" in caplog.text
