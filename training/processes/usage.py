"""What the processes below one use: memory and CPU time."""

import contextlib
import ctypes
import sys
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


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of the settings in malloc.h of the GNU C library."""
_LARGEST_BLOCK = 1 << 30


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out."""
    # By name, without loading torch; torch's CPU allocator raises a plain RuntimeError.
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def reuse_freed_memory() -> None:
    """Let the GNU C library reuse freed blocks, instead of returning them to the system; elsewhere do nothing.

    A network's maps are tens of megabytes that come and go with every batch: fetching them anew from the system takes as
    long as computing features. Only for a process that does little else: it holds its largest memory until it ends.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
