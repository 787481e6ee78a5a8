"""Settings of a collection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from warmstart.history_store.images import BrokenImage
    from warmstart.history_store.manifest import Manifest
    from warmstart.history_store.records import Config
    from warmstart.training.processes.executor import Executor
    from warmstart.training.workloads import Budget, Workload


@dataclass(frozen=True, kw_only=True)  # without slots, so that the command can read the defaults
class CollectionSettings:
    """Settings of a collection.

    Attributes:
        manifests: sources to measure, added to the history if missing; empty = all datasets with images.
        root: folder of the manifests' files and folders.
        download: fetch missing files of manifests with a URL.
        on_broken: called with each picture of a new dataset that cannot be decoded and is left out; None = such a
            dataset is refused.
        fractions: parts of the training split to measure, one dataset each, e.g. (0.1, 0.5, 1.0).
        configs: number of configurations of the Sobol sequence; may be 0 with `first`.
        first: configurations to measure on every dataset before the sequence.
        replicates: seeds for each configuration.
        race: afterwards, repeat the best quarter of the configurations of each dataset until the median standard error
            of their means over seeds ÷ the range of the dataset's errors is at most this; see
            `warmstart.training.collection.race`.
        seed: of the configurations and of all cells.
        workload: of the runs; None = the target network of the paper.
        budget: length of one training run; None = the workload's default.
        workers: processes; on a GPU they share it.
        device: of torch; None = the first GPU if there is one, else the CPU.
        executor: runs the cells; None = processes of this machine.
        time_budget: time after which no cell starts; seconds or a text like ``3h``, ``90m``.
        cell_timeout: largest duration of a run, in seconds.
        shards: folder of text shards: its cells are added to the history first, and every result is written there too.
    """

    manifests: Sequence[Manifest] = ()
    root: str | Path | None = None
    download: bool = False
    on_broken: Callable[[BrokenImage], object] | None = None
    fractions: Sequence[float] = (1.0,)
    configs: int = 64
    first: Sequence[Config] = ()
    replicates: int = 1
    race: float | None = None
    seed: int = 0
    workload: Workload | None = None
    budget: Budget | None = None
    workers: int = 2
    device: str | None = None
    executor: Executor | None = None
    time_budget: str | float | None = None
    cell_timeout: float = math.inf
    shards: str | Path | None = None

    def __post_init__(self) -> None:
        """Check the number of seeds.

        Raises:
            UsageError: when the number of seeds is below 1.
        """
        if self.replicates < 1:
            msg = f"collect: expected at least one replicate, got replicates={self.replicates}. Use replicates=1."
            raise UsageError(msg)
