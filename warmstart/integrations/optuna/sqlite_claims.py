"""Waiting trials of a study in SQLite, each of which goes to one worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import TrialModel
from optuna.trial import TrialState

if TYPE_CHECKING:
    import optuna


def hand_out_once(study: optuna.Study) -> None:
    """Let each waiting trial go to one worker, also in SQLite, where Optuna gives it to all that ask at one moment."""
    storage = study._storage  # noqa: SLF001  Optuna shows it nowhere else
    backend = getattr(storage, "_backend", storage)  # of the cache that `create_study` puts around it
    if type(backend) is RDBStorage and backend.engine.dialect.name == "sqlite":
        backend.__class__ = _SQLiteStorage  # the user's object stays, in every study that has it


class _SQLiteStorage(RDBStorage):
    """Storage in SQLite, which has no locks of rows: a worker reads and changes the state in one statement."""

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Store a state; return false for a trial that another worker began."""
        if state != TrialState.RUNNING:
            return super().set_trial_state_values(trial_id, state, values)
        is_waiting = (TrialModel.trial_id == trial_id) & (TrialModel.state == TrialState.WAITING)
        begin = sqlalchemy.update(TrialModel).where(is_waiting).values(state=state, datetime_start=datetime.now())
        with self.engine.begin() as connection:
            return connection.execute(begin).rowcount == 1
