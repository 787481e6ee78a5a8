"""Optuna sampler by `warmstart.bo.Optimizer`.

::

    study = optuna.create_study(sampler=WarmStartSampler(seed=0))
    warm_start(study, dataset="path/to/images")
    study.optimize(objective, n_trials=30)

The sampler has no state beyond the study's: each suggestion depends on the stored trials, the seed and the trial's
number, so another process continues exactly as this one would.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import random
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from ConfigSpace import ConfigurationSpace
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers._base import _process_constraints_after_trial
from optuna.trial import FrozenTrial, TrialState

from warmstart.bo.models import FORECASTS
from warmstart.bo.optimizer import N_STARTUP_TRIALS, Optimizer
from warmstart.bo.related import RelatedTask
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.sampling import Design
from warmstart.history_store.deprecation import renamed
from warmstart.history_store.errors import SpaceExhaustedError, UsageError
from warmstart.history_store.records import Config
from warmstart.integrations.optuna.problem import Problem, TrialData, read_trials
from warmstart.integrations.optuna.space import Presence, space_of_trials, to_distributions, to_space, value_at
from warmstart.integrations.optuna.warm_values import (
    begin_warm_trial,
    end_warm_trial,
    warm_value,
    without_warm_values,
)
from warmstart.spaces import read_space
from warmstart.studies.state.attributes import ACTUAL, CHECKPOINT, CLAIM, ORIGIN, WARM

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike

COLLISION_S = 0.2
"""Seconds at most before a new choice, after another worker chose the same configuration at the same moment."""
PATIENCE_S = 10.0
"""Seconds to wait for the new choice of another worker that chose the same configuration: it may be dead."""
SPREAD = 512
"""Points spread over the space as candidates that fit, if the best configuration does not."""
BLOCK = 16
"""Consecutive trials whose independent values form a Latin hypercube."""
_log = logging.getLogger("warmstart")


class WarmStartSampler(optuna.samplers.BaseSampler):
    """Optuna sampler for Bayesian optimisation: conditions, parallel trials, failures, constraints, related tasks.

    Without a space, the space of the completed trials is used; the first trials, and parameters that appear later or
    change their range, are drawn from a design. Running and waiting trials are pending, failed ones inform the model of
    failures, pruned ones count with their last reported value.

    Values of warm trials (`warm_start`) are fitted to what the objective asks for, by name and distribution. With
    several objectives, all others are Optuna's `TPESampler`'s.
    """

    # Pickles of 0.2 hold these attributes and those of `__init__`, and `Problem` by its fields: the names must stay.
    _fits: Callable[[Sequence[Config]], Sequence[bool]] | None = None
    _made: tuple[object, tuple[TrialData, Optimizer, dict[str, Any], dict[str, Any]]] | None = None
    _part: Problem | None = None  # these three cache the last results: building a space takes time
    _shown: tuple[Any, Problem] | None = None
    _unasked: frozenset[tuple[str, str]] = frozenset()

    def __init__(
        self,
        *,
        space: SpaceLike | None = None,
        surrogate: str = "gp",
        acquisition: str = "ei",
        initial: Sequence[Config] | None = None,
        related: Sequence[RelatedTask] | None = None,
        meta_feature: Sequence[float] | None = None,
        design: Design = "sobol",
        n_startup_trials: int | None = None,
        seed: int | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        restarts: bool = True,
        warp_errors: bool | None = None,
        startup: int | None = None,
    ) -> None:
        """Set up a sampler.

        Args:
            space: what to search, in any form that `warmstart.spaces.read_space` takes; None = what the trials show.
            surrogate: a name in `warmstart.bo.surrogates.SURROGATES`.
            acquisition: a name in `warmstart.bo.acquisition.registry.ACQUISITIONS`.
            initial: configurations of the space to evaluate first and in order; without a space, use `study.enqueue_trial`.
            related: evaluations of related tasks over the space, for the surrogates `mt-...`.
            meta_feature: of the task at hand, if the related ones have one; not used without related tasks.
            design: after the initial configurations: `uniform`, `latin`, `halton` or `sobol`.
            n_startup_trials: trials before the surrogate is used, with enqueued ones; None = 3, or 0 with related
                tasks.
            seed: of everything random; None = a random one in every process.
            constraints_func: returns the constraints of a finished trial, met if at most 0; see also
                `trial.set_constraint`.
            restarts: search elsewhere, four times of five, once the search has converged; see `warmstart.bo.Optimizer`.
            warp_errors: model logarithms of errors if their evidence is higher; see `warmstart.bo.Optimizer`.
            startup: the name of `n_startup_trials` in 0.1.

        Raises:
            UsageError: an argument does not fit.
            DataError: a configuration does not fit the space.
        """
        initial, related = tuple(initial or ()), tuple(related or ())
        if space is None and (initial or related):
            msg = f"WarmStartSampler: expected a space for the {'initial configurations' if initial else 'related tasks'}, got none. Give space=, or enqueue configurations with study.enqueue_trial."
            raise UsageError(msg)
        self._process = None if seed is not None else os.getpid()
        self._settings: dict[str, Any] = {
            "surrogate": surrogate,
            "acquisition": acquisition,
            "initial": initial,
            "related": related,
            "meta_feature": meta_feature,
            "design": design,
            "restarts": restarts,
            "warp_errors": warp_errors,
        }
        n_startup_trials = renamed("startup", startup, new="n_startup_trials", value=n_startup_trials)
        usual = None if related else N_STARTUP_TRIALS  # None: the optimiser's default with related tasks
        self._n_startup_trials = usual if n_startup_trials is None else n_startup_trials
        self._constraints_func = constraints_func
        any_space = read_space({"x": [0.0, 1.0]} if space is None else space)
        self._given = None if space is None else Problem(any_space, to_distributions(any_space), is_given=True)
        checked = Optimizer(any_space, **self._settings, n_startup_trials=n_startup_trials, seed=seed)
        self._seed: int = checked.to_dict()["settings"]["seed"]
        self._unread: set[tuple[str, int]] = set()
        self._lacking: set[tuple[str, str]] = set()
        self._related = _digest(related)

    @property
    def space(self) -> ConfigurationSpace | None:
        """Return the stated space; None = the space of the trials."""
        return None if self._given is None else self._given.space

    def choose_among(self, fits: Callable[[Sequence[Config]], Sequence[bool]]) -> None:
        """Restrict suggestions to configurations that fit, if there are any; see `has_fitting`.

        Args:
            fits: tells for each configuration whether it may be suggested; called for each trial.
        """
        self._fits, self._made = fits, None

    def has_fitting(self, study: optuna.Study) -> bool:
        """Tell whether the next trial gets a configuration that fits; always true without a space or a restriction."""
        if self._given is None or self._fits is None:
            return True
        trials = _all_trials(study)
        return bool(self._fits([self._proposal(study, trials, self._given, len(trials))[2]])[0])

    def reseed_rng(self) -> None:
        """Draw a new seed in a new process, unless one is set; threads share a seed: their trials share a design."""
        if self._process is not None and self._process != os.getpid():
            self._process, self._seed = os.getpid(), int(np.random.SeedSequence().generate_state(1)[0])

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Prepare a warm trial: its values are fitted when the objective asks for them."""
        begin_warm_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002  Optuna's signature
        """Return the parameters to sample jointly: of the space, or of the completed trials."""
        if _has_several_objectives(study):
            return {}
        if self._given is not None:
            distributions: Mapping[str, BaseDistribution] = self._given.distributions
        else:
            distributions, _ = space_of_trials(_complete_trials(_all_trials(study)))
        return {name: distribution for name, distribution in distributions.items() if _is_searched(distribution)}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest a configuration that no other trial has, and store it with the trial before returning it.

        A trial whose process ended after that gets the same one again: some of its parameters may be stored already.
        """
        if _has_several_objectives(study):
            self._check_several()
            return {}
        return without_warm_values(study, trial, self._joint_values(study, trial, search_space))

    def _joint_values(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            if self._given is not None:  # a space with one configuration
                _store_attribute(study, trial, CLAIM, dict(self._given.space.get_default_configuration()))
            return {}
        if CHECKPOINT in trial.system_attrs:  # stored last, so the configuration is complete
            return {name: value for name, value in trial.system_attrs[CLAIM].items() if name in search_space}
        while True:
            trials = _other_trials(study, trial)
            problem = self._stated_problem(search_space) or self._problem_of_trials(trials, search_space)
            data, optimizer, config, checkpoint = self._proposal(study, trials, problem, trial.number)
            # Stored before the check, so that of two workers with the same choice at least one sees the other.
            _store_attribute(study, trial, CLAIM, config)
            if data.contains(config) or not self._is_taken(study, trial, config, problem, known=trials):
                break
            time.sleep(random.SystemRandom().uniform(0.0, COLLISION_S))  # workers in step would collide again
        if data.contains(config):
            _log.warning("trial %d: every configuration was proposed already, and one is repeated", trial.number)
        _store_attribute(study, trial, CHECKPOINT, optimizer.checkpoint() | checkpoint)
        return {name: value for name, value in config.items() if name in search_space}

    @staticmethod
    def _is_taken(
        study: optuna.Study,
        trial: FrozenTrial,
        config: Mapping[str, Any],
        problem: Problem,
        *,
        known: Iterable[FrozenTrial],
    ) -> bool:
        """Tell whether another worker chose the same configuration meanwhile, unlike all trials that are known.

        Of several at the same moment the earliest trial keeps it, after the others chose anew: if all did, the last
        configuration of a space could stay without a trial.
        """
        until = time.monotonic() + PATIENCE_S
        states = {each.number: _trial_state(each) for each in known}
        while True:
            others = _other_trials(study, trial)
            changed = [candidate for candidate in others if states.get(candidate.number) != _trial_state(candidate)]
            rivals = [
                candidate
                for candidate in changed
                if read_trials([candidate], problem, study.direction).contains(config)
            ]
            if not rivals:
                return False
            gives_way = all(candidate.number > trial.number and _is_choosing(candidate) for candidate in rivals)
            if not gives_way or time.monotonic() >= until:
                return True
            time.sleep(COLLISION_S / 4)

    def log_gain(self, study: optuna.Study) -> float | None:
        """Return the log expected improvement of the next trial, in the value's unit; None without a space or model."""
        self._raise_error_if_multi_objective(study)
        trials = _all_trials(study)
        return None if self._given is None else self._proposal(study, trials, self._given, len(trials))[1].log_gain

    def _proposal(
        self, study: optuna.Study, trials: Sequence[FrozenTrial], problem: Problem, number: int
    ) -> tuple[TrialData, Optimizer, dict[str, Any], dict[str, Any]]:
        """Choose the configuration of a trial by the other trials; cached until these change.

        Returns: the read trials, the optimiser, its configuration, and the setup and related tasks of its checkpoint.
        """
        key = self._seed, number, study.study_name, study.direction, problem.digest, tuple(map(_trial_state, trials))
        cached = self._made
        if cached is None or cached[0] != key:
            setup = f"{problem.digest} {self._settings['surrogate']} {self._settings['acquisition']}"
            data = self._read_trials(trials, problem, study)
            optimizer = self._optimizer(problem, data, _newest_checkpoint(trials, setup), number)
            try:
                config = optimizer.ask()[0]
                if self._fits is not None and not self._fits([config])[0]:
                    optimizer, config = self._fitting_proposal(problem, data, trials, setup, number) or (
                        optimizer,
                        config,
                    )
            except SpaceExhaustedError:
                config = problem.draw_unpending(data.pending, rng=np.random.default_rng([self._seed, number]))
            proposal = data, optimizer, config, {"setup": setup, "related": self._related}
            self._made = cached = key, proposal
        return cached[1]

    def _fitting_proposal(
        self, problem: Problem, data: TrialData, trials: Sequence[FrozenTrial], setup: str, number: int
    ) -> tuple[Optimizer, dict[str, Any]] | None:
        """Choose among the fitting initial configurations and points spread over the space; None if no new one fits."""
        assert self._fits is not None  # noqa: S101  asked where there is a limit
        rng = np.random.default_rng([self._seed, number])
        spread = problem.encoding.decode(problem.encoding.sample(SPREAD, rng=rng))
        candidates = [*self._settings["initial"], *spread]
        fitting = [config for config, fits in zip(candidates, self._fits(candidates), strict=True) if fits]
        if not fitting:
            return None
        initial = tuple(config for config in self._settings["initial"] if config in fitting)
        settings = {**self._settings, "initial": initial, "candidates": fitting}
        optimizer = self._optimizer(problem, data, _newest_checkpoint(trials, setup), number, settings=settings)
        try:
            return optimizer, optimizer.ask()[0]
        except SpaceExhaustedError:
            return None

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a warm trial's value, else draw one: 16 consecutive trials form a Latin hypercube in all parameters."""
        if (warm := warm_value(study, trial, param_name, param_distribution)) is not None:
            return warm.value
        if _has_several_objectives(study):
            seeds = np.random.SeedSequence([self._seed, zlib.crc32(param_name.encode()), trial.number])
            drawn = optuna.samplers.TPESampler(seed=int(seeds.generate_state(1)[0]))
            return drawn.sample_independent(study, trial, param_name, param_distribution)
        block, offset = divmod(trial.number, BLOCK)
        rng = np.random.default_rng([self._seed, zlib.crc32(param_name.encode()), block])
        u = float((rng.permutation(BLOCK)[offset] + rng.random(BLOCK)[offset]) / BLOCK)
        if isinstance(param_distribution, CategoricalDistribution):
            return param_distribution.choices[int(u * len(param_distribution.choices))]
        if (encoding := _range(param_distribution)) is not None:
            return encoding.decode(np.full((1, encoding.p), u))[0][""]
        return value_at(param_distribution, u)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Store a trial's constraints, warn of unused warm values, stop the study after the last configuration."""
        if ORIGIN in trial.user_attrs and state != TrialState.FAIL:
            self._warn_of_unasked(study, trial, end_warm_trial(study, trial))
        is_single = not _has_several_objectives(study)
        if values and is_single and trial.user_attrs.get(WARM) is True:
            study._storage.set_trial_user_attr(trial._trial_id, ACTUAL, values[0])  # noqa: SLF001
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        if self._given is None or not is_single:
            return
        self._warn_of_extra(study, trial, self._given)
        # With `study.tell` there is no loop to stop.
        if study._thread_local.in_optimize_loop and self._is_last(study, trial, self._given):  # noqa: SLF001
            _log.info("trial %d: every configuration of the space has its trial, and the study stops", trial.number)
            study.stop()

    def _warn_of_unasked(self, study: optuna.Study, trial: FrozenTrial, names: Sequence[str]) -> None:
        """Warn once per study of values of a warm trial for which the objective never asked."""
        new = [name for name in names if (study.study_name, name) not in self._unasked]
        self._unasked |= {(study.study_name, name) for name in new}
        if new:
            text = "trial %d: the objective never asked for %s of its warm start; rename= says what it calls them"
            _log.warning(text, trial.number, ", ".join(new))

    def _check_several(self) -> None:
        """Check that the settings can be used for several objectives.

        Raises:
            UsageError: they cannot.
        """
        if self._settings["initial"] or self._settings["related"]:
            msg = "expected one objective with `initial` or `related`, got several. Enqueue configurations with study.enqueue_trial."
            raise UsageError(msg)

    @staticmethod
    def _is_last(study: optuna.Study, trial: FrozenTrial, problem: Problem) -> bool:
        """Tell whether every configuration of a space has a trial, with running ones of other workers.

        Never if trials have parameters outside the space: then a configuration has many evaluations.
        """
        active = [candidate for candidate in _other_trials(study, trial) if candidate.state != TrialState.WAITING]
        size = problem.encoding.size
        if len(active) + 1 < size or any(_extra_parameters(checked, problem) for checked in [*active, trial]):
            return False
        data = read_trials(active, problem, study.direction)
        config = problem.config(trial)
        configs = [
            *(observation.config for observation in data.observations),
            *data.pending,
            *([] if config is None else [config]),
        ]
        return len(set(problem.encoding.keys(problem.encoding.encode(configs)))) >= size

    def _warn_of_extra(self, study: optuna.Study, trial: FrozenTrial, problem: Problem) -> None:
        """Warn once per study of each varying parameter that is not in the space."""
        for name in _extra_parameters(trial, problem):
            if (study.study_name, name) not in self._lacking:
                self._lacking.add((study.study_name, name))
                text = (
                    "trial %d: space= has no %s, which is drawn from the design and not searched; add it to the space"
                )
                _log.warning(text, trial.number, name)

    def _stated_problem(self, search_space: Mapping[str, BaseDistribution]) -> Problem | None:
        """Return the problem of the stated space, or of the part that is searched; None without a space."""
        if self._given is None:
            return None
        varying = {name for name, distribution in self._given.distributions.items() if _is_searched(distribution)}
        if varying <= search_space.keys():
            return self._given
        if self._part is None or self._part.distributions.keys() != search_space.keys():
            self._part = self._given.part(search_space)
        return self._part

    def _problem_of_trials(
        self, trials: Sequence[FrozenTrial], search_space: Mapping[str, BaseDistribution]
    ) -> Problem:
        """Return the problem of distributions, with the conditions of the completed trials."""
        distributions, conditions = space_of_trials(_complete_trials(trials))
        valid = {
            child: presence
            for child, presence in conditions.items()
            if child in search_space and search_space.get(presence.parent) == distributions[presence.parent]
        }
        key: tuple[Mapping[str, BaseDistribution], Mapping[str, Presence]] = dict(search_space), valid
        last = self._shown
        if last is None or last[0] != key:
            self._shown = last = key, Problem(to_space(*key), key[0], is_given=False)
        return last[1]

    def _read_trials(self, trials: Sequence[FrozenTrial], problem: Problem, study: optuna.Study) -> TrialData:
        """Read trials, and warn once of each that is outside the space."""
        data = read_trials(trials, problem, study.direction)
        for number in data.unread:
            if (study.study_name, number) in self._unread:
                continue
            self._unread.add((study.study_name, number))
            _log.warning("trial %d: its parameters are no configuration of the space, and it is passed over", number)
        return data

    def _optimizer(
        self,
        problem: Problem,
        data: TrialData,
        checkpoint: Mapping[str, Any] | None,
        number: int,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> Optimizer:
        """Return the optimiser for a trial, resumed from a checkpoint; `settings` replace the sampler's."""
        n_startup = self._n_startup_trials
        n_designed = n_startup if n_startup is None or data.count < n_startup else 0
        settings = self._settings if settings is None else settings
        if problem is not self._given:  # both are of the whole space
            settings, n_designed = {**settings, "initial": (), "related": ()}, n_designed or 0
        optimizer = Optimizer(problem.space, **settings, n_startup_trials=n_designed, seed=self._seed)
        optimizer.tell_all(data.observations)
        last = checkpoint or optimizer.checkpoint()
        count, digest = last.get("related", self._related)
        if count != self._related[0]:
            last = {**last, "models": {}}  # their chains are about other tasks
        elif digest != self._related[1]:
            last = {**last, "told": last["told"] - 1}  # the related tasks have new evaluations: fit again
        optimizer.resume({**last, "asked": number}, pending=data.pending)
        return optimizer


def _has_several_objectives(study: optuna.Study) -> bool:
    """Tell whether a study has several objectives."""
    return len(study.directions) > 1


def _all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return all trials of a study in order of their numbers; Optuna's own call has one bracket of Hyperband only."""
    return study._storage.get_all_trials(study._study_id, deepcopy=False)  # noqa: SLF001


def _other_trials(study: optuna.Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """Return the other trials of a study, in order of their numbers."""
    return [candidate for candidate in _all_trials(study) if candidate.number != trial.number]


def _is_choosing(trial: FrozenTrial) -> bool:
    """Tell whether a worker stored a choice that it may still change."""
    return trial.state == TrialState.RUNNING and CLAIM in trial.system_attrs and CHECKPOINT not in trial.system_attrs


def _extra_parameters(trial: FrozenTrial, problem: Problem) -> list[str]:
    """Return the varying parameters of a trial that are not in a space."""
    return [
        name
        for name, distribution in trial.distributions.items()
        if name not in problem.distributions and not distribution.single()
    ]


def _complete_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the completed trials."""
    return [trial for trial in trials if trial.state == TrialState.COMPLETE]


def _trial_state(trial: FrozenTrial) -> tuple[Any, ...]:
    """Return the parts of a trial that change a suggestion, to compare with later."""
    return trial.number, trial.state, trial.system_attrs.get(CLAIM), trial.params, trial.values, trial.constraints


def _store_attribute(study: optuna.Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Store a system attribute of a trial."""
    study._storage.set_trial_system_attr(trial._trial_id, key, value)  # noqa: SLF001  as Optuna's samplers do


def _digest(related: Sequence[RelatedTask]) -> list[int]:
    """Return the number and a hash of related tasks."""
    return [len(related), zlib.crc32(json.dumps([task.to_dict() for task in related]).encode())]


def _newest_checkpoint(trials: Sequence[FrozenTrial], setup: str) -> dict[str, Any] | None:
    """Return the newest checkpoint of a setup, by its count: a trial that Optuna retries has a copy of an older one.

    Forecasts of other checkpoints with as many related tasks are merged: workers that choose at the same moment miss
    each other's.
    """
    checkpoints: list[dict[str, Any]] = [
        trial.system_attrs[CHECKPOINT] for trial in trials if CHECKPOINT in trial.system_attrs
    ]
    good = [checkpoint for checkpoint in reversed(checkpoints) if checkpoint["setup"] == setup]
    newest = max(good, key=lambda checkpoint: int(checkpoint["asked"]), default=None)
    if newest is None or FORECASTS not in newest["models"]:
        return newest
    forecasts: dict[str, Any] = {}
    for older in sorted(good, key=lambda checkpoint: int(checkpoint["asked"])):
        if older.get("related", [None])[0] == newest.get("related", [None])[0]:
            forecasts = older["models"].get(FORECASTS, {}) | forecasts  # the first one of a point counts
    return {**newest, "models": {**newest["models"], FORECASTS: forecasts}}


def _is_searched(distribution: BaseDistribution) -> bool:
    """Tell whether a parameter varies and ConfigSpace can express it."""
    if isinstance(distribution, CategoricalDistribution):
        try:
            to_space({"": distribution})
        except UsageError:
            return False
        return not distribution.single()
    return not distribution.single() and _range(distribution) is not None


@functools.lru_cache(maxsize=256)  # thousands of steps take half a second
def _range(distribution: BaseDistribution) -> Encoding | None:
    """Return the encoding of one number; None if ConfigSpace cannot express it."""
    try:
        return Encoding(to_space({"": distribution}))
    except UsageError:
        return None
