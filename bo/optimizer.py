"""Bayesian optimisation over a search space: ask for configurations, tell their errors [Snoek2012practical].

The initial configurations come first and in order, then a design, then the configurations with the largest expected
gain. Evaluations may run side by side, end in any order, fail or never answer. A run is a function of its seed and of
its observations, in any process, also when it is saved in between.
"""

from __future__ import annotations

import json
import operator
import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.optimize import CLOUD, best_free, optimize_acquisition
from warmstart.bo.evaluation_log import EvaluationLog
from warmstart.bo.gpyopt_engine import propose
from warmstart.bo.models import Incumbent, Related, SurrogateModels, TrialData, Variance
from warmstart.bo.observation import Observation
from warmstart.bo.related import RelatedTask, tasks_of
from warmstart.bo.restarts import LEAST, MAX_OPEN, MIN_OPEN, RANDOM_POINTS, Restarts, has_converged
from warmstart.bo.settings import Engine, OptimizerSettings, encoding_of
from warmstart.bo.space.encoding import CELLS, DRAWS
from warmstart.bo.space.sampling import Design
from warmstart.bo.surrogates import Surrogate, SurrogateInfo, check_named, find_surrogate
from warmstart.history_store.deprecation import renamed
from warmstart.history_store.errors import DataError, SpaceExhaustedError, UsageError
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import dump_space, load_space

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]

SCHEMA = 1
"""Version of the output of `to_dict`."""
N_STARTUP_TRIALS = 3
"""Configurations before the surrogate suggests."""
STARTS = 8
"""Points of the design from which a restart takes the first that is likely to be valid."""
RESTARTING = ("gp", "gp-map")
"""Surrogates whose searches restart when they have converged; others are not measured."""
PROCESS_LIMIT = 2000
"""Evaluations above which the cost of a Gaussian process gets a warning."""


