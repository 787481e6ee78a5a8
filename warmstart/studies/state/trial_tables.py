"""Trials of a study read from the tables of Optuna's database, since its own way takes a minute for 100,000 reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy import Connection, select

from warmstart.studies.state.sqlite_file import READS_ALONE

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


MOST_NAMED = 900
"""Trials that a statement names, at most: SQLite takes some 1,000 values."""


def database_of(storage: BaseStorage) -> RDBStorage | None:
    """Return the database of a storage; None of a journal."""
    backend = getattr(storage, "_backend", storage)
    return backend if isinstance(backend, RDBStorage) else None


def reading(database: RDBStorage) -> Connection:
    """Return a connection for reading, which holds up no writer."""
    return database.engine.connect().execution_options(**{READS_ALONE: True})


class TrialTables:
    """The trials of one study; those that ended are read once.

    They are shared: nobody may change them.

    Attributes:
        storage: of the study.
    """

    def __init__(self, storage: BaseStorage, study_id: int) -> None:
        self.storage, self._database, self._study_id = storage, database_of(storage), study_id
        self._ended: dict[int, FrozenTrial] = {}

    def read(self, convert: Callable[[FrozenTrial], FrozenTrial] = copy) -> list[FrozenTrial]:
        """Return all trials, in order of their numbers.

        Args:
            convert: called once with each trial that was read.

        Raises:
            SQLAlchemyError: the database does not answer.
        """
        ended = self._ended
        if self._database is None:
            trials = self.storage.get_all_trials(self._study_id, deepcopy=False)
            trials = [ended.get(trial._trial_id) or convert(trial) for trial in trials]  # noqa: SLF001
        else:
            with reading(self._database) as connection:
                of_study = models.TrialModel.study_id == self._study_id
                trials = read_trials(connection, of_study, ended)
            trials = [ended.get(trial._trial_id) or convert(trial) for trial in trials]  # noqa: SLF001
        self._ended = {trial._trial_id: trial for trial in trials if trial.state.is_finished()}  # noqa: SLF001
        return trials


def read_trials(
    connection: Connection, condition: Any, ended: Mapping[int, FrozenTrial] | None = None
) -> list[FrozenTrial]:
    """Read the trials of a condition table by table, in order of their numbers; those of `ended` are returned as they are.

    Raises:
        SQLAlchemyError: the database does not answer.
    """
    trial = models.TrialModel.__table__.c
    rows = select(trial.trial_id, trial.number, trial.state, trial.datetime_start, trial.datetime_complete)
    trials: dict[int, FrozenTrial] = {}
    former: list[FrozenTrial] = []
    for key, number, state, start, end in connection.execute(rows.where(condition)):
        if ended is not None and key in ended:
            former.append(ended[key])
        else:
            trials[key] = FrozenTrial(number, state, None, start, end, {}, {}, {}, {}, {}, key)
    if trials:
        # Others go on writing: what belongs to later trials is left for the next time.
        span = condition & (trial.trial_id >= min(trials)) & (trial.trial_id <= max(trials))
        named = list(trials) if len(trials) <= MOST_NAMED else select(trial.trial_id).where(span)
        _read_rows(connection, named, trials)
    return sorted((*former, *trials.values()), key=lambda trial: trial.number)


@lru_cache(maxsize=10_000)
def _distribution(text: str) -> BaseDistribution:
    return json_to_distribution(text)


def _read_rows(connection: Connection, trial_ids: Any, trials: dict[int, FrozenTrial]) -> None:
    """Read what belongs to trials: values, hyperparameters, reports, attributes."""
    param, value = models.TrialParamModel.__table__.c, models.TrialValueModel.__table__.c
    report = models.TrialIntermediateValueModel.__table__.c
    rows: Any = select(param.trial_id, param.param_name, param.param_value, param.distribution_json)
    rows = rows.where(param.trial_id.in_(trial_ids)).order_by(param.param_id)
    for key, name, number, text in _of_trials(connection, rows, trials):
        trials[key].distributions[name] = distribution = _distribution(text)
        trials[key].params[name] = distribution.to_external_repr(number)
    rows = select(value.trial_id, value.value, value.value_type).where(value.trial_id.in_(trial_ids))
    for key, number, kind in _of_trials(connection, rows.order_by(value.objective), trials):
        result = models.TrialValueModel.stored_repr_to_value(number, kind)
        trials[key].values = [*(trials[key].values or ()), result]
    rows = select(report.trial_id, report.step, report.intermediate_value, report.intermediate_value_type)
    rows = rows.where(report.trial_id.in_(trial_ids)).order_by(report.step)
    for key, step, number, kind in _of_trials(connection, rows, trials):
        read = models.TrialIntermediateValueModel.stored_repr_to_intermediate_value
        trials[key].intermediate_values[step] = read(number, kind)
    for model, attributes in (
        (models.TrialUserAttributeModel, "user_attrs"),
        (models.TrialSystemAttributeModel, "system_attrs"),
    ):
        note = model.__table__.c
        rows = select(note.trial_id, note.key, note.value_json).where(note.trial_id.in_(trial_ids))
        for key, name, text in _of_trials(connection, rows, trials):
            getattr(trials[key], attributes)[name] = json.loads(text)


def _of_trials(connection: Connection, rows: Any, keys: Container[int]) -> Any:
    """Yield rows whose first column is one of the keys."""
    return (row for row in connection.execute(rows) if row[0] in keys)
