"""How far a study is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmstart.studies.execution.worker import Limits
from warmstart.studies.results.expectations import StudyExpectations, expectations_of
from warmstart.studies.results.trial import Trial, best_of, ended_trials, failures
from warmstart.studies.state.lease import is_extra
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import RUN, TrialQueue

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from warmstart.bo.transfer.expected_error import ExpectedError

GLANCE_S = 0.5
"""Seconds between two looks at what a trial reports."""


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial that is under way.

    Attributes:
        number: in its study.
        since: `time.monotonic` when it was first seen.
        step: that it reported last, in the objective's own unit; None = none yet.
        error: that it reported last; None = none yet.
        share: part of it that is done, by its budget; None where that does not tell.
        heading: the error at its end, where the study's pruner is ``history`` and a quarter of the trial is done.
        expected: the error that the history and the trials before it let expect; None where its configuration is new to the history.
    """

    number: int
    since: float
    step: float | None
    error: float | None
    share: float | None
    heading: ExpectedError | None = None
    expected: ExpectedError | None = None


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a call is.

    Attributes:
        done: trials that ended, of the whole study, or of all that are tuned together; results that came too late for their trials left out.
        total: that there shall be; infinite where time alone decides.
        best: so far, of the study.
        left_s: seconds that the rest will take; NaN while nothing is known, as of a trial that runs longer than all before.
        latest: the trials of the study that ended since the last progress.
        study: its name.
        running: the trials of the study that are under way, in order of their numbers.
        expected: what error the study lets expect by now; None where the history knows too little.
        n_failed: trials of the study that ended without an error, those that it stopped left out.
    """

    done: int
    total: float
    best: Trial | None
    left_s: float
    latest: tuple[Trial, ...]
    study: str
    running: tuple[RunningTrial, ...] = ()
    expected: StudyExpectations | None = None
    n_failed: int = 0


class Watch:
    """Tells how far studies are: each trial that ends once, what those under way report, and the first failure in words."""

    def __init__(
        self,
        group: StudyGroup,
        limits: Limits,
        tell: Callable[[StudyProgress], None] | None,
        on_message: Callable[[str], object],
    ) -> None:
        self._queues, self._limits, self._tell, self._on_message = group.queues, limits, tell, on_message
        self._known: list[set[int]] | None = None
        self._running: list[tuple[RunningTrial, ...]] = [()] * len(group.queues)
        self._expected: list[StudyExpectations | None] = [None] * len(group.queues)
        self._began, self._before, self._looked = time.monotonic(), 0, -math.inf

    def glance(self) -> None:
        """Look, unless that was done a moment ago."""
        if self._tell is not None and time.monotonic() - self._looked >= GLANCE_S:
            self.look()

    def look(self) -> int:
        """Count the trials that ended, but not what came too late, and tell of what is new; the first look tells how far the first study is."""
        trials = [queue.trials() for queue in self._queues]
        every = [ended_trials(some) for some in trials]
        before, self._known = self._known, [{trial.number for trial in ended} for ended in every]
        for i, ended in enumerate(every):
            if before is None or self._known[i] != before[i]:
                self._expected[i] = expectations_of(self._queues[i].plan, ended)
        was, self._looked = self._running, time.monotonic()
        self._running = [
            _running(queue, some, old, self._looked, expected)
            for queue, some, old, expected in zip(self._queues, trials, was, self._expected, strict=True)
        ]
        done = sum(trial.state.is_finished() and not is_extra(trial) for some in trials for trial in some)
        if before is None:
            self._before = done
        for i, (queue, ended) in enumerate(zip(self._queues, every, strict=True)):
            new = () if before is None else tuple(trial for trial in ended if trial.number not in before[i])
            is_first = before is None and i == 0
            tell_first_failure(queue.study.study_name, new, ended, self._on_message)
            if self._tell is not None and (new or is_first or self._running[i] != was[i]):
                left, name = self._left_s(done, every), queue.study.study_name
                running = () if is_first else self._running[i]
                total, best, failed = self._limits.trials, best_of(ended), len(failures(ended))
                self._tell(StudyProgress(done, total, best, left, new, name, running, self._expected[i], failed))
        return done

    def _left_s(self, done: int, every: Sequence[Sequence[Trial]]) -> float:
        """Extrapolate from what this call did so far; no longer than there is time."""
        now = time.monotonic()
        took = [trial.duration for trials in every for trial in trials if trial.duration]
        running = [_share(trial, took, now) for trials in self._running for trial in trials]
        part, until = sum(running), max(self._limits.until - now, 0.0)
        if math.isnan(part):
            return math.nan
        made, rest = done - self._before + part, max(self._limits.trials - done - part, 0)
        if made < 1 and took:  # a call that has only begun says little: what trials of before took
            return min(sum(took) / len(took) * rest / max(len(running), 1), until)
        if made <= 0:
            return math.nan
        return min((now - self._began) / made * rest, until)


def _share(trial: RunningTrial, took: Sequence[float], now: float) -> float:
    """Return the part of a trial that is done: as it reports, else of what those took that ran as long; NaN where none did."""
    if trial.share is not None or not took:
        return trial.share or 0.0
    gone = now - trial.since
    longer = [seconds for seconds in took if seconds > gone]
    return gone * len(longer) / sum(longer) if longer else math.nan


def tell_first_failure(
    study: str, new: Sequence[Trial], ended: Sequence[Trial], on_message: Callable[[str], object]
) -> None:
    """Say why a trial failed, where none failed before it and none has given an error: it may be the objective's fault.

    Args:
        study: its name.
        new: trials that ended since it was last asked.
        ended: all that ended.
        on_message: is told.
    """
    failed = failures(ended)
    # With several workers trial 1 may fail before trial 0. Each is then the first one when it ends, and one is told.
    if failed and all(trial in new for trial in failed) and all(trial.error is None for trial in ended):
        trial = failed[0]
        note = trial.note.rstrip(".") or "no note"
        on_message(f"{study}: trial {trial.number} gave no error ({trial.status.value}): {note}. The study goes on.")


def _running(
    queue: TrialQueue,
    trials: Sequence[FrozenTrial],
    before: Sequence[RunningTrial],
    now: float,
    known: StudyExpectations | None,
) -> tuple[RunningTrial, ...]:
    """Read the trials of a study that are under way."""
    since = {trial.number: trial.since for trial in before}
    found = []
    for trial in trials:
        if trial.state.is_finished() or RUN not in trial.user_attrs:
            continue
        step = max(trial.intermediate_values, default=None)
        config = trial.user_attrs[RUN]["config"]
        length = None if step is None else queue.plan.length(config)
        share = min(step / length, 1.0) if step is not None and length else None
        error = None if step is None else trial.intermediate_values[step]
        heading = queue.heading(trial, trials)
        expected = None if known is None else known.expected_of(config)
        began = since.get(trial.number, now)
        found.append(RunningTrial(trial.number, began, step, error, share, heading, expected))
    return tuple(found)
