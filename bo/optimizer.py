"""Bayesian optimisation over a search space: ask for configurations, tell what became of them [Snoek2012practical].

The initial configurations come first and in order, then a design, then what the surrogate promises most from. Evaluations
may run side by side, end in any order, fail or never answer. A run is a function of its seed and of what it was told, in
any process, also when it is saved in between.
"""

from __future__ import annotations

import json
import operator
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from bo.acquisition.optimize import CLOUD, best_free, optimize_acquisition
from bo.gpyopt_engine import propose
from bo.models import Incumbent, SurrogateModels, TrialData, Variance
from bo.observation import Observation
from bo.related import RelatedTask, tasks_of
from bo.restarts import ELSEWHERE, LAST, LEAST, Elsewhere, has_converged
from bo.settings import Engine, checked_settings, encoding_of
from bo.space.sampling import Design
from bo.surrogates import Surrogate, SurrogateInfo, find_surrogate
from history_store.errors import DataError, SpaceExhaustedError, UsageError
from history_store.records import Config, Value
from history_store.space import dump_space, load_space

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]

SCHEMA = 1
"""Version of what `to_dict` gives."""
STARTUP = 3
"""Configurations before the surrogate is asked."""
RESTARTING = ("gp", "gp-map")
"""Surrogates whose searches start elsewhere when they have converged: for others it was not measured."""
PROCESS_LIMIT = 2000
"""Evaluations above which a Gaussian process is slow enough to warn of."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A configuration that was asked for and not told yet."""

    config: dict[str, Value]
    point: Floats
    since: float


