"""Progress of a collection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from warmstart.history_store.records import Evaluation, Status


@dataclass(frozen=True, slots=True)
class RunningCell:
    """Running cell on this machine.

    Attributes:
        dataset: its name.
        index: of its configuration.
        since: its start by `time.monotonic`.
        share: finished share of the run; None if the workload does not report it.
        error: last reported validation error; NaN before the first.
    """

    dataset: str
    index: int
    since: float
    share: float | None
    error: float


@dataclass(frozen=True, slots=True)
class CollectionProgress:
    """Progress of a collection.

    Attributes:
        done: number of cells in the history.
        total: number of cells of the collection; during a race, started ones and an estimate of the rest.
        left_s: estimated wall seconds to its end; NaN while unknown.
        latest: evaluation just written; None at the start, and between results.
        running: running cells.
    """

    done: int
    total: int
    left_s: float
    latest: Evaluation | None = None
    running: tuple[RunningCell, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Report of a collection.

    Attributes:
        datasets: their names, in the order of work.
        total: cells of the whole collection.
        known: cells in the history before.
        measured: number of cells of this run by status.
        complete_configs: number of configurations measured on every dataset.
        stopped: reason of the end.
        elapsed_s: wall seconds.
        noise: of a race: by dataset, median and root mean square of the standard errors of its best configurations ÷
            the range of its errors; None without a race.
        settled: number of datasets that reached the race's target, or cannot; None without a race.
    """

    datasets: tuple[str, ...]
    total: int
    known: int
    measured: Mapping[Status, int]
    complete_configs: int
    stopped: Literal["complete", "time budget"]
    elapsed_s: float
    noise: Mapping[str, tuple[float, float]] | None = None
    settled: int | None = None
