"""Run workers of a study as tasks on a Ray cluster; see docs/optuna-ray.md."""

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
from warmstart.integrations.ray.cluster import Cluster, live_nodes
from warmstart.studies.execution.local_workers import LOSSES
from warmstart.studies.execution.worker import Job
from warmstart.studies.state.storage import Store

LOOK_S = 0.5


def run_on_cluster(job: Job, cluster: Cluster, store: Store, *, workers: int | None, look: Callable[[], int]) -> None:
    """Run a job by workers on a cluster's nodes; a lost worker is replaced, and its trial runs again.

    Args:
        job: of every worker.
        cluster: with the resources of a worker.
        store: of the job, opened on this machine.
        workers: at a time, as many as fit on the cluster or its autoscaler adds; None = as many as fit.
        look: called about twice a second; returns the number of ended trials.

    Raises:
        UsageError: no such cluster, no node that a worker fits on, or nodes that cannot reach the storage.
        AllTrialsFailedError: workers are lost again and again without an ended trial.
        WarmstartError: raised by a worker; the others are ended.
    """
    with cluster.connect():
        import ray

        cluster.check_fits(workers)
        _check_shared(store)
        # `time.monotonic` has another origin on another machine: send wall time.
        deadline = time.time() + (job.limits.until - time.monotonic())
        serve = ray.remote(_serve).options(max_retries=0, **cluster.resources)
        calls: list[Any] = []
        folder = str(Path.cwd())
        losses, ended = 0, look()
        is_over = False
        try:
            while ended < job.limits.trials and not (is_over and not calls):
                target = 0 if is_over else workers or cluster.places()
                calls += [serve.remote(job, folder, deadline) for _ in range(target - len(calls))]
                ready, calls = ray.wait(calls, num_returns=1, timeout=LOOK_S) if calls else ([], [])
                for call in ready:
                    problem = _final_message(ray, call)
                    if isinstance(problem, WarmstartError):
                        raise problem
                    is_over |= problem is None
                    losses += problem is not None
                    # A lost node takes all its workers with it.
                    if losses >= LOSSES + target:
                        msg = f"tune: expected workers that keep running, got {losses} lost in a row ({problem}). Look at their trials with -v, or start fewer."
                        raise AllTrialsFailedError(msg)
                now = look()
                # Only losses without progress count: any ended trial resets the number.
                losses, ended = (losses, ended) if now == ended else (0, now)
                if not ready and not calls:
                    time.sleep(LOOK_S)
        finally:
            for call in calls:
                ray.cancel(call, force=True)


def _check_shared(store: Store) -> None:
    """Check that the storage is no file if workers run on other machines.

    Raises:
        UsageError: it is, and they do.
    """
    hosts = sorted({node["NodeManagerHostname"] for node in live_nodes()} - {socket.gethostname()})
    if store.path is not None and hosts:
        msg = f"expected a database that {', '.join(hosts)} can reach, got the file {store.path}. Name one by its URL: postgresql://USER@HOST/NAME."
        raise UsageError(msg, param="storage")


def _final_message(ray: Any, call: Any) -> WarmstartError | str | None:
    """Return the error of an ended worker, or how it was lost; None after a success."""
    try:
        error: WarmstartError | None = ray.get(call)
    except ray.exceptions.RayError as lost:
        return " ".join(str(lost).split())[:200]
    return error


def _serve(job: Job, folder: str, deadline: float) -> WarmstartError | None:
    """Run a job on this node; return its error, or None."""
    with contextlib.suppress(OSError):  # other machines may not have it
        os.chdir(folder)
    until = time.monotonic() + (deadline - time.time())
    try:
        replace(job, limits=replace(job.limits, until=until))()
    except WarmstartError as error:
        return error
    return None
