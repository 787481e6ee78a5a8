"""Progress of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.wording import in_short
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.trial import Trial

if TYPE_CHECKING:
    from warmstart.bar import Show
    from warmstart.studies.objectives.metric import Metric


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A running trial.

    Attributes:
        number: in its study.
        since: `time.monotonic` when it was first seen.
        step: of its last report, in the objective's unit; None = no report yet.
        error: of its last report; None = no report yet.
        share: finished part, by its budget; None if unknown.
        heading: forecast of its final error, if the study's pruner is ``history`` and a quarter of the trial is done.
        expected: error by the history and the trials before it; None if the history never measured its configuration.
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
    """Progress of a call.

    Attributes:
        done: ended trials of the whole study, or of all that are tuned together; without late results.
        total: trials to run; infinite if only time limits them.
        best: best trial of the study so far.
        left_s: remaining seconds; NaN while unknown, e.g. if a trial runs longer than all before.
        latest: the trials of the study that ended since the last progress.
        study: its name.
        running: running trials of the study, in order of their numbers.
        expected: expected errors; None without an expectation by the history.
        n_failed: trials of the study that ended without an error, without pruned ones.
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


def show_progress(show: Show, now: StudyProgress, prefix: str, metric: Metric) -> None:
    """Show the running trials, the last report and the best error so far in a bar."""
    details = []
    if now.best is not None and now.best.error is not None:
        details = [f"best {metric.said(now.best.error)} (trial {now.best.number})"]
    if now.n_failed:
        details.append(f"{now.n_failed} failed")
    if now.expected is not None:
        details.append(f"in the end {in_metric(now.expected.best, metric)}")
    text, since = "", None
    if len(now.running) == 1:
        (trial,) = now.running
        text, since = f"{prefix}trial {trial.number}", trial.since
        if trial.step is not None and trial.error is not None:
            details.insert(0, f"{metric.name} {in_short(metric.to_value(trial.error))} at step {trial.step:.12g}")
        if trial.heading is not None:
            details.insert(1, f"heading for {in_metric(trial.heading, metric)}")
        elif trial.step is None and trial.expected is not None:
            text += f" ({in_metric(trial.expected, metric)} expected)"
    elif now.running:
        numbers = ", ".join(str(trial.number) for trial in now.running[:8])
        text = f"{prefix}trials {numbers}" + (" and others" if len(now.running) > 8 else "")
    parts = sum(trial.share or 0.0 for trial in now.running)
    total = None if now.total == float("inf") else now.total
    # Infinity: the bar has no better estimate than the study.
    left_s = math.inf if math.isnan(now.left_s) else now.left_s
    show(now.done + parts, total, text, left_s=left_s, since=since, more=", ".join(details), ended=now.done)


def in_metric(expected: ExpectedError, metric: Metric) -> str:
    """Format an interval of errors in the metric's values."""
    low, high = sorted(metric.to_value(end) for end in (expected.low, expected.high))
    return f"{low:.2g} to {high:.2g}"
