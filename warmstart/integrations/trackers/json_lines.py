"""Tracker that appends to a file with a line of JSON for each event."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import asdict
from typing import Any

from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial


class JsonLines:
    """Lines ``{"event": "begin" | "report" | "end", "time": ..., "study": ..., "trial": ..., ...}`` in one file a study.

    Lines of several workers do not mix: each is one write at the end of the file.
    """

    def __init__(self, destination: Destination) -> None:
        """Set up the tracker; the file is made with its folder."""
        self._destination, self._path = destination, self.where(destination)
        self._number = 0
        destination.folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def where(destination: Destination) -> str:
        """Return the path of the file."""
        return str(destination.folder / "events.jsonl")

    def begin(self, trial: TrackedTrial) -> None:
        """Write a trial's beginning."""
        self._number = trial.number
        self._write("begin", seed=trial.seed, config=dict(trial.config), metric=trial.metric, maximize=trial.maximize)

    def report(self, step: float, value: float) -> None:
        """Write a report."""
        self._write("report", step=step, value=value if math.isfinite(value) else None)

    def end(self, end: TrackedEnd) -> None:
        """Write a trial's end."""
        self._write("end", **asdict(end))

    def _write(self, event: str, **values: Any) -> None:
        about = {"event": event, "time": time.time(), "study": self._destination.study, "trial": self._number}
        line = json.dumps(about | values) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
