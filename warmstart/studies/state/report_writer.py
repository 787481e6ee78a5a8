"""Write the reports of trials in batches by a thread, so that no trial waits for a disk or a server."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.attributes import STEP
from warmstart.studies.state.reported_steps import numbers_of, steps_of

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, JournalStorage, RDBStorage

    from warmstart.studies.state.storage import Store

PAUSE_S = 0.2
"""Seconds in which reports are collected for a batch."""
MAX_PENDING = 10_000
"""Unwritten reports at most; a trial that reports faster than its storage writes must wait then."""
BATCH = 1_000
"""Reports of one transaction."""
Reports = Mapping[float, float]
"""Errors by step."""


class ReportWriter:
    """Writer of reports in a thread, in their order.

    If a report cannot be written, the next call raises. Only one thread may call.
    """

    def __init__(self, write: Callable[[int, Reports], None]) -> None:
        """Create the writer; `write` stores the errors of a trial by step, durably, and is called in another thread."""
        self._write = write
        self._condition = threading.Condition()
        self._pending: dict[tuple[int, float], float] = {}
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_urgent = self._is_writing = self._is_closed = self._is_raised = False

    def add(self, trial_id: int, step: float, error: float) -> None:
        """Add a report; it is written within `PAUSE_S` and the time of the storage.

        Raises:
            Exception: the failure of an earlier report.
        """
        with self._condition:
            self._condition.wait_for(lambda: len(self._pending) < MAX_PENDING or self._failure)
            self._check()
            self._pending[trial_id, step] = error
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def flush(self) -> None:
        """Wait until all reports are written.

        Raises:
            Exception: the failure of a report.
        """
        with self._condition:
            self._is_urgent = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not (self._pending or self._is_writing) or self._failure)
            self._is_urgent = False
            self._check()

    def close(self) -> None:
        """Write the remaining reports, and end the thread; raises as `flush`, but no failure twice."""
        try:
            if not self._is_raised:
                self.flush()
        finally:
            with self._condition:
                self._is_closed = True
                self._condition.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            self._is_raised = True
            raise self._failure

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                for trial_id, group in itertools.groupby(batch.items(), key=lambda report: report[0][0]):
                    self._write(trial_id, {step: error for (_, step), error in group})
        except BaseException as error:  # noqa: BLE001  raised in the thread that calls
            with self._condition:
                self._failure = error
                self._condition.notify_all()

    def _next_batch(self) -> dict[tuple[int, float], float]:
        """Wait for reports and return them; empty after `close`."""
        with self._condition:
            self._is_writing = False
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._pending or self._is_closed)
            self._condition.wait_for(lambda: self._is_urgent or self._is_closed, PAUSE_S)
            batch, self._pending = self._pending, {}
            self._is_writing = True
            return batch


def write_reports(store: Store, trial_id: int, reports: Reports) -> None:
    """Write the errors of a trial by step into Optuna's storage, many in one transaction.

    Raises:
        StorageError: the storage does not answer.
    """
    with store.guard():
        items = list(reports.items())
        for start in range(0, len(items), BATCH):
            _write(store.optuna, trial_id, dict(items[start : start + BATCH]))


def _write(storage: BaseStorage, trial_id: int, reports: Reports) -> None:
    from optuna.storages import JournalStorage

    if isinstance(storage, JournalStorage):
        _write_journal(storage, trial_id, reports)
    else:
        _write_tables(storage._backend, trial_id, reports)  # type: ignore[attr-defined]  # noqa: SLF001


def _write_journal(storage: JournalStorage, trial_id: int, reports: Reports) -> None:
    from optuna.storages.journal._storage import JournalOperation

    trial = storage.get_trial(trial_id)
    numbers = numbers_of(reports, taken=trial.intermediate_values, fractional=steps_of(trial.system_attrs))
    same = {"worker_id": storage._replay_result.worker_id, "trial_id": trial_id}  # noqa: SLF001
    step_of = same | {"op_code": JournalOperation.SET_TRIAL_SYSTEM_ATTR}
    report = same | {"op_code": JournalOperation.SET_TRIAL_INTERMEDIATE_VALUE}
    logs = [
        step_of | {"system_attr": {f"{STEP}{number}": step}}
        for step, number in numbers.items()
        if step != number and number not in trial.intermediate_values
    ]
    logs += [report | {"step": numbers[step], "intermediate_value": error} for step, error in reports.items()]
    with storage._thread_lock:  # noqa: SLF001
        storage._backend.append_logs(logs)  # noqa: SLF001
        storage._sync_with_backend()  # noqa: SLF001


def _write_tables(storage: RDBStorage, trial_id: int, reports: Reports) -> None:
    from optuna.storages._rdb.models import TrialIntermediateValueModel as Row
    from optuna.storages._rdb.models import TrialModel
    from optuna.storages._rdb.models import TrialSystemAttributeModel as Attribute
    from optuna.storages._rdb.storage import _create_scoped_session
    from sqlalchemy import insert

    with _create_scoped_session(storage.scoped_session) as session:
        trial = TrialModel.find_or_raise_by_id(trial_id, session)
        storage.check_trial_is_updatable(trial_id, trial.state)  # type: ignore[arg-type]  # a column's value
        attrs: Any = session.query(Attribute.key, Attribute.value_json).filter(
            Attribute.trial_id == trial_id, Attribute.key.startswith(STEP)
        )
        fractional = steps_of({name: json.loads(text) for name, text in attrs})
        is_usual = not fractional and all(step == int(step) for step in reports)  # all are their own numbers
        taken = [] if is_usual else session.query(Row.step).filter(Row.trial_id == trial_id)
        numbers = numbers_of(reports, taken=[number for (number,) in taken], fractional=fractional)
        matches = session.query(Row).filter(Row.trial_id == trial_id, Row.step.in_(list(numbers.values())))
        existing: dict[Any, Row] = {row.step: row for row in matches}
        value_rows, step_rows = [], []
        for step, error in reports.items():
            number = numbers[step]
            value, kind = Row.intermediate_value_to_stored_repr(error)
            if number in existing:
                existing[number].intermediate_value, existing[number].intermediate_value_type = value, kind
                continue
            value_rows.append({"trial_id": trial_id, "step": number, "intermediate_value": value, "intermediate_value_type": kind})  # fmt: skip
            if number != step:
                step_rows.append({"trial_id": trial_id, "key": f"{STEP}{number}", "value_json": json.dumps(step)})
        for table, rows in ((Attribute, step_rows), (Row, value_rows)):
            if rows:
                session.execute(insert(table), rows)
