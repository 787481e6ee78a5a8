"""What to try in a given time: which configurations, in which order, how long each takes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.duration_forecast import ExpectedSeconds, TimedRun
from warmstart.bo.transfer.strategies import Query as StrategyQuery
from warmstart.bo.transfer.strategies.joint import query_weights, with_sources
from warmstart.bo.transfer.time_plan import plan_runs
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.history_store.wording import exact_duration
from warmstart.suggestions.short_run import MeasureShortRun, ShortRun

if TYPE_CHECKING:
    from warmstart.bo.transfer.strategies import Choice
    from warmstart.suggestions.durations import Durations
    from warmstart.suggestions.location import Location

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How much time there is.

    Attributes:
        seconds: for all runs.
        measure: makes a short run on this machine; None = the history's durations hold as they are.
        workers: runs at a time.
        spent: called after the short run: seconds of the time that are gone by then.
    """

    seconds: float
    measure: MeasureShortRun | None = None
    workers: int = 1
    spent: Callable[[], float] | None = None

    @property
    def left(self) -> float:
        """Return the seconds that are left for the runs."""
        return self.seconds - (0.0 if self.spent is None else self.spent())


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A run of a plan.

    Attributes:
        config: that is run.
        begins: seconds after the plan's begin.
        seconds: that it will take.
    """

    config: Config
    begins: float
    seconds: ExpectedSeconds


@dataclass(frozen=True, slots=True)
class TimePlan:
    """What fits in a time.

    Attributes:
        limit: seconds for all runs.
        steps: runs, in the order in which they begin.
        workers: runs at a time.
        short_run: what told how fast this machine is; None = the durations are those of the history's machine.
        usual: seconds of a usual configuration of the history here, for what comes after the plan.
        durations: the forecast, for what comes after the plan.
        told: what it was told of this machine.
        others: configurations that would pay too, were there time for them, best first.
    """

    limit: float
    steps: tuple[PlanStep, ...]
    workers: int
    short_run: ShortRun | None
    usual: float
    durations: Durations = field(repr=False)
    told: tuple[TimedRun, ...] = field(default=(), repr=False)
    others: tuple[Config, ...] = field(default=(), repr=False)

    @property
    def total(self) -> float:
        """Return when the last run will end, in seconds."""
        return max((step.begins + step.seconds.value for step in self.steps), default=0.0)

    @property
    def left(self) -> float:
        """Return the seconds that are left after the last run."""
        return max(self.limit - self.total, 0.0)

    @property
    def line(self) -> str:
        """Say it in a sentence or two."""
        runs = "1 run" if len(self.steps) == 1 else f"{len(self.steps)} runs"
        where = (
            "by the history's machine, since no short run tells how fast this one is"
            if self.short_run is None
            else f"on this machine, by a short run of {exact_duration(self.short_run.took)}"
        )
        if not self.steps:
            return f"Nothing fits in {exact_duration(self.limit)} ({where})."
        rest = f"; {exact_duration(self.left)} are left" if self.left >= 1 else ""
        reads = self.durations.reading([step.config for step in self.steps]).max()
        reading = f" Reading the pictures takes {exact_duration(reads)} of a run on this machine." if reads >= 1 else ""
        return f"{runs} in {exact_duration(self.total)} of {exact_duration(self.limit)}, {where}{rest}.{reading}"

    def to_dict(self, expected: Sequence[Mapping[str, float] | None] = ()) -> dict[str, Any]:
        """Return the fields as JSON types, with the error to expect of each run where that is known."""
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
    place: Location,
    query: StrategyQuery,
    limit: TimeLimit,
    *,
    most: int | None,
    first: Choice | None,
    left_out: Sequence[int],
) -> tuple[list[Choice], TimePlan]:
    """Plan what to run on a dataset.

    Args:
        place: where it lies in a history, all datasets with runs.
        query: the errors of the datasets that may answer, and their distances.
        limit: the time.
        most: runs at most; None = all that fit and pay.
        first: a choice that comes before all others, where it fits.
        left_out: configurations that do not work.

    Raises:
        UsageError: the history knows no durations.
    """
    from warmstart.history_store.space import load_space
    from warmstart.suggestions.durations import fit_history

    embedded, space = place.embedded, load_space(place.embedded.space_json)
    durations = fit_history(place, space)
    if durations is None:
        msg = f"expected a history that knows how long its runs took, got {embedded.path}, which has no durations. Leave it out, or record runs with their durations."
        raise UsageError(msg, param="time")
    points, forecaster = durations.points(space, embedded.configs), durations.forecaster
    before = np.array([each.value for each in forecaster.forecast(points)])
    told, short_run = list[TimedRun](), None
    if limit.measure is not None:
        usable = np.setdiff1d(np.flatnonzero(~np.isnan(query.errors).all(axis=0)), left_out)
        quick = int(usable[np.argsort(before[usable], kind="stable")[len(usable) // 10]])
        short_run = limit.measure(durations.origin, embedded.configs[quick])
        if short_run is not None:
            told = [TimedRun(points[quick], short_run.seconds, short_run.spread)]
    expected = durations.forecast(space, embedded.configs, told)
    seconds = np.array([each.value for each in expected])
    usual, seconds[list(left_out)] = float(np.median(seconds)), np.nan
    left, weights = limit.left, query_weights(query)
    runs = plan_runs(
        query.errors,
        seconds,
        limit=left,
        chances=durations.chance_within(space, embedded.configs, left, told),
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
    others = tuple(dict(embedded.configs[run.row]) for run in pays if run.row not in chosen)
    return choices, TimePlan(left, steps, limit.workers, short_run, usual, durations, tuple(told), others)
