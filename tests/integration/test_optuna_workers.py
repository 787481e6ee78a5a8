"""Processes that share a study: nothing is evaluated twice, whoever asks when."""

import subprocess
import sys
from pathlib import Path

import optuna
import pytest

WORKER = """
import sys, optuna
from warmstart.integrations.optuna.sampler import WarmStartSampler

def objective(trial):
    i, j = trial.suggest_int("i", 0, 5), trial.suggest_categorical("j", ["a", "b", "c", "d", "e", "f"])
    return (i - 3) ** 2 + ord(j)

sampler = WarmStartSampler(surrogate="gp-map", seed=int(sys.argv[2]))
storage = optuna.storages.RDBStorage(sys.argv[1], engine_kwargs={"connect_args": {"timeout": 100}})  # to wait its turn
study = optuna.load_study(study_name="s", storage=storage, sampler=sampler)
study.optimize(objective, n_trials=8)
"""


@pytest.mark.slow
def test_four_processes_evaluate_no_configuration_twice(tmp_path: Path) -> None:
    """36 configurations, 33 trials: the workers crowd each other, with one seed for all."""
    storage = f"sqlite:///{tmp_path / 's.db'}"
    study = optuna.create_study(study_name="s", storage=storage)
    study.enqueue_trial({"i": 0, "j": "a"})
    study.optimize(lambda trial: trial.suggest_int("i", 0, 5) + len(trial.suggest_categorical("j", [*"abcdef"])), 1)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, storage, "0"]) for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0, 0, 0, 0]
    found = [tuple(sorted(trial.params.items())) for trial in study.trials]
    assert len(found) == len(set(found)) == 33
