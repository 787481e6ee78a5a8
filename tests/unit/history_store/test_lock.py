"""Two writers wait, or are told."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import histories
import pytest

from warmstart.history_store.errors import HistoryLockedError, HistoryReadOnlyError, StorageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.lock import WriterLock
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    histories.filled(tmp_path / "h.h5").close()
    return tmp_path / "h.h5"


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


def test_many_writers_lose_nothing(path: Path) -> None:
    code = (
        "import json, sys; from warmstart.history_store.history import History\n"
        "from warmstart.history_store.records import Evaluation\n"
        "for i in range(5):\n"
        "    with History.open(sys.argv[1], write=True, lock_timeout=60) as h:\n"
        "        h.append(Evaluation('digits', json.loads(sys.argv[3]), 0.5, seed=int(sys.argv[2]) + i))\n"
    )
    config = json.dumps(histories.configs(1)[0])
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(1000 * k), config]) for k in (1, 2, 3)]
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
    assert lock.is_held
    lock.release()
    lock.release()
    assert not lock.is_held


def run(seed: int) -> Evaluation:
    return Evaluation("digits", histories.configs(1)[0], 0.5, seed=seed)


def seeds(path: Path) -> set[int | None]:
    with History.open(path) as history:
        return {run.seed for run in history.evaluations("digits")}


def take_away(path: Path) -> None:
    path.with_name("h.h5.lock").unlink()


def put_another(path: Path) -> None:
    replacement = path.with_name("other")
    replacement.write_text("1\n")
    replacement.replace(path.with_name("h.h5.lock"))


@pytest.fixture(params=[True, False], ids=["locks of open files", "lock file alone"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the system can lock the history itself."""
    if not request.param:
        monkeypatch.delattr(fcntl, "F_OFD_SETLK", raising=False)
    return bool(request.param and hasattr(fcntl, "F_OFD_SETLK"))


@pytest.mark.parametrize("tamper", [take_away, put_another])
def test_a_lock_file_removed_or_replaced_loses_nothing(path: Path, tamper, locks: bool) -> None:
    first = History.open(path, write=True)
    first.append(run(50))
    tamper(path)
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


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="the system has no locks of open files")
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lock_file_removed_before_any_call(path: Path, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told that a run is kept finds it, wherever the lock file goes and another writer tries to come in."""
    at = 1 - stride
    while True:
        at, left, acknowledged = at + stride, at + stride, set[int]()
        folder = path.with_name(f"run{at}")
        folder.mkdir()
        there = folder / "h.h5"
        for suffix in ("", ".journal", ".bak"):
            shutil.copy(path.with_name(path.name + suffix), folder)

        def tamper(call: str, file: Path, there: Path = there, acknowledged: set[int] = acknowledged) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                with monkeypatch.context() as quiet:
                    quiet.setattr(durable, "hook", None)
                    take_away(there)
                    try:
                        with History.open(there, write=True, lock_timeout=0) as second:
                            second.append(run(70))
                            acknowledged.add(70)
                    except (HistoryLockedError, StorageError):
                        pass

        with History.open(there, write=True) as first:
            monkeypatch.setattr(durable, "hook", tamper)
            try:
                for seed in (50, 51):
                    first.append(run(seed))
                    acknowledged.add(seed)
                    first.compact()
            except StorageError:
                pass
            monkeypatch.setattr(durable, "hook", None)
        assert 70 not in acknowledged
        assert acknowledged <= seeds(there)
        assert verify(there).ok, verify(there).problems
        shutil.rmtree(folder)
        if left > 0:
            break
    assert at > 40


@pytest.mark.parametrize("suffix", ["", ".journal"])
@pytest.mark.parametrize("put", [False, True])
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
