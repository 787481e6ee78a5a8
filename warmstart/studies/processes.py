"""Groups of processes: what they hold and how they end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path

PROC = Path("/proc")
STEP_S = 0.01


def end_group(process: SpawnProcess, *, grace_s: float) -> None:
    """End a process and its group: SIGTERM, and SIGKILL for what is left after the grace, or at once on Ctrl-C.

    Args:
        process: leader of its group, or not yet.
        grace_s: seconds between the two.
    """
    assert process.pid is not None  # noqa: S101  started
    try:
        if not _signal_group(process.pid, signal.SIGTERM):
            process.terminate()
        until = time.monotonic() + grace_s
        leave(process, grace_s)
        while time.monotonic() < until and (_members(process.pid) if PROC.is_dir() else _signal_group(process.pid, 0)):
            time.sleep(STEP_S)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def leave(process: SpawnProcess, wait_s: float) -> None:
    """Wait for a process to end by itself; unlike `join`, also where it closed what `join` waits for."""
    until = time.monotonic() + wait_s
    while process.exitcode is None and time.monotonic() < until:
        time.sleep(STEP_S)


def session_memory(session: int) -> int:
    """Count the bytes of memory that the processes of a session hold together, shared pages once; 0 where /proc is not."""
    pids = _members(session)
    held = sum(_field(pid, "status", "VmRSS") for pid in pids)
    return held if len(pids) < 2 else min(held, sum(_field(pid, "smaps_rollup", "Pss") for pid in pids))


def _members(session: int) -> list[str]:
    """List the processes of a session, without the dead that nobody has taken note of."""
    members = []
    for entry in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it may end while we look
            # After the name, which may hold anything: state, parent, group, session.
            state, _, _, own = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:4]
            if int(own) == session and state not in b"ZX":
                members.append(entry.name)
    return members


def _field(pid: str, file: str, name: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\s+(\d+) kB", (PROC / pid / file).read_text(errors="replace"), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def _signal_group(group: int, number: int) -> bool:
    """Send a signal; tell whether there is such a group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS, where all are zombies
        return False
    return True
