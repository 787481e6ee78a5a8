"""The interface of a tracker, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warmstart.history_store.records import Value


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tracker writes.

    Attributes:
        study: its name.
        folder: for local files; it may not exist yet.
    """

    study: str
    folder: Path


@dataclass(frozen=True, slots=True)
class TrackedTrial:
    """A trial that begins.

    Attributes:
        number: in its study.
        seed: of the trial.
        config: hyperparameters by name, in natural values.
        metric: name of its reports and its result.
        maximize: whether a larger value is better.
    """

    number: int
    seed: int
    config: Mapping[str, Value]
    metric: str
    maximize: bool


@dataclass(frozen=True, slots=True)
class TrackedEnd:
    """The end of a trial.

    Attributes:
        status: see `warmstart.studies.objectives.base.TrialStatus`; ``interrupted`` if the call ended before the trial.
        value: of the metric; None without a result.
        seconds: that it took.
        note: one line on what went wrong.
        numbers: whatever else the trial returned.
    """

    status: str
    value: float | None
    seconds: float
    note: str
    numbers: Mapping[str, float]

    @property
    def is_success(self) -> bool:
        """Tell whether nothing went wrong; a pruned trial did its part."""
        return self.status in ("ok", "diverged", "pruned")


class Tracker(Protocol):
    """Writer of one study's trials, one at a time; whatever it raises ends it alone.

    It is made in each worker with its `Place`, when the first trial begins. A package is imported there, not before.
    """

    def __init__(self, place: Place) -> None:
        """Set up the tracker."""

    @staticmethod
    def where(place: Place) -> str:
        """Return where people find what it writes: a path, or a link; its package may not be imported for this."""
        ...

    def begin(self, trial: TrackedTrial) -> None:
        """Begin a trial."""

    def report(self, step: float, value: float) -> None:
        """Write a report of the trial."""

    def end(self, end: TrackedEnd) -> None:
        """End the trial, with its last write."""
