"""How far a study is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from warmstart.studies.fleet import Fleet
from warmstart.studies.trial import Trial, best_of, ended_trials
from warmstart.studies.worker import Limits


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is.

    Attributes:
        done: trials that ended, of the whole study, or of all that are tuned together.
        total: that there shall be; infinite where time alone decides.
        best: so far, of the study.
        left_s: seconds that the rest will take; NaN while nothing is known.
        latest: the trials of the study that ended since the last progress.
        study: its name.
    """

    done: int
    total: float
    best: Trial | None
    left_s: float
    latest: tuple[Trial, ...]
    study: str


class Watch:
    """Tells how far studies are, each trial once."""

    def __init__(self, fleet: Fleet, limits: Limits, tell: Callable[[Progress], None] | None) -> None:
        self._ledgers, self._limits, self._tell = fleet.ledgers, limits, tell
        self._known: list[set[int]] | None = None
        self._began, self._before = time.monotonic(), 0

    def look(self) -> int:
        """Count the trials that ended, and tell of those that are new; the first look tells how far the first study is."""
        every = [ended_trials(ledger.trials()) for ledger in self._ledgers]
        before, self._known = self._known, [{trial.number for trial in trials} for trials in every]
        done = sum(map(len, every))
        if before is None:
            self._before = done
        for i, (ledger, trials) in enumerate(zip(self._ledgers, every, strict=True)):
            new = () if before is None else tuple(trial for trial in trials if trial.number not in before[i])
            if self._tell is not None and (new or (before is None and i == 0)):
                left = self._left_s(done)
                name = ledger.study.study_name
                self._tell(Progress(done, self._limits.trials, best_of(trials), left, new, name))
        return done

    def _left_s(self, done: int) -> float:
        """Extrapolate from the trials of this call; no longer than there is time."""
        now, made = time.monotonic(), done - self._before
        if not made:
            return math.nan
        left = (now - self._began) / made * max(self._limits.trials - done, 0)
        return min(left, max(self._limits.until - now, 0.0))