class Optimizer:
    """Sequential search for the configuration with the least error.

    Asks and tells come in any order, and any configuration may be told. A configuration is pending from its ask to its
    tell; until then the model averages over its possible errors. None is proposed twice. Failures teach where
    evaluations fail.
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
        n_startup_trials: int | None = None,
        incumbent: Incumbent = "posterior-mean",
        ei_variance: Variance = "latent",
        timeout: float | None = None,
        seed: int | None = 0,
        engine: Engine = "warmstart",
        restarts: bool = True,
        warp_errors: bool | None = None,
        clock: Callable[[], float] = time.time,
        startup: int | None = None,
    ) -> None:
        """Set up a run over a space, without evaluations.

        Args:
            space: with its conditions and forbidden clauses.
            surrogate: a name in `warmstart.bo.surrogates.SURROGATES`, a `SurrogateInfo`, or an unfitted surrogate,
                whose copies the run fits.
            acquisition: a name in `warmstart.bo.acquisition.registry.ACQUISITIONS`.
            initial: configurations to evaluate first and in order; repeats are left out.
            candidates: the only configurations to choose from; None = all of the space.
            related: related tasks, for the surrogates `mt-...`.
            meta_feature: of the task at hand, if the related tasks have one; unused without related tasks.
            design: of the configurations after the initial ones: `uniform`, `latin`, `halton` or `sobol`.
            n_startup_trials: configurations, initial and told ones included, before the surrogate suggests; None = 3,
                with related tasks 0.
            incumbent: best error in the improvement: the least `posterior-mean` at a successful evaluation, or the
                least `observed` error. Of engine `warmstart`.
            ei_variance: variance in the improvement: of the `latent` function, or `predictive`, noise included, which
                asks again near earlier points. Of engine `warmstart`.
            timeout: seconds after which a configuration that was asked for counts as lost; None = never.
            seed: of everything random; None = a new one.
            engine: models and search: `warmstart`, or `gpyopt` (`warmstart.bo.gpyopt_engine`) with `gp` or `gp-map`,
                and `ei` or `lcb`.
            restarts: once the search has converged, four of five suggestions come from a fresh process
                (`warmstart.bo.restarts`). For `gp` and `gp-map` with `ei`, in spaces too large to enumerate, and not
                while logarithms of errors are modelled.
            warp_errors: model logarithms of errors when their evidence is better (`warmstart.bo.error_units`). For
                `gp`, `gp-map`, and `mt-gp` without related tasks or when these do not help; None = on with these
                surrogates.
            clock: returns the time in seconds.
            startup: the name of `n_startup_trials` in 0.1.

        Raises:
            UsageError: when a name, a number or a space does not fit, or GPyOpt is named and not installed.
            DataError: when a configuration does not fit the space.
        """
        self._surrogate = find_surrogate(surrogate, param="surrogate")
        self._settings = OptimizerSettings(
            surrogate=self._surrogate.name,
            acquisition=acquisition,
            design=design,
            incumbent=incumbent,
            ei_variance=ei_variance,
            n_startup_trials=renamed("startup", startup, new="n_startup_trials", value=n_startup_trials),
            timeout=timeout,
            seed=seed,
            engine=engine,
            restarts=restarts,
            warp_errors=warp_errors,
        )
        self._encoding, self._space = encoding_of(space), space
        self._log = EvaluationLog(self._encoding, timeout=timeout, clock=clock)
        self._queue = self._log.distinct(initial, "initial")
        self._candidates = self._read_candidates(candidates)
        related_tasks: object = related
        if not isinstance(related_tasks, Sequence) or not all(isinstance(item, RelatedTask) for item in related_tasks):
            msg = f"related: expected a sequence of RelatedTask, got {related_tasks!r}. Give a list with RelatedTask(configs, errors) for each dataset."
            raise UsageError(msg)
        if related and not self._surrogate.multitask:
            msg = f"related needs a surrogate for related tasks, mt-..., got {self._surrogate.name!r}."
            raise UsageError(msg, param="surrogate")
        tasks = tasks_of(related, meta_feature, self._encoding)
        self._related, self._meta, self._learns = related, tasks[1], bool(tasks[0])
        n_startup = self._settings.n_startup_trials
        self._startup_alone = N_STARTUP_TRIALS if n_startup is None else n_startup
        self._make = partial(
            SurrogateModels,
            surrogate=self._surrogate,
            acquisition=acquisition,
            incumbent=incumbent,
            ei_variance=ei_variance,
            warp_errors=bool(self._settings.warp_errors),
            conditional=self._encoding.conditional,
            related=Related(*tasks, alone_from=self._startup_alone),
        )
        self._fitted = self._make(seed=self._settings.seed)
        self._n_startup_trials = 0 if n_startup is None and self._learns else self._startup_alone
        n_designed = self._n_startup_trials - len(self._queue)
        self._design = self._designed(n_designed, "design", self._keys(self._queue))
        self._ask_count = 0
        self._promised: tuple[TrialData, Floats] | None = None
        self._restarts = Restarts(self._models_of_process)
        self._is_warned = False

    def __repr__(self) -> str:
        """Return a summary: surrogate, number of evaluations, best error."""
        best = "" if self.best is None else f", best error {self.best.error:.4g}"
        return f"<{type(self).__name__} {self._settings.surrogate!r}: {len(self._log.observations)} told, {len(self._log.pending)} pending{best}>"

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Return the pending configurations, oldest first."""
        self._log.expire()
        return [dict(pending.config) for pending in self._log.pending.values()]

    @property
    def best(self) -> Observation | None:
        """Return the valid evaluation with the least error, or None."""
        valid = [observation for observation in self._log.observations if observation.valid]
        return min(valid, key=lambda observation: observation.error, default=None)

    @property
    def log_gain(self) -> float | None:
        """Return the expected log gain of the last suggestion (`SurrogateModels.log_gain`); None without a model."""
        if self._promised is None:
            return None
        return deepcopy(self._fitted).log_gain(*self._promised)  # a copy: a fit would advance the chain

    @property
    def converged(self) -> str | None:
        """Return a message when the search has converged, or when every evaluation gave the same error; else None.

        A search has converged when it has stalled and expects next to no gain; None again when suggestions promise
        more.
        """
        errors = self._errors
        if len(errors) >= LEAST and min(errors) == max(errors):
            return f"all {len(errors)} evaluations gave the same error: stop, and see whether the objective heeds its configuration"
        if not self._has_stalled:
            return None
        fitted = deepcopy(self._fitted)  # a copy: a fit would advance the chain
        if not self._has_converged(fitted):
            return None
        return f"nothing more is expected here: {'restarting elsewhere, or stop' if self._restarts_now(fitted) else 'stop, or start another search'}"

    def history(self) -> list[Observation]:
        """Return all observations in order, lost evaluations included."""
        self._log.expire()
        return list(self._log.observations)

    def ask(self, n: int = 1) -> list[dict[str, Value]]:
        """Choose the next configurations to evaluate; each counts as pending until it is told.

        Args:
            n: their number, at least 1.

        Returns: n configurations, or fewer when the space holds no more.

        Raises:
            UsageError: when n is no whole number above 0.
            SpaceExhaustedError: when every configuration was proposed already, or no new one turned up.
        """
        try:
            if isinstance(n, bool):
                raise TypeError(n)  # noqa: TRY301  bool is an int
            count = operator.index(n)
        except TypeError as error:
            msg = f"ask: expected a whole number of configurations, got n={n!r}. Use n=1."
            raise UsageError(msg) from error
        if count < 1:
            msg = f"ask: expected at least one configuration, got n={count}. Use n=1."
            raise UsageError(msg)
        self._log.expire()
        configs: list[dict[str, Value]] = []
        ask_count = self._ask_count
        try:
            with one_thread():
                while len(configs) < count and (chosen := self._next(count - len(configs))):
                    configs += map(dict, chosen)
                    ask_count = self._ask_count
                    if self._learns:
                        points = self._encoding.encode(chosen)
                        self._fitted.forecast(self._log.data(), self._log.columns([points[0]]))
                    for config in chosen:
                        self._log.begin(config)
        except BaseException:  # Ctrl-C, too
            self._withdraw(configs, ask_count=ask_count)
            raise
        if not configs:
            raise SpaceExhaustedError(self._exhausted())
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
        """Record the evaluation of any configuration of the space, asked for or not.

        A configuration may be told more than once: its errors are then noisy. An answer after the time-out replaces the
        loss.

        Args:
            config: hyperparameter values by name, inactive ones left out.
            error: to minimise; NaN or infinite = the evaluation failed. None with status `failed`, or with a missed
                constraint.
            duration: seconds, or another cost; None = unknown.
            status: `ok` or `failed`.
            constraints: whether each observed constraint is met.

        Raises:
            DataError: when the configuration does not fit the space.
            UsageError: when an argument is of another kind.
        """
        self._log.locate(config, "tell")  # first, so that its message names the configuration
        self.tell_all([Observation.of(config, error, duration=duration, status=status, constraints=constraints)])

    def tell_all(self, observations: Sequence[Observation]) -> None:
        """Record evaluations in order, all or none of them; faster than many calls of `tell`.

        Raises:
            DataError: when a configuration does not fit the space.
            UsageError: when an item is no `Observation`, or `tell` would not take it.
        """
        self._log.record(observations, "tell")

    def to_dict(self) -> dict[str, Any]:
        """Return the whole run in JSON types; `from_dict` continues it exactly."""
        self._log.expire()
        return {
            "schema_version": SCHEMA,
            "space": json.loads(dump_space(self._space)),
            "settings": self._settings.to_dict(),
            "candidates": None if self._candidates is None else self._encoding.decode(self._candidates),
            "related": [task.to_dict() for task in self._related],
            "meta_feature": None if self._meta is None else self._meta.tolist(),
            "queue": [dict(config) for config in self._queue],
            "design": [dict(config) for config in self._design],
            "pending": [{"config": dict(p.config), "since": p.since} for p in self._log.pending.values()],
            "history": [observation.to_dict() for observation in self._log.observations],
            "asked": self._ask_count,
            "revision": self._log.revision,
            "models": self._fitted.to_dict(),
            "restarts": self._restarts.to_dict(),
        }

    @classmethod
    def from_dict(
        cls,
        record: Mapping[str, Any],
        *,
        surrogate: SurrogateInfo | Surrogate | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Restore a run from a record of `to_dict`.

        Args:
            record: of the run.
            surrogate: of the run, if it has no name in `warmstart.bo.surrogates.SURROGATES`.
            clock: returns the time in seconds.

        Raises:
            UsageError: when the surrogate of the run has no such name, and the argument is missing.
            DataError: when the record is of another version or damaged.
        """
        if not isinstance(record, Mapping) or record.get("schema_version") != SCHEMA:
            got = record.get("schema_version") if isinstance(record, Mapping) else type(record).__name__
            msg = f"Optimizer.from_dict: expected a record of version {SCHEMA}, got {got!r}. Give the output of to_dict; if it is newer, upgrade warmstart."
            raise DataError(msg)
        if surrogate is None:
            check_named(record, "Optimizer.from_dict", "Give it: from_dict(record, surrogate=...).")
        try:
            settings = OptimizerSettings.from_dict(record["settings"])
            run = cls(
                load_space(json.dumps(record["space"])),
                **{**asdict(settings), **({} if surrogate is None else {"surrogate": surrogate})},
                candidates=record["candidates"],
                related=[RelatedTask.from_dict(task) for task in record["related"]],
                meta_feature=record["meta_feature"],
                clock=clock,
            )
            run._settings = settings
            run._queue = run._log.distinct(record["queue"], "queue")
            run._design = run._log.distinct(record.get("design", ()), "design")  # part of the queue before
            run._log.restore(record["history"], record["pending"])
            run._ask_count, run._log.revision = int(record["asked"]), int(record["revision"])
            run._fitted.restore(record["models"])
            run._restarts.restore(record.get("restarts"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.from_dict: expected a record of to_dict, got a damaged record ({type(error).__name__}: {error}). Save the run again."
            raise DataError(msg) from error
        return run

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the search in JSON types, without observations and pending ones; see `resume`."""
        return {
            "asked": self._ask_count,
            "revision": self._log.revision,
            "told": len(self._log.observations),
            "models": self._fitted.to_dict(),
            "restarts": self._restarts.to_dict(),
        }

    def resume(self, checkpoint: Mapping[str, Any] | None = None, *, pending: Sequence[Config] = ()) -> None:
        """Continue from the checkpoint of another process, with its settings, after at least its tells.

        After the same tells and with the same pending configurations, the next suggestion is the one of that process.

        Args:
            checkpoint: output of `checkpoint`; None = a new search.
            pending: configurations that are being evaluated; told ones are skipped.

        Raises:
            DataError: when the checkpoint is damaged, or a configuration does not fit the space.
        """
        self._log.begin_new(self._log.distinct(pending, "pending"))
        if checkpoint is None:
            return
        try:
            ask_count, more = int(checkpoint["asked"]), self._log.recorded - int(checkpoint["told"])
            self._fitted.restore(checkpoint["models"])
            self._restarts.restore(checkpoint.get("restarts"))
            self._ask_count, self._log.revision = ask_count, int(checkpoint["revision"]) + more
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.resume: expected the output of checkpoint, got a damaged record ({type(error).__name__}: {error}). Leave it out to start anew."
            raise DataError(msg) from error

    def _withdraw(self, configs: Sequence[dict[str, Value]], *, ask_count: int) -> None:
        """Return undelivered suggestions to the queue; the next ask starts with them."""
        self._log.withdraw(configs)
        self._queue[:0] = configs
        self._ask_count, self._promised = ask_count, None

    def _exhausted(self) -> str:
        """Return the message that no new configuration is left."""
        counts = f"{len(self._log.observations)} evaluations are known and {len(self._log.pending)} pending"
        if self._candidates is None and self._encoding.size > CELLS:
            return f"ask: expected the space to allow a configuration that is new, found none among {DRAWS:,} points: {counts}. Give `initial` or `candidates`, or forbid less."
        source = "the space" if self._candidates is None else "the candidates"
        return f"ask: expected {source} to hold a configuration that is new, got none: {counts}. Take the best one, or widen {source}."

    def _next(self, count: int) -> list[dict[str, Value]]:
        """Choose the next configuration, or several while only a design can choose; empty when none is left."""
        self._promised = None
        if len(self._log.taken) >= self._n_startup_trials:  # told configurations count as startup trials
            self._design.clear()
        if self._settings.design == "latin" and count > len(self._design) > 0 == len(self._queue):
            self._design.clear()  # a Latin hypercube is drawn whole, for all configurations
            return self._designed(count, "design", list(self._log.taken))
        for planned in (self._queue, self._design):
            is_new = [key not in self._log.taken for key in self._keys(planned)]
            first = is_new.index(True) if any(is_new) else len(planned)
            config = planned[first : first + 1]
            del planned[: first + 1]
            if config:
                return [dict(config[0])]
        self._ask_count += 1
        rng = np.random.default_rng([self._settings.seed, zlib.crc32(b"ask"), self._ask_count])
        self._warn_of_size()
        point = self._proposed(rng) if self._settings.engine == "gpyopt" else self._promising(rng)
        if point is not None:
            return self._encoding.decode(point[None])
        is_sequence = self._settings.design != "latin"  # the other designs continue; a Latin hypercube does not
        if self._learns:
            count = 1  # the model suggests after few evaluations
            if len(self._log.taken) < self._startup_alone:
                self._ask_count -= is_sequence  # a design without related tasks does not count asks either
        configs = self._designed(count, "design" if is_sequence else f"spare {self._ask_count}", list(self._log.taken))
        self._ask_count += max(len(configs) - 1, 0)
        return configs

    def _promising(self, rng: np.random.Generator) -> Floats | None:
        """Return the free point with the largest acquisition; None when data do not suffice or no point is free.

        Once the search has converged, four of five points come from a fresh process, which knows only its own
        evaluations.
        """
        data, point = self._log.data(), None
        if self._has_converged(self._fitted) and self._restarts_now(self._fitted) and self._restarts.is_turn():
            point = self._fresh_point(data, rng)
        if point is None:
            point, gain = self._most_promising(self._fitted, data, rng)
            self._restarts.note_gain(gain)
        self._promised = None if point is None else (data, self._log.columns([point]))
        return point

    def _most_promising(
        self, fitted: SurrogateModels, data: TrialData, rng: np.random.Generator
    ) -> tuple[Floats | None, float | None]:
        """Return the free point with the largest acquisition, and its expected log gain without pending evaluations."""
        encoding = self._encoding
        criterion = fitted.acquisition_function(data, rng=rng)
        if criterion is None:
            return None, None
        function, row = criterion
        if self._candidates is not None:
            free = self._log.free(self._candidates)
            point = best_free(function.value(encoding.columns(free)), free, encoding, self._log.taken)
        else:
            around = np.reshape([] if row is None else self._log.points[row], (-1, encoding.p))
            point = optimize_acquisition(function, encoding, around=around, taken=self._log.taken, rng=rng)
        if point is None:
            return None, None
        return point, fitted.log_gain(replace(data, pending=data.pending[:0]), self._log.columns([point]))

    def _fresh_point(self, data: TrialData, rng: np.random.Generator) -> Floats | None:
        """Return the next point of the fresh process, by its own evaluations; None when no point is free."""
        log, process = self._log, self._restarts.fresh
        rows = [i for i, key in enumerate(log.keys) if key in process.keys]
        valid = [i for i in rows if log.observations[i].valid]
        errors, points = [log.observations[i].error for i in valid], log.stack([log.points[i] for i in valid])
        outside = [i for i, o in enumerate(log.observations) if o.valid and i not in set(rows)]
        incumbents = [log.points[i] for i in sorted(outside, key=lambda i: log.observations[i].error)[:1]]
        if not process.number or process.is_over(errors, points, incumbents, design=N_STARTUP_TRIALS):
            self._restarts.begin(basin=points[int(np.argmin(errors))] if errors else None)
            rows, errors = [], []
        point, models = None, self._restarts.models
        if len(process.keys) >= N_STARTUP_TRIALS and len(errors) >= models.least:  # else they are pending
            point, gain = self._most_promising(models, replace(data, of_errors=rows), rng)
            process.note_gain(gain)
        if point is None:
            candidates = self._encoding.encode(self._designed(STARTS, "design", list(log.taken)))
            point = (
                candidates[self._fitted.first_valid(data, self._encoding.columns(candidates))]
                if len(candidates)
                else None
            )
        if point is not None:
            process.keys[self._encoding.keys(point[None])[0]] = None
        return point

    @property
    def _errors(self) -> list[float]:
        """Return the errors of the valid evaluations, in order."""
        return [observation.error for observation in self._log.observations if observation.valid]

    @property
    def _has_stalled(self) -> bool:
        """Tell whether the last evaluations gained nothing, and suggestions promise next to nothing."""
        return has_converged(self._errors, self._restarts.log_gains, least=LEAST)

    def _has_converged(self, fitted: SurrogateModels) -> bool:
        """Tell whether the search has stalled; with logarithms it has not, as tiny gains are orders of magnitude."""
        is_first = not self._restarts.fresh.number
        return self._has_stalled and not (is_first and fitted.takes_logarithms(self._log.data()))

    def _restarts_now(self, fitted: SurrogateModels) -> bool:
        """Tell whether a converged search restarts: it has before, or its process leaves enough variance."""
        if not self._may_restart or self._restarts.fresh.number:
            return self._may_restart
        rng = np.random.default_rng([self._settings.seed, zlib.crc32(b"restart")])
        points = self._encoding.sample(RANDOM_POINTS, design="uniform", rng=rng, exclude=())
        return MIN_OPEN < fitted.open_share(self._log.data(), self._encoding.columns(points)) < MAX_OPEN

    @property
    def _may_restart(self) -> bool:
        """Tell whether the settings allow restarts."""
        s = self._settings
        is_supported = s.surrogate in RESTARTING and s.acquisition == "ei" and s.engine == "warmstart"
        return s.restarts and is_supported and self._candidates is None and self._encoding.size > CLOUD

    def _models_of_process(self, number: int) -> SurrogateModels:
        """Build the models of a fresh process."""
        return self._make(seed=int(np.random.SeedSequence([self._settings.seed, number]).generate_state(1)[0]))

    def _proposed(self, rng: np.random.Generator) -> Floats | None:
        """Return the point that GPyOpt proposes."""
        return propose(
            self._encoding,
            self._log,
            candidates=self._candidates,
            surrogate=self._settings.surrogate,
            acquisition=self._settings.acquisition,
            rng=rng,
        )

    def _designed(self, n: int, name: str, taken: Sequence[str]) -> list[dict[str, Value]]:
        """Draw up to n new configurations of the design."""
        if n <= 0:
            return []
        rng = np.random.default_rng([self._settings.seed, zlib.crc32(name.encode())])
        encoding = self._encoding
        if self._candidates is None:
            design, around = self._settings.design, self._log.stack([*self._log.points, *self._log.pending_points])
            points = encoding.sample(n, design=design, rng=rng, exclude=set(taken), around=around)
        else:
            taken_keys, order = set(taken), rng.permutation(self._candidates)
            points = order[[key not in taken_keys for key in encoding.keys(order)]][:n]
        return encoding.decode(points)

    def _warn_of_size(self) -> None:
        """Warn once that a Gaussian process has become slow."""
        n = len(self._log.observations) + len(self._log.pending)
        if n > PROCESS_LIMIT and self._surrogate.growth == "cubic" and not self._is_warned:
            self._is_warned = True
            msg = f"Optimizer: {n} evaluations are many for {self._settings.surrogate!r}, whose cost grows with their cube. Use surrogate='dngo'."
            warnings.warn(msg, RuntimeWarning, stacklevel=4)

    def _read_candidates(self, candidates: Sequence[Config] | None) -> Floats | None:
        """Read the only configurations to choose from, `m x p`.

        Raises:
            UsageError: when the list is empty.
        """
        if candidates is None:
            return None
        points = self._encoding.encode(self._log.distinct(candidates, "candidates"))
        if not len(points):
            msg = "Optimizer: expected at least one candidate, got none. Leave candidates out to search the space."
            raise UsageError(msg)
        return points

    def _keys(self, configs: Sequence[Config]) -> list[str]:
        """Return the keys of configurations."""
        return self._encoding.keys(self._encoding.encode(configs))
