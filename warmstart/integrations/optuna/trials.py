"""Import studies of Optuna from a storage's URL, an SQLite file or a journal file; nothing is written."""

from __future__ import annotations

import math
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.history_store.external_runs import Curve, ForeignParameter, ForeignRuns, as_columns, objective_number
from warmstart.history_store.records import Status
from warmstart.history_store.wording import in_words
from warmstart.studies.state.journal_file import JournalFile
from warmstart.studies.state.reported_steps import steps_of
from warmstart.studies.state.sqlite_file import engine_options, is_sqlite
from warmstart.studies.state.trial_tables import TrialTables

BUSY_S = 30.0
"""Seconds that a read waits for a writer."""
LEFT_OUT = {
    TrialState.PRUNED: "pruned before the end",
    TrialState.RUNNING: "still running",
    TrialState.WAITING: "waiting",
}


def read_study(source: str, *, study: str | None = None, metric: str | None = None) -> ForeignRuns:
    """Read a study as runs; failed trials count as crashed.

    Args:
        source: a storage URL, an SQLite file or a journal file.
        study: its name; may be left out if there is only one.
        metric: name or number of the objective, if a study has several.

    Raises:
        MissingPathError: no file there.
        UsageError: no study or objective of that name, or several to choose from.
        StorageError: it cannot be read.
    """
    with _storage_errors(source):
        storage = _open(source)
        names = optuna.get_all_study_names(storage)
        if not names:
            msg = f"{source}: expected a storage with a study, got an empty one. Check the path."
            raise DataError(msg)
        if study not in names and (study is not None or len(names) > 1):
            msg = f"expected one of {', '.join(names)}, got {study or 'none'}. Name the study to import."
            raise UsageError(msg, param="study")
        loaded = optuna.load_study(study_name=study or names[0], storage=storage)
        trials = TrialTables(storage, loaded._study_id).read()  # noqa: SLF001 - the id that the tables use
        objectives = loaded.metric_names or [str(number) for number in range(len(loaded.directions))]
        objective = objective_number(objectives, metric, f"study {loaded.study_name!r}")
        maximised = loaded.directions[objective] == optuna.study.StudyDirection.MAXIMIZE
    kind = f"Optuna study {loaded.study_name!r}"
    return _runs(kind, f"import/optuna/{loaded.study_name}", trials, objective=objective, maximised=maximised)


def _runs(kind: str, origin: str, trials: Sequence[FrozenTrial], *, objective: int, maximised: bool) -> ForeignRuns:
    ended = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.FAIL)]
    states = Counter(LEFT_OUT[trial.state] for trial in trials if trial.state in LEFT_OUT)
    values = np.array([_value(trial, objective) for trial in ended], dtype=np.float64)
    return ForeignRuns(
        kind=kind,
        params=as_columns([trial.params for trial in ended]),
        values=values,
        status=[Status.OK if fine else Status.CRASHED for fine in np.isfinite(values).tolist()],
        datasets=[None] * len(ended),
        durations=np.array([_seconds(trial) for trial in ended], dtype=np.float64),
        seeds=[None] * len(ended),
        origins=[origin] * len(ended),
        curves=[_curve(trial) for trial in ended],
        maximised=maximised,
        space=_space(trials),
        left_out=dict(states),
    )


def _open(source: str) -> optuna.storages.BaseStorage:
    is_file = "://" not in source or (source.startswith("sqlite:///") and "?" not in source)
    if not is_file:
        return optuna.storages.RDBStorage(source)
    path = Path(source.removeprefix("sqlite:///"))
    if source.startswith("sqlite:///") and not path.exists():
        path = Path(urllib.parse.unquote(str(path)))
    if not path.is_file():
        msg = f"{source}: expected a study of Optuna, got {'a folder' if path.is_dir() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    if is_sqlite(path):
        url, options = engine_options(path.resolve(), timeout=BUSY_S, write=False)
        return optuna.storages.RDBStorage(url, engine_kwargs=options)
    return optuna.storages.JournalStorage(JournalFile(path, None))


@contextmanager
def _storage_errors(source: str) -> Iterator[None]:
    """Turn errors of Optuna and its back ends into a `StorageError`."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError, ValueError, KeyError, OSError) as error:  # fmt: skip
        if isinstance(error, UsageError | DataError | MissingPathError | StorageError):
            raise
        msg = f"{source}: expected a storage that Optuna {optuna.__version__} reads, got {in_words(error)}. Check the URL; `optuna storage upgrade` brings an old one up to date."
        raise StorageError(msg) from error


def _value(trial: FrozenTrial, objective: int) -> float:
    values: Any = trial.values
    value = float(values[objective]) if trial.state == TrialState.COMPLETE and values else math.nan
    return value if math.isfinite(value) else math.nan


def _seconds(trial: FrozenTrial) -> float:
    return math.nan if trial.duration is None else trial.duration.total_seconds()


def _curve(trial: FrozenTrial) -> Curve:
    """Return the reports at integer steps, since curves of a history have integer steps."""
    steps = steps_of(trial.system_attrs)
    points = ((steps.get(number, number), float(value)) for number, value in trial.intermediate_values.items())
    return tuple((int(step), value) for step, value in points if step == int(step))


def _space(trials: Sequence[FrozenTrial]) -> dict[str, ForeignParameter]:
    """Return the hyperparameters over all trials: their ranges may have changed."""
    distributions_by_name: dict[str, dict[BaseDistribution, None]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            distributions_by_name.setdefault(name, {})[distribution] = None
    return {name: _parameter(list(distributions)) for name, distributions in distributions_by_name.items()}


def _parameter(distributions: Sequence[BaseDistribution]) -> ForeignParameter:
    choices = [d.choices for d in distributions if isinstance(d, CategoricalDistribution)]
    if choices:
        return ForeignParameter(choices=tuple(dict.fromkeys(choice for options in choices for choice in options)))
    numeric = [d for d in distributions if isinstance(d, FloatDistribution | IntDistribution)]
    low, high = min(d.low for d in numeric), max(d.high for d in numeric)
    return ForeignParameter(float(low), float(high), log=any(d.log for d in numeric))
