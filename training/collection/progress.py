"""Where a collection stands."""

from dataclasses import dataclass

from warmstart.history_store.records import Evaluation


@dataclass(frozen=True, slots=True)
class RunningCell:
    """A cell that is under way on this machine.

    Attributes:
        dataset: its name.
        index: of its configuration.
        since: `time.monotonic` when it began.
        share: part of the run that is done; None where the workload does not tell.
        error: validation error that was told last; NaN before the first.
    """

    dataset: str
    index: int
    since: float
    share: float | None
    error: float


@dataclass(frozen=True, slots=True)
class CollectionProgress:
    """Where a collection stands.

    Attributes:
        done: cells that are in the history.
        total: cells of the whole collection; while it races, those begun and an estimate of those to come.
        left_s: estimated wall seconds to its end; NaN while unknown.
        latest: the evaluation just written; None at the start, and while cells run.
        running: the cells that are under way.
    """

    done: int
    total: int
    left_s: float
    latest: Evaluation | None = None
    running: tuple[RunningCell, ...] = ()
