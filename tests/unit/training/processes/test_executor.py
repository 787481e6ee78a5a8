import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from warmstart.history_store.errors import AllTrialsFailedError, UsageError
from warmstart.training.processes.executor import FALSE_STARTS, Done, Executor, LocalExecutor, Lost


def square(x: int) -> int:
    return x * x


@dataclass
class DieOn:
    """Kills its own process on one task, as the kernel does when memory is short."""

    task: int
    folder: Path
    times: int

    def __call__(self, x: int) -> int:
        marks = len(list(self.folder.iterdir()))
        if x == self.task and marks < self.times:
            (self.folder / str(marks)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return -x


@dataclass
class BadStart:
    """Cannot be unpickled in the worker."""

    parent: int

    def __setstate__(self, state: dict[str, int]) -> None:
        if os.getpid() != state["parent"]:
            os._exit(3)

    def __call__(self, x: int) -> int:
        return x


@dataclass
class Remember:
    """Counts on itself what its worker did."""

    count: int = 0

    def __call__(self, x: int) -> tuple[int, int]:
        self.count += 1
        return os.getpid(), self.count


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def threads_and_signals(_: int) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_every_task_comes_back_once() -> None:
    executor: Executor = LocalExecutor(2)
    done = list(executor.run(square, range(20)))
    assert sorted(d.task for d in done) == list(range(20))
    assert all(d.result == d.task**2 and d.lost is None for d in done)


def test_a_task_whose_worker_died_twice_is_lost(tmp_path: Path) -> None:
    done = {d.task: d for d in LocalExecutor(2).run(DieOn(2, tmp_path, times=9), range(5))}
    assert sorted(done) == list(range(5))
    assert done[2].lost is Lost.DIED
    assert done[2].note == "its worker was killed by SIGKILL, 2 times"
    assert [done[i].result for i in (0, 1, 3, 4)] == [0, -1, -3, -4]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_task_over_the_limit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    done = dict[float, Done[float, float]]()
    # Time stands until the two short ones have ended, however late their workers get their turn.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() if len(done) == 2 else 0.0)
    monkeypatch.setattr("warmstart.training.processes.executor.time", clock)
    for each in LocalExecutor(2, limit_s=1.0).run(sleep, [60.0, 0.0, 0.01]):
        done[each.task] = each
    assert done[60.0].lost is Lost.TIMEOUT
    assert done[60.0].note == "no result after 1 s"
    assert done[0.0].result == 0.0
    assert done[0.01].result == 0.01


def test_workers_that_never_start_end_the_run() -> None:
    with pytest.raises(AllTrialsFailedError, match=f"got {FALSE_STARTS} that ended with 3 before they were ready"):
        list(LocalExecutor(1).run(BadStart(os.getpid()), [1]))


def test_closing_kills_the_workers() -> None:
    results = LocalExecutor(2).run(Remember(), range(100))
    done = next(results)
    assert done.result is not None
    pid = done.result[0]
    os.kill(pid, 0)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_workers_leave_ctrl_c_to_the_parent() -> None:
    assert [d.result for d in LocalExecutor(1).run(threads_and_signals, [0])] == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set()), "ours is as it was"


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, sys, time\n"
        "from warmstart.training.processes.executor import LocalExecutor\n"
        "def work(x):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    list(LocalExecutor(1).run(work, [1]))\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(1200):
        try:
            state = Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"worker {worker} outlived its parent")


@pytest.mark.parametrize(("workers", "limit_s"), [(0, 1.0), (1, 0.0)])
def test_refuses_no_workers_and_no_time(workers: int, limit_s: float) -> None:
    with pytest.raises(UsageError, match="LocalExecutor: expected at least one worker and a positive limit"):
        LocalExecutor(workers, limit_s=limit_s)
