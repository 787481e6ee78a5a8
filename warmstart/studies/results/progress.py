"""Progress of a study."""

from __future__ import annotations

from dataclasses import dataclass

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.trial import Trial


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
