"""Studies as records, read again and again: trials that ended are read once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from warmstart.service.study_book import no_study
from warmstart.studies.results.study_record import StudyRecord, read_study_record
from warmstart.studies.state.trial_tables import TrialTables

if TYPE_CHECKING:
    from warmstart.studies.state.storage import Store

MOST_STUDIES = 50
"""Most studies whose trials are kept."""


@dataclass(slots=True)
class StudyReader:
    """A reader of the studies of one storage."""

    _tables: OrderedDict[int, tuple[TrialTables, Lock]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def read(self, store: Store, name: str) -> StudyRecord:
        """Read a study.

        Raises:
            ProblemError: 404, there is none of that name.
            DataError, StorageError: as `read_study_record`.
        """
        with store.guard():
            try:
                number = store.optuna.get_study_id_from_name(name)
            except KeyError as error:
                raise no_study(name) from error
        with self._lock:
            tables, lock = self._tables.get(number, (None, Lock()))
            if tables is None or tables.storage is not store.optuna:
                tables, lock = TrialTables(store.optuna, number), Lock()
                self._tables[number] = tables, lock
            self._tables.move_to_end(number)
            if len(self._tables) > MOST_STUDIES:
                self._tables.popitem(last=False)
        with lock:
            return read_study_record(store, name, tables)
