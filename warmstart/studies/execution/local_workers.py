"""Several workers of one study as processes on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait

from warmstart.history_store.errors import AllTrialsFailedError, WarmstartError
from warmstart.studies.execution.gpus import only_gpus
from warmstart.studies.execution.worker import Job
from warmstart.studies.objectives.pickling import hidden_main
from warmstart.training.processes.supervisor import GRACE_S, SupervisedProcess, describe_end, end_all

LOOK_S = 0.5
LOSSES = 5
"""Deaths of workers without an ended trial in between, before the call fails."""


def run_workers(job: Job, gpus: Sequence[str | None], look: Callable[[], int], say: Callable[[str], object]) -> None:
    """Run a job in several processes; one that dies is replaced, and its trial runs again.

    Args:
        job: of every worker.
        gpus: the one that each worker sees; None = all.
        look: called about twice a second; returns the number of ended trials.
        say: called with each line of the workers, once.

    Raises:
        AllTrialsFailedError: workers die again and again.
        WarmstartError: raised by a worker; the others are ended.
    """
    running = {_begin(job, gpu): gpu for gpu in gpus}
    losses, ended, lines = 0, look(), set[str]()
    try:
        while running:
            news = wait([member.pipe for member in running], LOOK_S)
            for member in [process for process in running if process.pipe in news]:
                problem = _message(member)
                if isinstance(problem, Line):
                    if problem.text not in lines:
                        say(problem.text)
                    lines.add(problem.text)
                    continue
                gpu = running.pop(member)
                if isinstance(problem, WarmstartError):
                    raise problem
                if problem is not None:
                    losses += 1
                    if losses >= LOSSES:
                        msg = f"tune: expected workers that keep running, got {losses} that {problem}. Look at their trials with -v, or start fewer."
                        raise AllTrialsFailedError(msg)
                    running[_begin(job, gpu)] = gpu
            now = look()
            # Only deaths without progress count: any ended trial resets the number.
            losses, ended = (losses, ended) if now == ended else (0, now)
    finally:
        end_all(running)


def _begin(job: Job, gpu: str | None) -> SupervisedProcess:
    with hidden_main(), only_gpus(None if gpu is None else [gpu]):
        return SupervisedProcess(_serve, job)


@dataclass(frozen=True, slots=True)
class Line:
    """A line for people, from a worker that goes on."""

    text: str


def _message(member: SupervisedProcess) -> Line | WarmstartError | str | None:
    """Return a line of a worker, or of one that ended its error, or how it died; None after a success."""
    try:
        message: Line | WarmstartError | None = member.pipe.recv()
    except (EOFError, OSError):
        member.end(GRACE_S)
        return describe_end(member.code)
    if not isinstance(message, Line):
        member.end(GRACE_S)
    return message


def _serve(pipe: Connection, job: Job) -> None:
    """Run a job in this process, and send its error, or None, to the parent."""

    def say(line: str) -> None:
        with contextlib.suppress(OSError):
            pipe.send(Line(line))

    problem: WarmstartError | None = None
    try:
        replace(job, outputs=job.outputs.heard_by(say))()
    except WarmstartError as error:
        problem = error
    with contextlib.suppress(OSError):
        pipe.send(problem)
