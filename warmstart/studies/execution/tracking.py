"""The trackers of a call, in a worker: they are told of each trial, and a failure of theirs ends no study."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from warmstart.history_store.quoting import in_line
from warmstart.history_store.space import shown
from warmstart.integrations.trackers.registry import find_tracker
from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial, Tracker
from warmstart.studies.objectives.base import Outcome

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec
    from warmstart.studies.state.trial_queue import Run

_log = logging.getLogger("warmstart")


@dataclass(frozen=True, slots=True)
class Tracking:
    """The trackers of a call, for its workers.

    Attributes:
        names: of the trackers.
        folder: for their local files, of a single study; below it a folder a study, if several are tuned together.
        is_shared: whether several studies are.
        say: called with a line on a tracker that failed.
    """

    names: tuple[str, ...] = ()
    folder: Path = Path()
    is_shared: bool = False
    say: Callable[[str], object] = field(default=_log.warning, compare=False)

    def destination(self, study: str) -> Destination:
        """Return where a study's trials are written."""
        return Destination(study, self.folder / study if self.is_shared else self.folder)

    def prepared(self, studies: Sequence[str]) -> tuple[str, ...]:
        """Open every tracker once, so that what it makes is there for all workers; return the names of those that work."""
        trackers = Trackers(self)
        for study in studies:
            trackers.open(study)
        return trackers.names

    def where(self, study: str) -> dict[str, str]:
        """Return where people find a study's trials, by tracker."""
        return {name: find_tracker(name).where(self.destination(study)) for name in self.names}


NO_TRACKING = Tracking()
"""No tracker."""


@dataclass(slots=True)
class Trackers:
    """The trackers of a worker; one that raises gets a line, and is told of nothing more."""

    tracking: Tracking
    _open: dict[tuple[str, str], Tracker] = field(default_factory=dict)
    _broken: set[str] = field(default_factory=set)
    _study: str = ""
    _plan: StudySpec | None = None
    _began: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End the trial under way, which was interrupted."""
        self._end(TrackedEnd("interrupted", None, time.monotonic() - self._began, "", {}))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the trackers that work."""
        return tuple(name for name in self.tracking.names if name not in self._broken)

    def open(self, study: str) -> None:
        """Open the trackers of a study."""
        self._study = study
        self._each(lambda _: None)

    def begin(self, study: str, plan: StudySpec, run: Run) -> None:
        """Begin a trial."""
        self._study, self._plan, self._began = study, plan, time.monotonic()
        metric, config = plan.measure, shown(run.config)
        trial = TrackedTrial(run.number, run.seed, config, metric.name, metric.maximize)
        self._each(lambda tracker: tracker.begin(trial))

    def report(self, step: float, error: float) -> None:
        """Write a report."""
        if self._plan is not None:
            value = self._plan.measure.to_value(error)
            self._each(lambda tracker: tracker.report(step, value))

    def end(self, outcome: Outcome) -> None:
        """End a trial."""
        if self._plan is not None:
            value = None if outcome.error is None else self._plan.measure.to_value(outcome.error)
            self._end(TrackedEnd(outcome.status.value, value, outcome.duration, outcome.note, outcome.metrics))

    def _end(self, end: TrackedEnd) -> None:
        if self._plan is not None:
            self._each(lambda tracker: tracker.end(end))
        self._plan = None

    def _each(self, write: Callable[[Tracker], None]) -> None:
        """Call a method of each tracker that works."""
        for name in self.names:
            try:
                key = name, self._study
                if key not in self._open:
                    self._open[key] = find_tracker(name)(self.tracking.destination(self._study))
                write(self._open[key])
            except Exception as error:  # noqa: BLE001  a tracker may raise anything, and no study ends with it
                self._broken.add(name)
                self.tracking.say(
                    f"`track` {name} failed ({type(error).__name__}: {in_line(str(error))[:200]}): the study goes on without it."
                )
