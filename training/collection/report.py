"""What a collection did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from warmstart.history_store.records import Status


@dataclass(frozen=True, slots=True)
class CollectReport:
    """What a collection did.

    Attributes:
        datasets: their names, in the order of work.
        total: cells of the whole collection.
        known: cells that the history held before.
        measured: cells of this run by how they ended.
        complete_configs: configurations that every dataset has.
        stopped: whether all is measured or the time was up.
        elapsed_s: wall seconds.
        noise: of a race: by dataset, median and root mean square of the standard errors of its best configurations ÷
            the range of its errors; None without a race.
        settled: datasets that reached the race's target, or cannot; None without a race.
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
