"""Ray clusters: connection, resources of a trial, and an `Executor` over the nodes.

Ray 2, the extra ``ray``; imported only at use. See docs/optuna-ray.md.
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
from warmstart.history_store.extras import missing_extra
from warmstart.training.processes.executor import FALSE_STARTS, TRIES, Done, Lost

T = TypeVar("T")
R = TypeVar("R")

LOOK_S = 1.0
"""Seconds between two looks at the clock and the nodes."""
CONNECT_S = 10.0
MOVES = 10
"""Nodes that a task may lose before it counts as lost."""
_log = logging.getLogger("warmstart")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster, and the resources of each trial on it.

    Attributes:
        address: ``HOST:PORT``, ``ray://HOST:PORT`` or ``auto``; None = $RAY_ADDRESS, else a cluster of this machine alone.
        cpus: per trial; trials with fractions share a CPU.
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
        """Return the resources of a trial, for Ray's `options`."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}

    @contextlib.contextmanager
    def connect(self) -> Iterator[None]:
        """Connect to the cluster in a context; an existing connection is used and stays.

        Raises:
            UsageError: Ray is not installed, or no cluster at the address.
        """
        ray = _load()
        if ray.is_initialized():
            yield
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        _check_reachable(address)
        options = {"include_dashboard": False} if address == "local" else {}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(_unreachable_message(address, error), param="ray_address") from error
        try:
            yield
        finally:
            ray.shutdown()

    def check_fits(self, workers: int | None = None) -> None:
        """Check that a trial fits on a live node; with a number of workers, only warn that they wait for one.

        Raises:
            UsageError: it does not, and no number of workers is set.
        """
        if self.places() >= 1:
            return
        nodes = [
            f"{node['Resources'].get('CPU', 0):g} CPU, {node['Resources'].get('GPU', 0):g} GPU" for node in live_nodes()
        ]
        lacking = f"a node for {self.cpus:g} CPU and {self.gpus:g} GPU, got {'; '.join(nodes) or 'no node'}"
        if workers is None:
            msg = f"expected {lacking}. Ask for less, or name another cluster with `ray_address`."
            raise UsageError(msg, param=("cpus_per_trial", "gpus_per_trial"))
        _log.warning(
            "Workers wait for room: expected %s. Add such a node, or end this with Ctrl-C and ask for less.", lacking
        )

    def places(self) -> int:
        """Return the number of trials that fit on the nodes at a time."""
        resources = {"CPU": self.cpus, "GPU": self.gpus}
        return sum(
            min(
                math.floor(node["Resources"].get(kind, 0.0) / number + 1e-9)
                for kind, number in resources.items()
                if number
            )
            for node in live_nodes()
        )


def chosen_cluster(
    address: str | None, *, use_ray: bool, cpus_per_trial: float | None, gpus_per_trial: float | None
) -> Cluster | None:
    """Return the cluster of the options; None without one.

    Raises:
        UsageError: resources of a trial without a cluster.
    """
    if use_ray or address is not None:
        return Cluster(address, 1.0 if cpus_per_trial is None else cpus_per_trial, gpus_per_trial or 0.0)
    if cpus_per_trial is not None or gpus_per_trial is not None:
        msg = "need `ray` or `ray_address`."
        raise UsageError(msg, param=("cpus_per_trial", "gpus_per_trial"))
    return None


def _is_amount(number: object) -> bool:
    """Tell whether a value is a finite number of at least 0."""
    return not isinstance(number, bool) and isinstance(number, Real) and 0 <= float(number) < math.inf


def live_nodes() -> list[dict[str, Any]]:
    """Return Ray's descriptions of the live nodes."""
    return [node for node in _load().nodes() if node["Alive"]]


class RayExecutor:
    """Executor of tasks on the nodes of a Ray cluster; see `warmstart.training.processes.executor.Executor`.

    Each worker is an actor with the resources of a trial, on any node. A task whose worker died is tried once more; one
    whose node was lost moves to another, up to `MOVES` times. Nodes that join are used.
    """

    def __init__(self, cluster: Cluster, *, workers: int | None = None, limit_s: float = math.inf) -> None:
        """Set up the executor; `run` connects and starts the workers.

        Args:
            cluster: with the resources of a trial.
            workers: at a time, as many as fit on the cluster or its autoscaler adds; None = as many as fit.
            limit_s: wall seconds of a task after which it is lost to `Lost.TIMEOUT` and its worker killed.

        Raises:
            UsageError: workers < 1, or a limit of 0 or less.
        """
        if (workers is not None and workers < 1) or not limit_s > 0:
            msg = f"RayExecutor: expected at least one worker and a positive limit, got workers={workers}, limit_s={limit_s}. Use workers=None."
            raise UsageError(msg)
        self.cluster, self.workers, self.limit_s = cluster, workers, limit_s

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Done[T, R]]:
        """Run `work` on every task.

        Raises:
            UsageError: no such cluster, or no node that a trial fits on.
            AllTrialsFailedError: workers die again and again before they are ready.
        """
        with self.cluster.connect():
            self.cluster.check_fits(self.workers)
            pool = _Pool(self, work, iter(tasks))
            try:
                while pool.assign_tasks():
                    yield from pool.collect_results()
            finally:
                pool.kill()


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """A task, with the number of its workers that died and of its nodes that were lost."""

    task: T
    deaths: int = 0
    moves: int = 0


