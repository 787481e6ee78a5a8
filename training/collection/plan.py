"""Plan of a collection: which cells, in which order, and an estimate of the time left."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warmstart.history_store.errors import UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config, Evaluation, Value
from warmstart.training.collection.cells import cell_seed

FIRST_BLOCK = 16

CellKey = tuple[str, frozenset[tuple[str, Value]], int | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration on one dataset under one seed: what is measured once.

    Attributes:
        dataset: its name in the history.
        config: hyperparameter values by name.
        seed: of the run.
        index: of the configuration among those of the collection.
    """

    dataset: str
    config: Config
    seed: int
    index: int

    @property
    def key(self) -> CellKey:
        """Name the cell as `evaluation_key` names an evaluation of it."""
        return self.dataset, config_key(self.config), self.seed


def evaluation_key(evaluation: Evaluation) -> CellKey:
    """Name the cell that an evaluation measured."""
    return evaluation.dataset, config_key(evaluation.config), evaluation.seed


def blocks(configs: int, *, first: int = 0, one_by_one: bool = False) -> list[range]:
    """Return blocks of configurations that end at 16, 32, 64, ...: after each, a history is complete for so many.

    Args:
        configs: how many of the sequence.
        first: how many are given besides, a block of their own before the sequence's.
        one_by_one: each configuration is a block: what costs hours and prepares nothing is complete for as many as there was time for.

    Raises:
        UsageError: when there is no configuration.
    """
    if one_by_one:
        return [range(index, index + 1) for index in range(first + configs)]
    if first:
        return [range(first), *(range(b.start + first, b.stop + first) for b in (blocks(configs) if configs else ()))]
    if configs < 1:
        msg = f"collect: expected at least one configuration, got configs={configs}. Ask for 16, 32 or 64."
        raise UsageError(msg)
    ends, end = [], FIRST_BLOCK
    while end < configs:
        ends.append(end)
        end *= 2
    ends.append(configs)
    return [range(start, stop) for start, stop in zip([0, *ends], ends, strict=False)]


def plan_block(
    datasets: Sequence[str], configs: Sequence[Config], block: range, *, seed: int = 0, replicates: int = 1
) -> list[Cell]:
    """Return the cells of a block, dataset by dataset, so that a worker prepares each dataset about once."""
    return [
        Cell(dataset, configs[index], cell_seed(dataset, configs[index], replicate, base=seed), index)
        for dataset in datasets
        for replicate in range(replicates)
        for index in block
    ]


def seconds_left(
    durations: Mapping[int, Sequence[float]],
    todo: Iterable[int],
    *,
    workers: int,
    costs: Mapping[int, float] | None = None,
) -> float:
    """Estimate how long cells will take from how long their configurations took elsewhere.

    Args:
        durations: measured seconds by configuration index.
        todo: configuration index of each cell to come; one that was never measured takes as long as those that
            were, in proportion to its cost.
        workers: cells at a time.
        costs: by configuration index, see `Workload.cost`; None = all alike.

    Returns: seconds; NaN while nothing was measured.
    """
    means = {index: sum(taken) / len(taken) for index, taken in durations.items() if taken}
    costs = costs or {}
    total = sum(costs.get(index, 1.0) for index in means)
    rate = sum(means.values()) / total if means else math.nan
    return sum((means.get(index, rate * costs.get(index, 1.0)) for index in todo), 0.0) / workers


def wall_seconds_left(
    durations: Mapping[int, Sequence[float]],
    todo: Iterable[int],
    *,
    workers: int,
    elapsed_s: float,
    done: Sequence[int],
    under_way: int = 0,
    costs: Mapping[int, float] | None = None,
) -> float:
    """Estimate the wall seconds that cells will take: `seconds_left`, times how much longer this run has taken than it says.

    Durations are processor seconds, or were measured on another machine; on a busy one the clock goes on between them.

    Args:
        durations: as in `seconds_left`.
        todo: as there.
        workers: cells at a time.
        elapsed_s: wall seconds of this run so far.
        done: configuration index of each cell that this run has measured.
        under_way: cells begun and not over, about half done each.
        costs: as in `seconds_left`.

    Returns: seconds; NaN while nothing was measured. The ratio is drawn towards 1 as if by one cell more.
    """
    left_s = seconds_left(durations, todo, workers=workers, costs=costs)
    if not done or not left_s > 0:
        return left_s
    usual_s = seconds_left(durations, done, workers=1, costs=costs) / len(done)
    expected_s = (len(done) + under_way / 2) * usual_s / workers
    return left_s * (elapsed_s + usual_s) / max(expected_s + usual_s, 1e-9)


def parse_time(text: str | float | None, *, param: str) -> float:
    """Read a length of time: seconds, or a text like ``3h``, ``90m``, ``1h30m``, ``45s``; None is endless.

    Raises:
        UsageError: when it is no positive length of time.
    """
    if text is None:
        return math.inf
    seconds = 0.0
    if isinstance(text, str):
        number = r"(\d+(?:\.\d+)?)"
        match = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s)?|{number}", text.strip())
        if match:  # 1h30 would be 1 hour and 30 seconds to one, and 1h30m to another
            hours, minutes, rest, alone = (float(part or 0) for part in match.groups())
            seconds = 3600 * hours + 60 * minutes + rest + alone
    else:
        seconds = float(text)
    if not seconds > 0:
        msg = f"expected a length of time above 0, got {text!r}. Write 3h, 90m, 1h30m or a number of seconds."
        raise UsageError(msg, param=param)
    return seconds
