"""A tracker: a line of CSV for each trial that ended."""

import csv
from pathlib import Path

from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial


class Table:
    """The number, the result and the seconds of each trial."""

    def __init__(self, destination: Destination) -> None:
        self._path, self._number = Path(self.where(destination)), 0
        self._path.parent.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def where(destination: Destination) -> str:
        return str(destination.folder / "ended.csv")

    def begin(self, trial: TrackedTrial) -> None:
        self._number = trial.number

    def report(self, step: float, value: float) -> None:
        """Leave out the reports."""

    def end(self, end: TrackedEnd) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerow([self._number, end.status, end.value, end.seconds])