@dataclass(slots=True)
class _Worker(Generic[T]):
    """A worker: an actor and its present call.

    Attributes:
        actor: Ray's handle.
        call: the last one: for its node, or a task; None = idle.
        node: of the actor; None until it is ready.
        attempt: its present task.
        started: `time.monotonic` at the start of the task, or of the actor.
    """

    actor: Any
    call: Any
    node: str | None = None
    attempt: _Attempt[T] | None = None
    started: float = field(default_factory=time.monotonic)


class _Pool(Generic[T, R]):
    """The workers of one run, and the tasks of lost workers."""

    def __init__(self, executor: RayExecutor, work: Callable[[T], R], source: Iterator[T]) -> None:
        self.ray, self.executor, self.source = _load(), executor, source
        self.shared = self.ray.put(work)
        self.workers: list[_Worker[T]] = []
        self.retries: deque[_Attempt[T]] = deque()
        self.exhausted = False
        self.false_starts = 0
        self.size, self.last_look = 0, -math.inf

    def assign_tasks(self) -> bool:
        """Assign tasks to idle workers, and start or end workers; return False when all tasks are done."""
        for worker in [idle for idle in self.workers if idle.call is None]:
            attempt = self.retries.popleft() if self.retries else self._next()
            if attempt is None:
                self._dismiss(worker)
                continue
            worker.attempt, worker.started = attempt, time.monotonic()
            worker.call = worker.actor.run.remote(attempt.task)
        if self.exhausted and not self.retries:
            for worker in [idle for idle in self.workers if idle.attempt is None]:
                self._dismiss(worker)
            return bool(self.workers)
        target = self._places()
        if self.exhausted:
            target = min(target, len(self.workers) + len(self.retries))
        while len(self.workers) < target:
            actor = self.ray.remote(_Actor).options(**self.executor.cluster.resources).remote(self.shared)
            self.workers.append(_Worker(actor, actor.node.remote()))
        return True

    def collect_results(self) -> Iterator[Done[T, R]]:
        """Wait up to `LOOK_S` for results; yield the ended tasks."""
        calls = {worker.call: worker for worker in self.workers}
        if not calls:  # no live node: one may join
            time.sleep(LOOK_S)
            return
        ready, _ = self.ray.wait(list(calls), num_returns=1, timeout=LOOK_S)
        late = time.monotonic() - self.executor.limit_s
        over = [worker for worker in self.workers if worker.attempt is not None and worker.started < late]
        for worker in [
            *(calls[call] for call in ready),
            *(late_worker for late_worker in over if late_worker.call not in ready),
        ]:
            result = self._read(worker) if worker.call in ready else self._stop(worker)
            if result is not None:
                yield result

    def kill(self) -> None:
        for worker in list(self.workers):
            self._dismiss(worker)

    def _read(self, worker: _Worker[T]) -> Done[T, R] | None:
        """Read the result of a call; return the task if it ended."""
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
        """Dismiss a worker that died or is unreachable; return its task if that counts as lost.

        Raises:
            AllTrialsFailedError: too many died before they were ready.
        """
        self._dismiss(worker)
        self.last_look = -math.inf
        is_node = worker.node not in {node["NodeID"] for node in live_nodes()}
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
        self.retries.append(attempt)
        return None

    def _stop(self, worker: _Worker[T]) -> Done[T, R]:
        """End a task that exceeded its time limit."""
        assert worker.attempt is not None  # noqa: S101  it works
        self._dismiss(worker)
        return Done(worker.attempt.task, None, Lost.TIMEOUT, f"no result after {self.executor.limit_s:g} s")

    def _dismiss(self, worker: _Worker[T]) -> None:
        self.workers.remove(worker)
        self.ray.kill(worker.actor)

    def _next(self) -> _Attempt[T] | None:
        if not self.exhausted:
            for task in self.source:
                return _Attempt(task)
            self.exhausted = True
        return None

    def _places(self) -> int:
        """Return the target number of workers; the nodes are checked every `LOOK_S` seconds."""
        if self.executor.workers is not None:
            return self.executor.workers
        if time.monotonic() - self.last_look >= LOOK_S:
            self.size, self.last_look = self.executor.cluster.places(), time.monotonic()
        return self.size


class _Actor:
    """The actor of a worker."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def node(self) -> str:
        """Return the id of the actor's node."""
        return str(_load().get_runtime_context().get_node_id())

    def run(self, task: Any) -> Any:
        """Run a task."""
        return self._work(task)


def _load() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_extra("ray", "Ray") from error  # noqa: EM101  an extra's name
    return ray


def _check_reachable(address: str) -> None:
    """Check that an address is reachable: Ray itself would try for minutes, then end the process.

    Raises:
        UsageError: it is not.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        if address in ("local", "auto"):
            return
        msg = f"expected HOST:PORT, ray://HOST:PORT, auto or local, got {address!r}. `ray status` on the head node shows it."
        raise UsageError(msg, param="ray_address")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(_unreachable_message(address, error), param="ray_address") from error


def _unreachable_message(address: str, error: Exception) -> str:
    return f"expected a Ray cluster that answers, got none at {address!r} ({_one_line(error)}). Start one with `ray start --head`, or leave it out for a cluster of this machine."


def _one_line(error: Exception) -> str:
    """Return the last line of a Ray error that is no traceback detail."""
    lines = [line.strip() for line in str(error).splitlines() if line and not line.startswith(("\t", "\x1b"))]
    return " ".join((lines or [type(error).__name__])[-1].split())[:200]
