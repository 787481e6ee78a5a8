"""Two writers wait, or are told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import histories
import pytest

from history_store.errors import HistoryLockedError, HistoryReadOnlyError
from history_store.file.lock import WriterLock
from history_store.history import History
from history_store.records import Evaluation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    histories.filled(tmp_path / "h.h5").close()
    return tmp_path / "h.h5"


def test_the_second_writer_is_told_who_holds_it(path: Path) -> None:
    with History.open(path, write=True):
        start = time.monotonic()
        with pytest.raises(HistoryLockedError, match=rf"got a lock held by process {os.getpid()} after 0\.1 s"):
            History.open(path, write=True, lock_timeout=0.1)
        assert 0.1 <= time.monotonic() - start < 5
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
        "import os, sys, time; from history_store.history import History; h = History.open(sys.argv[1], write=True)\n"
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


def test_many_writers_lose_nothing(path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); import histories; from history_store.history import History\n"
        "from history_store.records import Evaluation\n"
        "for i in range(5):\n"
        "    with History.open(sys.argv[1], write=True, lock_timeout=60) as h:\n"
        "        h.append(Evaluation('digits', histories.configs(1)[0], 0.5, seed=int(sys.argv[2]) + i))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(1000 * k)]) for k in (1, 2, 3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with History.open(path) as history:
        seeds = {run.seed for run in history.evaluations("digits")}
        assert seeds >= {1000 * k + i for k in (1, 2, 3) for i in range(5)}


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


def test_releasing_twice(path: Path) -> None:
    lock = WriterLock(path, timeout=0)
    assert lock.held
    lock.release()
    lock.release()
    assert not lock.held
