"""What was asked for and told in a run: pending configurations, evaluations in order, and all that was proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.models import TrialData
from warmstart.bo.observation import Observation
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config, Value

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pending:
    """A configuration that was asked for and not told yet.

    Attributes:
        config: values by name.
        point: `p`.
        since: seconds of the run's clock.
    """

    config: dict[str, Value]
    point: Floats
    since: float


class EvaluationLog:
    """Evaluations of a run in the order in which they were told, and the configurations that are pending.

    Attributes:
        told: `n` evaluations; `points`, theirs, each `p`; `keys`, theirs.
        pending: by key, oldest first.
        taken: keys of all configurations that were proposed or told.
        recorded: number of evaluations that this log recorded, those that took the place of a loss included.
        revision: grows with every evaluation that is recorded, from what another process counted on where one did.
    """

    def __init__(self, encoding: Encoding, *, timeout: float | None, clock: Callable[[], float]) -> None:
        self.told: list[Observation] = []
        self.points: list[Floats] = []
        self.keys: list[str] = []
        self.pending: dict[str, Pending] = {}
        self.taken: dict[str, None] = {}
        self.recorded = self.revision = 0
        self._encoding, self._timeout, self._clock = encoding, timeout, clock

    def locate(self, config: object, where: str = "history") -> tuple[Floats, str]:
        """Return the point `p` of a configuration and its key.

        Raises:
            UsageError: when it is none.
            DataError: when it does not fit the space.
        """
        points, keys = self.locate_all([config], lambda _: where)
        return points[0], keys[0]

    def locate_all(self, configs: Sequence[object], where: Callable[[int], str]) -> tuple[Floats, list[str]]:
        """Return the points of configurations, `n x p`, and their keys; `where` names one by its place. Raises as `locate`."""
        for i, config in enumerate(configs):
            if not isinstance(config, Mapping):
                msg = f"{where(i)}: expected a configuration, values by name, got {config!r}. Give a dictionary."
                raise UsageError(msg)
        points = self._encoding.encode(cast("Sequence[Config]", configs))
        return points, self._encoding.keys(points)

    def distinct(self, configs: Sequence[Config], where: str) -> list[dict[str, Value]]:
        """Read configurations, each once; raises as `locate`."""
        several: object = configs
        if isinstance(several, str | Mapping) or not isinstance(several, Iterable):
            msg = f"{where}: expected several configurations, got {several!r}. Give a list of dictionaries."
            raise UsageError(msg)
        given = list(configs)
        points, keys = self.locate_all(given, lambda i: f"{where}[{i}]")
        found: dict[str, dict[str, Value]] = {}
        for key, config in zip(keys, self._encoding.decode(points), strict=True):
            found.setdefault(key, config)
        return list(found.values())

    def begin(self, config: Config, *, since: float | None = None) -> None:
        """Count a configuration as pending from now on, or since then."""
        self._begin(*self.locate(config), since=self._clock() if since is None else since)

    def begin_new(self, configs: Sequence[Config]) -> None:
        """Count configurations as pending from now on that were never proposed."""
        points, keys = self.locate_all(configs, lambda _: "pending")
        for point, key in zip(points, keys, strict=True):
            if key not in self.taken:
                self._begin(point, key, since=self._clock())

    def withdraw(self, configs: Sequence[Config]) -> None:
        """Forget that configurations were begun."""
        for key in self.locate_all(configs, lambda _: "pending")[1]:
            self.pending.pop(key, None)
            self.taken.pop(key, None)

    def record(self, observations: Sequence[Observation], where: str = "history") -> None:
        """Keep evaluations, all or none of them; one that was counted as lost gives way to its own.

        Raises:
            UsageError: when one is none, or has an error or a duration that is none.
            DataError: when a configuration does not fit the space.
        """
        given = _listed(observations)
        points, keys = self.locate_all([observation.config for observation in given], lambda _: where)
        own = self._encoding.decode(points)  # the space's own values, whatever a table made of them
        checked = [observation.checked(config) for observation, config in zip(given, own, strict=True)]
        for observation, point, key in zip(checked, points, keys, strict=True):
            if observation.status != "lost":
                self._drop_lost(key)
            self._keep(observation, point, key)

    def restore(self, told: Iterable[Mapping[str, Any]], pending: Iterable[Mapping[str, Any]]) -> None:
        """Take the evaluations and the pending configurations of a saved run, as they were."""
        observations = [Observation.from_dict(each) for each in told]
        points, keys = self.locate_all([observation.config for observation in observations], lambda _: "history")
        own = self._encoding.decode(points)
        for observation, config, point, key in zip(observations, own, points, keys, strict=True):
            self._keep(observation.checked(config), point, key)
        for each in pending:
            self.begin(dict(each["config"]), since=float(each["since"]))

    def expire(self) -> None:
        """Count what did not answer in time as lost."""
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
        """Put points together: `n x p`."""
        p = self._encoding.p
        return np.reshape(points, (-1, p)) if p else np.empty((len(points), 0))

    @property
    def pending_points(self) -> list[Floats]:
        """List the points of what is pending, oldest first."""
        return [each.point for each in self.pending.values()]

    def free(self, points: Floats) -> Floats:
        """Return those of `m x p` points that were not proposed yet."""
        return points[[key not in self.taken for key in self._encoding.keys(points)]]

    def data(self) -> TrialData:
        """Return what models learn from."""
        X, pending = self.columns(self.points), self.columns(self.pending_points)
        return TrialData(tuple(self.told), X, pending, self.revision, n_taken=len(self.taken))

    def _begin(self, point: Floats, key: str, *, since: float) -> None:
        self.pending[key] = Pending(self._encoding.decode([point])[0], point, since)
        self.taken[key] = None

    def _drop_lost(self, key: str) -> None:
        """Forget the loss of a configuration that answered after all."""
        for i, told in enumerate(self.told):
            if told.status == "lost" and self.keys[i] == key:
                del self.told[i], self.points[i], self.keys[i]
                return

    def _keep(self, observation: Observation, point: Floats, key: str) -> None:
        self.pending.pop(key, None)
        self.taken[key] = None
        self.told.append(observation)
        self.points.append(point)
        self.keys.append(key)
        self.recorded += 1
        self.revision += 1


def _listed(observations: object) -> list[Observation]:
    """Read several observations.

    Raises:
        UsageError: when they are none.
    """
    several = isinstance(observations, Iterable) and not isinstance(observations, str | Mapping)
    found: list[Any] = list(cast("Iterable[Any]", observations)) if several else [observations]
    strange = [each for each in found if not isinstance(each, Observation)]
    if strange or not several:
        got = f"{strange[0]!r} among them" if several else repr(observations)
        msg = f"tell_all: expected a sequence of Observation, got {got}. Give a list with Observation.of(config, error) for each evaluation."
        raise UsageError(msg)
    return found
