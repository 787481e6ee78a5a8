"""Tracker that writes event files of TensorBoard: a run for each trial, with its hyperparameters. Needs no TensorFlow."""

from __future__ import annotations

import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from warmstart.integrations.trackers.tracker import Destination, TrackedEnd, TrackedTrial


class TensorboardEvents:
    """A folder a trial below one a study: scalars by step, and the session of the hyperparameters' dashboard."""

    def __init__(self, destination: Destination) -> None:
        """Set up the tracker."""
        self._destination = destination
        self._writer: Any = None
        self._metric, self._last = "", 0

    @staticmethod
    def where(destination: Destination) -> str:
        """Return the folder for ``tensorboard --logdir``."""
        return str(destination.folder / "tensorboard")

    def begin(self, trial: TrackedTrial) -> None:
        """Begin the run of a trial, with its hyperparameters."""
        self._writer = EventFileWriter(f"{self.where(self._destination)}/trial-{trial.number}")
        self._metric, self._last = trial.metric, 0
        info = SessionStartInfo(start_time_secs=time.time())
        for name, value in {**trial.config, "seed": trial.seed}.items():
            if isinstance(value, bool):
                info.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                info.hparams[name].number_value = value
            else:
                info.hparams[name].string_value = value
        self._add_session("session_start_info", info)

    def report(self, step: float, value: float) -> None:
        """Write a scalar; TensorBoard has whole steps alone."""
        self._add_scalar(self._metric, value, round(step))
        self._last = round(step)

    def end(self, end: TrackedEnd) -> None:
        """Write the result after the last report, and close the run."""
        results = dict(end.numbers) | ({} if end.value is None else {f"result/{self._metric}": end.value})
        for name, value in {**results, "seconds": end.seconds}.items():
            self._add_scalar(name, value, self._last)
        status = Status.STATUS_SUCCESS if end.is_success else Status.STATUS_FAILURE
        self._add_session("session_end_info", SessionEndInfo(status=status, end_time_secs=time.time()))
        self._writer.close()

    def _add_scalar(self, tag: str, value: float, step: int) -> None:
        self._add(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def _add_session(self, name: str, info: Any) -> None:
        content = HParamsPluginData(version=0, **{name: info}).SerializeToString()
        about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=content))
        self._add(Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=about)]), 0)

    def _add(self, summary: Any, step: int) -> None:
        self._writer.add_event(Event(summary=summary, step=step, wall_time=time.time()))
        self._writer.flush()
