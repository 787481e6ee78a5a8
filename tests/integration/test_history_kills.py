"""A writer is killed between any two system calls, the power is cut, bytes are lost: nothing acknowledged goes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import histories
import numpy as np
import pytest

from warmstart.history_store.errors import HistoryDamagedError, StorageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.base import read_content
from warmstart.history_store.file.journal import parse
from warmstart.history_store.file.layout import open_file
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import restore, verify

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # fork, from Python 3.12 on
Step = Callable[[History], None]


def run(seed: int, dataset: str = "digits") -> Step:
    evaluation = Evaluation(dataset, histories.configs(6)[seed % 6], 0.5, seed=seed, curve=((1, 0.75), (2, 0.5)))
    return lambda history: history.append(evaluation)


def batch(start: int) -> Step:
    config = histories.configs(1)[0]
    return lambda history: history.extend(Evaluation("digits", config, 0.5, seed=start + i) for i in range(501))


STEPS: tuple[tuple[str, Step], ...] = (
    ("append", run(0)),
    ("append with a new configuration", run(5)),
    ("extend through the journal", lambda h: h.extend([Evaluation("..", histories.configs(1)[0], 0.25)] * 3)),
    ("add images", lambda h: h.add_dataset(histories.info("new"), histories.pictures(10, size=8))),
    ("append", run(2, "new")),
    ("add without images", lambda h: h.add_dataset(histories.info("bare"))),
    ("compact", lambda h: h.compact()),
    ("append", run(3)),
    ("remove", lambda h: h.remove_dataset("new")),
    ("append", run(4)),
    ("remove", lambda h: h.remove_dataset("bare")),
    ("embeddings", lambda h: h.set_embeddings("abc", {"digits": np.ones(4, np.float32)})),
    ("result", lambda h: h.set_result("key", {"value": 1})),
    ("extend through the file", batch(1000)),
    ("append", run(1)),
)


def state(history: History) -> str:
    """All that a history holds, as text."""
    evaluations = histories.plain(history.evaluations())
    pixels = {name: int(history.images(name).array.sum()) for name in history.names if history.has_images(name)}
    vectors = {name: vector.tolist() for name, vector in history.embeddings("abc").items()}
    return repr((history.names, history.configs, evaluations, pixels, vectors, history.get_result("key")))


def state_at(path: Path) -> str:
    with History.open(path) as history:
        return state(history)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that every run begins with."""
    folder = tmp_path_factory.mktemp("start")
    with History.create(
        folder / "h.h5", histories.space_json(), configs=histories.configs(3), stored_size=8
    ) as history:
        history.add_datasets([(histories.info("digits"), histories.pictures(10, size=8), None)])
        history.add_dataset(histories.info(".."))
    return folder


