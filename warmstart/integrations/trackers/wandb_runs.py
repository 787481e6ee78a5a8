"""Tracker that makes a run of Weights & Biases for each trial, in a project with the study's name."""

from __future__ import annotations

import os
import re
from typing import Any

import wandb

from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial

_OFFLINE = ("offline", "dryrun")


class WandbRuns:
    """Runs in a project; what is set in the environment (`WANDB_MODE`, `WANDB_PROJECT`, `WANDB_ENTITY`) is heeded."""

    def __init__(self, destination: Destination) -> None:
        """Set up the tracker.

        Raises:
            ConnectionError: nobody is logged in; without this, the first run would wait for an answer in the terminal.
        """
        if os.environ.get("WANDB_MODE") not in (*_OFFLINE, "disabled") and not wandb.login(timeout=1):
            msg = "nobody is logged in: `wandb login`, or WANDB_MODE=offline"
            raise ConnectionError(msg)
        self._destination = destination
        self._run: Any = None
        self._metric = ""

    @staticmethod
    def where(destination: Destination) -> str:
        """Return the link to the project, or the folder of runs that are not sent."""
        if os.environ.get("WANDB_MODE") in _OFFLINE:
            return f"{destination.folder / 'wandb'} (`wandb sync` sends it)"
        base = os.environ.get("WANDB_BASE_URL", "https://wandb.ai").rstrip("/")
        owner = os.environ.get("WANDB_ENTITY")
        return f"{base}/{owner}/{_project(destination)}" if owner else f"{base}, project {_project(destination)}"

    def begin(self, trial: TrackedTrial) -> None:
        """Begin the run of a trial."""
        self._destination.folder.mkdir(parents=True, exist_ok=True)
        self._metric = trial.metric
        self._run = wandb.init(
            project=_project(self._destination),
            group=self._destination.study,
            name=f"{self._destination.study}-{trial.number}",
            config={**trial.config, "seed": trial.seed},
            dir=str(self._destination.folder),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric(trial.metric, step_metric="step", summary="last")

    def report(self, step: float, value: float) -> None:
        """Log a report; steps are a metric of their own, as they need not be whole."""
        self._run.log({"step": step, self._metric: value})

    def end(self, end: TrackedEnd) -> None:
        """Write the result to the summary, and finish the run."""
        summary = {**end.numbers, "status": end.status, "seconds": end.seconds}
        if end.value is not None:
            summary[self._metric] = end.value
        if end.note:
            summary["note"] = end.note
        self._run.summary.update(summary)
        self._run.finish(exit_code=0 if end.is_success else 1)


def _project(destination: Destination) -> str:
    """Return the project: as the environment says, else the study's name in the letters that a project may have."""
    return os.environ.get("WANDB_PROJECT") or re.sub(r"[^\w.-]+", "-", destination.study)[:128]
