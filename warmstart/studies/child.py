"""The inside of a trial's process: it evaluates, and tells its parent what came out."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from history_store.errors import UsageError, WarmstartError
from history_store.records import Config
from training.measure import out_of_memory
from warmstart.studies.objective import Objective, Outcome, Pruned, TrialStatus
from warmstart.studies.result import one_line, read_result


def serve(pipe: Connection, pickled: bytes, log: str) -> None:
    """Evaluate until the parent closes the pipe; stop after a trial that may have left something behind.

    Messages to the parent: ("ready",), ("unusable", error), ("report", step, error), ("done", outcome, spent).
    """
    _settle_in(log)
    with contextlib.suppress(EOFError, OSError):
        try:
            objective = _load(pickled)
        except WarmstartError as error:
            pipe.send(("unusable", error))
            return
        pipe.send(("ready",))
        spent = False
        while not spent:
            outcome, spent = _evaluate(objective, pipe, *pipe.recv())
            pipe.send(("done", outcome, spent))


def _settle_in(log: str) -> None:
    """Leave the parent's group, terminal and streams."""
    os.setsid()
    # The parent ends daemons when it ends; the objective may have children all the same, such as those of a data loader.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    null, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
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
    objective: Objective, pipe: Connection, config: Config, seed: int, budget: float | None
) -> tuple[Outcome, bool]:
    """Evaluate once; tells also whether this process should not be used again."""

    def report(step: float, error: float) -> None:
        pipe.send(("report", float(step), float(error)))
        if pipe.recv():
            raise Pruned

    started = time.perf_counter()

    def ended(status: TrialStatus, note: str = "") -> Outcome:
        return Outcome(None, status, time.perf_counter() - started, one_line(note))

    try:
        value: Any = objective(config, seed=seed, budget=budget, report=report)
    except Pruned:
        return ended(TrialStatus.PRUNED), getattr(objective, "single_use", False)
    except BaseException as error:  # noqa: BLE001  whatever it raises is a result; sys.exit too
        traceback.print_exc()
        status = TrialStatus.OOM if out_of_memory(error) else TrialStatus.CRASHED
        return ended(status, describe(error)), True
    return read_result(value, time.perf_counter() - started), False


def describe(error: BaseException) -> str:
    """Say on one line what was raised and where."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}") + where
