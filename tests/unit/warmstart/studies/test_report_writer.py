"""Reports are written in batches, in order, soon, and never lost in silence."""

import math
import threading
import time

import pytest
from test_trial_queue import begun, outcome

from warmstart.history_store.errors import StorageError
from warmstart.studies.state import report_writer
from warmstart.studies.state.report_writer import ReportWriter


def stored(path, number=0):
    """Read what another process would."""
    with begun(path) as ledger:
        return ledger.trials()[number].intermediate_values


def until(done, limit=60.0):
    end = time.monotonic() + limit
    while not done() and time.monotonic() < end:
        time.sleep(0.01)
    assert done()


def test_reports_are_stored_soon_and_the_last_of_a_step_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(report_writer, "BATCH", 7)
    path = tmp_path / "s.db"
    odd = {30: math.inf, 31: -math.inf, 2**40: 1e-300}
    with begun(path) as ledger:
        run = ledger.next(2)
        for step in range(20):
            assert ledger.report(run, step, 9.0) is False
        until(lambda: len(stored(path)) == 20)  # while the trial goes on
        expected = dict.fromkeys(range(20), 9.0) | {3: 0.25, 3.2: 0.125} | odd
        for step, error in [(3, 0.5), (3.0, 0.25), (3.2, 0.5), (3.2, 0.125), *odd.items()]:
            ledger.report(run, step, error)
        ledger.end(run, outcome(run.config, run.seed))
        assert stored(path) == expected
        run = ledger.next(2)
        ledger.report(run, 1, math.nan)
    assert math.isnan(stored(path, 1)[1])  # what is left is written where the study stops in the middle


def test_a_report_that_cannot_be_written_stops_the_study(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="room on the disk"), begun(tmp_path / "s.db") as ledger:  # noqa: PT012
        run = ledger.next(1)
        monkeypatch.setattr(report_writer, "_write", full)
        ledger.report(run, 1, 1.0)
        until(lambda: ledger._reports._failure)
        with pytest.raises(StorageError, match="room on the disk"):
            ledger.report(run, 2, 1.0)
        ledger.end(run, outcome(run.config, run.seed))
    monkeypatch.undo()
    assert stored(tmp_path / "s.db") == {}


def test_order_and_back_pressure(monkeypatch):
    monkeypatch.setattr(report_writer, "MAX_PENDING", 5)
    monkeypatch.setattr(report_writer, "PAUSE_S", 0.01)
    gate, written = threading.Event(), []

    def write(trial, reports):
        gate.wait()
        written.extend((trial, step) for step in reports)

    writer = ReportWriter(write)
    said = []

    def add():
        for number in range(40):
            writer.add(number // 10, number, 1.0)
            said.append(number)

    thread = threading.Thread(target=add)
    thread.start()
    until(lambda: len(said) >= 5)
    time.sleep(0.1)
    assert len(said) <= 2 * 5  # one batch on its way, one waits
    gate.set()
    thread.join()
    writer.close()
    assert written == [(number // 10, number) for number in range(40)]
    until(lambda: not writer._thread.is_alive())
