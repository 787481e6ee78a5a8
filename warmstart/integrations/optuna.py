"""Optuna's sampler over our optimiser, and warm starts of its studies.

::

    study = optuna.create_study(sampler=WarmStartSampler(seed=0))
    warm_start(study, dataset="path/to/images")
    study.optimize(objective, n_trials=30)

The sampler keeps nothing that a study does not: each suggestion is made from the trials in the storage, the seed and the
trial's number, so that another process goes on as this one would have.
"""

from __future__ import annotations

import hashlib
import logging
import math
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from ConfigSpace import ConfigurationSpace
from ConfigSpace.exceptions import ForbiddenValueError
from ConfigSpace.util import deactivate_inactive_hyperparameters
from optuna.distributions import BaseDistribution
from optuna.samplers._base import _process_constraints_after_trial
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bo.observation import Observation
from bo.optimizer import STARTUP, Optimizer
from bo.related import RelatedTask
from bo.space import Encoding
from bo.unit_designs import Design
from history_store.errors import DataError, SpaceExhaustedError, UsageError
from history_store.records import Config, Value
from history_store.space import dump_space
from warmstart.integrations.optuna_space import Presence, shown, snapped, to_distributions, to_space

if TYPE_CHECKING:
    from warmstart.api import PathLike
    from warmstart.suggestion import InitialDesign

CHECKPOINT = "warmstart:checkpoint"
"""System attribute of a trial: what the next suggestion of any process depends on besides the trials."""
CLAIM = "warmstart:config"
"""System attribute of a trial: the configuration that was suggested for it."""
ORIGIN = "warmstart"
"""User attribute of an enqueued trial: where its configuration comes from."""
BLOCK = 16
"""Consecutive trials whose independent values are a Latin hypercube."""
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
_log = logging.getLogger("warmstart")


