"""Supervised child processes, which end with this one and leave nothing running; a guardian watches each."""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import reduction, resource_tracker, spawn
from multiprocessing.connection import Connection, wait
from multiprocessing.context import set_spawning_popen
from pathlib import Path
from typing import IO, Any

from warmstart.history_store import system

GUARDIAN = Path(__file__).with_name("guardian.py")
"""Program that watches a command; it needs no import here."""
GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
PATIENCE_S = 10.0
"""Seconds to wait for a killed process: one in a blocked system call cannot end."""
Stream = int | IO[Any] | None
_posix_signal: Any = signal  # with names that types know on POSIX systems alone


class Supervised:
    """Command under a guardian, which ends it with all its descendants, also those in other sessions and groups.

    They also end when this process ends, in any way.
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
        """Start a command, without standard input; a SIGINT that this process blocks stays blocked in it.

        Args:
            command: program and arguments; no shell.
            grace_s: seconds between SIGTERM and SIGKILL, also of its remaining descendants.
            stdout: as of `subprocess.Popen`; pipes are binary.
            stderr: as stdout.
            env: its environment; None = that of this process.
            descriptors: of files to inherit.

        Raises:
            UsageError: the system cannot end a process with all that it starts.
            OSError: when no process can be started.
        """
        system.check_process_trees()
        self.grace_s = grace_s
        self.line, theirs = socket.socketpair()
        words = [spawn.get_executable(), "-I", "-S", str(GUARDIAN), f"{grace_s:g}", *command]
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
        """Return the process id of the guardian, the ancestor of all processes of the command."""
        return self.process.pid

    @property
    def code(self) -> int | None:
        """Return the exit code of the command, negative for a signal; None while one of its processes runs."""
        return self.process.poll()

    def wait(self, timeout: float = math.inf) -> int | None:
        """Wait for the end of all processes, and return the exit code of the command, or None after the timeout."""
        if self.line.fileno() < 0:
            return self.code
        if self.process.returncode is None and not wait([self.line], None if math.isinf(timeout) else timeout):
            return None
        return self.process.wait()

    def terminate(self) -> None:
        """Order SIGTERM, and SIGKILL after the grace, without waiting."""
        self._order(b"t")

    def kill(self) -> None:
        """Order SIGKILL, without waiting."""
        self._order(b"k")

    def end(self, wait_s: float = 0.0) -> None:
        """End all processes and wait: SIGTERM, then SIGKILL after the grace, or at once on Ctrl-C.

        Args:
            wait_s: seconds to wait for a voluntary end first.
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
            self.line.send(letter, getattr(socket, "MSG_NOSIGNAL", 0))


class SupervisedProcess(Supervised):
    """Spawned Python process under a guardian, with a pipe to it. It never receives Ctrl-C.

    Attributes:
        pipe: end of this process; it closes when the child ends, unless another process holds the other end.
    """

    def __init__(
        self, target: Callable[..., None], *args: object, output: Stream = None, grace_s: float = GRACE_S
    ) -> None:
        """Start a process like multiprocessing's spawn, with the guardian in between.

        Args:
            target: importable function; called with the other end of the pipe, then `args`.
            args: pickled.
            output: file for its output; None = that of this process.
            grace_s: seconds between SIGTERM and SIGKILL.

        Raises:
            OSError: when no process can be started.
        """
        system.check_process_trees()
        with _safe_path():
            tracker = resource_tracker.getfd()  # start it now: with the first process, it would unblock SIGINT again
        assert tracker is not None  # noqa: S101  it runs now
        descriptors = _Descriptors([tracker])
        self.pipe, child_end = multiprocessing.Pipe()
        reading, writing = os.pipe()
        # The child takes the end of this file for the end of its parent, so it stays open until the child ends.
        self._birth = os.fdopen(writing, "wb")
        try:
            with child_end:
                message = _pickled(_run, (child_end, target, *args), descriptors)
                descriptors.append(reading)
                python, *words = spawn.get_command_line(tracker_fd=tracker, pipe_handle=reading)
                # -P: what lies in the working folder is no module of the standard library.
                words = [python, "-P", *words]
                # Born with SIGINT blocked, it never sees Ctrl-C, not even while Python starts.
                before = _posix_signal.pthread_sigmask(_posix_signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    super().__init__(words, grace_s=grace_s, stdout=output, stderr=output, descriptors=descriptors)
                finally:
                    _posix_signal.pthread_sigmask(_posix_signal.SIG_SETMASK, before)
        except BaseException:
            self.pipe.close()
            self._birth.close()
            raise
        finally:
            os.close(reading)
        with contextlib.suppress(BrokenPipeError):  # it died during its start, as its exit code will show
            self._birth.write(message)
            self._birth.flush()

    def end(self, wait_s: float = 0.0) -> None:
        """Close the pipe, which asks the process to end, then end it and its descendants; see `Supervised.end`."""
        try:
            self.pipe.close()
            super().end(wait_s)
        finally:
            self._birth.close()


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Have Python processes that start meanwhile take no module from the working folder, as -P does."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        os.environ.pop("PYTHONSAFEPATH")
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def end_all(processes: Collection[Supervised]) -> None:
    """End several processes at a time: SIGTERM, then SIGKILL after the grace, or at once on Ctrl-C."""
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
    """Inherited file descriptor, in the form from which `Connection` unpickles."""

    number: int

    def detach(self) -> int:
        """Return the number of the descriptor."""
        return self.number


class _Descriptors(list[int]):
    """Descriptors that a new process will inherit; pickling a `Connection` adds one."""

    DupFd = _Inherited

    def duplicate_for_child(self, descriptor: int) -> int:
        """Add a descriptor; it keeps its number in the child."""
        self.append(descriptor)
        return descriptor


def _pickled(target: Callable[..., None], args: tuple[object, ...], descriptors: _Descriptors) -> bytes:
    """Pickle the data that `multiprocessing.spawn` reads in a new process."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)
    stream = io.BytesIO()
    set_spawning_popen(descriptors)  # type: ignore[arg-type]  # it has every method that is called
    try:
        reduction.dump(spawn.get_preparation_data(process.name), stream)
        reduction.dump(process, stream)
    finally:
        set_spawning_popen(None)
    return stream.getvalue()


def _run(pipe: Connection, target: Callable[..., None], *args: object) -> None:
    """Call the target in the new process."""
    # Daemons may not have children, but a data loader needs some; the guardian ends this process anyway.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    target(pipe, *args)


def describe_end(code: int | None) -> str:
    """Describe the end of a process by its exit code, negative for a signal."""
    if code is None or code >= 0:
        return f"ended with {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"
