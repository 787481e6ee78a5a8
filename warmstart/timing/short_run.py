"""Short runs on this machine, from which the duration of a whole run is extrapolated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.records import Config
from warmstart.measured_with import workload_of
from warmstart.metafeat.device import resolve_device
from warmstart.timing.forecast import whole_seconds

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSource

SPREAD = 0.15
"""Least standard deviation of the logarithm of extrapolated seconds."""
ENOUGH = 0.25
"""Spread above which a longer measurement is worth its time."""
LONGER_SHARE = 0.05
"""Share of the time limit that longer measurements may take."""
_SHORT, _LONGER = 40, 10
"""The two short runs are a 40th and a 10th of a whole run."""

Train = Callable[[Config, float], bool]
"""Trains a configuration for an amount of its budget; returns whether there was a result."""


@dataclass(frozen=True, slots=True)
class ShortRun:
    """A short run on this machine and the duration extrapolated from it.

    Attributes:
        config: run for a part of its budget.
        seconds: of a whole run, extrapolated.
        took: seconds of the measurement.
        spread: standard deviation of the logarithm of `seconds`.
    """

    config: Config
    seconds: float
    took: float
    spread: float = SPREAD

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {"config": dict(self.config), "seconds": round(self.seconds, 3), "took_s": round(self.took, 3)}


MeasureShortRun = Callable[[str, Config], ShortRun | None]
"""Measures a short run of a configuration; the text is the origin of the history's runs. None if none is possible."""


def has_short_run(origin: str, config: Config, *, n_images: int) -> bool:
    """Tell whether a short run of a configuration is possible: its workload trains in steps."""
    named = workload_of(origin)
    return named is not None and bool(named[0].steps(named[0].budget(named[1]), config=config, n_train=n_images))


def short_run_by(train: Train, config: Config, amount: float, *, longer_s: float = 0.0) -> ShortRun | None:
    """Time short runs of a configuration, and extrapolate.

    If two leave the extrapolation too uncertain (as when the validation takes most of the time), longer ones follow.

    Args:
        train: trains for an amount; false without a result, or after too long.
        config: the configuration.
        amount: of a whole run, in whole steps.
        longer_s: most seconds of the longer ones.

    Returns: the short run; None without a result.
    """
    few = max(round(amount / _SHORT), 1)
    many = max(round(amount / _LONGER), few + 1)
    began = time.perf_counter()
    ended, timings = began, list[tuple[float, float]]()

    def is_timed(part: float) -> bool:
        nonlocal ended
        has_result = train(config, part)
        last, ended = ended, time.perf_counter()
        if has_result:
            timings.append((part, ended - last))
        return has_result

    # Warm-up: imports, caches, compilation.
    if not train(config, 1):
        return None
    ended = time.perf_counter()
    if not is_timed(few):
        return None
    succeeded, end = is_timed(many), time.perf_counter() + longer_s
    while True:
        seconds, spread = whole_seconds(timings, amount)
        last, took = timings[-1]
        if not succeeded or spread <= ENOUGH or 4 * last > amount or time.perf_counter() + 2 * took > end:
            return ShortRun(dict(config), max(seconds, 1e-3), ended - began, max(spread, SPREAD))
        succeeded = is_timed(2 * last)


def measure_on(
    source: ImageSource, *, device: str, threads: int | None, skip_broken: SkipBroken = False, longer_s: float = 0.0
) -> MeasureShortRun:
    """Return a function that measures short runs on a dataset in this process; `longer_s` as in `short_run_by`."""

    def measure(origin: str, config: Config) -> ShortRun | None:
        named = workload_of(origin)
        if named is None:
            return None
        from warmstart.training.workloads import SourceDataset

        workload, budget = named
        dataset = SourceDataset(source, skip_broken=skip_broken)
        length = workload.budget(budget)
        amount = workload.steps(length, config=config, n_train=len(dataset.rows("train")))
        if not amount:
            return None
        import torch

        # As many threads as the runs that the measurement stands for.
        before = torch.get_num_threads()
        torch.set_num_threads(threads or 1)
        try:
            prepared = workload.prepare(dataset, device=resolve_device(device))
            return short_run_by(
                lambda config, part: (
                    prepared.train(config, seed=0, budget=workload.budget(budget, amount=part)).status.has_error
                ),
                config,
                amount,
                longer_s=longer_s,
            )
        finally:
            torch.set_num_threads(before)

    return measure