@dataclass(frozen=True)
class _Problem:
    """The space of one suggestion, and how trials are read as its configurations.

    Attributes:
        space: what is searched.
        distributions: of its parameters.
        is_given: the user stated the space: what a trial lacks is not made up.
    """

    space: ConfigurationSpace
    distributions: Mapping[str, BaseDistribution]
    is_given: bool

    @cached_property
    def encoding(self) -> Encoding:
        """Give the space as arrays."""
        return Encoding(self.space)

    @cached_property
    def digest(self) -> str:
        """Give a text that tells spaces apart."""
        return hashlib.sha256(dump_space(self.space).encode()).hexdigest()[:16]

    def read(self, params: Mapping[str, Any], *, whole: bool) -> dict[str, Value] | None:
        """Read a trial's parameters as a configuration: others and inactive ones left out.

        Args:
            params: by name.
            whole: all that the trial was to have: what is missing, and not known to be inactive, has its default.

        Returns: None where something is missing, or the space does not allow it.
        """
        values = {name: snapped(d, params[name]) for name, d in self.distributions.items() if name in params}
        try:
            self.encoding.encode([values])
        except DataError:
            full = {name: values.get(name, self.space[name].default_value) for name in self.space}
            try:
                active = deactivate_inactive_hyperparameters(full, self.space)
            except (ForbiddenValueError, ValueError):
                return None
            if not values.keys() >= active.keys() and (self.is_given or not whole):
                return None
            values = {name: full[name] for name in active}
            try:
                self.encoding.encode([values])
            except DataError:
                return None
        return values

    def repeated(self, pending: Sequence[Config], *, rng: np.random.Generator) -> dict[str, Value]:
        """Draw a configuration that is not pending; any where all are."""
        keys = set(self.encoding.keys(self.encoding.encode(pending)))
        for exclude in (keys, set[str]()):
            points = self.encoding.sample(1, design="uniform", rng=rng, exclude=exclude)
            if len(points):
                break
        return self.encoding.decode(points)[0]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the trials of a study say: evaluations in order of their numbers, and configurations under way."""

    told: tuple[Observation, ...]
    pending: tuple[dict[str, Value], ...]

    @property
    def count(self) -> int:
        """Count the configurations."""
        return len(self.told) + len(self.pending)

    def holds(self, config: Config) -> bool:
        """Tell whether a configuration is among them."""
        return config in self.pending or any(observation.config == config for observation in self.told)


class WarmStartSampler(optuna.samplers.BaseSampler):
    """Bayesian optimisation by `bo.Optimizer`: conditional spaces, parallel trials, failures, constraints, related tasks.

    Without a space, it is what the completed trials showed; the first trials, and parameters that appear later or change
    their range, are drawn from a design. Trials that run or wait are pending, failed trials teach where evaluations fail,
    pruned ones count with the last value that they reported.
    """

    def __init__(
        self,
        *,
        space: ConfigurationSpace | None = None,
        surrogate: str = "gp",
        acquisition: str = "ei",
        initial: Sequence[Config] = (),
        related: Sequence[RelatedTask] = (),
        meta_feature: Sequence[float] | None = None,
        design: Design = "sobol",
        startup: int | None = None,
        seed: int | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> None:
        """Set up a sampler.

        Args:
            space: what to search, with conditions and forbidden clauses; None = what the trials show.
            surrogate: a name in `bo.surrogates.SURROGATES`.
            acquisition: a name in `bo.beliefs.ACQUISITIONS`.
            initial: configurations of the space to evaluate first and in order; without a space, use `study.enqueue_trial`.
            related: what is known of related tasks over the space, for the surrogates `mt-...`.
            meta_feature: of the task at hand, where the related ones have one.
            design: how to go on after the initial configurations: `uniform`, `latin`, `halton` or `sobol`.
            startup: trials before the surrogate is asked, enqueued ones included; None = 3, or, with related tasks, 0.
            seed: of everything random; None = another one every time.
            constraints_func: gives the constraints of a finished trial, met where they are at most 0; `trial.set_constraint`
                says them too.

        Raises:
            UsageError: when an argument does not fit.
            DataError: when a configuration does not fit the space.
        """
        if space is None and (initial or related):
            msg = f"WarmStartSampler: expected a space for the {'initial configurations' if initial else 'related tasks'}, got none. Give space=, or enqueue configurations with study.enqueue_trial."
            raise UsageError(msg)
        self._has_seed = seed is not None
        self._settings: dict[str, Any] = {
            "surrogate": surrogate,
            "acquisition": acquisition,
            "initial": tuple(initial),
            "related": tuple(related),
            "meta_feature": meta_feature,
            "design": design,
        }
        self._startup = startup if startup is not None else 0 if related else STARTUP
        self._constraints_func = constraints_func
        self._given = None if space is None else _Problem(space, to_distributions(space), is_given=True)
        self._shown: tuple[Any, _Problem] | None = None
        checked = Optimizer(
            space or ConfigurationSpace({"x": (0.0, 1.0)}), **self._settings, startup=startup, seed=seed
        )
        self._seed: int = checked.to_dict()["settings"]["seed"]

    def reseed_rng(self) -> None:
        """Draw another seed where none was given: a seed and a trial's number are one suggestion in any thread or process."""
        if not self._has_seed:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0])

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002  Optuna's signature
        """Give the parameters that are sampled together: those of the space, or those that completed trials showed."""
        if self._given is not None:
            found: Mapping[str, BaseDistribution] = self._given.distributions
        else:
            found, _ = shown(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        return {name: distribution for name, distribution in found.items() if _is_searched(name, distribution)}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest a configuration that no other trial has, and note it with the trial before it is returned."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        trials = _others(study, trial)
        problem = self._given or self._problem(trials, search_space)
        known = _known(trials, problem, study.direction)
        while True:
            optimizer = self._optimizer(problem, known, _newest(trials, self._setup(problem)), trial.number)
            try:
                config = optimizer.ask()[0]
            except SpaceExhaustedError:
                _log.warning("trial %d: every configuration was proposed already, and one is repeated", trial.number)
                config = problem.repeated(known.pending, rng=np.random.default_rng([self._seed, trial.number]))
                _note(study, trial, CLAIM, config)
                break
            _note(study, trial, CLAIM, config)
            trials = _others(study, trial)
            known = _known(trials, problem, study.direction)
            if not known.holds(config):
                break  # else another worker chose it meanwhile
        _note(study, trial, CHECKPOINT, optimizer.checkpoint() | {"setup": self._setup(problem)})
        return {name: value for name, value in config.items() if name in search_space}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one parameter from a design: 16 consecutive trials are a Latin hypercube in all parameters."""
        self._raise_error_if_multi_objective(study)
        block, place = divmod(trial.number, BLOCK)
        seeds = [self._seed, zlib.crc32(param_name.encode()), block]
        try:
            encoding = Encoding(to_space({param_name: param_distribution}))
        except UsageError:
            seed = int(np.random.SeedSequence([*seeds, place]).generate_state(1)[0])
            sampler = optuna.samplers.RandomSampler(seed=seed)
            return sampler.sample_independent(study, trial, param_name, param_distribution)
        rng = np.random.default_rng(seeds)
        u = (rng.permutation(BLOCK) + rng.random(BLOCK)) / BLOCK
        return encoding.decode(np.full((1, encoding.p), u[place]))[0][param_name]

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,  # noqa: ARG002  Optuna's signature
    ) -> None:
        """Note the constraints of a trial that ended, and say what it left of its warm start."""
        planned = trial.system_attrs.get("fixed_params", {}) if ORIGIN in trial.user_attrs else {}
        lost = [name for name in planned if not {name, *_scales(name)} & trial.params.keys()]
        if lost and state != TrialState.FAIL:
            _log.warning(
                "trial %d: the objective never asked for %s of its warm start; rename= says what it calls them",
                trial.number,
                ", ".join(lost),
            )
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)

    def _problem(self, trials: Sequence[FrozenTrial], search_space: Mapping[str, BaseDistribution]) -> _Problem:
        """Give the space of distributions, with the conditions that completed trials show."""
        _, conditions = shown([trial for trial in trials if trial.state == TrialState.COMPLETE])
        kept = {
            child: presence
            for child, presence in conditions.items()
            if child in search_space and presence.parent in search_space
        }
        asked: tuple[Mapping[str, BaseDistribution], Mapping[str, Presence]] = dict(search_space), kept
        if self._shown is None or self._shown[0] != asked:
            self._shown = asked, _Problem(to_space(*asked), asked[0], is_given=False)
        return self._shown[1]

    def _setup(self, problem: _Problem) -> str:
        """Name what a checkpoint is good for."""
        return f"{problem.digest} {self._settings['surrogate']} {self._settings['acquisition']} {len(self._settings['related'])}"

    def _optimizer(
        self, problem: _Problem, known: _Known, checkpoint: Mapping[str, Any] | None, number: int
    ) -> Optimizer:
        """Set up the optimiser that suggests for a trial."""
        startup = self._startup if known.count < self._startup else 0
        optimizer = Optimizer(problem.space, **self._settings, startup=startup, seed=self._seed)
        for told in known.told:
            optimizer.tell(
                told.config,
                told.error,
                duration=_finite(told.duration),
                status=told.status,
                constraints=told.constraints,
            )
        optimizer.resume({**(checkpoint or optimizer.checkpoint()), "asked": number}, pending=known.pending)
        return optimizer


def _others(study: optuna.Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """Give the other trials of a study, in order of their numbers."""
    return [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]


def _note(study: optuna.Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Keep a system attribute of a trial."""
    study._storage.set_trial_system_attr(trial._trial_id, key, value)  # noqa: SLF001  where samplers keep what they must


def _newest(trials: Sequence[FrozenTrial], setup: str) -> dict[str, Any] | None:
    """Find the newest checkpoint that is good for a setup."""
    for trial in reversed(trials):
        checkpoint: dict[str, Any] | None = trial.system_attrs.get(CHECKPOINT)
        if checkpoint is not None and checkpoint["setup"] == setup:
            return checkpoint
    return None


def _known(trials: Sequence[FrozenTrial], problem: _Problem, direction: StudyDirection) -> _Known:
    """Read trials as evaluations of a problem and as configurations under way."""
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    told, pending = [], []
    for trial in trials:
        is_whole = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
        planned = {} if is_whole else trial.system_attrs.get(CLAIM, {}) | trial.system_attrs.get("fixed_params", {})
        config = problem.read({**planned, **trial.params}, whole=is_whole)
        if config is None:
            continue
        if trial.state not in _FINISHED:
            pending.append(config)
            continue
        told.append(_observation(trial, config, sign))
    return _Known(tuple(told), tuple(pending))


def _observation(trial: FrozenTrial, config: Config, sign: float) -> Observation:
    """Read a finished trial."""
    value = math.nan
    if trial.state == TrialState.COMPLETE and trial.value is not None:
        value = trial.value
    elif trial.state == TrialState.PRUNED and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    return Observation.of(
        config,
        sign * value,
        duration=None if seconds is None or seconds < 0 else seconds,
        status="failed" if trial.state == TrialState.FAIL else "ok",
        constraints={name: bound <= 0 for name, bound in trial.constraints.items()},
    )


def _finite(value: float) -> float | None:
    """Give None for a number that is not known."""
    return value if math.isfinite(value) else None


def _is_searched(name: str, distribution: BaseDistribution) -> bool:
    """Tell whether a parameter varies and has a space."""
    try:
        to_space({name: distribution})
    except UsageError:
        return False
    return not distribution.single()


def warm_start(
    study: optuna.Study,
    *,
    dataset: PathLike | None = None,
    images: Any = None,
    labels: Any = None,
    k: int = 3,
    strategy: str | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
) -> list[InitialDesign]:
    """Enqueue the configurations that `warmstart.suggest` gives for a dataset, best first; those enqueued before are not again.

    A value on a logarithmic scale is enqueued under both of its names, so that an objective may ask for
    `log10_learning_rate` or for `learning_rate`. A sampler of ours says so where an objective asks for neither.

    Args:
        study: any study, with any sampler.
        dataset: a path as `warmstart.suggest` takes it.
        images: instead of a path; `labels` with it.
        labels: of `images`.
        k: how many.
        strategy: as in `warmstart.suggest`, and so the arguments below that are not named here.
        history: the history file.
        model: the meta-feature model.
        rename: the study's name of a hyperparameter, by its name in the history or its natural one.
        exclude_group: groups of the history to leave out.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the images chosen.
        device: where the network runs.
        threads: CPU threads of the network.
        cache: keep and use meta-features.
        download: let torchvision fetch what is missing.

    Returns: the suggestions; the trials carry their origin as the user attribute `warmstart`.

    Raises:
        UsageError: when `rename` names what no suggestion has, or an argument does not fit.
        MissingPathError, DataError, StorageError: as `warmstart.suggest`.
    """
    from warmstart.api import suggest

    designs = suggest(
        dataset,
        images=images,
        labels=labels,
        k=k,
        strategy=strategy,
        history=history,
        model=model,
        exclude_group=exclude_group,
        skip_broken=skip_broken,
        seed=seed,
        device=device,
        threads=threads,
        cache=cache,
        download=download,
    )
    for design in designs:
        origin = {"from": design.source, "distance": design.distance, "source_error": design.source_error}
        params = _renamed(design, rename or {})
        study.enqueue_trial(params, user_attrs={ORIGIN: origin}, skip_if_exists=True)
    return designs


def _renamed(design: InitialDesign, rename: Mapping[str, str]) -> dict[str, Any]:
    """Give a suggestion under a study's names: both scales of a value, or the one that is renamed."""
    values = {**design.config, **design.natural}
    if unknown := rename.keys() - values.keys():
        msg = f"rename: expected names among {', '.join(values)}, got {min(unknown)!r}. Correct the name."
        raise UsageError(msg)
    twins = {other for name in rename for other in _scales(name) if other not in rename}
    return {rename.get(name, name): value for name, value in values.items() if name not in twins}


def _scales(name: str) -> tuple[str, str]:
    """Give both names of a value: natural and logarithmic."""
    bare = name.removeprefix("log10_")
    return bare, f"log10_{bare}"
