"""Two writers wait, or are told."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import histories
import pytest

from warmstart.history_store.errors import HistoryLockedError, HistoryReadOnlyError, StorageError
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import verify


def test_the_second_writer_is_told_who_holds_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with History.open(path, write=True):
        monkeypatch.setattr(
            "warmstart.history_store.file.lock.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
        )
        with pytest.raises(HistoryLockedError, match=rf"got a lock held by process {os.getpid()} after 0\.1 s"):
            History.open(path, write=True, lock_timeout=0.1)
        assert 0.1 <= now[0] < 0.2
        History.open(path).close()  # readers need no lock
    History.open(path, write=True, lock_timeout=0).close()


def test_the_second_writer_waits(path: Path) -> None:
    first = History.open(path, write=True)
    first.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=50))
    threading.Timer(0.2, first._lock.release).start()  # type: ignore[union-attr]
    with History.open(path, write=True, lock_timeout=10) as second:
        assert second.n_evaluations == len(histories.runs()) + 1
        second.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=51))
    first.close()


def test_another_process_that_dies_frees_it(path: Path) -> None:
    code = (
        "import os, sys, time; from warmstart.history_store.history import History; h = History.open(sys.argv[1], write=True)\n"
        "print('held', flush=True); pid = os.fork()\n"
        "time.sleep(60)"  # a child lives on and must not keep the lock
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, process_group=0
    ) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(HistoryLockedError, match=f"process {holder.pid}"):
                History.open(path, write=True, lock_timeout=0)
            time.sleep(0.3)
            holder.kill()
            with History.open(path, write=True, lock_timeout=5) as history:
                history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=50))
        finally:
            os.killpg(holder.pid, 9)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_may_not_write(path: Path) -> None:
    with History.open(path, write=True) as history:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                history.append(Evaluation("digits", histories.configs(1)[0], 0.5))
            except HistoryReadOnlyError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(pid, 0)
        with os.fdopen(reader) as pipe:
            assert (
                f"expected the process that opened it for writing ({os.getpid()}), got its child {pid}" in pipe.read()
            )
        history.append(Evaluation("digits", histories.configs(1)[0], 0.5))
        with pytest.raises(HistoryLockedError):
            WriterLock(path, timeout=0)


def run(seed: int) -> Evaluation:
    return Evaluation("digits", histories.configs(1)[0], 0.5, seed=seed)


def seeds(path: Path) -> set[int | None]:
    with History.open(path) as history:
        return {run.seed for run in history.evaluations("digits")}


@pytest.fixture(params=[True, False], ids=["locks of open files", "lock file alone"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the system can lock the history itself."""
    if not request.param:
        monkeypatch.delattr(fcntl, "F_OFD_SETLK", raising=False)
    return bool(request.param and hasattr(fcntl, "F_OFD_SETLK"))


@pytest.mark.parametrize("another", [False, True])
def test_a_lock_file_removed_or_replaced_loses_nothing(path: Path, another: bool, locks: bool) -> None:
    first = History.open(path, write=True)
    first.append(run(50))
    path.with_name("h.h5.lock").unlink()
    if another:
        path.with_name("h.h5.lock").write_text("1\n")
    acknowledged = {50}
    if locks:
        with pytest.raises(HistoryLockedError):
            History.open(path, write=True, lock_timeout=0)
    else:
        with History.open(path, write=True, lock_timeout=0) as second:
            second.append(run(51))
            second.compact()
            second.append(run(52))
        acknowledged |= {51, 52}
    for attempt in (lambda: first.append(run(60)), first.compact, lambda: first.remove_dataset("digits")):
        with pytest.raises(
            StorageError, match=r"expected the lock file that this writer locked, got .*open the history again"
        ):
            attempt()
    first.close()
    with History.open(path, write=True, lock_timeout=0) as third:
        third.append(run(53))
    assert acknowledged | {53} <= seeds(path)
    assert verify(path).ok


@pytest.mark.parametrize(("suffix", "put"), [("", False), ("", True), (".journal", True)])
def test_a_writer_whose_file_was_replaced_stops(path: Path, suffix: str, put: bool) -> None:
    with History.open(path, write=True) as first:
        first.append(run(50))
        file = path.with_name(path.name + suffix)
        data = file.read_bytes()
        file.unlink()
        if put:
            file.write_bytes(data)
        before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
        with pytest.raises(
            StorageError,
            match=r"expected the (history file|journal) that this writer (locked|opened), .*open the history again",
        ):
            first.append(run(51))
        assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before
