"""Tracker that makes a run of MLflow for each trial, in an experiment with the study's name."""

from __future__ import annotations

import os
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial

_URI, _EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"


class MlflowRuns:
    """Runs in an experiment, in the store that MLflow itself would take."""

    def __init__(self, destination: Destination) -> None:
        """Set up the tracker: connect to the store, and make the experiment unless it is there."""
        self._destination, self._client = destination, MlflowClient()
        name = os.environ.get(_EXPERIMENT) or destination.study
        try:
            self._experiment = self._client.create_experiment(name)
        except MlflowException:  # it is there, perhaps since a moment ago, from another worker
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                raise
            self._experiment = experiment.experiment_id
        self._run = self._metric = ""

    @staticmethod
    def where(destination: Destination) -> str:
        """Return the store and the experiment."""
        name = os.environ.get(_EXPERIMENT) or destination.study
        store = os.environ.get(_URI) or "the store of the working folder (`mlflow ui`)"
        return f"{store}, experiment {name}"

    def begin(self, trial: TrackedTrial) -> None:
        """Begin the run of a trial."""
        run = self._client.create_run(self._experiment, run_name=f"{self._destination.study}-{trial.number}")
        self._run, self._metric = run.info.run_id, _key(trial.metric)
        for name, value in {**trial.config, "seed": trial.seed}.items():
            self._client.log_param(self._run, _key(name), value)

    def report(self, step: float, value: float) -> None:
        """Log a report; MLflow has whole steps alone."""
        self._client.log_metric(self._run, self._metric, value, step=round(step))

    def end(self, end: TrackedEnd) -> None:
        """Log the result, and end the run."""
        numbers: dict[str, Any] = {**end.numbers, "seconds": end.seconds}
        if end.value is not None:
            numbers[f"result/{self._metric}"] = end.value
        for name, value in numbers.items():
            self._client.log_metric(self._run, _key(name), value)
        self._client.set_tag(self._run, "status", end.status)
        if end.note:
            self._client.set_tag(self._run, "mlflow.note.content", end.note)
        state = "FINISHED" if end.is_success else "KILLED" if end.status == "interrupted" else "FAILED"
        self._client.set_terminated(self._run, state)


def _key(name: str) -> str:
    """Return a name in the characters that MLflow allows."""
    return "".join(letter if letter.isalnum() or letter in "_-. :/" else "_" for letter in name)
