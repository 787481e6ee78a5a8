"""What a collection measures, how, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from warmstart.history_store.images import BrokenImage
    from warmstart.history_store.manifest import Manifest
    from warmstart.history_store.records import Config
    from warmstart.training.processes.executor import Executor
    from warmstart.training.workloads import Budget, Workload


@dataclass(frozen=True, kw_only=True)  # without slots, so that the command can read the defaults
class CollectionSettings:
    """What a collection measures, how, and for how long.

    Attributes:
        manifests: sources to add where the history lacks them, and to measure; none: all datasets that have images.
        root: folder below which the manifests' files and folders lie.
        download: fetch what is missing where a manifest says how.
        on_broken: called with each picture of a new dataset that cannot be decoded and is left out; None = such a dataset is refused.
        fractions: parts of the training split to measure, each a dataset of its own, e.g. (0.1, 0.5, 1.0).
        configs: how many configurations of the Sobol sequence; 0 is allowed where some are given.
        first: configurations to measure on every dataset before any of those.
        replicates: seeds a configuration.
        race: after that, repeat the best quarter of the configurations of each dataset until the standard error of a
            mean over seeds ÷ the range of the dataset's errors has a median of so much; see `warmstart.training.collection.race`.
        seed: of the configurations and of all cells.
        workload: what is trained; None = the target network of the paper.
        budget: length of one training run; None = the workload's usual one.
        workers: processes; on a GPU they share it.
        device: of torch; None = the first GPU if there is one, else the CPU.
        executor: where cells run; None = processes of this machine.
        time_budget: no cell is begun after so long; seconds or a text like ``3h``, ``90m``.
        cell_timeout: seconds after which a run is given up.
        shards: folder of text shards: what it holds is taken into the history first, and every cell is written there as
            it comes.
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
            UsageError: when it is below 1.
        """
        if self.replicates < 1:
            msg = f"collect: expected at least one replicate, got replicates={self.replicates}. Use replicates=1."
            raise UsageError(msg)
