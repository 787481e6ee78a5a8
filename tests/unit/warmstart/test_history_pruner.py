"""Runs stopped by the learning curves of the shipped history, and what cannot be."""

import pickle
from dataclasses import replace

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_digits

from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.records import Status
from warmstart.history_store.space import load_space
from warmstart.integrations.optuna import HistoryPruner, history_pruner
from warmstart.integrations.optuna.space import to_distributions
from warmstart.locations import history_path
from warmstart.suggestions.run_forecasts import read_curves

STEPS = (100, 200, 300, 400)


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return (found.images * 15).astype(np.uint8), found.target


@pytest.fixture(scope="module")
def shipped():
    with History.open(history_path(None)) as history:
        return load_space(history.space_json), history.configs


@pytest.fixture(scope="module")
def pruner(digits):
    return history_pruner(digits, n_steps=400)


def run(study, space, config, curve):
    """Run one trial; returns the step at which it was stopped, or None."""
    study.enqueue_trial(dict(config))
    trial = study.ask(to_distributions(space))
    for step, error in zip(STEPS, curve, strict=True):
        trial.report(error, step)
        if step < 400 and trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return step
    study.tell(trial, curve[-1])
    return None


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_hopeless_runs_stop_and_the_best_goes_on(pruner, shipped, direction):
    space, configs = shipped
    study = optuna.create_study(pruner=pruner, direction=direction)
    put = (lambda error: error) if direction == "minimize" else (lambda error: 1 - error)
    curves = {0: (0.3, 0.1, 0.05, 0.03), 2: (0.9, 0.9, 0.9, 0.9), 1: (0.2, 0.08, 0.04, 0.02)}
    stopped = [run(study, space, configs[n], list(map(put, curve))) for n, curve in curves.items()]
    assert stopped == [None, 100, None]


def test_a_run_that_starts_badly_and_may_come_back_goes_on(pruner, shipped):
    """The median rule would stop it at its first report."""
    space, configs = shipped
    slow = next(n for n, config in enumerate(configs) if config["log10_learning_rate"] < -4)
    study, median = (optuna.create_study(pruner=each) for each in (pruner, optuna.pruners.MedianPruner(1)))
    for each in (study, median):
        assert run(each, space, configs[0], (0.3, 0.2, 0.2, 0.19)) is None
    curve = (0.4, 0.3, 0.2, 0.15)
    assert run(median, space, configs[slow], curve) == 100
    assert run(study, space, configs[slow], curve) is None


def test_another_space_with_common_names_is_compared_by_these(digits):
    from ConfigSpace import ConfigurationSpace, Float

    space = ConfigurationSpace({"lr": Float("lr", (1e-6, 0.1), log=True), "momentum": (0.0, 1.0)})
    study = optuna.create_study(pruner=history_pruner(digits, space=space, n_steps=400))
    curves = [(0.3, 0.1, 0.05, 0.03), (0.9, 0.9, 0.9, 0.9)]
    configs = [{"lr": 1e-3, "momentum": 0.5}, {"lr": 0.09, "momentum": 0.1}]
    stopped = [run(study, space, config, curve) for config, curve in zip(configs, curves, strict=True)]
    assert stopped == [None, 100]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_steps": "20"}, "n_steps: expected a finite number above 0, got '20'"),
        ({"n_steps": float("inf")}, "n_steps: expected a finite number above 0, got inf"),
        ({"chance": 0.7}, "chance: expected a chance above 0 and below 0.5, got 0.7"),
    ],
)
def test_settings_are_checked_before_anything_is_opened(settings, match):
    with pytest.raises(UsageError, match=match):
        history_pruner("no/such/folder", **settings)


def test_a_study_with_the_pruner_can_be_pickled(digits, shipped):
    space, configs = shipped
    study = optuna.create_study(pruner=history_pruner(digits))
    again = pickle.loads(pickle.dumps(study))
    curves = {0: (0.3, 0.1, 0.05, 0.03), 2: (0.9, 0.9, 0.9, 0.9)}
    assert [run(again, space, configs[n], curve) for n, curve in curves.items()] == [None, 100]
    pickle.dumps(HistoryPruner(study.pruner._forecasts, space))


def test_curves_are_the_mean_of_repeated_runs():
    with History.open(history_path(None)) as history:
        name = history.names[0]
        found = read_curves(history, [name])
        config = history.configs[5]
        runs = [each for each in history.evaluations() if each.dataset == name and each.config == config]
    assert [step for step, _ in runs[0].curve] == list(STEPS)
    np.testing.assert_allclose(found[0, 5], np.mean([[error for _, error in run.curve] for run in runs], axis=0))


def test_a_curve_that_diverged_is_no_shorter_run(tmp_path):
    with History.open(history_path(None)) as shipped:
        name, configs = shipped.names[0], shipped.configs
        run = next(each for each in shipped.evaluations() if each.dataset == name and each.config == configs[0])
        with History.create(tmp_path / "own.h5", shipped.space_json, configs=configs) as own:
            diverged = replace(run, config=configs[1], status=Status.DIVERGED, error=0.9, curve=run.curve[:2])
            own.extend([run, diverged], datasets=[shipped.dataset(name)])
            found = read_curves(own, [name])
    np.testing.assert_allclose(found[0, 0], [error for _, error in run.curve])
    assert np.isnan(found[0, 1]).all(), "its second report counted as its end"


def test_values_that_are_no_errors_stop_nothing(pruner, shipped):
    space, configs = shipped
    study = optuna.create_study(pruner=pruner)
    curves = [(30.0, 20.0, 10.0, 5.0), (99.0, 99.0, 99.0, 99.0), (0.9, 0.9, 0.9, 0.9)]
    assert [run(study, space, configs[n], curve) for n, curve in enumerate(curves)] == [None, None, None]
