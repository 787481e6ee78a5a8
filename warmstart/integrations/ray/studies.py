"""Workers of a study as tasks on a Ray cluster; see docs/ray.md."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import AllTrialsFailedError, UsageError, WarmstartError
from warmstart.integrations.ray.cluster import Cluster, living
from warmstart.studies.execution.local_workers import LOSSES
from warmstart.studies.execution.worker import Job
from warmstart.studies.state.storage import Store

LOOK_S = 0.5


def run_on_cluster(job: Job, cluster: Cluster, store: Store, *, workers: int | None, look: Callable[[], int]) -> None:
    """Work on a study from the nodes of a cluster; a worker that is lost is replaced, and its trial is run again.

    Args:
        job: of every worker.
        cluster: where, and what each worker takes there.
        store: that `job` names, as this machine has it.
        workers: at a time, as far as the cluster has places for them or makes some; None = as many as it has places.
        look: called about twice a second; counts the trials that ended.

    Raises:
        UsageError: when there is no such cluster, no node that a worker fits on, or a node that the storage is not on.
        AllTrialsFailedError: when workers are lost again and again without a trial that ends.
        WarmstartError: what a worker raised; the others are ended then.
    """
    with cluster.connect():
        import ray

        cluster.check_fits(workers)
        _check_shared(store)
        # The clock that counts here means nothing on another machine.
        deadline = time.time() + (job.limits.until - time.monotonic())
        serve = ray.remote(_serve).options(max_retries=0, **cluster.resources)
        calls: list[Any] = []
        folder = str(Path.cwd())
        losses, ended = 0, look()
        is_over = False
        try:
            while ended < job.limits.trials and not (is_over and not calls):
                wanted = 0 if is_over else workers or cluster.places()
                calls += [serve.remote(job, folder, deadline) for _ in range(wanted - len(calls))]
                ready, calls = ray.wait(calls, num_returns=1, timeout=LOOK_S) if calls else ([], [])
                for call in ready:
                    problem = _last_word(ray, call)
                    if isinstance(problem, WarmstartError):
                        raise problem
                    is_over |= problem is None
                    losses += problem is not None
                    # A node may take all its workers with it.
                    if losses >= LOSSES + wanted:
                        msg = f"tune: expected workers that keep running, got {losses} lost in a row ({problem}). Look at their trials with -v, or start fewer."
                        raise AllTrialsFailedError(msg)
                now = look()
                losses, ended = (losses, ended) if now == ended else (0, now)
                if not ready and not calls:
                    time.sleep(LOOK_S)
        finally:
            for call in calls:
                ray.cancel(call, force=True)


def _check_shared(store: Store) -> None:
    """Refuse a file where workers run on other machines.

    Raises:
        UsageError: when there is a node elsewhere.
    """
    others = sorted({node["NodeManagerHostname"] for node in living()} - {socket.gethostname()})
    if store.path is not None and others:
        msg = f"expected a database that {', '.join(others)} can reach, got the file {store.path}. Name one by its URL: postgresql://USER@HOST/NAME."
        raise UsageError(msg, param="storage")


def _last_word(ray: Any, call: Any) -> WarmstartError | str | None:
    """Take what a worker that ended said: an error, how it was lost, or None where all was well."""
    try:
        error: WarmstartError | None = ray.get(call)
    except ray.exceptions.RayError as lost:
        return " ".join(str(lost).split())[:200]
    return error


def _serve(job: Job, folder: str, deadline: float) -> WarmstartError | None:
    """Work on whatever node this is; gives what it raised."""
    with contextlib.suppress(OSError):  # other machines may not have it
        os.chdir(folder)
    until = time.monotonic() + (deadline - time.time())
    try:
        replace(job, limits=replace(job.limits, until=until))()
    except WarmstartError as error:
        return error
    return None
