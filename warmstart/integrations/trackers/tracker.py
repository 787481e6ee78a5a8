"""The interface of a tracker, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warmstart.history_store.records import Value


@dataclass(frozen=True, slots=True)
class Destination:
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

    It is made in each worker with its `Destination`, when the first trial begins. Its module is imported where it is asked for.
    """

    def __init__(self, destination: Destination) -> None:
        """Set up the tracker."""

    @staticmethod
    def where(destination: Destination) -> str:
        """Return where people find what it writes: a path, or a link."""
        ...

    def begin(self, trial: TrackedTrial) -> None:
        """Begin a trial."""

    def report(self, step: float, value: float) -> None:
        """Write a report of the trial."""

    def end(self, end: TrackedEnd) -> None:
        """End the trial, with its last write."""