@pytest.fixture(scope="module")
def states(start: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The state before the first step and after each."""
    folder = tmp_path_factory.mktemp("states") / "run"
    shutil.copytree(start, folder)
    with History.open(folder / "h.h5", write=True) as history:
        found = [state(history)]
        for _, step in STEPS:
            step(history)
            found.append(state(history))
    return found


def child(path: Path, acknowledge: int, calls_left: int | None) -> None:
    """Carry out all steps, acknowledging each; die before the call number `calls_left`, in the middle of a write."""
    real_write, real_pwrite = os.write, os.pwrite
    os.fsync = lambda fd: None  # a killed process loses nothing that the kernel has
    left = -1 if calls_left is None else calls_left
    inside = 0

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hook(call: str, path: Path) -> None:
        nonlocal left, inside
        if path.name == "h.h5.tmp" and call == "write":  # many and alike, and no one reads that file: every third
            inside += 1
            if inside % 3:
                return
        left -= 1
        if left == 0:
            if call != "write":
                kill()
            os.write = lambda fd, data: (real_write(fd, data[: len(data) // 2]), kill())
            os.pwrite = lambda fd, data, at: (real_pwrite(fd, data[: len(data) // 2], at), kill())

    durable.hook = hook
    with History.open(path, write=True) as history:
        for _, step in STEPS:
            step(history)
            real_write(acknowledge, b"+")
    real_write(acknowledge, b".%d" % -left)


def killed(folder: Path, *, calls_left: int | None = None, after_s: float | None = None) -> bytes:
    """Run the steps in a child that gets killed; returns what it acknowledged."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            child(folder / "h.h5", writer, calls_left)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reader, "rb") as pipe:
        acknowledged = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return acknowledged


def check(folder: Path, done: int, states: list[str], *, thorough: bool = True) -> None:
    """Check that nothing acknowledged is lost, that the history goes on, and that its backup can replace it."""
    path = folder / "h.h5"
    if done % 2:
        (folder / "h.h5.lock").unlink(missing_ok=True)  # a person may remove it
    possible = states[done : done + 2]  # the step under way may have happened, or not
    found = state_at(path)
    assert found in possible, f"after {done} steps ({STEPS[done - 1][0]}), in {STEPS[done : done + 1]}"
    if not thorough:
        return
    report = verify(path)
    assert report.ok, report.problems
    spare = folder.with_name(folder.name + "-restored")
    shutil.copytree(folder, spare)
    path_there = spare / "h.h5"
    path_there.write_bytes(path_there.read_bytes()[:-7])
    with pytest.raises(HistoryDamagedError, match="truncated"):
        History.open(path_there, write=True)
    restore(path_there)
    undone = any(name == "remove" for name, _ in STEPS[max(done - 1, 0) : done + 1])  # its backup is from before
    assert state_at(path_there) in (states[max(done - 1, 0) : done + 2] if undone else possible)
    with History.open(path, write=True) as history:
        history.append(Evaluation("..", histories.configs(1)[0], 0.5, seed=99))
        after = state(history)
    assert state_at(path) == after
    report = verify(path)
    assert report.ok, report.problems
    assert {p.name for p in folder.iterdir()} <= {"h.h5", "h.h5.bak", "h.h5.index", "h.h5.journal", "h.h5.lock"}


def number_of_calls(start: Path, folder: Path) -> int:
    shutil.copytree(start, folder)
    acknowledged = killed(folder)
    assert acknowledged.startswith(b"+" * len(STEPS) + b".")
    return int(acknowledged.split(b".")[1]) - 1


def kill_between_calls(start: Path, states: list[str], folder: Path, stride: int) -> int:
    n = number_of_calls(start, folder / "whole")
    points = range(1 + n % stride, n + 1, stride)
    for k in points:
        place = folder / f"kill{k}"
        shutil.copytree(start, place)
        acknowledged = killed(place, calls_left=k)
        assert b"." not in acknowledged
        check(place, len(acknowledged), states)
        shutil.rmtree(place)
        shutil.rmtree(folder / f"kill{k}-restored")
    return len(points)


def test_some_kills_between_system_calls(start: Path, states: list[str], tmp_path: Path) -> None:
    assert kill_between_calls(start, states, tmp_path, 97) >= 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "apart", [pytest.param(5, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.campaign)]
)
def test_a_kill_at_any_system_call(start: Path, states: list[str], tmp_path: Path, apart: int) -> None:
    assert kill_between_calls(start, states, tmp_path, apart) >= 200 // apart


class Disk:
    """What a power cut would leave of a folder: the names and the bytes that were synced, no more."""

    def __init__(self, folder: Path, cut: Callable[[], None]) -> None:
        self.folder, self.cut = folder, cut
        self.alive = folder.with_name("alive")  # links keep numbers of removed files from being used again
        self.alive.mkdir()
        self.previous: tuple[str, Path] | None = None
        self.bytes: dict[int, bytes] = {}
        for path in folder.iterdir():
            self.bytes[self.number(path)] = path.read_bytes()
        self.sync_names()

    def number(self, path: Path) -> int:
        number = path.stat().st_ino
        if not (self.alive / str(number)).exists():
            os.link(path, self.alive / str(number))
        return number

    def sync_names(self) -> None:
        self.names = {path.name: self.number(path) for path in self.folder.iterdir()}

    def hook(self, call: str, path: Path) -> None:
        """Note what the previous call has made lasting, and try a power cut before this one."""
        for file in self.folder.iterdir():
            self.number(file)
        if self.previous is not None:
            done, place = self.previous
            if done == "fsync":
                self.bytes[self.number(place)] = place.read_bytes()
            elif done == "fsync-folder":
                self.sync_names()
        self.previous = (call, path)
        if call != "write" or not path.name.endswith(".tmp"):  # what happens to a temporary file is nobody's business
            self.cut()

    def leave(self, target: Path, *, names: dict[str, int], zeros: bool) -> None:
        """Write what a cut leaves; unsynced bytes are gone, or zero."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name, number in names.items():
            data = self.bytes.get(number, b"")
            if zeros:
                data += bytes(max(0, (self.alive / str(number)).stat().st_size - len(data)))
            (target / name).write_bytes(data)

    def variants(self, target: Path) -> Iterator[None]:
        """Unsynced names lost or kept, unsynced bytes lost or zero."""
        current = {path.name: self.number(path) for path in self.folder.iterdir()}
        for names in (self.names, current):
            for zeros in (False, True):
                self.leave(target, names=names, zeros=zeros)
                yield


@pytest.mark.slow
def test_power_cuts_lose_nothing_acknowledged(
    start: Path, states: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = tmp_path / "run", tmp_path / "cut"
    shutil.copytree(start, folder)
    done = cuts = 0

    def cut() -> None:
        nonlocal cuts
        with monkeypatch.context() as quiet:
            quiet.setattr(durable, "hook", None)
            for _ in disk.variants(target):
                check(target, done, states, thorough=False)
                cuts += 1

    disk = Disk(folder, cut)
    monkeypatch.setattr(durable, "hook", disk.hook)
    with History.open(folder / "h.h5", write=True) as history:
        for done, (_, step) in enumerate(STEPS):  # noqa: B007 - `cut` reads it
            step(history)
    assert cuts > 200


@pytest.fixture
def journal(start: Path, tmp_path: Path) -> tuple[Path, bytes, list[str]]:
    """A history with a journal: path, the journal's bytes, the state after each of its lines."""
    folder = tmp_path / "run"
    shutil.copytree(start, folder)
    path = folder / "h.h5"
    with History.open(path, write=True) as history:
        history.compact()
        found = [state(history)] * 2  # an empty journal, one with its first line only
        for seed in range(6):
            run(seed)(history)
            found.append(state(history))
    return path, (folder / "h.h5.journal").read_bytes(), found


