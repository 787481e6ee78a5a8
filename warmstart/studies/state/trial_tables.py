"""Trials of a study read from the tables of Optuna's database, since its own way takes a minute for 100,000 reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Mapping
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, select, text

from warmstart.studies.state.attributes import CHECKPOINT, CLAIM, RUN
from warmstart.studies.state.sqlite_file import READS_ALONE

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


MOST_NAMED = 5000
"""Trials that a statement names, at most."""
CONSTANT = (RUN, CLAIM, CHECKPOINT)
"""Attributes that do not change once a trial has all three of them; they are most of what it has."""


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
        else:
            with reading(self._database) as connection:
                trials = read_trials(connection, models.TrialModel.study_id == self._study_id, ended=ended)
        trials = [ended.get(trial._trial_id) or convert(trial) for trial in trials]  # noqa: SLF001
        self._ended = {trial._trial_id: trial for trial in trials if trial.state.is_finished()}  # noqa: SLF001
        return trials


def read_trials(
    connection: Connection,
    condition: Any,
    *,
    ended: Mapping[int, FrozenTrial] | None = None,
    begun: Mapping[int, FrozenTrial] | None = None,
) -> list[FrozenTrial]:
    """Read the trials of a condition table by table, in order of their numbers.

    Args:
        connection: to their database.
        condition: on the rows of the trials.
        ended: trials by id that are returned as they are.
        begun: trials by id whose configuration is stored, which does not change any more: it is not read again.

    Raises:
        SQLAlchemyError: the database does not answer.
    """
    trial = models.TrialModel.__table__.c
    rows = select(trial.trial_id, trial.number, trial.state, trial.datetime_start, trial.datetime_complete)
    new, running, former = dict[int, FrozenTrial](), dict[int, FrozenTrial](), list[FrozenTrial]()
    for key, number, state, start, end in connection.execute(rows.where(condition)):
        if ended is not None and key in ended:
            former.append(ended[key])
        elif begun is not None and key in begun and state == TrialState.RUNNING:
            known = begun[key]
            user_attrs, system_attrs = (
                {name: attrs[name] for name in CONSTANT if name in attrs}
                for attrs in (known.user_attrs, known.system_attrs)
            )
            running[key] = FrozenTrial(
                number,
                state,
                None,
                start,
                None,
                dict(known.params),
                dict(known.distributions),
                user_attrs,
                system_attrs,
                {},
                key,
            )
        else:
            new[key] = FrozenTrial(number, state, None, start, end, {}, {}, {}, {}, {}, key)
    # Others go on writing: what belongs to later trials is left for the next time.
    if new:
        named = _named(new, condition)
        _read_configs(connection, named, new)
        _read_notes(connection, named, new)
    if running:
        _read_notes(connection, _named(running, condition), running, without=CONSTANT)
    return sorted((*former, *new.values(), *running.values()), key=lambda trial: trial.number)


def _named(trials: Collection[int], condition: Any) -> Any:
    """Return what selects trials by their ids: as text, since a thousand values take longer to send than to find."""
    if len(trials) <= MOST_NAMED:
        return text(", ".join(map(str, trials)))
    key = models.TrialModel.__table__.c.trial_id
    return select(key).where(condition & (key >= min(trials)) & (key <= max(trials)))


@lru_cache(maxsize=10_000)
def _distribution(written: str) -> BaseDistribution:
    return json_to_distribution(written)


def _read_configs(connection: Connection, trial_ids: Any, trials: dict[int, FrozenTrial]) -> None:
    """Read hyperparameters and values of trials."""
    param, value = models.TrialParamModel.__table__.c, models.TrialValueModel.__table__.c
    rows: Any = select(param.trial_id, param.param_name, param.param_value, param.distribution_json)
    rows = rows.where(param.trial_id.in_(trial_ids)).order_by(param.param_id)
    for key, name, number, written in _of_trials(connection, rows, trials):
        trials[key].distributions[name] = distribution = _distribution(written)
        trials[key].params[name] = distribution.to_external_repr(number)
    rows = select(value.trial_id, value.value, value.value_type).where(value.trial_id.in_(trial_ids))
    for key, number, kind in _of_trials(connection, rows.order_by(value.objective), trials):
        result = models.TrialValueModel.stored_repr_to_value(number, kind)
        trials[key].values = [*(trials[key].values or ()), result]


def _read_notes(
    connection: Connection, trial_ids: Any, trials: dict[int, FrozenTrial], *, without: Collection[str] = ()
) -> None:
    """Read reports and attributes of trials, without some of these."""
    report = models.TrialIntermediateValueModel.__table__.c
    rows: Any = select(report.trial_id, report.step, report.intermediate_value, report.intermediate_value_type)
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
        for key, name, written in _of_trials(connection, rows.where(note.key.not_in(without)), trials):
            getattr(trials[key], attributes)[name] = json.loads(written)


def _of_trials(connection: Connection, rows: Any, keys: Container[int]) -> Any:
    """Yield rows whose first column is one of the keys."""
    return (row for row in connection.execute(rows) if row[0] in keys)
