"""Executor: a pool of worker processes that survives the death of its workers."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Protocol, TypeVar

from warmstart.history_store.errors import AllTrialsFailedError, UsageError
from warmstart.training.processes.supervisor import SupervisedProcess, describe_end

T = TypeVar("T")
R = TypeVar("R")

TRIES = 2
FALSE_STARTS = 5
START_S = 60.0


class Lost(StrEnum):
    """Reason why a task has no result."""

    DIED = "died"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Done(Generic[T, R]):
    """Finished or lost task.

    Attributes:
        task: the task.
        result: output of the work; None for a lost task.
        lost: reason of a loss, or None.
        note: one line for the log about a loss.
    """

    task: T
    result: R | None
    lost: Lost | None = None
    note: str = ""


class Executor(Protocol):
    """Interface of a pool that runs independent tasks and yields each when it is over.

    `run` takes the next task only when a worker is free, so the iterator may end at any time; running tasks then
    finish. Every task comes back exactly once, in any order. A task whose worker died is tried once more before it is
    lost. Closing the generator stops the workers at once. `work` and the tasks are pickled, `work` once for each
    worker: its cached attributes last as long as the worker.
    """

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        """Run `work` on every task, and yield each when it is over."""
        ...


class LocalExecutor:
    """Executor with spawned processes of this machine.

    The workers leave Ctrl-C to this process. When it ends, in any way, they end with all their child processes.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        limit_s: float = math.inf,
        news: Callable[[Any, Any], object] | None = None,
    ) -> None:
        """Build the executor; processes start with `run`.

        Args:
            workers: processes at a time.
            limit_s: wall seconds after which a task is lost by `Lost.TIMEOUT` and its worker is killed.
            news: called here with (task, message) for each message of the work, which is then called as
                ``work(task, tell)``.

        Raises:
            UsageError: when workers < 1 or the limit is not positive.
        """
        if workers < 1 or not limit_s > 0:
            msg = f"LocalExecutor: expected at least one worker and a positive limit, got workers={workers}, limit_s={limit_s}. Use workers=1."
            raise UsageError(msg)
        self.workers = workers
        self.limit_s = limit_s
        self.news = news

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        """Run `work` on every task; see `Executor`.

        Raises:
            AllTrialsFailedError: when workers die again and again before they are ready.
        """
        pool = _Pool(work, iter(tasks), size=self.workers, limit_s=self.limit_s, news=self.news)
        try:
            while pool.staff():
                for worker in pool.wait():
                    ended = pool.settle(worker)
                    if ended is not None:
                        yield ended
        finally:
            pool.kill()


@dataclass(frozen=True, slots=True)
class _Try(Generic[T]):
    """Task with the number of its attempt."""

    task: T
    number: int = 1


class _Pool(Generic[T, R]):
    """Workers of one run, and the tasks to retry."""

    def __init__(
        self,
        work: Callable[[T], R],
        source: Iterator[T],
        *,
        size: int,
        limit_s: float,
        news: Callable[[Any, Any], object] | None = None,
    ) -> None:
        self.work, self.source, self.size, self.limit_s, self.news = work, source, size, limit_s, news
        self.workers: list[_Worker[T]] = []
        self.again: deque[_Try[T]] = deque()
        self.false_starts = 0

    def staff(self) -> bool:
        """Give tasks to free workers, and tell whether any worker is busy."""
        self.workers = [worker for worker in self.workers if worker.alive]
        while len(self.workers) < self.size or any(worker.idle for worker in self.workers):
            attempt = self.again.popleft() if self.again else self._next()
            if attempt is None:
                break
            worker = next((worker for worker in self.workers if worker.idle), None)
            if worker is None:
                worker = _Worker(self.work, self.news)
                self.workers.append(worker)
            worker.begin(attempt)
        return any(worker.attempt is not None for worker in self.workers)

    def wait(self) -> list[_Worker[T]]:
        """Wait for messages, and return the workers that sent one or exceeded the limit."""
        busy = [worker for worker in self.workers if worker.attempt is not None]
        left_s = min(worker.started for worker in busy) + self.limit_s - time.monotonic()
        ready = wait([worker.pipe for worker in busy], None if math.isinf(left_s) else max(left_s, 0.0))
        late = time.monotonic() - self.limit_s
        return [worker for worker in busy if worker.pipe in ready or worker.started < late]

    def settle(self, worker: _Worker[T]) -> Done[T, R] | None:
        """Handle a worker's message; return its task if that is over, else None.

        Raises:
            AllTrialsFailedError: when workers die again and again before they are ready.
        """
        attempt = worker.attempt
        assert attempt is not None  # noqa: S101  only busy workers are settled
        if not worker.pipe.poll():
            worker.kill()
            return Done(attempt.task, None, Lost.TIMEOUT, f"no result after {self.limit_s:g} s")
        is_over, result = worker.receive()
        if is_over:
            return Done(attempt.task, result)
        if worker.alive:
            self.false_starts = 0
            return None
        if not worker.ready:
            self.false_starts += 1
            if self.false_starts >= FALSE_STARTS:
                msg = (
                    f"LocalExecutor: expected workers that start, got {self.false_starts} that {worker.fate()} before they were ready. "
                    "See what they printed; a script must call this under if __name__ == '__main__'."
                )
                raise AllTrialsFailedError(msg)
            self.again.append(attempt)
        elif attempt.number < TRIES:
            self.again.append(_Try(attempt.task, attempt.number + 1))
        else:
            return Done(attempt.task, None, Lost.DIED, f"its worker {worker.fate()}, {TRIES} times")
        return None

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def _next(self) -> _Try[T] | None:
        for task in self.source:
            return _Try(task)
        return None


class _Worker(Generic[T]):
    """Spawned worker process, as the parent handles it."""

    def __init__(self, work: Callable[[T], Any], news: Callable[[Any, Any], object] | None) -> None:
        self.process = SupervisedProcess(_serve, work, news is not None)
        self.pipe = self.process.pipe
        self.news = news
        self.alive = True
        self.ready = False
        self.attempt: _Try[T] | None = None
        self.started = math.inf

    @property
    def idle(self) -> bool:
        return self.alive and self.attempt is None

    def begin(self, attempt: _Try[T]) -> None:
        # Starting takes time of its own: the limit counts from readiness.
        self.attempt, self.started = attempt, time.monotonic() + (0.0 if self.ready else START_S)
        with contextlib.suppress(OSError):  # it died while idle: `receive` notices
            self.pipe.send(attempt.task)

    def receive(self) -> tuple[bool, Any]:
        """Read one message: (True, result), or (False, None) for news, "ready" or the end of the process."""
        try:
            message, result = self.pipe.recv()
        except (EOFError, OSError):
            self.kill()
            return False, None
        if message == "news":
            if self.news is not None and self.attempt is not None:
                self.news(self.attempt.task, result)
            return False, None
        if message == "ready":
            self.ready, self.started = True, time.monotonic()
            return False, None
        self.attempt, self.started = None, math.inf
        return True, result

    def kill(self) -> None:
        self.alive = False
        self.process.kill()
        self.process.end()

    def fate(self) -> str:
        return describe_end(self.process.code)


def _serve(pipe: Connection, work: Callable[..., Any], tells: bool) -> None:  # noqa: FBT001  spawned
    """Run tasks from the pipe until the parent closes it."""
    with contextlib.suppress(EOFError, OSError):
        pipe.send(("ready", None))
        more = (lambda what: pipe.send(("news", what)),) if tells else ()
        while True:
            pipe.send(("result", work(pipe.recv(), *more)))
