"""A short run on this machine, which tells how long a whole one takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.bo.transfer.duration_forecast import whole_seconds
from warmstart.history_store.records import Config
from warmstart.measured_with import workload_of

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSource

SPREAD = 0.15
"""Standard deviation of the logarithm of seconds that were extrapolated from a short run, at least."""
ENOUGH = 0.25
"""Above it a longer moment is worth its time."""
LONGER_SHARE = 0.05
"""Of the time that there is, so much may go into longer moments."""
_SHORT, _LONGER = 40, 10
"""The two short runs are such a part of a whole one."""

Train = Callable[[Config, float], bool]
"""Trains a configuration for an amount of its budget; tells whether that gave a result."""


@dataclass(frozen=True, slots=True)
class ShortRun:
    """A short run on this machine, which tells how fast it is.

    Attributes:
        config: that was run for a part of its budget.
        seconds: that a whole run would take.
        took: seconds that it took.
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
"""Measures a short run of a configuration; the text is the origin of the history's runs. None where nothing can be run."""


def has_short_run(origin: str, config: Config, *, n_images: int) -> bool:
    """Tell whether a configuration is trained in steps by a workload of ours, so that a few of them tell how fast a machine is."""
    named = workload_of(origin)
    return named is not None and bool(named[0].steps(named[0].budget(named[1]), config=config, n_train=n_images))


def short_run_by(train: Train, config: Config, amount: float, *, longer_s: float = 0.0) -> ShortRun | None:
    """Time short runs of a configuration, and extrapolate.

    Where two of them leave open how much of a run grows with its length (such as where looking at the validation images takes most of them),
    longer ones follow.

    Args:
        train: trains it for an amount; false where that gave no result, or took too long.
        config: the configuration.
        amount: of a whole run, in whole steps.
        longer_s: seconds that the longer ones may take.

    Returns: None where nothing gave a result.
    """
    few = max(round(amount / _SHORT), 1)
    many = max(round(amount / _LONGER), few + 1)
    began = time.perf_counter()
    ended, moments = began, list[tuple[float, float]]()

    def is_timed(part: float) -> bool:
        nonlocal ended
        has_result = train(config, part)
        last, ended = ended, time.perf_counter()
        if has_result:
            moments.append((part, ended - last))
        return has_result

    if not train(config, 1):  # for what a process does once
        return None
    ended = time.perf_counter()
    if not is_timed(few):
        return None
    went_on, end = is_timed(many), time.perf_counter() + longer_s
    while True:
        seconds, spread = whole_seconds(moments, amount)
        last, took = moments[-1]
        if not went_on or spread <= ENOUGH or 4 * last > amount or time.perf_counter() + 2 * took > end:
            return ShortRun(dict(config), max(seconds, 1e-3), ended - began, max(spread, SPREAD))
        went_on = is_timed(2 * last)


def measure_on(
    source: ImageSource, *, device: str, threads: int | None, skip_broken: bool = False, longer_s: float = 0.0
) -> MeasureShortRun:
    """Return what makes short runs on a dataset in this process, with what a history was measured with; `longer_s` as in `short_run_by`."""

    def measure(origin: str, config: Config) -> ShortRun | None:
        named = workload_of(origin)
        if named is None:
            return None
        from warmstart.metafeat.device import resolve_device
        from warmstart.training.workloads import SourceDataset

        workload, budget = named
        dataset = SourceDataset(source, skip_broken=skip_broken)
        length = workload.budget(budget)
        amount = workload.steps(length, config=config, n_train=len(dataset.rows("train")))
        if not amount:
            return None
        import torch

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
