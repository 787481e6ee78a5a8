"""Settings of a collection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from warmstart.history_store.errors import UsageError
from warmstart.option import MOST_SEED, option

if TYPE_CHECKING:
    from warmstart.history_store.images import BrokenImage
    from warmstart.history_store.manifest import Manifest
    from warmstart.history_store.records import Config
    from warmstart.training.processes.executor import Executor
    from warmstart.training.workloads import Budget, Workload


@dataclass(frozen=True, kw_only=True)
class CollectionSettings:
    """Settings of a collection.

    Attributes:
        manifests: sources to measure, added to the history if missing; empty = all datasets with images.
        on_broken: called with each picture of a new dataset that cannot be decoded and is left out; None = such a
            dataset is refused.
        first: configurations to measure on every dataset before the sequence.
        workload: of the runs; None = the target network of the paper.
        budget: length of one training run; None = the workload's default.
        workers: processes; on a GPU they share it.
        device: of torch; None = the first GPU if there is one, else the CPU.
        executor: runs the cells; None = processes of this machine.
        cell_timeout: largest duration of a run, in seconds.
    """

    TITLE: ClassVar[str] = "Collection"
    manifests: Sequence[Manifest] = ()
    root: str | Path | None = option(None, "Folder below which the manifests' images lie.")
    download: bool = option(False, "Fetch what is missing, where a manifest says how.")
    on_broken: Callable[[BrokenImage], object] | None = None
    fractions: Sequence[float] = option(
        (1.0,),
        "Part of the training split, in (0, 1], a dataset each; may be repeated.",
        flags=("--fraction",),
        type=list[float],
    )
    configs: int = option(64, "How many shared configurations, besides those of --first.", least=0, is_main=True)
    first: Sequence[Config] = ()
    replicates: int = option(1, "Seeds a configuration.", least=1)
    race: float | None = option(
        None,
        "Then repeat the best quarter until the median standard error ÷ range of a dataset's errors is SE, e.g. 0.015.",
        type=float,
        metavar="SE",
    )
    seed: int = option(0, "Seed of the configurations and of all runs.", least=0, most=MOST_SEED)
    workload: Workload | None = None
    budget: Budget | None = None
    workers: int = 2
    device: str | None = None
    executor: Executor | None = None
    time_budget: str | float | None = option(
        None, "Begin no run after so long, e.g. 3h, 90m.", flags=("--budget",), is_main=True
    )
    cell_timeout: float = math.inf
    shards: str | Path | None = option(
        None, "Folder of text shards: its runs are added first, and every run is written there too."
    )

    def __post_init__(self) -> None:
        """Check the number of seeds.

        Raises:
            UsageError: when the number of seeds is below 1.
        """
        if self.replicates < 1:
            msg = f"collect: expected at least one replicate, got replicates={self.replicates}. Use replicates=1."
            raise UsageError(msg)
