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
from warmstart.bo.restarts import BLIND, KNOWN, LEAST, PLACES, Restarts, has_converged
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
"""Version of what `to_dict` gives."""
N_STARTUP_TRIALS = 3
"""Configurations before the surrogate is asked."""
STARTS = 8
"""Points of the design of which a search that starts elsewhere takes the first that is likely to be valid."""
RESTARTING = ("gp", "gp-map")
"""Surrogates whose searches start elsewhere when they have converged: for others it was not measured."""
PROCESS_LIMIT = 2000
"""Evaluations above which a Gaussian process is slow enough to warn of."""


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
        """Set up a run.

        Args:
            space: what to search, conditions and forbidden clauses included.
            surrogate: a name in `warmstart.bo.surrogates.SURROGATES`, a `SurrogateInfo`, or an unfitted surrogate, of which the run fits copies.
            acquisition: a name in `warmstart.bo.models.ACQUISITIONS`.
            initial: configurations to evaluate first and in order; repeated ones are left out.
            candidates: the only configurations to choose from; None = all of the space.
            related: what is known of related tasks, for the surrogates `mt-...`.
            meta_feature: of the task at hand, where the related ones have one; without related tasks it is not used.
            design: `uniform`, `latin`, `halton` or `sobol`: how to go on after the initial configurations.
            n_startup_trials: configurations, initial and told ones included, before the surrogate is asked; None = 3, with related tasks 0.
            incumbent: of our engine, for improvement: the best error so far: the least `posterior-mean` where an evaluation succeeded, or `observed`.
            ei_variance: of our engine: what improvement expects to vary: the `latent` function, or what would be observed, `predictive`, noise
                included, which asks again beside what was seen.
            timeout: seconds after which a configuration that was asked for counts as lost; None = never.
            seed: of everything random; None = another one every time.
            engine: what models errors and chooses: ours, or `gpyopt` (`warmstart.bo.gpyopt_engine`) with `gp` or `gp-map`, and `ei` or `lcb`.
            restarts: of `gp` and `gp-map` with `ei`, where the space is not looked through whole: search elsewhere, four times of five, once
                the search has converged (`warmstart.bo.restarts`); they do not begin while logarithms of errors are modelled.
            warp_errors: of `gp` and `gp-map`, and of `mt-gp` without related tasks or where these do not help, model logarithms of errors wherever their evidence
                prefers these (`warmstart.bo.error_units`); None = with these surrogates.
            clock: gives the time in seconds.
            startup: the name of `n_startup_trials` in 0.1.

        Raises:
            UsageError: when a name, a number or a space does not fit, or GPyOpt is wanted and not installed.
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
        tasks_given: object = related
        if not isinstance(tasks_given, Sequence) or not all(isinstance(each, RelatedTask) for each in tasks_given):
            msg = f"related: expected a sequence of RelatedTask, got {tasks_given!r}. Give a list with RelatedTask(configs, errors) for each dataset."
            raise UsageError(msg)
        if related and not self._surrogate.multitask:
            msg = f"expected a surrogate for related tasks, mt-..., got {self._surrogate.name!r}. Name one, or leave `related` out."
            raise UsageError(msg, param="surrogate")
        tasks = tasks_of(related, meta_feature, self._encoding)
        self._related, self._meta, self._learns = related, tasks[1], bool(tasks[0])
        given = self._settings.n_startup_trials
        self._startup_alone = N_STARTUP_TRIALS if given is None else given
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
        self._n_startup_trials = 0 if given is None and self._learns else self._startup_alone
        n_designed = self._n_startup_trials - len(self._queue)
        self._design = self._designed(n_designed, "design", self._keys(self._queue))
        self._asked = 0
        self._promised: tuple[TrialData, Floats] | None = None
        self._restarts = Restarts(self._models_of_process)
        self._is_warned = False

    def __repr__(self) -> str:
        """Say what searches, and how far it is."""
        best = "" if self.best is None else f", best error {self.best.error:.4g}"
        return f"<{type(self).__name__} {self._settings.surrogate!r}: {len(self._log.told)} told, {len(self._log.pending)} pending{best}>"

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Return the configurations that were asked for and not told yet, oldest first."""
        self._log.expire()
        return [dict(pending.config) for pending in self._log.pending.values()]

    @property
    def best(self) -> Observation | None:
        """Return the evaluation with the least error of those that meet all their constraints; None where there is none."""
        valid = [observation for observation in self._log.told if observation.valid]
        return min(valid, key=lambda observation: observation.error, default=None)

    @property
    def log_gain(self) -> float | None:
        """Return the log of the improvement that the last configuration asked for promises, by `SurrogateModels.log_gain`; None where no model chose it."""
        if self._promised is None:
            return None
        return deepcopy(self._fitted).log_gain(*self._promised)  # a fit would move the chain: looking changes nothing

    @property
    def converged(self) -> str | None:
        """Say so where the search has stalled and expects next to nothing more; None before, and where suggestions promise more again.

        It also says so where every evaluation gave the same error, which no search can do anything about.
        """
        errors = self._errors
        if len(errors) >= LEAST and min(errors) == max(errors):
            return f"all {len(errors)} evaluations gave the same error: stop, and see whether the objective heeds its configuration"
        if not self._has_stalled:
            return None
        fitted = deepcopy(self._fitted)  # a fit would move the chain: looking changes nothing
        if not self._has_converged(fitted):
            return None
        return f"nothing more is expected here: {'restarting elsewhere, or stop' if self._restarts_now(fitted) else 'stop, or start another search'}"

    def history(self) -> list[Observation]:
        """Return what was told, in order; lost evaluations are among it."""
        self._log.expire()
        return list(self._log.told)

    def ask(self, n: int = 1) -> list[dict[str, Value]]:
        """Choose the next configurations to evaluate; each counts as pending until it is told.

        Args:
            n: how many, at least 1.

        Returns: n configurations, fewer where the space holds no more.

        Raises:
            UsageError: when n is no whole number above 0.
            SpaceExhaustedError: when every configuration was proposed already, or none that is new was found.
        """
        try:
            if isinstance(n, bool):
                raise TypeError(n)  # noqa: TRY301  it has an index
            count = operator.index(n)
        except TypeError as error:
            msg = f"ask: expected a whole number of configurations, got n={n!r}. Use n=1."
            raise UsageError(msg) from error
        if count < 1:
            msg = f"ask: expected at least one configuration, got n={count}. Use n=1."
            raise UsageError(msg)
        self._log.expire()
        configs: list[dict[str, Value]] = []
        asked = self._asked
        try:
            with one_thread():
                while len(configs) < count and (found := self._next(count - len(configs))):
                    configs += map(dict, found)
                    asked = self._asked
                    if self._learns:
                        points = self._encoding.encode(found)
                        self._fitted.forecast(self._log.data(), self._log.columns([points[0]]))
                    for config in found:
                        self._log.begin(config)
        except BaseException:  # Ctrl-C, too
            self._withdraw(configs, asked=asked)
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
        self._log.locate(config, "tell")  # says first what is wrong with it
        self.tell_all([Observation.of(config, error, duration=duration, status=status, constraints=constraints)])

    def tell_all(self, observations: Sequence[Observation]) -> None:
        """Record evaluations in order, all or none of them, as `tell` does one; many at once take less time.

        Raises:
            DataError: when a configuration does not fit the space.
            UsageError: when one is no `Observation`, or says what `tell` does not take.
        """
        self._log.record(observations, "tell")

    def to_dict(self) -> dict[str, Any]:
        """Return the whole run as JSON has it: `from_dict` goes on as if it had not been interrupted."""
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
            "history": [observation.to_dict() for observation in self._log.told],
            "asked": self._asked,
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
        """Set up the run that `to_dict` gave.

        Args:
            record: of the run.
            surrogate: that of the run, where it was no name in `warmstart.bo.surrogates.SURROGATES`.
            clock: gives the time in seconds.

        Raises:
            UsageError: when the surrogate of the run has no such name, and none is given.
            DataError: when the record is of another version or damaged.
        """
        if not isinstance(record, Mapping) or record.get("schema_version") != SCHEMA:
            got = record.get("schema_version") if isinstance(record, Mapping) else type(record).__name__
            msg = f"Optimizer.from_dict: expected a record of version {SCHEMA}, got {got!r}. Give what to_dict gave, and upgrade warmstart where it is newer."
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
            run._asked, run._log.revision = int(record["asked"]), int(record["revision"])
            run._fitted.restore(record["models"])
            run._restarts.restore(record.get("restarts"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.from_dict: expected a record of to_dict, got a damaged one ({type(error).__name__}: {error}). Save the run again."
            raise DataError(msg) from error
        return run

    def checkpoint(self) -> dict[str, Any]:
        """Return what the next suggestion depends on besides what was told and is pending, as JSON has it; see `resume`."""
        return {
            "asked": self._asked,
            "revision": self._log.revision,
            "told": len(self._log.told),
            "models": self._fitted.to_dict(),
            "restarts": self._restarts.to_dict(),
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
        self._log.begin_new(self._log.distinct(pending, "pending"))
        if checkpoint is None:
            return
        try:
            asked, more = int(checkpoint["asked"]), self._log.recorded - int(checkpoint["told"])
            self._fitted.restore(checkpoint["models"])
            self._restarts.restore(checkpoint.get("restarts"))
            self._asked, self._log.revision = asked, int(checkpoint["revision"]) + more
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            msg = f"Optimizer.resume: expected what checkpoint gave, got a damaged one ({type(error).__name__}: {error}). Leave it out to start anew."
            raise DataError(msg) from error

    def _withdraw(self, configs: Sequence[dict[str, Value]], *, asked: int) -> None:
        """Take back configurations that nobody got: they are what is asked for next."""
        self._log.withdraw(configs)
        self._queue[:0] = configs
        self._asked, self._promised = asked, None

    def _exhausted(self) -> str:
        """Say that nothing new is left to ask for."""
        known = f"{len(self._log.told)} evaluations are known and {len(self._log.pending)} pending"
        if self._candidates is None and self._encoding.size > CELLS:
            return f"ask: expected the space to allow a configuration that is new, found none among {DRAWS:,} points: {known}. Give `initial` or `candidates`, or forbid less."
        where = "the space" if self._candidates is None else "the candidates"
        return f"ask: expected {where} to hold a configuration that is new, got none: {known}. Take the best one, or widen {where}."

    def _next(self, wanted: int) -> list[dict[str, Value]]:
        """Choose one configuration; as many as are wanted while a design is all there is to go by; none where none is left."""
        self._promised = None
        if len(self._log.taken) >= self._n_startup_trials:  # what was told unasked is as good
            self._design.clear()
        if self._settings.design == "latin" and wanted > len(self._design) > 0 == len(self._queue):
            self._design.clear()  # a hypercube is a whole: one of all that are wanted, before anything is known
            return self._designed(wanted, "design", list(self._log.taken))
        for planned in (self._queue, self._design):
            is_new = [key not in self._log.taken for key in self._keys(planned)]
            first = is_new.index(True) if any(is_new) else len(planned)
            config = planned[first : first + 1]
            del planned[: first + 1]
            if config:
                return [dict(config[0])]
        self._asked += 1
        rng = np.random.default_rng([self._settings.seed, zlib.crc32(b"ask"), self._asked])
        self._warn_of_size()
        point = self._proposed(rng) if self._settings.engine == "gpyopt" else self._promising(rng)
        if point is not None:
            return self._encoding.decode(point[None])
        is_sequence = self._settings.design != "latin"  # which goes on; a hypercube is a whole
        if self._learns:
            wanted = 1  # they soon know enough
            if len(self._log.taken) < self._startup_alone:
                self._asked -= is_sequence  # as without them: what the design chooses is not asked for
        found = self._designed(wanted, "design" if is_sequence else f"spare {self._asked}", list(self._log.taken))
        self._asked += max(len(found) - 1, 0)
        return found

    def _promising(self, rng: np.random.Generator) -> Floats | None:
        """Find the free point that our models promise most from; None where they know too little, or none is free.

        Four of five times the models are those of a process that knows only its own evaluations, once the search has converged.
        """
        data, point = self._log.data(), None
        if self._has_converged(self._fitted) and self._restarts_now(self._fitted) and self._restarts.is_turn():
            point = self._started_elsewhere(data, rng)
        if point is None:
            point, gain = self._most_promising(self._fitted, data, rng)
            self._restarts.note_gain(gain)
        self._promised = None if point is None else (data, self._log.columns([point]))
        return point

    def _most_promising(
        self, fitted: SurrogateModels, data: TrialData, rng: np.random.Generator
    ) -> tuple[Floats | None, float | None]:
        """Find the free point that models promise most from, and the log of the improvement that they promise whatever is pending."""
        encoding = self._encoding
        found = fitted.acquisition_function(data, rng=rng)
        if found is None:
            return None, None
        function, row = found
        if self._candidates is not None:
            free = self._log.free(self._candidates)
            point = best_free(function.value(encoding.columns(free)), free, encoding, self._log.taken)
        else:
            around = np.reshape([] if row is None else self._log.points[row], (-1, encoding.p))
            point = optimize_acquisition(function, encoding, around=around, taken=self._log.taken, rng=rng)
        if point is None:
            return None, None
        return point, fitted.log_gain(replace(data, pending=data.pending[:0]), self._log.columns([point]))

    def _started_elsewhere(self, data: TrialData, rng: np.random.Generator) -> Floats | None:
        """Find what the process that starts elsewhere wants to know, by its own evaluations; None where it finds nothing free."""
        log, process = self._log, self._restarts.elsewhere
        own = [i for i, key in enumerate(log.keys) if key in process.own]
        valid = [i for i in own if log.told[i].valid]
        errors, points = [log.told[i].error for i in valid], log.stack([log.points[i] for i in valid])
        others = [i for i, o in enumerate(log.told) if o.valid and i not in set(own)]
        known = [log.points[i] for i in sorted(others, key=lambda i: log.told[i].error)[:1]]
        if not process.number or process.is_over(errors, points, known, design=N_STARTUP_TRIALS):
            self._restarts.begin(basin=points[int(np.argmin(errors))] if errors else None)
            own, errors = [], []
        point, models = None, self._restarts.models
        if len(process.own) >= N_STARTUP_TRIALS and len(errors) >= models.least:  # else they are pending
            point, gain = self._most_promising(models, replace(data, of_errors=own), rng)
            process.note_gain(gain)
        if point is None:
            found = self._encoding.encode(self._designed(STARTS, "design", list(log.taken)))
            point = found[self._fitted.first_valid(data, self._encoding.columns(found))] if len(found) else None
        if point is not None:
            process.own[self._encoding.keys(point[None])[0]] = None
        return point

    @property
    def _errors(self) -> list[float]:
        """Return the errors of the valid evaluations, in order."""
        return [observation.error for observation in self._log.told if observation.valid]

    @property
    def _has_stalled(self) -> bool:
        """Tell whether nothing came of the last evaluations, and suggestions promise next to nothing."""
        return has_converged(self._errors, self._restarts.log_gains, least=LEAST)

    def _has_converged(self, fitted: SurrogateModels) -> bool:
        """Tell whether a search has stalled; by models of logarithms it has not, as what is next to nothing between errors may be orders of magnitude."""
        is_first = not self._restarts.elsewhere.number
        return self._has_stalled and not (is_first and fitted.takes_logarithms(self._log.data()))

    def _restarts_now(self, fitted: SurrogateModels) -> bool:
        """Tell whether a search that has converged goes on elsewhere: whether it has begun to, or its process is likely to overlook something."""
        if not self._may_restart or self._restarts.elsewhere.number:
            return self._may_restart
        rng = np.random.default_rng([self._settings.seed, zlib.crc32(b"restart")])
        places = self._encoding.sample(PLACES, design="uniform", rng=rng, exclude=())
        return KNOWN < fitted.open_share(self._log.data(), self._encoding.columns(places)) < BLIND

    @property
    def _may_restart(self) -> bool:
        """Tell whether searches like this one may go on elsewhere."""
        s = self._settings
        is_known = s.surrogate in RESTARTING and s.acquisition == "ei" and s.engine == "warmstart"
        return s.restarts and is_known and self._candidates is None and self._encoding.size > CLOUD

    def _models_of_process(self, number: int) -> SurrogateModels:
        """Make the models of a process that starts elsewhere."""
        return self._make(seed=int(np.random.SeedSequence([self._settings.seed, number]).generate_state(1)[0]))

    def _proposed(self, rng: np.random.Generator) -> Floats | None:
        """Let GPyOpt choose."""
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
            known, order = set(taken), rng.permutation(self._candidates)
            points = order[[key not in known for key in encoding.keys(order)]][:n]
        return encoding.decode(points)

    def _warn_of_size(self) -> None:
        """Say once that a Gaussian process has become slow."""
        n = len(self._log.told) + len(self._log.pending)
        if n > PROCESS_LIMIT and self._surrogate.growth == "cubic" and not self._is_warned:
            self._is_warned = True
            msg = f"Optimizer: {n} evaluations are many for {self._settings.surrogate!r}, whose cost grows with their cube. Use surrogate='dngo'."
            warnings.warn(msg, RuntimeWarning, stacklevel=4)

    def _read_candidates(self, candidates: Sequence[Config] | None) -> Floats | None:
        """Read the only configurations to choose from, `m x p`.

        Raises:
            UsageError: when there is none.
        """
        if candidates is None:
            return None
        found = self._encoding.encode(self._log.distinct(candidates, "candidates"))
        if not len(found):
            msg = "Optimizer: expected at least one candidate, got none. Leave candidates out to search the space."
            raise UsageError(msg)
        return found

    def _keys(self, configs: Sequence[Config]) -> list[str]:
        """Return the keys of configurations."""
        return self._encoding.keys(self._encoding.encode(configs))
