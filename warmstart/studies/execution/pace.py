"""How the time of one call is used: which configurations still end within it, by what the trials took so far."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bo.transfer.duration_forecast import ExpectedSeconds, TimedRun
from history_store.records import Config
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.state.trial_queue import OUTCOME, RUN, WORKER, TrialQueue

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.trial import FrozenTrial

    from warmstart.suggestions.durations import Durations

LIKELY = 0.5
"""Chance to end in time from which a trial is begun."""
_LATE, _LATE_S = 4.0, 60.0
"""A trial whose times in the storage are so many times its duration, and so much more, lay with no worker for a while."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The end of a call, and what is known of how long trials take on this machine.

    Attributes:
        ends: `time.monotonic` at which the last trial has ended, on this machine.
        durations: forecasts over the space of the study.
        told: what a short run told.
    """

    ends: float
    durations: Durations
    told: tuple[TimedRun, ...] = ()

    @property
    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(self.ends - time.monotonic(), 0.0)

    def fits(self, queue: TrialQueue, space: ConfigurationSpace, configs: Sequence[Config]) -> list[bool]:
        """Tell of configurations which are likely to end in time; all where nothing is known of how long they take."""
        told = [*self.told, *self.durations.timed(space, finished_here(queue.trials()))]
        if not told and not self.durations.forecaster.knows_level:
            return [self.left > 0] * len(configs)
        points = self.durations.points(space, configs)
        chances = self.durations.forecaster.chance_within(points, self.left, told)
        return [bool(chance >= LIKELY) for chance in chances]

    def forecast(self, space: ConfigurationSpace, configs: Sequence[Config]) -> list[ExpectedSeconds]:
        """Forecast the seconds of configurations before any trial; none where nothing is known."""
        if not self.told and not self.durations.forecaster.knows_level:
            return []
        return self.durations.forecaster.forecast(self.durations.points(space, configs), self.told)

    def ended(self, outcome: Outcome) -> Outcome:
        """Say of a trial that was ended at the deadline that it was; it is no failure, and no result."""
        if outcome.status is not TrialStatus.TIMEOUT or self.left > 0:
            return outcome
        note = f"ended with the time of the command, after {outcome.duration:.3g} s"
        return replace(outcome, status=TrialStatus.PRUNED, note=note)


def finished_here(trials: Sequence[FrozenTrial]) -> list[tuple[Config, float]]:
    """Return configurations and wall seconds of the trials that ran to their end on this machine."""
    here = f"{socket.gethostname()}:"
    found = []
    for trial in trials:
        outcome = trial.user_attrs.get(OUTCOME, {})
        is_whole = outcome.get("status") == TrialStatus.OK.value and RUN in trial.user_attrs
        if not is_whole or trial.duration is None or not str(trial.user_attrs.get(WORKER, "")).startswith(here):
            continue
        wall, own = trial.duration.total_seconds(), outcome.get("duration") or math.nan
        is_late = wall <= 0 or wall > _LATE * own + _LATE_S
        seconds = own if is_late else wall
        if seconds > 0:
            found.append((trial.user_attrs[RUN]["config"], seconds))
    return found
