"""Trials on a Ray cluster: how it is reached, what a trial is given there, and an `Executor` over its nodes.

Ray 2, the extra ``ray``; imported by nobody but who asks for it. See docs/ray.md.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Generic, TypeVar

from warmstart.history_store.errors import AllTrialsFailedError, UsageError
from warmstart.history_store.wording import in_words
from warmstart.training.processes.executor import FALSE_STARTS, TRIES, Done, Lost

T = TypeVar("T")
R = TypeVar("R")

LOOK_S = 1.0
"""Between two looks at the clock and the nodes."""
REACH_S = 10.0
MOVES = 10
"""Nodes that a task may lose before it is lost itself."""
_log = logging.getLogger("warmstart")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster, and what each trial is given on it.

    Attributes:
        address: ``HOST:PORT``, ``ray://HOST:PORT`` or ``auto``; None = $RAY_ADDRESS, else a cluster of this machine alone.
        cpus: per trial; fractions of one share it.
        gpus: per trial.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for param, number in (("cpus_per_trial", self.cpus), ("gpus_per_trial", self.gpus)):
            if not _is_amount(number):
                msg = f"expected a number of at least 0, got {number!r}. Leave it out for the default."
                raise UsageError(msg, param=param)
        if self.cpus + self.gpus == 0:
            msg = "expected a trial that takes some of a machine, got no CPU and no GPU. Use `cpus_per_trial` 0.1."
            raise UsageError(msg, param="cpus_per_trial")

    @property
    def resources(self) -> dict[str, float]:
        """Return the resources of a trial as Ray's `options` takes them."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}

    @contextlib.contextmanager
    def connect(self) -> Iterator[None]:
        """Be connected; what was connected before stays so.

        Raises:
            UsageError: when Ray is not installed, or there is no cluster at the address or none that a trial fits on.
        """
        ray = _load()
        if ray.is_initialized():
            yield
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        _reach(address)
        own = {"include_dashboard": False} if address == "local" else {}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(_unreached(address, error), param="ray_address") from error
        try:
            yield
        finally:
            ray.shutdown()

    def check_fits(self, workers: int | None = None) -> None:
        """Check that a trial fits on some node that is there; so many workers may wait for one, which is told.

        Raises:
            UsageError: when it does not, and no number of workers is given.
        """
        if self.places() >= 1:
            return
        nodes = [
            f"{node['Resources'].get('CPU', 0):g} CPU, {node['Resources'].get('GPU', 0):g} GPU" for node in living()
        ]
        lacking = f"a node for {self.cpus:g} CPU and {self.gpus:g} GPU, got {'; '.join(nodes) or 'no node'}"
        if workers is None:
            msg = f"expected {lacking}. Ask for less, or name another cluster with `ray_address`."
            raise UsageError(msg, param=("cpus_per_trial", "gpus_per_trial"))
        _log.warning(
            "Workers wait for room: expected %s. Add such a node, or end this with Ctrl-C and ask for less.", lacking
        )

    def places(self) -> int:
        """Count the trials that the nodes take at a time."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        return sum(
            min(
                math.floor(node["Resources"].get(kind, 0.0) / number + 1e-9)
                for kind, number in wanted.items()
                if number
            )
            for node in living()
        )


def chosen_cluster(
    address: str | None, *, is_wanted: bool, cpus_per_trial: float | None, gpus_per_trial: float | None
) -> Cluster | None:
    """Return the cluster that options ask for; None where they ask for none.

    Raises:
        UsageError: resources of a trial without a cluster.
    """
    if is_wanted or address is not None:
        return Cluster(address, 1.0 if cpus_per_trial is None else cpus_per_trial, gpus_per_trial or 0.0)
    if cpus_per_trial is not None or gpus_per_trial is not None:
        msg = "expected `ray` or `ray_address` with them, got neither. Add `ray`, or leave them out."
        raise UsageError(msg, param=("cpus_per_trial", "gpus_per_trial"))
    return None


def _is_amount(number: object) -> bool:
    """Tell whether it is a finite number of at least 0."""
    return not isinstance(number, bool) and isinstance(number, Real) and 0 <= float(number) < math.inf


def living() -> list[dict[str, Any]]:
    """List the nodes that are there, as Ray describes them."""
    return [node for node in _load().nodes() if node["Alive"]]


class RayExecutor:
    """Runs tasks on the nodes of a Ray cluster; see `warmstart.training.processes.executor.Executor`.

    Each worker is an actor with the resources of a trial, on whatever node has them. A task whose worker died is tried
    once more; one whose node was lost is moved to another, up to `MOVES` times. Nodes that join are used.
    """

    def __init__(self, cluster: Cluster, *, workers: int | None = None, limit_s: float = math.inf) -> None:
        """Set the pool up; `run` connects, and starts the workers.

        Args:
            cluster: where, and what a trial takes there.
            workers: at a time, as far as the cluster has places for them or makes some; None = as many as it has places.
            limit_s: wall seconds of a task after which it is lost to `Lost.TIMEOUT` and its worker killed.

        Raises:
            UsageError: when workers < 1 or the limit is not positive.
        """
        if (workers is not None and workers < 1) or not limit_s > 0:
            msg = f"RayExecutor: expected at least one worker and a positive limit, got workers={workers}, limit_s={limit_s}. Use workers=None."
            raise UsageError(msg)
        self.cluster, self.workers, self.limit_s = cluster, workers, limit_s

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        """Run `work` on every task.

        Raises:
            UsageError: when there is no such cluster, or no node that a trial fits on.
            AllTrialsFailedError: when workers die again and again before they are ready.
        """
        with self.cluster.connect():
            self.cluster.check_fits(self.workers)
            pool = _Pool(self, work, iter(tasks))
            try:
                while pool.staff():
                    yield from pool.settle()
            finally:
                pool.kill()


@dataclass(slots=True)
class _Try(Generic[T]):
    """A task on its way, how often its worker died and how often its node was lost."""

    task: T
    deaths: int = 0
    moves: int = 0


@dataclass(slots=True)
class _Worker(Generic[T]):
    """An actor, seen from here.

    Attributes:
        actor: Ray's handle.
        call: what it was asked last: whether it is ready, or a task.
        node: that it is on; None until it is ready.
        attempt: the task that it works on.
        started: when it began that, or was made.
    """

    actor: Any
    call: Any
    node: str | None = None
    attempt: _Try[T] | None = None
    started: float = field(default_factory=time.monotonic)


class _Pool(Generic[T, R]):
    """The workers of one run, and the tasks that the lost ones gave back."""

    def __init__(self, executor: RayExecutor, work: Callable[[T], R], source: Iterator[T]) -> None:
        self.ray, self.executor, self.source = _load(), executor, source
        self.shared = self.ray.put(work)
        self.workers: list[_Worker[T]] = []
        self.again: deque[_Try[T]] = deque()
        self.exhausted = False
        self.false_starts = 0
        self.size, self.looked = 0, -math.inf

    def staff(self) -> bool:
        """Return every worker that is free a task, and start as many as there are places for; tell whether anything is left."""
        for worker in [each for each in self.workers if each.call is None]:
            attempt = self.again.popleft() if self.again else self._next()
            if attempt is None:
                self._dismiss(worker)
                continue
            worker.attempt, worker.started = attempt, time.monotonic()
            worker.call = worker.actor.run.remote(attempt.task)
        if self.exhausted and not self.again:
            for worker in [each for each in self.workers if each.attempt is None]:
                self._dismiss(worker)
            return bool(self.workers)
        wanted = self._places()
        if self.exhausted:
            wanted = min(wanted, len(self.workers) + len(self.again))
        while len(self.workers) < wanted:
            actor = self.ray.remote(_Actor).options(**self.executor.cluster.resources).remote(self.shared)
            self.workers.append(_Worker(actor, actor.node.remote()))
        return True

    def settle(self) -> Iterator[Done[T, R]]:
        """Wait for news for a moment; gives the tasks that are over."""
        calls = {worker.call: worker for worker in self.workers}
        if not calls:  # no node is left; one may come
            time.sleep(LOOK_S)
            return
        ready, _ = self.ray.wait(list(calls), num_returns=1, timeout=LOOK_S)
        late = time.monotonic() - self.executor.limit_s
        over = [worker for worker in self.workers if worker.attempt is not None and worker.started < late]
        for worker in [*(calls[call] for call in ready), *(each for each in over if each.call not in ready)]:
            done = self._read(worker) if worker.call in ready else self._stop(worker)
            if done is not None:
                yield done

    def kill(self) -> None:
        for worker in list(self.workers):
            self._dismiss(worker)

    def _read(self, worker: _Worker[T]) -> Done[T, R] | None:
        """Take what a call gave."""
        attempt = worker.attempt
        try:
            result = self.ray.get(worker.call)
        except self.ray.exceptions.RayError as error:
            return self._lose(worker, error)
        worker.call = worker.attempt = None
        if attempt is not None:
            return Done(attempt.task, result)
        worker.node, self.false_starts = result, 0
        return None

    def _lose(self, worker: _Worker[T], error: Exception) -> Done[T, R] | None:
        """Part with a worker that died or is out of reach; gives its task where that is lost with it.

        Raises:
            AllTrialsFailedError: when too many died before they were ready.
        """
        self._dismiss(worker)
        self.looked = -math.inf
        is_node = worker.node not in {node["NodeID"] for node in living()}
        is_node |= isinstance(error, self.ray.exceptions.ActorUnavailableError)
        attempt, note = worker.attempt, _one_line(error)
        if attempt is None:
            self.false_starts += 1
            if self.false_starts >= FALSE_STARTS:
                msg = f"RayExecutor: expected workers that start, got {self.false_starts} that did not ({note}). Check that every node has the same Python, Ray and warmstart."
                raise AllTrialsFailedError(msg) from error
            return None
        attempt.moves += is_node
        attempt.deaths += not is_node
        if attempt.deaths >= TRIES or attempt.moves > MOVES:
            return Done(
                attempt.task,
                None,
                Lost.DIED,
                f"its worker died {attempt.deaths} times, its node {attempt.moves} times: {note}",
            )
        self.again.append(attempt)
        return None

    def _stop(self, worker: _Worker[T]) -> Done[T, R]:
        """Give a task up that is over the limit."""
        assert worker.attempt is not None  # noqa: S101  it works
        self._dismiss(worker)
        return Done(worker.attempt.task, None, Lost.TIMEOUT, f"no result after {self.executor.limit_s:g} s")

    def _dismiss(self, worker: _Worker[T]) -> None:
        self.workers.remove(worker)
        self.ray.kill(worker.actor)

    def _next(self) -> _Try[T] | None:
        if not self.exhausted:
            for task in self.source:
                return _Try(task)
            self.exhausted = True
        return None

    def _places(self) -> int:
        """Count the workers that there should be, from a fresh look at the nodes now and then."""
        if self.executor.workers is not None:
            return self.executor.workers
        if time.monotonic() - self.looked >= LOOK_S:
            self.size, self.looked = self.executor.cluster.places(), time.monotonic()
        return self.size


class _Actor:
    """The inside of a worker."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def node(self) -> str:
        """Say on which node it is."""
        return str(_load().get_runtime_context().get_node_id())

    def run(self, task: Any) -> Any:
        """Work a task off."""
        return self._work(task)


def _load() -> Any:
    try:
        import ray
    except ImportError as error:
        msg = f'expected Ray to be installed, got {in_words(error)}. Install it with pip install "warmstart[ray]".'
        raise UsageError(msg, param="ray") from error
    return ray


def _reach(address: str) -> None:
    """Knock at an address: Ray itself would try for minutes, then end the process.

    Raises:
        UsageError: when nobody answers.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        if address in ("local", "auto"):
            return
        msg = f"expected HOST:PORT, ray://HOST:PORT, auto or local, got {address!r}. `ray status` on the head node shows it."
        raise UsageError(msg, param="ray_address")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(_unreached(address, error), param="ray_address") from error


def _unreached(address: str, error: Exception) -> str:
    return f"expected a Ray cluster that answers, got none at {address!r} ({_one_line(error)}). Start one with `ray start --head`, or leave it out for a cluster of this machine."


def _one_line(error: Exception) -> str:
    """Return the line of an error of Ray that says most: the last that is no detail of where."""
    lines = [line.strip() for line in str(error).splitlines() if line and not line.startswith(("\t", "\x1b"))]
    return " ".join((lines or [type(error).__name__])[-1].split())[:200]
