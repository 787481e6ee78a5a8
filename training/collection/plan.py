"""Plan of a collection: the order of its cells, and an estimate of the time left."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warmstart.history_store.errors import UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.file.content import unit_rows
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import Config, Evaluation, Value
from warmstart.history_store.space import load_space, space_names, with_logarithms
from warmstart.training.workloads import Workload, get_workload

FIRST_BLOCK = 16

CellKey = tuple[str, frozenset[tuple[str, Value]], int | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration on one dataset with one seed, the unit of a collection.

    Attributes:
        dataset: its name in the history.
        config: hyperparameter values by name.
        seed: of the run.
        index: of the configuration in the collection.
    """

    dataset: str
    config: Config
    seed: int
    index: int

    @property
    def key(self) -> CellKey:
        """Return the key of the cell, equal to `evaluation_key` of its evaluation."""
        return self.dataset, config_key(self.config), self.seed


def evaluation_key(evaluation: Evaluation) -> CellKey:
    """Return the key of the cell of an evaluation."""
    return evaluation.dataset, config_key(evaluation.config), evaluation.seed


def blocks(configs: int, *, first: int = 0, single: bool = False) -> list[range]:
    """Return blocks of configurations that end at 16, 32, 64, ...; a history is complete after each block.

    Args:
        configs: number of configurations of the sequence.
        first: number of further configurations, a block before the sequence.
        single: make each configuration a block, for slow runs without preparation.

    Raises:
        UsageError: when there is no configuration.
    """
    if single:
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
    """Estimate the seconds of missing cells from durations of their configurations on other datasets.

    Args:
        durations: measured seconds by configuration index.
        todo: configuration index of each missing cell; unmeasured ones are estimated from the others by cost.
        workers: cells at a time.
        costs: by configuration index, see `Workload.cost`; None = equal.

    Returns: seconds; NaN without durations.
    """
    means = {index: sum(seconds) / len(seconds) for index, seconds in durations.items() if seconds}
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
    measured: Sequence[int],
    under_way: int = 0,
    costs: Mapping[int, float] | None = None,
) -> float:
    """Estimate the wall seconds of missing cells: `seconds_left` times the ratio of wall time to estimate so far.

    Durations are processor seconds, or from another machine; the wall time of a busy machine is longer.

    Args:
        durations: as in `seconds_left`.
        todo: as in `seconds_left`.
        workers: cells at a time.
        elapsed_s: wall seconds of this run so far.
        measured: configuration index of each cell measured by this run.
        under_way: number of running cells, each about half done.
        costs: as in `seconds_left`.

    Returns: seconds; NaN without durations. The ratio is shrunk towards 1 as if by one more cell.
    """
    left_s = seconds_left(durations, todo, workers=workers, costs=costs)
    if not measured or not left_s > 0:
        return left_s
    usual_s = seconds_left(durations, measured, workers=1, costs=costs) / len(measured)
    expected_s = (len(measured) + under_way / 2) * usual_s / workers
    # One cell more in both terms, so that the first short runs do not swing the ratio.
    return left_s * (elapsed_s + usual_s) / max(expected_s + usual_s, 1e-9)


_UNITS = {"h": 3600, "m": 60, "s": 1}
_PART = r"(\d+(?:\.\d+)?)\s*(h|hours?|hrs?|m|mins?|minutes?|s|secs?|seconds?)"


def parse_time(text: str | float | None, *, param: str) -> float:
    """Parse a length of time: seconds, or a text like ``3h``, ``90 min``, ``1h30``, ``45s``; None is endless.

    A text without a unit is refused as `time`, where people mean minutes; elsewhere it is seconds.

    Raises:
        UsageError: when the argument is no positive length of time.
    """
    if text is None:
        return math.inf
    seconds = 0.0
    if isinstance(text, str):
        words = re.sub(r"(h|hrs?|hours?)\s*(\d+)$", r"\1 \2m", text.strip().lower())  # 1h30
        if re.fullmatch(r"\d+(\.\d+)?", words):
            if param == "time" and float(words) > 0:
                msg = f"expected a length of time with its unit, got {text!r}. `{words}m` or `{words}s`?"
                raise UsageError(msg, param=param)
            seconds = float(words)
        elif re.fullmatch(rf"({_PART}\s*)+", words):
            parts = [(float(number), unit[0]) for number, unit in re.findall(_PART, words)]
            units = [unit for _, unit in parts]
            if units == sorted(set(units), key="hms".index):
                seconds = sum(number * _UNITS[unit] for number, unit in parts)
    else:
        seconds = float(text)
    if not seconds > 0:
        bare = "" if param == "time" and isinstance(text, str) else " or a number of seconds"
        msg = f"expected a length of time above 0, got {text!r}. Write 3h, 90m, 1h30m{bare}."
        raise UsageError(msg, param=param)
    return seconds


def cell_seed(dataset: str, config: Config, replicate: int = 0, *, base: int = 0) -> int:
    """Return the seed of a cell, in 0 .. 2^32 - 1, equal on every machine and in every order of work.

    Args:
        dataset: its name.
        config: hyperparameter values by name; their order does not matter.
        replicate: number of the repetition.
        base: seed of the collection.
    """
    key = json.dumps([base, dataset, dict(config), replicate], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big")


def shared_configs(
    space_json: str, n: int, *, seed: int = 0, first: Sequence[Config] = (), workload: Workload | None = None
) -> list[Config]:
    """Return the configurations of a collection: the first ones, then n of a Sobol sequence, without repeats.

    Raises:
        UsageError: when there is no configuration.
        DataError: when the space is not the workload's, or a first configuration does not fit it.
    """
    if n < 0 or not (n or first):
        msg = f"collect: expected at least one configuration, got configs={n}. Ask for 16, 32 or 64."
        raise UsageError(msg)
    workload = workload or get_workload()
    by_key = {config_key(config): config for config in in_names(space_json, first)}
    drawn: list[Config] = list(sobol_configs(load_space(space_json), n, seed=seed)) if n else []
    for config in (*by_key.values(), *drawn):
        workload.check(config)
    return [*by_key.values(), *(config for config in drawn if config_key(config) not in by_key)]


def in_names(
    space_json: str, configs: Sequence[Config], *, where: str = "collect: configurations to measure first"
) -> list[Config]:
    """Return configurations with the names of a space, checked against it; `where` opens error messages."""
    names = space_names(space_json)
    renamed: list[Config] = [with_logarithms(config, names, location=where) for config in configs]
    unit_rows(space_json, renamed, where)
    return renamed
