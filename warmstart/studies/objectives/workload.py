"""Objective by a workload on an image dataset."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, field

from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.records import Config
from warmstart.metafeat.device import resolve_device
from warmstart.studies.objectives.base import Report
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.training.processes.memory import reuse_freed_memory
from warmstart.training.workloads import (
    DEFAULT,
    Member,
    Prepared,
    Sample,
    SampledDataset,
    SourceDataset,
    Workload,
    get_workload,
)


@dataclass(slots=True)
class WorkloadObjective:
    """Objective that trains a workload and returns its validation error; the dataset is read once a child.

    A trial's budget is an amount of the workload's budget, e.g. its number of updates.

    Attributes:
        dataset: path in any layout.
        workload: name in `warmstart.training.workloads.WORKLOADS`.
        budget: name of one of its budgets; None = the usual one.
        device: ``cpu``, ``cuda`` or ``auto``.
        threads: of torch on a CPU.
        skip_broken: go on without pictures that cannot be decoded: all, none (False), or a few (None).
        networks: store of the best trials' networks; None = not stored.
        sample: of the pictures that trials see; None = all.
        until: `time.monotonic` at which a trial whose length is a time ends; infinite = by its budget.
    """

    dataset: str
    workload: str = DEFAULT
    budget: str | None = None
    device: str = "auto"
    threads: int = 1
    skip_broken: SkipBroken = False
    networks: BestNetworks | None = None
    sample: Sample | None = None
    until: float = math.inf
    _prepared: Prepared | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            UsageError: an unknown workload or budget, or a package that it needs is not installed.
        """
        workload = get_workload(self.workload)
        workload.budget(self.budget)
        workload.check_installed()

    def prepare(self) -> None:
        """Read the dataset.

        Raises:
            MissingPathError: the path does not exist.
            DataError: the dataset cannot be used.
            UsageError: torch has no such device.
        """
        # Before torch loads: threads that wait in a loop for one without a core take the cores of all.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import torch

        reuse_freed_memory()
        torch.set_num_threads(self.threads)
        self._prepared = prepare(
            get_workload(self.workload),
            self.dataset,
            device=self.device,
            skip_broken=self.skip_broken,
            sample=self.sample,
        )

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Train once; raises `Pruned` from a report."""
        if self._prepared is None:
            self.prepare()
        assert self._prepared is not None  # noqa: S101  prepared
        workload = get_workload(self.workload)
        length = workload.budget(self.budget, amount=budget)
        keep, timed = self.networks is not None, {} if math.isinf(self.until) else {"until": self.until}
        result = self._prepared.train(config, seed=seed, budget=length, report=report, keep=keep, **timed)
        if result.model is not None:
            self._save_network(Member(0, dict(config), seed, result.error), result.model)
        outcome = {"error": result.error, "duration": result.duration, "status": result.status.value}
        return {**result.metrics, **outcome}

    def _save_network(self, member: Member, model: object) -> None:
        """Store a network if it is among the best; a failure to write does not fail the trial."""
        assert self._prepared is not None  # noqa: S101  it was trained on it
        if self.networks is not None and self.networks.is_among_best(member.error):
            with suppress(WarmstartError):
                self.networks.save(self._prepared, member, model)


def prepare(
    workload: Workload,
    dataset: str,
    *,
    device: str = "auto",
    skip_broken: SkipBroken = False,
    sample: Sample | None = None,
) -> Prepared:
    """Open a dataset and prepare it, or a sample of it, for a workload.

    Raises:
        MissingPathError: the path does not exist.
        DataError: the dataset cannot be used.
        UsageError: torch has no such device.
    """
    from warmstart.suggestions.query import open_path

    device_name = resolve_device(device)
    pictures = SourceDataset(open_path(dataset), skip_broken=skip_broken)
    return workload.prepare(pictures if sample is None else SampledDataset(pictures, sample), device=device_name)
