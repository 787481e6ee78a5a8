"""A small process that starts a command, and ends it with all that it started when this is asked or its parent is gone.

A program of its own, without the rest of the package: ``python -I -S guardian.py GRACE_S COMMAND ...``. Its standard input
is its line to the parent: ``t`` = end by SIGTERM, then SIGKILL after the grace; ``k`` or the end of the line = SIGKILL now.
What the command leaves behind when it ends is ended too. Then the guardian ends as the command did.

On Linux, whatever loses its parent below the guardian becomes the guardian's child (a "subreaper"), so a process in a
session or group of its own is found too. Elsewhere only the command's process group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")
NOT_STARTED = 127
"""Exit code where the command cannot be started, as of a shell."""
LOOK_S = 1.0
"""Between two looks whether the parent is still there."""
STEP_S = 0.005
SLOW_STEP_S = 0.2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants(root: int) -> set[int]:
    """Return the processes below one that still run, however deep; empty where /proc is not."""
    return {pid for pid, (_, runs, _) in _below(root).items() if runs}


def _below(root: int) -> dict[int, tuple[int, bool, int]]:
    """Return the states of the processes below one, those that nobody has taken note of yet too; see `_state`."""
    states: dict[int, tuple[int, bool, int]] = {}
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if PROC.is_dir() else ():  # noqa: PTH208  ten times faster
        if entry.isdecimal() and (state := _state(int(entry))) is not None:
            states[int(entry)] = state
            children.setdefault(state[0], []).append(int(entry))
    found: dict[int, tuple[int, bool, int]] = {}
    todo = [root]
    while todo:
        below = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update((pid, states[pid]) for pid in below)
        todo.extend(below)
    return found


def _state(pid: int) -> tuple[int, bool, int] | None:
    """Read the parent of a process, whether it runs, and its group; None where there is none."""
    try:
        # After the name, which may hold anything: state, parent, group, …, the number of threads as the 18th.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0] not in (b"Z", b"X") or int(fields[17]) > 1, int(fields[2])


class Guardian:
    """The inside of the guardian."""

    def __init__(self, grace_s: float, command: Sequence[str]) -> None:
        """Start the command."""
        self.grace_s = grace_s
        self.parent = os.getppid()
        self.status: int | None = None
        self.line = 0
        self.news, wake = os.pipe()
        os.set_blocking(wake, False)
        _control(_PR_SET_CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self.child = os.fork()
        if self.child == 0:
            self._become(command)
        self._keep_only({0, self.news, wake})

    def run(self) -> int:
        """Wait for the end of the command and of all that it started; gives the command's status as `waitpid` has it."""
        order = ""
        while not order and self.status is None:
            order = self._next(LOOK_S)
            self._reap()
        until = time.monotonic() + self.grace_s
        if order != "k":
            self._send(signal.SIGTERM)
        while order != "k" and self._left() and (left_s := until - time.monotonic()) > 0:
            if self._next(min(STEP_S, left_s)) == "k":
                order = "k"
        self._kill()
        return self.status or 0

    def _become(self, command: Sequence[str]) -> None:
        """Turn the forked child into the command."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.execvp(command[0], list(command))  # noqa: S606  no shell wanted
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
        finally:
            os._exit(NOT_STARTED)

    @staticmethod
    def _keep_only(kept: set[int]) -> None:
        """Close what is the command's alone, so that its pipes end with it."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        for descriptor in range(3, max(kept) + 256):
            if descriptor not in kept:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _next(self, wait_s: float) -> str:
        """Wait for something to happen; gives an order: "t", "k" or none."""
        ready, _, _ = select.select([self.line, self.news], [], [], wait_s)
        if self.line in ready:
            try:
                return "k" if os.read(self.line, 1) != b"t" else "t"
            except OSError:
                return "k"
        if self.news in ready and signal.SIGTERM in os.read(self.news, 4096):
            return "t"
        return "" if os.getppid() == self.parent else "k"

    def _reap(self) -> bool:
        """Take note of the dead, the command and what others left to us; tell whether a child is left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.child:
                    self.status = ended[1]
        except ChildProcessError:
            return False
        return True

    def _left(self) -> bool:
        """Return whether anything still runs.

        On Linux all below is below one of our children: without one, nothing is left. A look at /proc would miss
        processes that start another and end between two reads.
        """
        has_child = self._reap()
        return has_child if PROC.is_dir() else _signal_group(self.child, 0)

    def _send(self, number: int) -> None:
        if not PROC.is_dir():
            _signal_group(self.child, number)
        for pid in descendants(os.getpid()):
            _signal(pid, number)

    def _kill(self) -> None:
        """Kill until nothing is left.

        Groups go at once: no process of one escapes by starting another meanwhile. What is still there is stopped first.
        """
        pause = STEP_S
        while self._left():
            groups = {group for _, _, group in _below(os.getpid()).values()} | {self.child}
            for group in groups - {0, os.getpgrp()}:
                _signal_group(group, signal.SIGKILL)
            frozen: set[int] = set()
            while new := descendants(os.getpid()) - frozen:
                for pid in new:
                    _signal(pid, signal.SIGSTOP)
                frozen |= new
            for pid in frozen:
                _signal(pid, signal.SIGKILL)
            self._reap()
            time.sleep(pause)
            pause = min(2 * pause, SLOW_STEP_S)
        self._reap()


def end_like(status: int) -> None:
    """End this process as another one ended, given its status as `waitpid` has it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _control(option: int, value: int) -> None:
    """Set an attribute of this process where the system is Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone, or another user's."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal; tell whether there is such a group."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, where all are zombies
        return False
    return True


if __name__ == "__main__":
    end_like(Guardian(float(sys.argv[1]), sys.argv[2:]).run())
