"""Progress of a collection."""

from dataclasses import dataclass

from warmstart.history_store.records import Evaluation


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
