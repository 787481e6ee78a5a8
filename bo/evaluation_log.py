"""Log of a run: evaluations in order, pending configurations, and all configurations that were proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.constraints import MEMORY
from warmstart.bo.constraints.memory import points_beyond
from warmstart.bo.models import TrialData
from warmstart.bo.observation import Observation
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config, Value

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pending:
    """Configuration whose evaluation has begun.

    Attributes:
        config: values by name.
        point: `p`.
        since: its start, in seconds of the run's clock.
    """

    config: dict[str, Value]
    point: Floats
    since: float


class EvaluationLog:
    """Evaluations of a run in the order in which they were told, and its pending configurations.

    Attributes:
        observations: `n` evaluations.
        points: `n` points of them, each `p`.
        keys: `n` keys of them.
        pending: by key, oldest first.
        taken: keys of all configurations that were proposed or told.
        recorded: number of recorded evaluations, with those that replaced a loss.
        revision: grows with every recorded evaluation; a resumed run continues the count of the earlier process.
    """

    def __init__(self, encoding: Encoding, *, timeout: float | None, clock: Callable[[], float]) -> None:
        self.observations: list[Observation] = []
        self.points: list[Floats] = []
        self.keys: list[str] = []
        self.pending: dict[str, Pending] = {}
        self.taken: dict[str, None] = {}
        self.recorded = self.revision = 0
        self._encoding, self._timeout, self._clock = encoding, timeout, clock

    def locate(self, config: object, label: str = "history") -> tuple[Floats, str]:
        """Return the point `p` of a configuration and its key.

        Raises:
            UsageError: when it is no mapping.
            DataError: when it does not fit the space.
        """
        points, keys = self.locate_all([config], lambda _: label)
        return points[0], keys[0]

    def locate_all(self, configs: Sequence[object], label: Callable[[int], str]) -> tuple[Floats, list[str]]:
        """Return the points of configurations, `n x p`, and their keys; raises as `locate`.

        Args:
            configs: `n` configurations.
            label: the name of the i-th configuration in messages.
        """
        for i, config in enumerate(configs):
            if not isinstance(config, Mapping):
                msg = f"{label(i)}: expected a configuration, values by name, got {config!r}. Give a dictionary."
                raise UsageError(msg)
        points = self._encoding.encode(cast("Sequence[Config]", configs))
        return points, self._encoding.keys(points)

    def distinct(self, configs: Sequence[Config], label: str) -> list[dict[str, Value]]:
        """Return distinct configurations in order, in values of the space; raises as `locate`."""
        several: object = configs
        if isinstance(several, str | Mapping) or not isinstance(several, Iterable):
            msg = f"{label}: expected several configurations, got {several!r}. Give a list of dictionaries."
            raise UsageError(msg)
        listed = list(configs)
        points, keys = self.locate_all(listed, lambda i: f"{label}[{i}]")
        by_key: dict[str, dict[str, Value]] = {}
        for key, config in zip(keys, self._encoding.decode(points), strict=True):
            by_key.setdefault(key, config)
        return list(by_key.values())

    def begin(self, config: Config, *, since: float | None = None) -> None:
        """Mark a configuration as pending, since now or an earlier time."""
        point, key = self.locate(config)
        (config,) = self._encoding.decode([point])
        self._begin(config, point, key, since=self._clock() if since is None else since)

    def begin_new(self, configs: Sequence[Config]) -> None:
        """Mark those configurations as pending that were never proposed."""
        points, keys = self.locate_all(configs, lambda _: "pending")
        for config, point, key in zip(self._encoding.decode(points), points, keys, strict=True):
            if key not in self.taken:
                self._begin(config, point, key, since=self._clock())

    def withdraw(self, configs: Sequence[Config]) -> None:
        """Remove configurations from the pending and the proposed ones."""
        for key in self.locate_all(configs, lambda _: "pending")[1]:
            self.pending.pop(key, None)
            self.taken.pop(key, None)

    def record(self, observations: Sequence[Observation], label: str = "history") -> None:
        """Record evaluations, all or none of them; a late answer replaces the loss of its configuration.

        Raises:
            UsageError: when an item is no observation, or its error or duration is no number.
            DataError: when a configuration does not fit the space.
        """
        listed = _observation_list(observations)
        points, keys = self.locate_all([observation.config for observation in listed], lambda _: label)
        configs = self._encoding.decode(points)  # a table may hold 8.0 for 8: the log holds the space's values
        checked = [observation.checked(config) for observation, config in zip(listed, configs, strict=True)]
        for observation, point, key in zip(checked, points, keys, strict=True):
            if observation.status != "lost":
                self._drop_lost(key)
            self._keep(observation, point, key)

    def restore(self, history: Iterable[Mapping[str, Any]], pending: Iterable[Mapping[str, Any]]) -> None:
        """Restore the evaluations and the pending configurations of a saved run from their records."""
        observations = [Observation.from_dict(record) for record in history]
        points, keys = self.locate_all([observation.config for observation in observations], lambda _: "history")
        configs = self._encoding.decode(points)
        for observation, config, point, key in zip(observations, configs, points, keys, strict=True):
            self._keep(observation.checked(config), point, key)
        for record in pending:
            self.begin(dict(record["config"]), since=float(record["since"]))

    def expire(self) -> None:
        """Record pending configurations beyond the time-out as lost."""
        if self._timeout is None:
            return
        now = self._clock()
        for key, pending in list(self.pending.items()):
            if now - pending.since > self._timeout:
                self._keep(Observation.of(pending.config, None, status="lost"), pending.point, key)

    def columns(self, points: Sequence[Floats]) -> Floats:
        """Return the model columns of points: `n x d`."""
        return self._encoding.columns(self.stack(points))

    def stack(self, points: Sequence[Floats]) -> Floats:
        """Stack points of the cube to one array, `n x p`, also when there are none."""
        p = self._encoding.p
        return np.reshape(points, (-1, p)) if p else np.empty((len(points), 0))

    @property
    def pending_points(self) -> list[Floats]:
        """Return the points of pending configurations, oldest first."""
        return [entry.point for entry in self.pending.values()]

    def free(self, points: Floats) -> Floats:
        """Return the unproposed ones of `m x p` points."""
        return points[[key not in self.taken for key in self._encoding.keys(points)]]

    def data(self) -> TrialData:
        """Return the data of the models."""
        X, pending = self.columns(self.points), self.columns(self.pending_points)
        beyond = [
            row
            for observation, point in zip(self.observations, self.points, strict=True)
            if observation.constraints.get(MEMORY) is False
            for row in points_beyond(self._encoding, observation, point)
        ]
        return TrialData(
            tuple(self.observations),
            X,
            pending,
            self.revision,
            n_taken=len(self.taken),
            beyond_memory=self.columns(beyond) if beyond else None,
        )

    def _begin(self, config: dict[str, Value], point: Floats, key: str, *, since: float) -> None:
        self.pending[key] = Pending(config, point, since)
        self.taken[key] = None

    def _drop_lost(self, key: str) -> None:
        """Remove the loss of a configuration that answered late."""
        for i, observation in enumerate(self.observations):
            if observation.status == "lost" and self.keys[i] == key:
                del self.observations[i], self.points[i], self.keys[i]
                return

    def _keep(self, observation: Observation, point: Floats, key: str) -> None:
        self.pending.pop(key, None)
        self.taken[key] = None
        self.observations.append(observation)
        self.points.append(point)
        self.keys.append(key)
        self.recorded += 1
        self.revision += 1


def _observation_list(observations: object) -> list[Observation]:
    """Check that the argument is a sequence of observations, and return it as a list.

    Raises:
        UsageError: when the argument is no sequence of `Observation`.
    """
    several = isinstance(observations, Iterable) and not isinstance(observations, str | Mapping)
    listed: list[Any] = list(cast("Iterable[Any]", observations)) if several else [observations]
    foreign = [item for item in listed if not isinstance(item, Observation)]
    if foreign or not several:
        got = f"{foreign[0]!r} among them" if several else repr(observations)
        msg = f"tell_all: expected a sequence of Observation, got {got}. Give a list with Observation.of(config, error) for each evaluation."
        raise UsageError(msg)
    return listed
