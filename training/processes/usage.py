"""What the processes below one use: memory and CPU time."""

import contextlib
from collections.abc import Iterator

import psutil


def memory_below(root: int) -> int:
    """Return the bytes of memory of all descendants of a process; shared pages count once, where the system tells them."""
    resident, shared = [], []
    for process in _below(root):
        with contextlib.suppress(psutil.Error):
            resident.append(process.memory_info().rss)
            shared.append(process)
    if len(resident) < 2:
        return sum(resident)
    return min(sum(resident), sum(map(_proportional, shared)))


def work_below(root: int) -> float:
    """Return the seconds of CPU work of all descendants of a process, and of those of theirs that ended."""
    total = 0.0
    for process in _below(root):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _below(root: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        yield from psutil.Process(root).children(recursive=True)


def _proportional(process: psutil.Process) -> int:
    """Return the memory of a process, where shared pages are divided among those who share them; 0 if it is gone."""
    with contextlib.suppress(psutil.Error, AttributeError):
        return int(getattr(process.memory_full_info(), "pss"))  # noqa: B009  Linux alone has it
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
