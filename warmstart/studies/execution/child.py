"""Child process of a trial: it evaluates, and reports the outcome to its parent."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import sys
import threading
import time
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import BrokenImagesError, UsageError, WarmstartError
from warmstart.history_store.records import Config
from warmstart.studies.objectives.base import Objective, Outcome, Pruned, TrialStatus
from warmstart.studies.objectives.result import one_line, plain_number, read_result, safe_repr
from warmstart.training.processes.memory import out_of_memory

STEPS = 2.0**63
"""Steps of reports are 0 or more and below this: storages keep 64 bits."""


def serve(pipe: Connection, pickled: bytes) -> None:
    """Evaluate until the parent closes the pipe; stop after a trial that may have left something behind.

    Messages to the parent: ("ready", process), ("unusable", error), ("begun", token, process), ("report", token, process,
    step, error), ("refused", token, process, error), ("done", token, process, outcome, spent). The token is the one that came with
    the trial. A dataset whose pictures cannot be decoded is refused: no other configuration would fare better.
    """
    _settle_in()
    with contextlib.suppress(EOFError, OSError):
        try:
            objective = _load(pickled)
        except WarmstartError as error:
            pipe.send(("unusable", error))
            return
        pipe.send(("ready", os.getpid()))
        refused = Refusals()
        spent = False
        while not spent:
            token, config, seed, budget = pipe.recv()
            pipe.send(("begun", token, os.getpid()))
            line = _Line(pipe, token, refused)
            try:
                outcome, spent = _evaluate(objective, line, config, seed, budget)
            except BrokenImagesError as error:
                pipe.send(("refused", token, os.getpid(), error))
                return
            line.end(outcome, spent=spent)


class Refusals:
    """How many answers were refused since the last look, counted across forks in a page that they share."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def add(self, what: str) -> None:
        """Count one, and say so in the log."""
        sys.stderr.write(
            f"warmstart: {what} was refused: each trial answers once, from its own process, before it ends\n"
        )
        self._page[0] = min(self._page[0] + 1, 255)

    def take(self) -> str:
        """Return the note of those since the last look, empty where there were none."""
        count, self._page[0] = self._page[0], 0
        if not count:
            return ""
        return (
            f"{count}{'+' * (count == 255)} report(s) or result(s) of another process or an earlier trial were refused"
        )


class _Line:
    """What one trial tells the parent: its own process, until it ended, and no one else.

    Attributes:
        fault: a report that no storage could keep; it fails the trial, whatever that returns.
    """

    def __init__(self, pipe: Connection, token: str, refused: Refusals) -> None:
        self._pipe, self._token, self._refused = pipe, token, refused
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._over = False
        self.fault = ""

    @property
    def is_mine(self) -> bool:
        """Tell whether this is the process of the trial, and no fork of it."""
        return os.getpid() == self._process

    def report(self, step: float, error: float) -> None:
        """Report; raises `Pruned` where the parent has seen enough, `ValueError` where no storage could keep it."""
        try:
            step, error = _checked_report(step, error)
        except ValueError as fault:
            self.fault = str(fault)
            raise
        if not self.is_mine:  # its turn may be taken for ever: the thread that has it was not forked
            self._refused.add(f"a report of process {os.getpid()}, forked in a trial,")
            return
        with self._turn:
            if self._over:
                self._refused.add("a report of a trial that had ended")
                return
            self._pipe.send(("report", self._token, self._process, step, error))
            stop = self._pipe.recv()
        if stop:
            raise Pruned

    def end(self, outcome: Outcome, *, spent: bool) -> None:
        """Tell the outcome, the last thing of a trial; a fork of its process ends here instead."""
        if not self.is_mine:
            self._refused.add(f"the result of process {os.getpid()}, forked in a trial,")
            sys.stderr.flush()
            os._exit(1)
        with self._turn:
            self._over = True
            note = self._refused.take()
            if note:
                outcome = replace(outcome, note=one_line("; ".join(filter(None, [outcome.note, note]))))
            self._pipe.send(("done", self._token, self._process, outcome, spent))


def _checked_report(step: object, error: object) -> tuple[float, float]:
    """Return step and error as numbers; an error may be NaN or infinite, as that of a trial that diverges.

    Raises:
        ValueError: no numbers, or a step that is negative or that no storage keeps.
    """
    numbers = plain_number(step), plain_number(error)
    if numbers[0] is None or numbers[1] is None:
        what, given = ("a step", step) if numbers[0] is None else ("an error", error)
        msg = f"expected {what} that is one number in a report, got {safe_repr(given)}"
        raise ValueError(msg)
    if not abs(numbers[0]) < STEPS:
        msg = f"expected a finite step below 2^63 in a report, got {numbers[0]:g}"
        raise ValueError(msg)
    if numbers[0] < 0:
        msg = f"expected a step of 0 or more in a report, got {numbers[0]:g}"
        raise ValueError(msg)
    return numbers[0], numbers[1]


def _settle_in() -> None:
    """Set up the streams, which go to the log, and offer this process to a kernel that is out of memory."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    with contextlib.suppress(OSError):  # where memory ends, the kernel shall end the trial and not the study
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _load(pickled: bytes) -> Objective:
    """Unpickle the objective and let it prepare.

    Raises:
        WarmstartError: when it cannot.
    """
    try:
        objective: Objective = pickle.loads(pickled)  # noqa: S301  our parent's
        prepare = getattr(objective, "prepare", None)
        if prepare is not None:
            prepare()
    except WarmstartError:
        raise
    except BaseException as error:  # sys.exit too
        traceback.print_exc()
        msg = f"objective: expected one that loads, got {describe(error)}. Import it in a fresh Python to see more."
        raise UsageError(msg) from error
    return objective


def _evaluate(
    objective: Objective, line: _Line, config: Config, seed: int, budget: float | None
) -> tuple[Outcome, bool]:
    """Evaluate once; tells also whether this process should not be used again.

    Raises:
        BrokenImagesError: what the objective raised.
    """
    started = time.perf_counter()

    def ended(status: TrialStatus, note: str = "") -> Outcome:
        return Outcome(None, status, time.perf_counter() - started, one_line(note))

    try:
        value: Any = objective(config, seed=seed, budget=budget, report=line.report)
    except Pruned:
        return ended(TrialStatus.PRUNED), getattr(objective, "single_use", False)
    except BrokenImagesError:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it raises is a result; sys.exit too
        traceback.print_exc()
        if line.fault:
            return ended(TrialStatus.FAILED, line.fault), True
        status = TrialStatus.OOM if out_of_memory(error) else TrialStatus.CRASHED
        return ended(status, describe(error)), True
    if line.fault:
        return ended(TrialStatus.FAILED, line.fault), False
    return read_result(value, time.perf_counter() - started), False


def describe(error: BaseException) -> str:
    """Say on one line what was raised and where."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}") + where
