"""Run trials in a child process, where every failure becomes an outcome."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warmstart.history_store import system
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.studies.execution.child import serve
from warmstart.studies.execution.joined_log import JoinedLog
from warmstart.studies.execution.trial_folder import TrialFolder
from warmstart.studies.objectives.base import Objective, Outcome, TrialStatus
from warmstart.studies.objectives.pickling import dump_function, hidden_main
from warmstart.studies.objectives.result import one_line
from warmstart.training.processes.supervisor import PATIENCE_S, SupervisedProcess, describe_end
from warmstart.training.processes.usage import memory_below, work_below

GRACE_S = 2.0
START_S = 120.0
"""Seconds without CPU work after which a loading child counts as stuck; loading itself may take far longer."""
STARTS = 3
LOOK_S = 0.2
LOOK_WORK_S = 1.0
"""Seconds between two looks at the CPU work of a loading child."""
TAIL_BYTES = 4096


class TrialRunner:
    """Runner of trials of an objective in one child process, which stays between trials.

    The child is replaced after a trial that raised, was killed or was stopped. It ignores Ctrl-C, ends with its own
    children when this process ends, however that ends, and prints to the trial's log. Not thread-safe.
    """

    def __init__(self, objective: Objective, *, log: Path | None = None) -> None:
        """Pickle the objective; the child starts with the `with` block.

        Args:
            objective: picklable, if needed by value.
            log: file to which the output of the trials is appended; None = no log of all trials.

        Raises:
            UsageError: the objective cannot be pickled.
        """
        self._pickled = dump_function(objective)
        self._path = log
        self._child: _Child | _ThreadChild | None = None
        self._log = self._output = None  # type: Any

    def __enter__(self) -> Self:
        """Start the child and prepare the objective.

        Raises:
            UsageError: the objective cannot be loaded.
            WarmstartError: raised by the objective's `prepare`.
        """
        self._log = self._output = _anonymous_file()
        self._joined = JoinedLog(self._path)
        try:
            self._child = self._start()
        except BaseException:
            self._close_logs()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        try:
            self._retire(GRACE_S)
        finally:
            self._close_logs()

    def run(
        self,
        config: Config,
        *,
        seed: int,
        budget: float | None = None,
        report: Callable[[float, float], bool] | None = None,
        timeout: float = math.inf,
        memory: int | None = None,
        title: str = "",
        folder: TrialFolder | None = None,
    ) -> Outcome:
        """Evaluate a configuration; a failure of the child is an outcome, too.

        Args:
            config: hyperparameter values by name.
            seed: of everything random in it.
            budget: how much may be spent, in the objective's own unit; None = all.
            report: called in this process with each reported (step, error); true = stop the trial.
            timeout: wall seconds of the trial, without the time in `report`.
            memory: bytes of memory of the child and its children; checked several times a second.
            title: of the trial in the log of all.
            folder: of the trial, where its own log is; None = it has none.

        Raises:
            UsageError: a timeout or memory of 0 or less; or a new child cannot
                load the objective any more.
            BrokenImagesError: the objective cannot decode some pictures.
        """
        if not timeout > 0 or (memory is not None and not memory > 0):
            msg = f"trial: expected a positive timeout and memory, got timeout={timeout}, memory={memory}. Leave them out for no limit."
            raise UsageError(msg)
        for _ in range(STARTS):
            self._child = child = self._child or self._start()
            start = self._begin_output(title, folder)
            try:
                trial = _Trial(child, report, timeout=timeout, memory=memory, on_look=self._joined.copy)
                outcome = trial.run(dict(config), seed, budget, folder)
            except BaseException:
                self._retire(0.0)
                raise
            finally:
                self._joined.copy(is_last=True)
            if trial.spent:
                self._retire(GRACE_S if trial.ended else 0.0)
            if not trial.is_lost:
                break
        return outcome if trial.ended else replace(outcome, note=self._with_tail(outcome.note, start))

    @property
    def pid(self) -> int | None:
        """Return the process id of the child's guardian; None while there is no child."""
        return None if self._child is None else self._child.process.pid

    def _start(self) -> _Child | _ThreadChild:
        """Start a child; one that dies while loading is replaced, up to `STARTS` times."""
        start = self._begin_output()
        fate = ""
        for _ in range(STARTS):
            child = _child(self._pickled, self._log.fileno())
            ready = False
            try:
                ready = child.ready()
            finally:
                self._joined.copy(is_last=True)
                if not ready:
                    child.end(0.0)
            if ready:
                return child
            fate = self._with_tail(f"a process that {describe_end(child.process.code)}", start)
        msg = f"objective: expected one that loads, got {fate}, {STARTS} times. Import it in a fresh Python to see why."
        raise UsageError(msg)

    def _retire(self, wait_s: float) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end(wait_s)

    def _begin_output(self, title: str = "", folder: TrialFolder | None = None) -> int:
        """Follow the output of a trial, or without a title that of a loading child; return where it begins in its file."""
        if self._output is not self._log:
            self._output.close()
        self._output = self._log if folder is None else folder.output.open("ab+")
        if folder is None:
            self._log.truncate(0)
        start = int(self._output.seek(0, os.SEEK_END))
        self._joined.begin(self._output.fileno(), start, title)
        return start

    def _close_logs(self) -> None:
        self._joined.close()
        self._output.close()
        self._log.close()

    def _with_tail(self, note: str, start: int) -> str:
        """Return a note with the last line that a trial printed."""
        end = self._output.seek(0, os.SEEK_END)
        # The child shares the file's position: seeking back would move its writes.
        tail = system.read_at(self._output.fileno(), TAIL_BYTES, max(start, end - TAIL_BYTES))
        lines = [one_line(line) for line in tail.decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        return one_line(f"{note}; the last line it printed: {last}") if last else note


class _Child:
    """The child process and its pipe."""

    def __init__(self, pickled: bytes, log: int) -> None:
        with hidden_main():
            self.process = SupervisedProcess(serve, pickled, output=log, grace_s=GRACE_S)
        self.pipe = self.process.pipe
        self.pid = 0

    def ready(self) -> bool:
        """Wait until the child is ready; return False if it died. Raises the objective's error."""
        patience, worked, last_work = START_S, 0.0, time.monotonic()
        while not wait([self.pipe], min(LOOK_WORK_S, patience)):
            now = work_below(self.process.pid)
            if now != worked:
                worked, last_work = now, time.monotonic()
            elif time.monotonic() - last_work >= patience:
                msg = f"objective: expected one that loads, got none after {patience:g} s in which nothing was done. Import it in a fresh Python to see why."
                raise UsageError(msg)
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.exit_code()
            return False
        if message[0] == "unusable":
            raise message[1]
        self.pid = message[1]
        return True

    def exit_code(self) -> int | None:
        """Wait for the end of the child and its children; return its exit code, None if it still runs."""
        return self.process.wait(PATIENCE_S + self.process.grace_s)

    def end(self, wait_s: float) -> None:
        """End the child and its children; it has `wait_s` seconds to exit by itself."""
        self.process.end(wait_s)


class _ThreadChild:
    """A thread in place of the child process, on a system that cannot end a process with all that it starts.

    A trial in it cannot be killed: one over a limit ends with its next report. What it prints goes to this process's
    output.
    """

    def __init__(self, pickled: bytes) -> None:
        self.process = self
        self.pid, self.code = os.getpid(), None
        self.pipe, its_end = multiprocessing.Pipe()
        self._thread = threading.Thread(target=_serve_and_close, args=(its_end, pickled), daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """Wait until the objective is loaded; raises its error."""
        message = self.pipe.recv()
        if message[0] == "unusable":
            raise message[1]
        return True

    def exit_code(self) -> int | None:
        """Return 1: the thread ended, and closed its pipe."""
        return 1

    def end(self, wait_s: float) -> None:
        """Close the pipe, which ends the thread after its trial; wait so many seconds for that."""
        self.pipe.close()
        self._thread.join(wait_s)


def _serve_and_close(pipe: Connection, pickled: bytes) -> None:
    with pipe:
        serve(pipe, pickled, in_thread=True)


def _child(pickled: bytes, log: int) -> _Child | _ThreadChild:
    return _Child(pickled, log) if system.HAS_PROCESS_TREES else _ThreadChild(pickled)


class _Trial:
    """A running trial.

    Attributes:
        spent: the child must not be used again.
        ended: the child sent an outcome.
        is_lost: the child died before the trial began: another child can run it.
    """

    def __init__(
        self,
        child: _Child | _ThreadChild,
        report: Callable[[float, float], bool] | None,
        *,
        timeout: float,
        memory: int | None,
        on_look: Callable[[], None],
    ) -> None:
        self.on_look = on_look
        self.child, self.report, self.timeout, self.memory = child, report, timeout, memory
        self.curve: list[tuple[float, float]] = []
        # Late messages of an earlier trial in the same child have another token, and are refused.
        self.token = secrets.token_hex(8)
        self.n_refused = 0
        self.spent = self.ended = self.begun = self.is_lost = False
        self.started = self.look = time.monotonic()

    def run(self, config: Config, seed: int, budget: float | None, folder: TrialFolder | None) -> Outcome:
        """Evaluate a configuration, and answer its reports."""
        with contextlib.suppress(OSError):  # the child just died: the next read shows it
            self.child.pipe.send((self.token, config, seed, budget, folder))
        outcome = None
        while outcome is None:
            outcome = self._step()
        if self.n_refused:
            note = f"{self.n_refused} message(s) of another trial or process were refused"
            outcome = replace(outcome, note=one_line("; ".join(filter(None, [outcome.note, note]))))
        return replace(outcome, curve=tuple(self.curve))

    def _step(self) -> Outcome | None:
        """Wait for the next message or limit; return the outcome if that ends the trial."""
        pipe, limit = self.child.pipe, self.started + self.timeout
        has_message = bool(wait([pipe], max(min(limit, self.look) - time.monotonic(), 0.0)))
        if time.monotonic() >= self.look:
            self.look = time.monotonic() + LOOK_S
            self.on_look()
            memory_bytes = 0 if self.memory is None else memory_below(self.child.process.pid)
            if self.memory is not None and memory_bytes > self.memory:
                return self._spend(TrialStatus.OOM, f"held {memory_bytes:,} bytes of memory, {self.memory:,} allowed")
            if self.child.process.code is not None and not pipe.poll():  # its children may hold the pipe open
                return self._outcome_of_death()
        if has_message:
            return self._read()
        if time.monotonic() >= limit:
            return self._spend(TrialStatus.TIMEOUT, f"no result after {self.timeout:g} s")
        return None

    def _read(self) -> Outcome | None:
        try:
            message = self.child.pipe.recv()
        except (EOFError, OSError):
            return self._outcome_of_death()
        kind, token, process, *content = message
        if (token, process) != (self.token, self.child.pid):
            self.n_refused += 1
            return None
        if kind == "begun":
            self.begun = True
            return None
        if kind == "refused":
            raise content[0]
        if kind == "done":
            outcome, self.spent = content
            self.ended = True
            return outcome  # type: ignore[no-any-return]
        step, error = content
        if math.isfinite(step) and math.isfinite(error):
            self.curve.append((step, error))
        before = time.monotonic()
        stop = self.report is not None and bool(self.report(step, error))
        self.started += time.monotonic() - before
        with contextlib.suppress(OSError):
            self.child.pipe.send(stop)
        return None

    def _outcome_of_death(self) -> Outcome:
        self.is_lost = not self.begun
        code = self.child.exit_code()
        if code is None:
            return self._spend(TrialStatus.CRASHED, "its process closed the pipe to this one")
        status = TrialStatus.KILLED if code < 0 else TrialStatus.CRASHED
        return self._spend(status, f"its process {describe_end(code)}")

    def _spend(self, status: TrialStatus, note: str) -> Outcome:
        self.spent = True
        return Outcome(None, status, time.monotonic() - self.started, note)


def _anonymous_file() -> Any:
    """Open an unnamed temporary file for appending; even a kill leaves nothing behind."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    system.append_only(file)
    return file
