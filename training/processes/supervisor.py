"""Supervisor: child processes that end with this one and leave nothing running; a guardian watches each."""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import reduction, resource_tracker, spawn
from multiprocessing.connection import Connection, wait
from multiprocessing.context import set_spawning_popen
from typing import IO, Any

from warmstart.training.processes import guardian
from warmstart.training.processes.guardian import PROC, descendants

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""
PATIENCE_S = 10.0
"""How long a killed process is waited for: one that the system holds cannot end."""
Stream = int | IO[Any] | None


class Supervised:
    """A command under a guardian: it ends with all that it started, also in sessions and groups of their own.

    All of it ends when this process is gone, however it went.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        grace_s: float = GRACE_S,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
        descriptors: Collection[int] = (),
    ) -> None:
        """Start a command; it reads nothing and leaves Ctrl-C to this process where that blocks it.

        Args:
            command: program and arguments; no shell.
            grace_s: seconds that it has between SIGTERM and SIGKILL, and what it leaves behind has too.
            stdout: as of `subprocess.Popen`; pipes are binary.
            stderr: as stdout.
            env: its environment; None = ours.
            descriptors: files that it inherits.

        Raises:
            OSError: when no process can be started.
        """
        self.grace_s = grace_s
        self.line, theirs = socket.socketpair()
        words = [spawn.get_executable(), "-I", "-S", guardian.__file__, f"{grace_s:g}", *command]
        try:
            with theirs:
                self.process = subprocess.Popen(  # noqa: S603
                    words, stdin=theirs.fileno(), stdout=stdout, stderr=stderr, env=env, pass_fds=tuple(descriptors),
                    start_new_session=True,
                )  # fmt: skip
        except BaseException:
            self.line.close()
            raise

    @property
    def pid(self) -> int:
        """Return the number of the guardian, above all that the command starts."""
        return self.process.pid

    @property
    def code(self) -> int | None:
        """Return the exit code of the command, negative for a signal; None while anything of it runs."""
        return self.process.poll()

    def wait(self, timeout: float = math.inf) -> int | None:
        """Wait for the end of it all; gives the exit code of the command, None where the time was too short."""
        if self.line.fileno() < 0:
            return self.code
        if self.process.returncode is None and not wait([self.line], None if math.isinf(timeout) else timeout):
            return None
        return self.process.wait()

    def terminate(self) -> None:
        """Order the end: SIGTERM, and SIGKILL after the grace. Waits for nothing."""
        self._order(b"t")

    def kill(self) -> None:
        """Order the end by SIGKILL. Waits for nothing."""
        self._order(b"k")

    def end(self, wait_s: float = 0.0) -> None:
        """End it all, and wait for that: SIGTERM, SIGKILL after the grace, or at once on Ctrl-C.

        Args:
            wait_s: seconds that it has to end by itself first.
        """
        try:
            if self.wait(wait_s) is None:
                self.terminate()
                self.wait(self.grace_s + PATIENCE_S)
        finally:
            self.kill()
            self.wait(PATIENCE_S)
            self.line.close()

    def _order(self, letter: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.line.send(letter, socket.MSG_NOSIGNAL if sys.platform == "linux" else 0)


class SupervisedProcess(Supervised):
    """A spawned Python process under a guardian, at the other end of a pipe. It never sees Ctrl-C.

    Attributes:
        pipe: our end; it closes when the process ends, unless others hold the other end open.
    """

    def __init__(
        self, target: Callable[..., None], *args: object, output: Stream = None, grace_s: float = GRACE_S
    ) -> None:
        """Start a process, as multiprocessing spawns them, but for the guardian between.

        Args:
            target: importable function; it gets the other end of the pipe, then `args`.
            args: pickled.
            output: file for all that it prints; None = where this process prints.
            grace_s: seconds between SIGTERM and SIGKILL.

        Raises:
            OSError: when no process can be started.
        """
        tracker = resource_tracker.getfd()  # its own start, with the first process, would unblock SIGINT again
        assert tracker is not None  # noqa: S101  it runs now
        descriptors = _Descriptors([tracker])
        self.pipe, child_end = multiprocessing.Pipe()
        reading, writing = os.pipe()
        # The child takes the end of this file for the end of its parent: it stays open as long as the child is ours.
        self._birth = os.fdopen(writing, "wb")
        try:
            with child_end:
                message = _pickled(_run, (child_end, target, *args), descriptors)
                descriptors.append(reading)
                words = spawn.get_command_line(tracker_fd=tracker, pipe_handle=reading)
                # Born with SIGINT blocked, it never sees Ctrl-C, not even while Python starts; ours arrives after.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    super().__init__(words, grace_s=grace_s, stdout=output, stderr=output, descriptors=descriptors)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            self.pipe.close()
            self._birth.close()
            raise
        finally:
            os.close(reading)
        with contextlib.suppress(BrokenPipeError):  # it died on the way: its exit code will tell
            self._birth.write(message)
            self._birth.flush()

    def end(self, wait_s: float = 0.0) -> None:
        """Close the pipe, on which it should leave; end it with all that it started; see `Supervised.end`."""
        try:
            self.pipe.close()
            super().end(wait_s)
        finally:
            self._birth.close()


def end_all(processes: Collection[Supervised]) -> None:
    """End several at a time: SIGTERM, SIGKILL after the grace, or at once on Ctrl-C."""
    try:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(process.grace_s + PATIENCE_S)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.end()


@dataclass(frozen=True, slots=True)
class _Inherited:
    """A file that a started process inherited, as `Connection` is unpickled from it."""

    number: int

    def detach(self) -> int:
        """Return its number."""
        return self.number


class _Descriptors(list[int]):
    """The files that a process to be started inherits; pickling a `Connection` adds one."""

    DupFd = _Inherited

    def duplicate_for_child(self, descriptor: int) -> int:
        """Note a file; it has the same number there."""
        self.append(descriptor)
        return descriptor


def _pickled(target: Callable[..., None], args: tuple[object, ...], descriptors: _Descriptors) -> bytes:
    """Pickle what `multiprocessing.spawn` reads in a new process."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)
    stream = io.BytesIO()
    set_spawning_popen(descriptors)  # type: ignore[arg-type]  # all that is asked of one is here
    try:
        reduction.dump(spawn.get_preparation_data(process.name), stream)
        reduction.dump(process, stream)
    finally:
        set_spawning_popen(None)
    return stream.getvalue()


def _run(pipe: Connection, target: Callable[..., None], *args: object) -> None:
    """Call the target in the new process."""
    # The parent ends daemons when it ends, here the guardian does: it may have children, such as those of a data loader.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    target(pipe, *args)


def describe_end(code: int | None) -> str:
    """Say how a process ended, from the exit code that Python gives: negative for a signal."""
    if code is None or code >= 0:
        return f"ended with {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was killed by {known.get(-code, f'signal {-code}')}"


def memory_below(root: int) -> int:
    """Count the bytes of memory that all processes below one hold together, shared pages once; 0 where /proc is not."""
    pids = descendants(root)
    held = sum(_field(pid, "status", "VmRSS") for pid in pids)
    return held if len(pids) < 2 else min(held, sum(_field(pid, "smaps_rollup", "Pss") for pid in pids))


def _field(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\s+(\d+) kB", (PROC / str(pid) / file).read_text(errors="replace"), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0
