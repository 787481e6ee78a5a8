"""Observer of running studies: their progress, the first failure, and a pruner without reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from optuna.trial import FrozenTrial

from warmstart.studies.execution.worker import Limits
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.expected_errors import expectations_of
from warmstart.studies.results.progress import RunningTrial, StudyProgress
from warmstart.studies.results.trial import Trial, best_of, ended_trials, failures
from warmstart.studies.state.attributes import RUN
from warmstart.studies.state.lease import is_extra
from warmstart.studies.state.study_group import StudyGroup
from warmstart.studies.state.trial_queue import TrialQueue

GLANCE_S = 0.5
"""Seconds between two looks at a trial's reports."""


class Watch:
    """Observer of studies: calls back with each ended trial, reports of running trials, and the first failure."""

    def __init__(
        self,
        group: StudyGroup,
        limits: Limits,
        progress: Callable[[StudyProgress], None] | None,
        on_message: Callable[[str], object],
        last_lines: Callable[[str, int], Sequence[str]] = lambda _study, _number: (),
    ) -> None:
        self._last_lines = last_lines
        self._queues, self._limits, self._progress, self._on_message = group.queues, limits, progress, on_message
        self._ended_numbers: list[set[int]] | None = None
        self._running: list[tuple[RunningTrial, ...]] = [()] * len(group.queues)
        self._expected: list[StudyExpectations | None] = [None] * len(group.queues)
        self._began, self._n_before, self._last_look = time.monotonic(), 0, -math.inf

    def glance(self) -> None:
        """Call `look`, unless that was done less than `GLANCE_S` ago."""
        if self._progress is not None and time.monotonic() - self._last_look >= GLANCE_S:
            self.look()

    def look(self) -> int:
        """Report new progress, at first of the first study; return the number of ended trials without late results."""
        trials = [queue.trials() for queue in self._queues]
        ended_by_study = [ended_trials(study_trials) for study_trials in trials]
        before, self._ended_numbers = (
            self._ended_numbers,
            [{trial.number for trial in ended} for ended in ended_by_study],
        )
        for i, ended in enumerate(ended_by_study):
            if before is None or self._ended_numbers[i] != before[i]:
                self._expected[i] = expectations_of(self._queues[i].plan, ended)
        running_before, self._last_look = self._running, time.monotonic()
        self._running = [
            _running(queue, study_trials, old, self._last_look, expected)
            for queue, study_trials, old, expected in zip(
                self._queues, trials, running_before, self._expected, strict=True
            )
        ]
        n_ended = sum(
            trial.state.is_finished() and not is_extra(trial) for study_trials in trials for trial in study_trials
        )
        if before is None:
            self._n_before = n_ended
        for i, (queue, ended) in enumerate(zip(self._queues, ended_by_study, strict=True)):
            new = () if before is None else tuple(trial for trial in ended if trial.number not in before[i])
            is_first = before is None and i == 0
            warn_first_failure(queue.study.study_name, new, ended, self._on_message, self._last_lines)
            if queue.plan.pruner != "none":
                warn_no_reports(queue.study.study_name, new, ended, self._on_message)
            if self._progress is not None and (new or is_first or self._running[i] != running_before[i]):
                left, name = self._remaining_s(n_ended, ended_by_study), queue.study.study_name
                running = () if is_first else self._running[i]
                total, best, failed = self._limits.trials, best_of(ended), len(failures(ended))
                self._progress(StudyProgress(n_ended, total, best, left, new, name, running, self._expected[i], failed))
        return n_ended

    def _remaining_s(self, n_ended: int, ended_by_study: Sequence[Sequence[Trial]]) -> float:
        """Extrapolate the remaining seconds from this call's trials; at most the time limit."""
        now = time.monotonic()
        durations = [trial.duration for trials in ended_by_study for trial in trials if trial.duration]
        running = [_share(trial, durations, now) for trials in self._running for trial in trials]
        part, until = sum(running), max(self._limits.until - now, 0.0)
        if math.isnan(part):
            return math.nan
        n_new, n_left = n_ended - self._n_before + part, max(self._limits.trials - n_ended - part, 0)
        if n_new < 1 and durations:  # too early to extrapolate: use the durations of earlier trials
            return min(sum(durations) / len(durations) * n_left / max(len(running), 1), until)
        if n_new <= 0:
            return math.nan
        return min((now - self._began) / n_new * n_left, until)


def _share(trial: RunningTrial, durations: Sequence[float], now: float) -> float:
    """Return the finished part of a trial: by its reports, else by the trials that took longer; NaN if none did."""
    if trial.share is not None or not durations:
        return trial.share or 0.0
    elapsed = now - trial.since
    longer = [seconds for seconds in durations if seconds > elapsed]
    return elapsed * len(longer) / sum(longer) if longer else math.nan


def warn_first_failure(
    study: str,
    new: Sequence[Trial],
    ended: Sequence[Trial],
    on_message: Callable[[str], object],
    last_lines: Callable[[str, int], Sequence[str]] = lambda _study, _number: (),
) -> None:
    """Print why the first trial failed, and what it printed, if no trial has an error yet: the objective may be wrong.

    Args:
        study: its name.
        new: trials that ended since the last look.
        ended: all ended trials.
        on_message: called with each line.
        last_lines: of what a trial of a study printed, by its number.
    """
    failed = failures(ended)
    # With several workers trial 1 may fail before trial 0: then all failures are new, and only one is reported.
    if failed and all(trial in new for trial in failed) and all(trial.error is None for trial in ended):
        trial = failed[0]
        note = trial.note.rstrip(".") or "no note"
        on_message(f"{study}: trial {trial.number} gave no result ({trial.status.value}): {note}. The study goes on.")
        for line in last_lines(study, trial.number):
            on_message(f"  | {line}")


def warn_no_reports(
    study: str, new: Sequence[Trial], ended: Sequence[Trial], on_message: Callable[[str], object]
) -> None:
    """Say after the first trial with an error that it reported nothing, so that no trial can be stopped early.

    Args:
        study: its name.
        new: trials that ended since the last look.
        ended: all ended trials.
        on_message: called with the line.
    """
    with_error = [trial for trial in ended if trial.error is not None]
    if with_error and all(trial in new and not trial.curve for trial in with_error):
        on_message(
            f"{study}: trial {with_error[0].number} reported nothing while it ran, so that `pruner` stops no trial. With "
            "`score` or `loss` each line of a script with the number is a report."
        )


def _running(
    queue: TrialQueue,
    trials: Sequence[FrozenTrial],
    before: Sequence[RunningTrial],
    now: float,
    expectations: StudyExpectations | None,
) -> tuple[RunningTrial, ...]:
    """Return the running trials of a study."""
    since = {trial.number: trial.since for trial in before}
    running = []
    for trial in trials:
        if trial.state.is_finished() or RUN not in trial.user_attrs:
            continue
        step = max(trial.intermediate_values, default=None)
        config = trial.user_attrs[RUN]["config"]
        length = None if step is None else queue.plan.length(config)
        share = min(step / length, 1.0) if step is not None and length else None
        error = None if step is None else trial.intermediate_values[step]
        heading = queue.heading(trial, trials)
        expected = None if expectations is None else expectations.expected_of(config)
        began = since.get(trial.number, now)
        running.append(RunningTrial(trial.number, began, step, error, share, heading, expected))
    return tuple(running)