def test_every_byte_prefix_of_a_journal(journal: tuple[Path, bytes, list[str]]) -> None:
    path, data, found = journal
    with open_file(path) as file:
        base = read_content(file, str(path))
    for n in range(len(data) + 1):
        text = parse(data[:n])
        content = base.copy()
        for operation in text.after(base.serial):
            content.apply(operation)
        lines = data[:n].count(b"\n")
        assert len(content.table) == max(lines - 1, 0)
        assert text.torn == (n > 0 and data[n - 1 : n] != b"\n")
        assert not text.damaged
        if n % 997 == 0 or data[n - 1 : n] == b"\n":
            path.with_name("h.h5.journal").write_bytes(data[:n])
            assert state_at(path) == found[lines]
            assert verify(path).ok


@pytest.mark.parametrize("n", [0, 60, 400, -1])
def test_a_torn_journal_is_written_on(journal: tuple[Path, bytes, list[str]], n: int) -> None:
    path, data, found = journal
    for rest in (b"", bytes(40), bytes(40) + b"\n"):
        path.with_name("h.h5.journal").write_bytes(data[:n] + rest)
        with History.open(path, write=True) as history:
            assert state(history) == found[data[:n].count(b"\n")]
            run(100)(history)
            after = state(history)
        assert state_at(path) == after
        assert verify(path).ok


def test_a_flipped_byte_in_the_journal_never_gives_wrong_data(journal: tuple[Path, bytes, list[str]]) -> None:
    path, data, found = journal
    noticed = 0
    for n in range(0, len(data), 101):
        altered = bytearray(data)
        altered[n] ^= 1 << (n % 8)
        path.with_name("h.h5.journal").write_bytes(altered)
        report = verify(path)
        if report.ok:
            assert state_at(path) in found[-2:]  # upper and lower case of a checksum; the last line taken for torn
        else:
            with pytest.raises(StorageError, match=r"h\.h5\.journal"):
                History.open(path)
            noticed += 1
    assert noticed > len(data) / 101 * 0.8


def flip_bytes(start: Path, folder: Path, offsets: list[int]) -> int:
    path = folder / "h.h5"
    shutil.copytree(start, folder, dirs_exist_ok=True)
    path.with_name("h.h5.bak").unlink(missing_ok=True)
    whole, data = state_at(path), path.read_bytes()
    noticed = 0
    for offset in offsets:
        altered = bytearray(data)
        altered[offset % len(data)] ^= 0x10
        path.write_bytes(altered)
        if verify(path).ok:  # padding, or room that nothing uses
            assert state_at(path) == whole, f"byte {offset}"
        else:
            noticed += 1
    return noticed


def test_verify_notices_flipped_bytes(start: Path, tmp_path: Path) -> None:
    offsets = random.Random(0).sample(range(10**9), 40)
    assert flip_bytes(start, tmp_path / "run", offsets) > 15
