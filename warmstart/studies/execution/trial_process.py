"""Trials in a child process: whatever a trial does becomes an outcome."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.studies.execution.child import serve
from warmstart.studies.objectives.base import Objective, Outcome, TrialStatus
from warmstart.studies.objectives.pickling import dump_function, hidden_main
from warmstart.studies.objectives.result import one_line
from warmstart.training.processes.guardian import PROC, descendants
from warmstart.training.processes.supervisor import PATIENCE_S, SupervisedProcess, describe_end, memory_below

GRACE_S = 2.0
START_S = 120.0
"""A child that loads its objective is given up after so long without any work; data may take far longer to load."""
UNSEEN_START_S = 3600.0
"""The same where the system does not tell whether it works."""
STARTS = 3
LOOK_S = 0.2
LOOK_WORK_S = 1.0
"""Between two looks whether a child that loads works."""
TAIL_BYTES = 4096
TRIAL_TITLE = "== "
"""How the line begins that names a trial in a log."""


class TrialRunner:
    """Evaluates an objective in one child process, kept warm between trials.

    The child is replaced after a trial that raised, was killed or was stopped. It leaves Ctrl-C to this process, ends
    with all that it started when this one is gone, however it went, and writes what it prints to a log.
    Not for several threads at once.
    """

    def __init__(self, objective: Objective, *, log: Path | None = None) -> None:
        """Take an objective; the child starts with the `with` block.

        Args:
            objective: picklable, by value where need be.
            log: file to which all that the trials print is appended; None = kept for the trial under way only.

        Raises:
            UsageError: when the objective cannot be pickled.
        """
        self._pickled = dump_function(objective)
        self._path = log
        self._child: _Child | None = None
        self._log: Any = None

    def __enter__(self) -> Self:
        """Start the child and let the objective prepare.

        Raises:
            UsageError: when the objective cannot be loaded.
            WarmstartError: what it raised while it prepared.
        """
        self._log = _nameless_file() if self._path is None else self._path.open("ab+")
        try:
            self._child = self._start()
        except BaseException:
            self._log.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        try:
            self._retire(GRACE_S)
        finally:
            self._log.close()

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
    ) -> Outcome:
        """Evaluate a configuration; whatever becomes of the child is an outcome.

        Args:
            config: hyperparameter values by name.
            seed: of everything random in it.
            budget: how much may be spent, in the objective's own unit; None = all.
            report: called here with each (step, error) that the trial reports; true = stop the trial.
            timeout: wall seconds of the trial, the time in `report` left out.
            memory: bytes of memory that the child and its children may hold; looked at several times a second.
            title: line of a log that is kept, before what the trial prints.

        Raises:
            UsageError: when the timeout or the memory is not positive, or memory cannot be watched here; when a new
                child is needed and cannot load the objective any more.
            BrokenImagesError: when the objective finds pictures that it cannot decode.
        """
        if not timeout > 0 or (memory is not None and not memory > 0):
            msg = f"trial: expected a positive timeout and memory, got timeout={timeout}, memory={memory}. Leave them out for no limit."
            raise UsageError(msg)
        if memory is not None and not PROC.is_dir():
            msg = f"trial: expected a system with {PROC} to watch memory, got none. Leave the limit out."
            raise UsageError(msg)
        self._write_title(title)
        for _ in range(STARTS):
            self._child = child = self._child or self._start()
            start = self._begin_log()
            try:
                trial = _Trial(child, report, timeout=timeout, memory=memory)
                outcome = trial.run(dict(config), seed, budget)
            except BaseException:
                self._retire(0.0)
                raise
            if trial.spent:
                self._retire(GRACE_S if trial.ended else 0.0)
            if not trial.is_lost:
                break
        return outcome if trial.ended else replace(outcome, note=self._with_tail(outcome.note, start))

    def _start(self) -> _Child:
        """Start a child; one that dies before it is ready is replaced, some times."""
        start = self._begin_log()
        fate = ""
        for _ in range(STARTS):
            child = _Child(self._pickled, self._log.fileno())
            ready = False
            try:
                ready = child.ready()
            finally:
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

    def _write_title(self, title: str) -> None:
        if self._path is not None and title:
            os.write(self._log.fileno(), f"{TRIAL_TITLE}{title} ==\n".encode())

    def _begin_log(self) -> int:
        """Return the place where the log of a trial begins."""
        if self._path is None:
            self._log.truncate(0)
        return int(self._log.seek(0, os.SEEK_END))

    def _with_tail(self, note: str, start: int) -> str:
        """Add the last line that a trial printed."""
        end = self._log.seek(0, os.SEEK_END)
        # The child moves the place in the file too: it is not ours to seek.
        tail = os.pread(self._log.fileno(), TAIL_BYTES, max(start, end - TAIL_BYTES))
        lines = [one_line(line) for line in tail.decode(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        return one_line(f"{note}; the last line it printed: {last}") if last else note


class _Child:
    """The process, seen from here."""

    def __init__(self, pickled: bytes, log: int) -> None:
        with hidden_main():
            self.process = SupervisedProcess(serve, pickled, output=log, grace_s=GRACE_S)
        self.pipe = self.process.pipe
        self.pid = 0

    def ready(self) -> bool:
        """Wait until it is; tell whether it is, or died on the way. Raises what the objective raised."""
        patience, worked, seen = START_S if PROC.is_dir() else UNSEEN_START_S, 0, time.monotonic()
        while not wait([self.pipe], min(LOOK_WORK_S, patience)):
            now = work_below(self.process.pid)
            if now != worked:
                worked, seen = now, time.monotonic()
            elif time.monotonic() - seen >= patience:
                msg = f"objective: expected one that loads, got none after {patience:g} s in which nothing was done. Import it in a fresh Python to see why."
                raise UsageError(msg)
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.fate()
            return False
        if message[0] == "unusable":
            raise message[1]
        self.pid = message[1]
        return True

    def fate(self) -> int | None:
        """Wait for its end, and that of what it left behind; gives its exit code, None where it stays."""
        return self.process.wait(PATIENCE_S + self.process.grace_s)

    def end(self, wait_s: float) -> None:
        """End it and all that it started; it has wait_s to leave by itself."""
        self.process.end(wait_s)


class _Trial:
    """One trial under way.

    Attributes:
        spent: the child is not to be used again.
        ended: the child said that the trial is over.
        is_lost: the child died before it began, as where it was killed while it waited: another can do the trial.
    """

    def __init__(
        self, child: _Child, report: Callable[[float, float], bool] | None, *, timeout: float, memory: int | None
    ) -> None:
        self.child, self.report, self.timeout, self.memory = child, report, timeout, memory
        self.curve: list[tuple[float, float]] = []
        self.token = secrets.token_hex(8)
        self.refused = 0
        self.spent = self.ended = self.begun = self.is_lost = False
        self.started = self.look = time.monotonic()

    def run(self, config: Config, seed: int, budget: float | None) -> Outcome:
        """Evaluate, answering the reports."""
        with contextlib.suppress(OSError):  # it just died: the next read tells
            self.child.pipe.send((self.token, config, seed, budget))
        outcome = None
        while outcome is None:
            outcome = self._step()
        if self.refused:
            note = f"{self.refused} message(s) of another trial or process were refused"
            outcome = replace(outcome, note=one_line("; ".join(filter(None, [outcome.note, note]))))
        return replace(outcome, curve=tuple(self.curve))

    def _step(self) -> Outcome | None:
        """Wait for the next thing to happen; gives the outcome where that ends the trial."""
        pipe, limit = self.child.pipe, self.started + self.timeout
        news = bool(wait([pipe], max(min(limit, self.look) - time.monotonic(), 0.0)))
        if time.monotonic() >= self.look:
            self.look = time.monotonic() + LOOK_S
            held = 0 if self.memory is None else memory_below(self.child.process.pid)
            if self.memory is not None and held > self.memory:
                return self._stopped(TrialStatus.OOM, f"held {held:,} bytes of memory, {self.memory:,} allowed")
            if self.child.process.code is not None and not pipe.poll():  # its children may hold the pipe open
                return self._died()
        if news:
            return self._read()
        if time.monotonic() >= limit:
            return self._stopped(TrialStatus.TIMEOUT, f"no result after {self.timeout:g} s")
        return None

    def _read(self) -> Outcome | None:
        try:
            message = self.child.pipe.recv()
        except (EOFError, OSError):
            return self._died()
        kind, token, process, *said = message
        if (token, process) != (self.token, self.child.pid):
            self.refused += 1
            return None
        if kind == "begun":
            self.begun = True
            return None
        if kind == "refused":
            raise said[0]
        if kind == "done":
            outcome, self.spent = said
            self.ended = True
            return outcome  # type: ignore[no-any-return]
        step, error = said
        if math.isfinite(step) and math.isfinite(error):
            self.curve.append((step, error))
        before = time.monotonic()
        stop = self.report is not None and bool(self.report(step, error))
        self.started += time.monotonic() - before
        with contextlib.suppress(OSError):
            self.child.pipe.send(stop)
        return None

    def _died(self) -> Outcome:
        self.is_lost = not self.begun
        code = self.child.fate()
        if code is None:
            return self._stopped(TrialStatus.CRASHED, "its process closed the pipe to this one")
        status = TrialStatus.KILLED if code < 0 else TrialStatus.CRASHED
        return self._stopped(status, f"its process {describe_end(code)}")

    def _stopped(self, status: TrialStatus, note: str) -> Outcome:
        self.spent = True
        return Outcome(None, status, time.monotonic() - self.started, note)


def work_below(root: int) -> int:
    """Count the clock ticks that all processes below one have worked; 0 where /proc is not."""
    return sum(map(_ticks, descendants(root)))


def _ticks(pid: int) -> int:
    """Count the clock ticks of a process, and of those that it has waited for."""
    try:
        # After the name, which may hold anything; times are the 12th to 15th field from there.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def _nameless_file() -> Any:
    """Open a temporary file that no kill leaves behind, to append to."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file
