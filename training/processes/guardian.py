"""Small process that starts a command, and ends it with all its descendants on request or when its parent is gone.

A separate program without the rest of the package: ``python -I -S guardian.py GRACE_S COMMAND ...``. Its standard input
is the line from the parent: ``t`` = SIGTERM, then SIGKILL after the grace; ``k`` or the end of the line = SIGKILL now.
When the command ends, its remaining descendants are ended too. The guardian then ends with the status of the command.

On Linux the guardian is a "subreaper": a descendant that loses its parent becomes its child, so processes in other
sessions or groups are found too. Elsewhere only the command's process group is ended.
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

assert sys.platform != "win32"  # noqa: S101  for the check of types
PROC = Path("/proc")
NOT_STARTED = 127
"""Exit code when the command cannot be started, as of a shell."""
LOOK_S = 1.0
"""Seconds between checks of the parent."""
STEP_S = 0.005
SLOW_STEP_S = 0.2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants(root: int) -> set[int]:
    """Return the running descendants of a process; empty without /proc."""
    return {pid for pid, (_, runs, _) in _below(root).items() if runs}


def _below(root: int) -> dict[int, tuple[int, bool, int]]:
    """Return the states of all descendants of a process, zombies included; see `_state`."""
    states: dict[int, tuple[int, bool, int]] = {}
    children: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if PROC.is_dir() else ():  # noqa: PTH208  ten times faster
        if entry.isdecimal() and (state := _state(int(entry))) is not None:
            states[int(entry)] = state
            children.setdefault(state[0], []).append(int(entry))
    states_below: dict[int, tuple[int, bool, int]] = {}
    todo = [root]
    while todo:
        below = [pid for pid in children.get(todo.pop(), ()) if pid not in states_below]
        states_below.update((pid, states[pid]) for pid in below)
        todo.extend(below)
    return states_below


def _state(pid: int) -> tuple[int, bool, int] | None:
    """Return parent, whether it runs, and group of a process; None if it is gone."""
    try:
        # After the name, which may hold anything: state, parent, group, …, the number of threads as the 18th.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0] not in (b"Z", b"X") or int(fields[17]) > 1, int(fields[2])


class Guardian:
    """Supervisor of one command, inside the guardian process."""

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
        self._close_others({0, self.news, wake})

    def run(self) -> int:
        """Wait for the end of the command, end its descendants, and return its status in `waitpid` form."""
        order = ""
        while not order and self.status is None:
            order = self._next(LOOK_S)
            self._reap()
        until = time.monotonic() + self.grace_s
        if order != "k":
            self._send(signal.SIGTERM)
        while order != "k" and self._has_descendants() and (left_s := until - time.monotonic()) > 0:
            if self._next(min(STEP_S, left_s)) == "k":
                order = "k"
        self._kill()
        return self.status or 0

    def _become(self, command: Sequence[str]) -> None:
        """Replace the forked child by the command."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.execvp(command[0], list(command))  # noqa: S606  without a shell
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
        finally:
            os._exit(NOT_STARTED)

    @staticmethod
    def _close_others(descriptors: set[int]) -> None:
        """Close the descriptors of the command in the guardian, so that its pipes end with it."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        for descriptor in range(3, max(descriptors) + 256):
            if descriptor not in descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _next(self, wait_s: float) -> str:
        """Wait for an event, and return the order "t", "k" or ""."""
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
        """Reap ended children, adopted ones included, and tell whether a child is left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.child:
                    self.status = ended[1]
        except ChildProcessError:
            return False
        return True

    def _has_descendants(self) -> bool:
        """Tell whether a descendant still runs.

        On Linux every descendant is below a child of the guardian: without a child, none is left. A scan of /proc would
        miss processes that start another one and end between two reads.
        """
        has_child = self._reap()
        return has_child if PROC.is_dir() else _signal_group(self.child, 0)

    def _send(self, number: int) -> None:
        if not PROC.is_dir():
            _signal_group(self.child, number)
        for pid in descendants(os.getpid()):
            _signal(pid, number)

    def _kill(self) -> None:
        """Kill descendants until none is left.

        Whole groups are killed at once, so none of their processes can start another meanwhile. All others are stopped
        first.
        """
        pause = STEP_S
        while self._has_descendants():
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
    """End this process like another one, from its status in `waitpid` form."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _control(option: int, value: int) -> None:
    """Set an attribute of this process by prctl, on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    """Send a signal to a process; errors of missing or foreign processes are ignored."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a group, and tell whether the group exists."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, where all are zombies
        return False
    return True


if __name__ == "__main__":
    end_like(Guardian(float(sys.argv[1]), sys.argv[2:]).run())
