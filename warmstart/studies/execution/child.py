"""Child process of trials: evaluate configurations, and send reports and outcomes to the parent."""

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
from warmstart.studies.execution.trial_folder import set_variables
from warmstart.studies.objectives.base import Objective, Outcome, Pruned, TrialStatus
from warmstart.studies.objectives.metric import plain_number
from warmstart.studies.objectives.result import one_line, read_result, safe_repr
from warmstart.training.processes.memory import out_of_memory

STEPS = 2.0**63
"""Upper limit of steps, since storages have 64 bits."""


def serve(pipe: Connection, pickled: bytes, *, in_thread: bool = False) -> None:
    """Evaluate trials until the parent closes the pipe, or a trial may have left the process in a bad state.

    Messages to the parent: ("ready", process), ("unusable", error), ("begun", token, process), ("report", token, process,
    step, error), ("refused", token, process, error), ("done", token, process, outcome, spent). The token comes with the
    trial. A dataset whose pictures cannot be decoded is refused: it would fail with every configuration.

    Args:
        pipe: to the parent.
        pickled: the objective.
        in_thread: whether this is a thread of the parent, whose streams and rank stay as they are.
    """
    if not in_thread:
        _set_up_process()
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
            token, config, seed, budget, folder = pipe.recv()
            pipe.send(("begun", token, os.getpid()))
            set_variables(folder, seed)
            if folder is not None and not in_thread:
                _print_to(folder.output)
            line = _Channel(pipe, token, refused)
            try:
                outcome, spent = _evaluate(objective, line, config, seed, budget)
            except BrokenImagesError as error:
                pipe.send(("refused", token, os.getpid(), error))
                return
            line.end(outcome, spent=spent)


class Refusals:
    """Counter of refused messages, in a memory page that forks share."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def add(self, message: str) -> None:
        """Count a refused message, and write a line to the log."""
        sys.stderr.write(
            f"warmstart: {message} was refused: each trial answers once, from its own process, before it ends\n"
        )
        self._page[0] = min(self._page[0] + 1, 255)

    def take(self) -> str:
        """Return a note on the refused messages since the last call; empty without any."""
        count, self._page[0] = self._page[0], 0
        if not count:
            return ""
        return (
            f"{count}{'+' * (count == 255)} report(s) or result(s) of another process or an earlier trial were refused"
        )


class _Channel:
    """Messages of one trial to the parent: only from its own process, and only until it ends.

    Attributes:
        fault: message on an invalid report, which fails the trial; empty without one.
    """

    def __init__(self, pipe: Connection, token: str, refused: Refusals) -> None:
        self._pipe, self._token, self._refused = pipe, token, refused
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._over = False
        self.fault = ""

    @property
    def is_own_process(self) -> bool:
        """Tell whether this is the process of the trial, not a fork of it."""
        return os.getpid() == self._process

    def report(self, step: float, error: float) -> None:
        """Send a report; raises `Pruned` if the parent stops the trial, `ValueError` for an invalid report."""
        try:
            step, error = _checked_report(step, error)
        except ValueError as fault:
            self.fault = str(fault)
            raise
        if not self.is_own_process:  # before the lock: in a fork its holder may not exist, and it would never be free
            self._refused.add(f"a report of process {os.getpid()}, forked in a trial,")
            return
        with self._lock:
            if self._over:
                self._refused.add("a report of a trial that had ended")
                return
            try:
                self._pipe.send(("report", self._token, self._process, step, error))
                stop = self._pipe.recv()
            except (EOFError, OSError):  # nobody listens any more: the time was up
                stop = True
        if stop:
            raise Pruned

    def end(self, outcome: Outcome, *, spent: bool) -> None:
        """Send the outcome, the last message of a trial; a fork of its process exits here instead."""
        if not self.is_own_process:
            self._refused.add(f"the result of process {os.getpid()}, forked in a trial,")
            sys.stderr.flush()
            os._exit(1)
        with self._lock:
            self._over = True
            note = self._refused.take()
            if note:
                outcome = replace(outcome, note=one_line("; ".join(filter(None, [outcome.note, note]))))
            self._pipe.send(("done", self._token, self._process, outcome, spent))


def _checked_report(step: object, error: object) -> tuple[float, float]:
    """Return step and error as numbers; the error of a diverging trial may be NaN or infinite.

    Raises:
        ValueError: no numbers, or a step below 0 or of 2^63 and more.
    """
    numbers = plain_number(step), plain_number(error)
    if numbers[0] is None or numbers[1] is None:
        label, value = ("a step", step) if numbers[0] is None else ("an error", error)
        msg = f"expected {label} that is one number in a report, got {safe_repr(value)}"
        raise ValueError(msg)
    if not abs(numbers[0]) < STEPS:
        msg = f"expected a finite step below 2^63 in a report, got {numbers[0]:g}"
        raise ValueError(msg)
    if numbers[0] < 0:
        msg = f"expected a step of 0 or more in a report, got {numbers[0]:g}"
        raise ValueError(msg)
    return numbers[0], numbers[1]


def _set_up_process() -> None:
    """Set up the streams for the log, and make this process the kernel's first choice when memory runs out."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    with contextlib.suppress(OSError):  # out of memory, the kernel should kill the trial, not the study
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _print_to(path: Path) -> None:
    """Append to a file what this process and those that it starts print from now on."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)


def _load(pickled: bytes) -> Objective:
    """Unpickle and prepare the objective.

    Raises:
        WarmstartError: it cannot be loaded.
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
    objective: Objective, line: _Channel, config: Config, seed: int, budget: float | None
) -> tuple[Outcome, bool]:
    """Evaluate a configuration; return the outcome, and whether this process must not be used again.

    Raises:
        BrokenImagesError: raised by the objective.
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
    """Return an exception and its place in the code as one line."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}") + location
