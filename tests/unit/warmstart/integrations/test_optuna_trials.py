"""Studies that Optuna itself wrote, read back as runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.history_store.external_runs import ForeignParameter, ForeignRuns
from warmstart.integrations.optuna.trials import read_study
from warmstart.studies.state.attributes import STEP
from warmstart.studies.state.trial_tables import TrialTables

SPACE = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "layers": IntDistribution(1, 4),
    "act": CategoricalDistribution(["relu", None, 2]),
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial: optuna.Trial) -> float:
    """Every way in which a trial can end."""
    trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    trial.suggest_int("layers", 1, 4 + trial.number % 2)
    act = trial.suggest_categorical("act", ["relu", None, 2])
    if act == "relu":
        trial.suggest_float("slope", 0.0, 1.0)
    trial.report(0.75, 1)
    trial.report(0.5, 3)
    if trial.number == 2:
        raise optuna.TrialPruned
    if trial.number == 3:
        raise RuntimeError
    if trial.number == 4:
        return math.inf
    return 0.25 + trial.number / 100


def fill(storage: str | JournalStorage, name: str = "cnn") -> optuna.Study:
    study = optuna.create_study(storage=storage, study_name=name, sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=8, catch=(RuntimeError,))
    study.enqueue_trial({"layers": 2})
    study.ask()
    study.enqueue_trial({"layers": 3})
    return study


def check(runs: ForeignRuns, study: optuna.Study) -> None:
    ended = [trial for trial in study.trials if trial.state in (TrialState.COMPLETE, TrialState.FAIL)]
    assert len(runs) == len(ended) == 7
    assert runs.left_out == {"pruned before the end": 1, "still running": 1, "waiting": 1}
    assert [status.value for status in runs.status] == ["ok", "ok", "crashed", "crashed", "ok", "ok", "ok"]
    np.testing.assert_array_equal(runs.values, [0.25, 0.26, np.nan, np.nan, 0.30, 0.31, 0.32])
    for row, trial in enumerate(ended):
        assert {name: column[row] for name, column in runs.params.items() if name in trial.params} == trial.params
        assert trial.duration is not None
        assert runs.durations[row] == trial.duration.total_seconds() > 0
    assert runs.params["slope"] == [trial.params.get("slope") for trial in ended]
    assert set(runs.curves) == {((1, 0.75), (3, 0.5))}
    assert runs.kind == "Optuna study 'cnn'"
    assert set(runs.origins) == {"import/optuna/cnn"}
    assert runs.space["lr"] == ForeignParameter(1e-5, 1e-1, log=True)
    assert runs.space["layers"] == ForeignParameter(1.0, 5.0)
    assert runs.space["act"].choices == ("relu", None, 2)
    assert runs.maximised is False


def test_an_sqlite_file_and_its_urls(tmp_path: Path) -> None:
    path = tmp_path / "runs with space.db"
    study = fill(f"sqlite:///{path}")
    before = path.read_bytes()
    path.chmod(0o444)
    for source in (str(path), f"sqlite:///{path}", f"sqlite:///file:{str(path).replace(' ', '%20')}?mode=ro&uri=true"):
        check(read_study(source), study)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {path.name}


def test_tables_say_what_optuna_says(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fill(url, "before")
    study = fill(url)
    tables = TrialTables(optuna.storages.RDBStorage(url), study._study_id)
    assert tables.read() == study.get_trials(deepcopy=False)
    running = study.ask()
    running.set_user_attr("by", "ann")
    running.report(0.5, 3)
    assert tables.read() == study.get_trials(deepcopy=False)
    study.tell(running, 0.4)
    assert tables.read() == study.get_trials(deepcopy=False)


def test_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "runs.log"
    study = fill(JournalStorage(JournalFileBackend(str(path))))
    before = path.read_bytes()
    check(read_study(str(path)), study)
    assert path.read_bytes() == before


def test_one_of_several_studies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fill(url)
    other = optuna.create_study(storage=url, study_name="other", direction="maximize")
    other.add_trial(create_trial(params={"lr": 1e-3}, distributions={"lr": SPACE["lr"]}, value=0.9))
    with pytest.raises(UsageError, match="study: expected one of cnn, other, got none"):
        read_study(url)
    with pytest.raises(UsageError, match="study: expected one of cnn, other, got third"):
        read_study(url, study="third")
    runs = read_study(url, study="other")
    assert (runs.maximised, runs.values.tolist(), len(read_study(url, study="cnn"))) == (True, [0.9], 7)


def test_one_of_several_objectives(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    study = optuna.create_study(storage=url, study_name="both", directions=["minimize", "maximize"])
    study.optimize(lambda trial: (trial.suggest_float("lr", 0, 1), 0.75), n_trials=2)
    with pytest.raises(UsageError, match="metric: expected one of 0, 1, the objectives of study 'both', got none"):
        read_study(url)
    assert read_study(url, metric="1").values.tolist() == [0.75, 0.75]
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["loss", "accuracy"])
    runs = read_study(url, metric="accuracy")
    assert (runs.maximised, runs.values.tolist()) == (True, [0.75, 0.75])
    with pytest.raises(UsageError, match=r"metric: expected one of loss, accuracy, .*got f1"):
        read_study(url, metric="f1")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.db", b"SQLite format 3\x00" + b"\x10\x00" + b"x" * 2000),
        ("other.log", b'{"a": 1}\n{"b": 2}\n'),
    ],
)
def test_what_is_no_storage(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((StorageError, DataError), match=f"{name}: expected a storage"):
        read_study(str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_reports_at_fractions_of_a_step_are_no_updates(tmp_path: Path, kind: str) -> None:
    """A study of ours keeps the step 1.5 beside the number that Optuna knows it by."""
    path = tmp_path / "study"
    storage = f"sqlite:///{path}" if kind == "sqlite" else JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage)
    trial = study.ask(SPACE)
    for number, error in ((1, 0.75), (2, 0.625), (3, 0.5)):
        trial.report(error, number)
    study._storage.set_trial_system_attr(trial._trial_id, f"{STEP}2", 1.5)
    study._storage.set_trial_system_attr(trial._trial_id, f"{STEP}3", 2.0)
    study.tell(trial, 0.25)
    assert read_study(str(path)).curves == [((1, 0.75), (2, 0.5))]


def test_no_storage_there(tmp_path: Path) -> None:
    for source in (str(tmp_path / "no.db"), f"sqlite:///{tmp_path}/no.db"):
        with pytest.raises(MissingPathError, match="expected a study of Optuna, got nothing there"):
            read_study(source)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MissingPathError, match="got a folder"):
        read_study(str(tmp_path))