class Optimizer:
    """A search for the configuration with the least error, one suggestion after another.

    Tells and asks come in any order: what was never asked for is data, what is asked for and not told is pending and judged by
    what it may turn out to be. No configuration is proposed twice. A failed evaluation teaches where evaluations fail.
    """

    def __init__(
        self,
        space: ConfigurationSpace,
        *,
        surrogate: str | SurrogateInfo | Surrogate = "gp",
        acquisition: str = "ei",
        initial: Sequence[Config] = (),
        candidates: Sequence[Config] | None = None,
        related: Sequence[RelatedTask] = (),
        meta_feature: Sequence[float] | None = None,
        design: Design = "sobol",
        startup: int | None = None,
        incumbent: Incumbent = "posterior-mean",
        ei_variance: Variance = "latent",
        timeout: float | None = None,
        seed: int | None = 0,
        engine: Engine = "warmstart",
        restarts: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set up a run.

        Args:
            space: what to search, conditions and forbidden clauses included.
            surrogate: a name in `bo.surrogates.SURROGATES`, a `SurrogateInfo`, or an unfitted surrogate, of which the run fits copies.
            acquisition: a name in `bo.models.ACQUISITIONS`.
            initial: configurations to evaluate first and in order; repeated ones are left out.
            candidates: the only configurations to choose from; None = all of the space.
            related: what is known of related tasks, for the surrogates `mt-...`.
            meta_feature: of the task at hand, where the related ones have one.
            design: `uniform`, `latin`, `halton` or `sobol`: how to go on after the initial configurations.
            startup: configurations, initial and told ones included, before the surrogate is asked; None = 3, with related tasks 0.
            incumbent: the best error so far: the least `posterior-mean` where an evaluation succeeded, or `observed`.
            ei_variance: what improvement expects to vary: the `latent` function, or what would be observed, `predictive`, noise
                included, which asks again beside what was seen.
            timeout: seconds after which a configuration that was asked for counts as lost; None = never.
            seed: of everything random; None = another one every time.
            engine: what models errors and chooses: ours, or `gpyopt` (`bo.gpyopt_engine`) with `gp` or `gp-map`, and `ei` or `lcb`.
            restarts: of `gp` and `gp-map` with `ei`, where the space is not looked through whole: search elsewhere, four times of five, once
                the search has converged (`bo.restarts`).
            clock: gives the time in seconds.

        Raises:
            UsageError: when a name, a number or a space does not fit, or GPyOpt is wanted and not installed.
            DataError: when a configuration does not fit the space.
        """
        self._surrogate = find_surrogate(surrogate, "Optimizer")
        self._settings = checked_settings(
            surrogate=self._surrogate.name,
            acquisition=acquisition,
            design=design,
            incumbent=incumbent,
            ei_variance=ei_variance,
            startup=startup,
            timeout=timeout,
            seed=seed,
            engine=engine,
            restarts=restarts,
        )
        self._encoding, self._space, self._clock = encoding_of(space), space, clock
        self._queue = self._distinct(initial, "initial")
        self._candidates = (
            None if candidates is None else self._encoding.encode(self._distinct(candidates, "candidates"))
        )
        if self._candidates is not None and not len(self._candidates):
            msg = "Optimizer: expected at least one candidate, got none. Leave candidates out to search the space."
            raise UsageError(msg)
        tasks_given: object = related
        if not isinstance(tasks_given, Sequence) or not all(isinstance(each, RelatedTask) for each in tasks_given):
            msg = f"related: expected a sequence of RelatedTask, got {tasks_given!r}. Leave it out where there is none."
            raise UsageError(msg)
        if related and not self._surrogate.multitask:
            msg = f"Optimizer: expected a surrogate for related tasks, mt-..., got {self._surrogate.name!r}. Name one, or leave related out."
            raise UsageError(msg)
        tasks, meta = tasks_of(related, meta_feature, self._encoding)
        self._related, self._meta = related, meta
        self._make = partial(
            SurrogateModels,
            surrogate=self._surrogate,
            acquisition=acquisition,
            incumbent=incumbent,
            ei_variance=ei_variance,
            conditional=self._encoding.conditional,
            related=tasks,
            meta=meta,
        )
        self._fitted = self._make(seed=self._settings["seed"])
        self._startup = (0 if related else STARTUP) if startup is None else startup
        self._design = self._designed(self._startup - len(self._queue), "design", self._keys(self._queue))
        self._pending: dict[str, _Pending] = {}
        self._history: list[Observation] = []
        self._points: list[Floats] = []
        self._keys_told: list[str] = []
        self._taken: dict[str, None] = {}
        self._asked = self._revision = 0
        self._promised: tuple[TrialData, Floats] | None = None
        self._log_gains: list[float] = []
        self._elsewhere, self._fresh = Elsewhere(), self._fresh_models(0)
        self._is_warned = False

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Return the configurations that were asked for and not told yet, oldest first."""
        self._expire()
        return [dict(pending.config) for pending in self._pending.values()]

    @property
    def best(self) -> Observation | None:
        """Return the evaluation with the least error of those that meet all their constraints; None where there is none."""
        valid = [observation for observation in self._history if observation.valid]
        return min(valid, key=lambda observation: observation.error, default=None)

    @property
    def log_gain(self) -> float | None:
        """Return the log of the improvement that the last configuration asked for promises, by `SurrogateModels.log_gain`; None where no model chose it."""
        return None if self._promised is None else self._fitted.log_gain(*self._promised)

    @property
    def converged(self) -> str | None:
        """Say so where the search has stalled and expects next to nothing more; None before, and where suggestions promise more again."""
        errors = [observation.error for observation in self._history if observation.valid]
        if not has_converged(errors, self._log_gains, least=LEAST):
            return None
        return f"nothing more is expected here: {'restarting elsewhere, or stop' if self._restarts else 'stop, or start another search'}"

    def history(self) -> list[Observation]:
        """Return what was told, in order; lost evaluations are among it."""
        self._expire()
        return list(self._history)

    def ask(self, n: int = 1) -> list[dict[str, Value]]:
        """Choose the next configurations to evaluate; each counts as pending until it is told.

        Args:
            n: how many, at least 1.

        Returns: n configurations, fewer where the space holds no more.

        Raises:
            UsageError: when n is no whole number above 0.
            SpaceExhaustedError: when every configuration was proposed already.
        """
        try:
            count = operator.index(n)
        except TypeError as error:
            msg = f"ask: expected a whole number of configurations, got n={n!r}. Use n=1."
            raise UsageError(msg) from error
        if count < 1:
            msg = f"ask: expected at least one configuration, got n={count}. Use n=1."
            raise UsageError(msg)
        self._expire()
        configs: list[dict[str, Value]] = []
        with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
            while len(configs) < count and (found := self._next(count - len(configs))):
                points = self._encoding.encode(found)
                if self._related:
                    self._fitted.forecast(self._evidence(), self._columns([points[0]]))
                for config, point, key in zip(found, points, self._encoding.keys(points), strict=True):
                    self._pending[key] = _Pending(config, point, self._clock())
                    self._taken[key] = None
                    configs.append(dict(config))
        if not configs:
            where = "the space" if self._candidates is None else "the candidates"
            msg = f"ask: expected {where} to hold a configuration that is new, got none: {len(self._history)} evaluations are known and {len(self._pending)} pending. Take the best one, or widen {where}."
            raise SpaceExhaustedError(msg)
        return configs

    def tell(
        self,
        config: Config,
        error: float | None = None,
        *,
        duration: float | None = None,
        status: str = "ok",
        constraints: Mapping[str, bool] | None = None,
    ) -> None:
        """Record an evaluation, of a configuration that was asked for or of any other of the space.

        A configuration may be told more than once: its errors are then noisy. An answer that comes after the time-out takes
        the place of the loss.

        Args:
            config: hyperparameter values by name, inactive ones left out.
            error: what is minimised; NaN or infinite = the evaluation failed. May be left out where the status says so.
            duration: seconds, or any other cost; None = unknown.
            status: `ok` or `failed`.
            constraints: whether each constraint that was looked at is met.

        Raises:
            DataError: when the configuration does not fit the space.
            UsageError: when an argument is of another kind.
        """
        point = self._encode(config, "tell")
        observation = Observation.of(config, error, duration=duration, status=status, constraints=constraints)
        key = self._encoding.keys(point[None])[0]
        for i, told in enumerate(self._history):
            if told.status == "lost" and np.array_equal(self._points[i], point):
                del self._history[i], self._points[i], self._keys_told[i]
                break
        self._record(observation, point, key)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole run as JSON has it: `from_dict` goes on as if it had not been interrupted."""
        self._expire()
        return {
            "schema_version": SCHEMA,
            "space": json.loads(dump_space(self._space)),
            "settings": dict(self._settings),
            "candidates": None if self._candidates is None else self._encoding.decode(self._candidates),
            "related": [task.to_dict() for task in self._related],
            "meta_feature": None if self._meta is None else self._meta.tolist(),
            "queue": [dict(config) for config in self._queue],
            "design": [dict(config) for config in self._design],
            "pending": [{"config": dict(p.config), "since": p.since} for p in self._pending.values()],
            "history": [observation.to_dict() for observation in self._history],
            "asked": self._asked,
            "revision": self._revision,
            "models": self._fitted.to_dict(),
            "restarts": self._restarts_to_dict(),
        }

    @classmethod
    def from_dict(
        cls,
        record: Mapping[str, Any],
        *,
        surrogate: SurrogateInfo | Surrogate | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Set up the run that `to_dict` gave.

        Args:
            record: of the run.
            surrogate: that of the run, where it was no name in `bo.surrogates.SURROGATES`.
            clock: gives the time in seconds.

        Raises:
            DataError: when the record is of another version or damaged.
        """
        if not isinstance(record, Mapping) or record.get("schema_version") != SCHEMA:
            got = record.get("schema_version") if isinstance(record, Mapping) else type(record).__name__
            msg = f"Optimizer.from_dict: expected a record of version {SCHEMA}, got {got!r}. Give what to_dict gave, and upgrade warmstart where it is newer."
            raise DataError(msg)
        try:
            run = cls(
                load_space(json.dumps(record["space"])),
                **{**record["settings"], **({} if surrogate is None else {"surrogate": surrogate})},
                candidates=record["candidates"],
                related=[RelatedTask.from_dict(task) for task in record["related"]],
                meta_feature=record["meta_feature"],
                clock=clock,
            )
            known = {"ei_variance": "latent", "restarts": True, **record["settings"]}  # runs of before had no other
            run._settings = {name: known[name] for name in run._settings}
            run._queue = run._distinct(record["queue"], "queue")
            run._design = run._distinct(record.get("design", ()), "design")  # part of the queue before
            for told in record["history"]:
                observation = Observation.from_dict(told)
                run._record(observation, *run._located(observation.config))
            for pending in record["pending"]:
                point, key = run._located(pending["config"])
                run._pending[key] = _Pending(dict(pending["config"]), point, float(pending["since"]))
                run._taken[key] = None
            run._asked, run._revision = int(record["asked"]), int(record["revision"])
            run._fitted.restore(record["models"])
            run._restore_restarts(record.get("restarts"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.from_dict: expected a record of to_dict, got a damaged one ({type(error).__name__}: {error}). Save the run again."
            raise DataError(msg) from error
        return run

    def checkpoint(self) -> dict[str, Any]:
        """Return what the next suggestion depends on besides what was told and is pending, as JSON has it; see `resume`."""
        return {
            "asked": self._asked,
            "revision": self._revision,
            "told": len(self._history),
            "models": self._fitted.to_dict(),
            "restarts": self._restarts_to_dict(),
        }

    def resume(self, checkpoint: Mapping[str, Any] | None = None, *, pending: Sequence[Config] = ()) -> None:
        """Go on from a checkpoint that another process gave, with its settings and after the tells that it knew or more.

        After the same tells and with the same pending configurations, the next one is the one that the other process would
        have given.

        Args:
            checkpoint: what `checkpoint` gave; None = there is none yet.
            pending: configurations that are being evaluated; those that were told are passed over.

        Raises:
            DataError: when the checkpoint is damaged, or a configuration does not fit the space.
        """
        for config in self._distinct(pending, "pending"):
            point, key = self._located(config)
            if key not in self._taken:
                self._pending[key] = _Pending(config, point, self._clock())
                self._taken[key] = None
        if checkpoint is None:
            return
        try:
            asked, more = int(checkpoint["asked"]), len(self._history) - int(checkpoint["told"])
            self._fitted.restore(checkpoint["models"])
            self._restore_restarts(checkpoint.get("restarts"))
            self._asked, self._revision = asked, int(checkpoint["revision"]) + more
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.resume: expected what checkpoint gave, got a damaged one ({type(error).__name__}: {error}). Leave it out to start anew."
            raise DataError(msg) from error

    def _next(self, wanted: int) -> list[dict[str, Value]]:
        """Choose one configuration; as many as are wanted while a design is all there is to go by; none where none is left."""
        self._promised = None
        if len(self._taken) >= self._startup:  # what was told unasked is as good
            self._design.clear()
        while self._queue or self._design:
            config = (self._queue or self._design).pop(0)
            if self._keys([config])[0] not in self._taken:
                return [dict(config)]
        self._asked += 1
        rng = np.random.default_rng([self._settings["seed"], zlib.crc32(b"ask"), self._asked])
        self._warn_of_size()
        point = self._proposed(rng) if self._settings["engine"] == "gpyopt" else self._promising(rng)
        if point is not None:
            return self._encoding.decode(point[None])
        is_sequence = self._settings["design"] != "latin"  # which goes on; a hypercube is a whole
        wanted = 1 if self._related else wanted  # they soon know enough
        found = self._designed(wanted, "design" if is_sequence else f"spare {self._asked}", list(self._taken))
        self._asked += max(len(found) - 1, 0)
        return found

    def _promising(self, rng: np.random.Generator) -> Floats | None:
        """Find the free point that our models promise most from; None where they know too little, or none is free.

        Four of five times the models are those of a process that knows only its own evaluations, once the search has converged.
        """
        evidence, point = self._evidence(), None
        if self._restarts and self.converged:
            self._elsewhere.turn += 1
            if self._elsewhere.turn % (ELSEWHERE + 1):
                point = self._started_elsewhere(evidence, rng)
        if point is None:
            point, gain = self._most_promising(self._fitted, evidence, rng)
            self._log_gains = [*self._log_gains, gain][-LAST:] if gain is not None else self._log_gains
        self._promised = None if point is None else (evidence, self._columns([point]))
        return point

    def _evidence(self) -> TrialData:
        """Return what is known now."""
        pending = [p.point for p in self._pending.values()]
        return TrialData(tuple(self._history), self._columns(self._points), self._columns(pending), self._revision)

    def _most_promising(
        self, fitted: SurrogateModels, evidence: TrialData, rng: np.random.Generator
    ) -> tuple[Floats | None, float | None]:
        """Find the free point that models promise most from, and the log of the improvement that they promise whatever is pending."""
        encoding = self._encoding
        found = fitted.criterion(evidence, rng=rng)
        if found is None:
            return None, None
        criterion, row = found
        if self._candidates is not None:
            free = self._candidates[[key not in self._taken for key in encoding.keys(self._candidates)]]
            point = best_free(criterion.value(encoding.columns(free)), free, encoding, self._taken)
        else:
            around = np.reshape([] if row is None else self._points[row], (-1, encoding.p))
            point = optimize_acquisition(criterion, encoding, around=around, taken=self._taken, rng=rng)
        if point is None:
            return None, None
        return point, fitted.log_gain(replace(evidence, pending=evidence.pending[:0]), self._columns([point]))

    def _started_elsewhere(self, evidence: TrialData, rng: np.random.Generator) -> Floats | None:
        """Find what the process that starts elsewhere wants to know, by its own evaluations; None where it finds nothing free."""
        process = self._elsewhere
        own = [i for i, key in enumerate(self._keys_told) if key in process.own]
        valid = [i for i in own if self._history[i].valid]
        errors, points = (
            [self._history[i].error for i in valid],
            np.reshape([self._points[i] for i in valid], (-1, self._encoding.p)),
        )
        others = [i for i, o in enumerate(self._history) if o.valid and i not in set(own)]
        known = [self._points[i] for i in sorted(others, key=lambda i: self._history[i].error)[:1]]
        if not process.number or process.is_over(errors, points, known, design=STARTUP):
            process.begin(basin=points[int(np.argmin(errors))] if errors else None)
            self._fresh, own = self._fresh_models(process.number), []
        point = None
        if len(process.own) >= STARTUP:
            point, gain = self._most_promising(self._fresh, replace(evidence, of_errors=own), rng)
            process.log_gains = [*process.log_gains, gain][-LAST:] if gain is not None else process.log_gains
        if point is None:
            points = self._encoding.encode(self._designed(1, "design", list(self._taken)))
            point = points[0] if len(points) else None
        if point is not None:
            process.own[self._encoding.keys(point[None])[0]] = None
        return point

    @property
    def _restarts(self) -> bool:
        """Tell whether the search goes on elsewhere when it has converged."""
        s = self._settings
        is_known = s["surrogate"] in RESTARTING and s["acquisition"] == "ei" and s["engine"] == "warmstart"
        return s["restarts"] and is_known and self._candidates is None and self._encoding.size > CLOUD

    def _fresh_models(self, number: int) -> SurrogateModels:
        """Make the models of a process that starts elsewhere."""
        return self._make(seed=int(np.random.SeedSequence([self._settings["seed"], number]).generate_state(1)[0]))

    def _restarts_to_dict(self) -> dict[str, Any]:
        """Return what restarts depend on, as JSON has it."""
        return {
            "log_gains": list(self._log_gains),
            "elsewhere": self._elsewhere.to_dict(),
            "models": self._fresh.to_dict(),
        }

    def _restore_restarts(self, record: Mapping[str, Any] | None) -> None:
        """Take what restarts depend on; runs of before have none."""
        if record is None:
            return
        self._log_gains = [float(gain) for gain in record["log_gains"]]
        self._elsewhere = Elsewhere.from_dict(record["elsewhere"])
        self._fresh = self._fresh_models(self._elsewhere.number)
        self._fresh.restore(record["models"])

    def _proposed(self, rng: np.random.Generator) -> Floats | None:
        """Let GPyOpt choose."""
        return propose(
            self._encoding,
            self._history,
            np.reshape(self._points, (-1, self._encoding.p)),
            pending=np.reshape([p.point for p in self._pending.values()], (-1, self._encoding.p)),
            candidates=self._candidates,
            taken=self._taken,
            surrogate=self._settings["surrogate"],
            acquisition=self._settings["acquisition"],
            rng=rng,
        )

    def _designed(self, n: int, name: str, taken: Sequence[str]) -> list[dict[str, Value]]:
        """Draw up to n new configurations of the design."""
        if n <= 0:
            return []
        rng = np.random.default_rng([self._settings["seed"], zlib.crc32(name.encode())])
        encoding = self._encoding
        if self._candidates is None:
            points = encoding.sample(n, design=self._settings["design"], rng=rng, exclude=set(taken))
        else:
            free = self._candidates[[key not in set(taken) for key in encoding.keys(self._candidates)]]
            points = rng.permutation(free)[:n]
        return encoding.decode(points)

    def _record(self, observation: Observation, point: Floats, key: str) -> None:
        """Keep an observation."""
        self._pending.pop(key, None)
        self._taken[key] = None
        self._history.append(observation)
        self._points.append(point)
        self._keys_told.append(key)
        self._revision += 1

    def _expire(self) -> None:
        """Count what did not answer in time as lost."""
        timeout = self._settings["timeout"]
        if timeout is None:
            return
        now = self._clock()
        for key, pending in list(self._pending.items()):
            if now - pending.since > timeout:
                self._record(Observation.of(pending.config, None, status="lost"), pending.point, key)

    def _warn_of_size(self) -> None:
        """Say once that a Gaussian process has become slow."""
        n = len(self._history) + len(self._pending)
        if n > PROCESS_LIMIT and self._surrogate.growth == "cubic" and not self._is_warned:
            self._is_warned = True
            msg = f"Optimizer: {n} evaluations are many for {self._settings['surrogate']!r}, whose cost grows with their cube. Use surrogate='dngo'."
            warnings.warn(msg, RuntimeWarning, stacklevel=4)

    def _distinct(self, configs: Sequence[Config], name: str) -> list[dict[str, Value]]:
        """Read configurations, each once."""
        given: object = configs
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            msg = f"{name}: expected several configurations, got {given!r}. Give a list of dictionaries."
            raise UsageError(msg)
        found: dict[str, dict[str, Value]] = {}
        for i, config in enumerate(configs):
            point = self._encode(config, f"{name}[{i}]")
            found.setdefault(self._encoding.keys(point[None])[0], dict(config))
        return list(found.values())

    def _encode(self, config: object, where: str) -> Floats:
        """Read one configuration as a point `p`."""
        if not isinstance(config, Mapping):
            msg = f"{where}: expected a configuration, values by name, got {config!r}. Give a dictionary."
            raise UsageError(msg)
        return self._encoding.encode([dict(config)]).ravel()

    def _located(self, config: Config) -> tuple[Floats, str]:
        """Return the point of a configuration and its key."""
        point = self._encode(config, "history")
        return point, self._encoding.keys(point[None])[0]

    def _keys(self, configs: Sequence[Config]) -> list[str]:
        """Return the keys of configurations."""
        return self._encoding.keys(self._encoding.encode(configs))

    def _columns(self, points: Sequence[Floats]) -> Floats:
        """Return the model columns of points: `n x d`."""
        return self._encoding.columns(
            np.reshape(points, (-1, self._encoding.p)) if self._encoding.p else np.empty((len(points), 0))
        )
