"""Several workers of one study as processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from history_store.errors import AllTrialsFailedError, WarmstartError
from training.executor import describe_end, start_process
from warmstart.studies.pickling import hidden_main
from warmstart.studies.worker import Job

LOOK_S = 0.5
LOSSES = 5
"""Workers that may die without a trial having ended in between."""


def run_crew(job: Job, workers: int, look: Callable[[], int]) -> None:
    """Work on a study with several processes; one that dies is replaced, and its trial is run again.

    Args:
        job: of every worker.
        workers: processes at a time.
        look: called about twice a second; counts the trials that ended.

    Raises:
        AllTrialsFailedError: when workers die again and again.
        WarmstartError: what a worker raised; the others are ended then.
    """
    crew = [_begin(job) for _ in range(workers)]
    losses, ended = 0, look()
    try:
        while crew:
            news = wait([pipe for _, pipe in crew], LOOK_S)
            for member in [each for each in crew if each[1] in news]:
                crew.remove(member)
                problem = _last_word(*member)
                if isinstance(problem, WarmstartError):
                    raise problem
                if problem is not None:
                    losses += 1
                    if losses >= LOSSES:
                        msg = f"tune: expected workers that stay, got {losses} that {problem}. Look at their trials with -v, or start fewer."
                        raise AllTrialsFailedError(msg)
                    crew.append(_begin(job))
            now = look()
            losses, ended = (losses, ended) if now == ended else (0, now)
    finally:
        for process, pipe in crew:
            process.terminate()
            process.join()
            pipe.close()


def _begin(job: Job) -> tuple[SpawnProcess, Connection]:
    with hidden_main():
        return start_process(_serve, job)


def _last_word(process: SpawnProcess, pipe: Connection) -> WarmstartError | str | None:
    """Take what a worker that ended said: an error, how it died, or None where all was well."""
    try:
        error: WarmstartError | None = pipe.recv()
    except (EOFError, OSError):
        process.join()
        return describe_end(process.exitcode)
    finally:
        pipe.close()
    process.join()
    return error


def _serve(pipe: Connection, job: Job) -> None:
    """Work in a process of our own, and tell the parent how that ended; end with the parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101  spawned
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    # The parent ends daemons when it ends; the trials are children of this one all the same.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    said: WarmstartError | None = None
    try:
        job()
    except WarmstartError as error:
        said = error
    with contextlib.suppress(OSError):
        pipe.send(said)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
