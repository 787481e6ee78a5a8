"""Plans of runs within a time limit: configurations, order, expected seconds on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.bo.transfer.strategies import Query as StrategyQuery
from warmstart.bo.transfer.strategies.joint import query_weights, with_sources
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.history_store.space import load_space
from warmstart.history_store.wording import exact_duration
from warmstart.timing.durations import fit_history
from warmstart.timing.forecast import ExpectedSeconds, TimedRun
from warmstart.timing.schedule import plan_runs
from warmstart.timing.short_run import MeasureShortRun, ShortRun

if TYPE_CHECKING:
    from warmstart.bo.transfer.strategies import Choice
    from warmstart.suggestions.location import Location
    from warmstart.timing.durations import Durations


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A time limit for runs.

    Attributes:
        seconds: for all runs.
        measure: measures a short run on this machine; None = use the history's durations unchanged.
        workers: runs at a time.
        spent: called after the short run; returns the seconds of the limit used by then.
    """

    seconds: float
    measure: MeasureShortRun | None = None
    workers: int = 1
    spent: Callable[[], float] | None = None

    @property
    def left(self) -> float:
        """Return the seconds left for the runs."""
        return self.seconds - (0.0 if self.spent is None else self.spent())


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A run of a plan.

    Attributes:
        config: of the run.
        begins: seconds after the plan's begin.
        seconds: expected.
    """

    config: Config
    begins: float
    seconds: ExpectedSeconds


@dataclass(frozen=True, slots=True)
class TimePlan:
    """Runs that fit in a time limit.

    Attributes:
        limit: seconds for all runs.
        steps: runs, in the order in which they begin.
        workers: runs at a time.
        short_run: measured on this machine; None = the durations are those of the history's machine.
        usual: median seconds of the history's configurations on this machine, for trials after the plan.
        durations: the forecast, for trials after the plan.
        timed_runs: of this machine, given to the forecast.
        further_configs: configurations that would pay with more time, best first.
    """

    limit: float
    steps: tuple[PlanStep, ...]
    workers: int
    short_run: ShortRun | None
    usual: float
    durations: Durations = field(repr=False)
    timed_runs: tuple[TimedRun, ...] = field(default=(), repr=False)
    further_configs: tuple[Config, ...] = field(default=(), repr=False)

    @property
    def total(self) -> float:
        """Return the seconds until the last run ends."""
        return max((step.begins + step.seconds.value for step in self.steps), default=0.0)

    @property
    def left(self) -> float:
        """Return the seconds left after the last run."""
        return max(self.limit - self.total, 0.0)

    @property
    def line(self) -> str:
        """Return the plan in one or two sentences."""
        runs = "1 run" if len(self.steps) == 1 else f"{len(self.steps)} runs"
        basis = (
            "by the history's machine, since no short run tells how fast this one is"
            if self.short_run is None
            else f"on this machine, by a short run of {exact_duration(self.short_run.took)}"
        )
        if not self.steps:
            return f"Nothing fits in {exact_duration(self.limit)} ({basis})."
        rest = f"; {exact_duration(self.left)} are left" if self.left >= 1 else ""
        reads = self.durations.reading([step.config for step in self.steps]).max()
        reading = f" Reading the pictures takes {exact_duration(reads)} of a run on this machine." if reads >= 1 else ""
        return f"{runs} in {exact_duration(self.total)} of {exact_duration(self.limit)}, {basis}{rest}.{reading}"

    def to_dict(self, expected: Sequence[Mapping[str, float] | None] = ()) -> dict[str, Any]:
        """Return the fields as JSON types, with the expected errors of the runs."""
        errors = [*expected, *[None] * len(self.steps)][: len(self.steps)]
        return {
            "time_s": round(self.limit, 3),
            "total_s": round(self.total, 3),
            "left_s": round(self.left, 3),
            "workers": self.workers,
            "short_run": None if self.short_run is None else self.short_run.to_dict(),
            "runs": [
                {
                    "config": dict(step.config),
                    "begins_s": round(step.begins, 3),
                    "seconds": step.seconds.to_dict(),
                    "expected_error": error,
                }
                for step, error in zip(self.steps, errors, strict=True)
            ],
        }


def plan_for(
    location: Location,
    query: StrategyQuery,
    limit: TimeLimit,
    *,
    most: int | None,
    first: Choice | None,
    left_out: Sequence[int],
) -> tuple[list[Choice], TimePlan]:
    """Plan runs on a located dataset within a time limit.

    Args:
        location: its location in a history, all datasets with runs.
        query: the errors and distances of these datasets.
        limit: the time.
        most: runs at most; None = all that fit and pay.
        first: a choice to run first, if it fits.
        left_out: configurations that always fail.

    Raises:
        UsageError: the history has no durations.
    """
    embedded, space = location.embedded, load_space(location.embedded.space_json)
    durations = fit_history(location, space)
    if durations is None:
        msg = f"expected a history that knows how long its runs took, got {embedded.path}, which has no durations. Leave it out, or record runs with their durations."
        raise UsageError(msg, param="time")
    points, forecaster = durations.points(space, embedded.configs), durations.forecaster
    before = np.array([forecast.value for forecast in forecaster.forecast(points)])
    timed_runs, short_run = list[TimedRun](), None
    if limit.measure is not None:
        usable = np.setdiff1d(np.flatnonzero(~np.isnan(query.errors).all(axis=0)), left_out)
        # A fast configuration keeps the measurement short; the fastest ones may be untypical.
        quick = int(usable[np.argsort(before[usable], kind="stable")[len(usable) // 10]])
        short_run = limit.measure(durations.origin, embedded.configs[quick])
        if short_run is not None:
            timed_runs = [TimedRun(points[quick], short_run.seconds, short_run.spread)]
    expected = durations.forecast(space, embedded.configs, timed_runs)
    seconds = np.array([forecast.value for forecast in expected])
    usual, seconds[list(left_out)] = float(np.median(seconds)), np.nan
    left, weights = limit.left, query_weights(query)
    runs = plan_runs(
        query.errors,
        seconds,
        limit=left,
        chances=durations.chance_within(space, embedded.configs, left, timed_runs),
        weights=weights,
        most=most,
        workers=limit.workers,
        first=() if first is None else (first.row,),
    )
    choices = with_sources(query, [run.row for run in runs])
    choices = [first if first is not None and choice.row == first.row else choice for choice in choices]
    steps = tuple(PlanStep(dict(embedded.configs[run.row]), run.begins, expected[run.row]) for run in runs)
    chosen = [run.row for run in runs]
    pays = plan_runs(query.errors, seconds, limit=np.inf, weights=weights, first=chosen)
    further_configs = tuple(dict(embedded.configs[run.row]) for run in pays if run.row not in chosen)
    return choices, TimePlan(
        left, steps, limit.workers, short_run, usual, durations, tuple(timed_runs), further_configs
    )
