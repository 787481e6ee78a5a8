"""How far a study is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from warmstart.studies.ledger import Ledger
from warmstart.studies.trial import Trial, best_of, ended_trials
from warmstart.studies.worker import Limits


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is.

    Attributes:
        done: trials that ended, of the whole study.
        total: that it shall have; infinite where time alone decides.
        best: so far.
        left_s: seconds that the rest will take; NaN while nothing is known.
        latest: the trials that ended since the last progress.
    """

    done: int
    total: float
    best: Trial | None
    left_s: float
    latest: tuple[Trial, ...]


class Watch:
    """Tells how far a study is, each trial once."""

    def __init__(self, ledger: Ledger, limits: Limits, tell: Callable[[Progress], None] | None) -> None:
        self._ledger, self._limits, self._tell = ledger, limits, tell
        self._known: set[int] | None = None
        self._began, self._before = time.monotonic(), 0

    def look(self) -> int:
        """Count the trials that ended, and tell of those that are new; the first look tells how far it is."""
        trials = ended_trials(self._ledger.trials())
        numbers = {trial.number for trial in trials}
        if self._known is None:
            self._known, self._before = numbers, len(trials)
            new: tuple[Trial, ...] = ()
        else:
            new = tuple(trial for trial in trials if trial.number not in (self._known or ()))
            self._known = numbers
            if not new:
                return len(trials)
        if self._tell is not None:
            self._tell(Progress(len(trials), self._limits.trials, best_of(trials), self._left_s(len(trials)), new))
        return len(trials)

    def _left_s(self, done: int) -> float:
        """Extrapolate from the trials of this call; no longer than there is time."""
        now, made = time.monotonic(), done - self._before
        if not made:
            return math.nan
        left = (now - self._began) / made * max(self._limits.trials - done, 0)
        return min(left, max(self._limits.until - now, 0.0))
