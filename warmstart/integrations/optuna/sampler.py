"""Optuna's sampler over our optimiser.

::

    study = optuna.create_study(sampler=WarmStartSampler(seed=0))
    warm_start(study, dataset="path/to/images")
    study.optimize(objective, n_trials=30)

The sampler keeps nothing that a study does not: each suggestion is made from the trials in the storage, the seed and the
trial's number, so that another process goes on as this one would have.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import random
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
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
from warmstart.integrations.optuna.problem import CLAIM, Known, Problem, read_trials
from warmstart.integrations.optuna.space import Presence, shown, to_distributions, to_space, value_at
from warmstart.integrations.optuna.warm_trials import ACTUAL, ORIGIN, WARM, both_scales
from warmstart.integrations.optuna.warm_trials import warm_start as warm_start  # its place in 0.1
from warmstart.spaces import read_space

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike

CHECKPOINT = "warmstart:checkpoint"
"""System attribute of a trial: what the next suggestion of any process depends on besides the trials."""
COLLISION_S = 0.2
"""Seconds, at most, before a configuration is chosen anew that another worker chose at the same moment."""
PATIENCE_S = 10.0
"""Seconds after which a worker is not waited for that chose the same and has not chosen anew: it may be dead."""
SPREAD = 512
"""Points of the space among which one is sought that fits, where the best of all does not."""
BLOCK = 16
"""Consecutive trials whose independent values are a Latin hypercube."""
_log = logging.getLogger("warmstart")


class WarmStartSampler(optuna.samplers.BaseSampler):
    """Bayesian optimisation by `warmstart.bo.Optimizer`: conditional spaces, parallel trials, failures, constraints, related tasks.

    Without a space, it is what the completed trials showed; the first trials, and parameters that appear later or change
    their range, are drawn from a design. Trials that run or wait are pending, failed trials teach where evaluations fail,
    pruned ones count with the last value that they reported.
    """

    _fits: Callable[[Sequence[Config]], Sequence[bool]] | None = None
    _made: tuple[object, tuple[Known, Optimizer, dict[str, Any], dict[str, Any]]] | None = None
    _part: Problem | None = None  # the last ones: building a space takes time
    _shown: tuple[Any, Problem] | None = None

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
            acquisition: a name in `warmstart.bo.models.ACQUISITIONS`.
            initial: configurations of the space to evaluate first and in order; without a space, use `study.enqueue_trial`.
            related: what is known of related tasks over the space, for the surrogates `mt-...`.
            meta_feature: of the task at hand, where the related ones have one; without related tasks it is not used.
            design: how to go on after the initial configurations: `uniform`, `latin`, `halton` or `sobol`.
            n_startup_trials: trials before the surrogate is asked, enqueued ones included; None = 3, or, with related tasks, 0.
            seed: of everything random; None = another one in every process.
            constraints_func: gives the constraints of a finished trial, met where they are at most 0; `trial.set_constraint`
                says them too.
            restarts: search elsewhere, four times of five, once the search has converged; see `warmstart.bo.Optimizer`.
            warp_errors: model logarithms of errors wherever their evidence prefers these; see `warmstart.bo.Optimizer`.
            startup: the name of `n_startup_trials` in 0.1.

        Raises:
            UsageError: when an argument does not fit.
            DataError: when a configuration does not fit the space.
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
        usual = None if related else N_STARTUP_TRIALS  # None: as the optimiser has it with related tasks
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
        """Return the space that the sampler was given; None = what the trials show."""
        return None if self._given is None else self._given.space

    def choose_among(self, fits: Callable[[Sequence[Config]], Sequence[bool]]) -> None:
        """Suggest from now on only what fits, where anything does; see `finds_one`.

        Args:
            fits: tells of configurations which of them may be suggested; asked anew for each trial.
        """
        self._fits, self._made = fits, None

    def finds_one(self, study: optuna.Study) -> bool:
        """Tell whether the next trial is given a configuration that fits; without a space, or a limit, always."""
        if self._given is None or self._fits is None:
            return True
        trials = _all_trials(study)
        return bool(self._fits([self._proposal(study, trials, self._given, len(trials))[2]])[0])

    def reseed_rng(self) -> None:
        """Draw another seed in another process where none was given; threads share one, for their trials are of one design."""
        if self._process is not None and self._process != os.getpid():
            self._process, self._seed = os.getpid(), int(np.random.SeedSequence().generate_state(1)[0])

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002  Optuna's signature
        """Return the parameters that are sampled together: those of the space, or those that completed trials showed."""
        self._raise_error_if_multi_objective(study)
        if self._given is not None:
            found: Mapping[str, BaseDistribution] = self._given.distributions
        else:
            found, _ = shown(_completed(_all_trials(study)))
        return {name: distribution for name, distribution in found.items() if _is_searched(distribution)}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest a configuration that no other trial has, and note it with the trial before it is returned.

        A trial whose process ended after that keeps it: some of its parameters may be stored already.
        """
        self._raise_error_if_multi_objective(study)
        if not search_space:
            if self._given is not None:  # nothing varies: its one configuration
                _note(study, trial, CLAIM, dict(self._given.space.get_default_configuration()))
            return {}
        if CHECKPOINT in trial.system_attrs:  # noted last
            return {name: value for name, value in trial.system_attrs[CLAIM].items() if name in search_space}
        while True:
            trials = _others(study, trial)
            problem = self._given_problem(search_space) or self._shown_problem(trials, search_space)
            known, optimizer, config, checkpoint = self._proposal(study, trials, problem, trial.number)
            _note(study, trial, CLAIM, config)
            ended = {other.number for other in trials if other.state.is_finished()}
            if known.holds(config) or not self._is_taken(study, trial, config, problem, ended=ended):
                break
            time.sleep(random.SystemRandom().uniform(0.0, COLLISION_S))  # workers in step would collide again
        if known.holds(config):
            _log.warning("trial %d: every configuration was proposed already, and one is repeated", trial.number)
        _note(study, trial, CHECKPOINT, optimizer.checkpoint() | checkpoint)
        return {name: value for name, value in config.items() if name in search_space}

    @staticmethod
    def _is_taken(
        study: optuna.Study, trial: FrozenTrial, config: Mapping[str, Any], problem: Problem, *, ended: Collection[int]
    ) -> bool:
        """Tell whether another worker chose a configuration meanwhile.

        Of those that chose it at the same moment the earliest trial keeps it, once the others have chosen anew: were
        all to do so, the last configuration of a space could stay without a trial.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            moved = [other for other in _others(study, trial) if other.number not in ended]
            rivals = [other for other in moved if read_trials([other], problem, study.direction).holds(config)]
            if not rivals:
                return False
            gives_way = all(other.number > trial.number and _is_choosing(other) for other in rivals)
            if not gives_way or time.monotonic() >= until:
                return True
            time.sleep(COLLISION_S / 4)

    def log_gain(self, study: optuna.Study) -> float | None:
        """Return the log of the improvement that the next trial promises, in the unit of its value; None without a space, or where no model knows."""
        self._raise_error_if_multi_objective(study)
        trials = _all_trials(study)
        return None if self._given is None else self._proposal(study, trials, self._given, len(trials))[1].log_gain

    def _proposal(
        self, study: optuna.Study, trials: Sequence[FrozenTrial], problem: Problem, number: int
    ) -> tuple[Known, Optimizer, dict[str, Any], dict[str, Any]]:
        """Choose the configuration of a trial from what others say; the last choice is kept until they say more.

        Returns: what they say, the optimiser that chose, its choice, and what its checkpoint is good for.
        """
        asked = self._seed, number, study.study_name, study.direction, problem.digest, tuple(map(_said, trials))
        made = self._made
        if made is None or made[0] != asked:
            setup = f"{problem.digest} {self._settings['surrogate']} {self._settings['acquisition']}"
            known = self._known(trials, problem, study)
            optimizer = self._optimizer(problem, known, _newest(trials, setup), number)
            try:
                config = optimizer.ask()[0]
                if self._fits is not None and not self._fits([config])[0]:
                    optimizer, config = self._fitting(problem, known, trials, setup, number) or (optimizer, config)
            except SpaceExhaustedError:
                config = problem.repeated(known.pending, rng=np.random.default_rng([self._seed, number]))
            chosen = known, optimizer, config, {"setup": setup, "related": self._related}
            self._made = made = asked, chosen
        return made[1]

    def _fitting(
        self, problem: Problem, known: Known, trials: Sequence[FrozenTrial], setup: str, number: int
    ) -> tuple[Optimizer, dict[str, Any]] | None:
        """Choose among initial configurations, and points all over the space, that fit; None where none that is new does."""
        assert self._fits is not None  # noqa: S101  asked where there is a limit
        rng = np.random.default_rng([self._seed, number])
        spread = problem.encoding.decode(problem.encoding.sample(SPREAD, rng=rng))
        candidates = [*self._settings["initial"], *spread]
        kept = [config for config, fits in zip(candidates, self._fits(candidates), strict=True) if fits]
        if not kept:
            return None
        initial = tuple(config for config in self._settings["initial"] if config in kept)
        settings = {**self._settings, "initial": initial, "candidates": kept}
        optimizer = self._optimizer(problem, known, _newest(trials, setup), number, settings=settings)
        try:
            return optimizer, optimizer.ask()[0]
        except SpaceExhaustedError:
            return None

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one parameter from a design: 16 consecutive trials are a Latin hypercube in all parameters."""
        self._raise_error_if_multi_objective(study)
        block, place = divmod(trial.number, BLOCK)
        rng = np.random.default_rng([self._seed, zlib.crc32(param_name.encode()), block])
        u = float((rng.permutation(BLOCK)[place] + rng.random(BLOCK)[place]) / BLOCK)
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
        """Note the constraints of a trial, say what it left of its warm start, and stop where it was the last of a stated space."""
        self._raise_error_if_multi_objective(study)
        planned = trial.system_attrs.get("fixed_params", {}) if ORIGIN in trial.user_attrs else {}
        lost = [name for name in planned if not {name, *both_scales(name)} & trial.params.keys()]
        if lost and state != TrialState.FAIL:
            _log.warning(
                "trial %d: the objective never asked for %s of its warm start; rename= says what it calls them",
                trial.number,
                ", ".join(lost),
            )
        if values and trial.user_attrs.get(WARM) is True:
            study._storage.set_trial_user_attr(trial._trial_id, ACTUAL, values[0])  # noqa: SLF001
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        if self._given is None:
            return
        self._warn_of_lacking(study, trial, self._given)
        if self._is_last(study, trial, self._given):
            _log.info("trial %d: every configuration of the space has its trial, and the study stops", trial.number)
            with contextlib.suppress(RuntimeError):  # told by hand: there is no loop to stop
                study.stop()

    @staticmethod
    def _is_last(study: optuna.Study, trial: FrozenTrial, problem: Problem) -> bool:
        """Tell whether every configuration of a space has its trial, those that other workers run included.

        Where trials have parameters beyond the space, one of its configurations is not one evaluation.
        """
        others = [other for other in _others(study, trial) if other.state != TrialState.WAITING]
        size = problem.encoding.size
        if len(others) + 1 < size or any(_beyond(each, problem) for each in [*others, trial]):
            return False
        known = read_trials(others, problem, study.direction)
        own = problem.config(trial)
        configs = [*(told.config for told in known.told), *known.pending, *([] if own is None else [own])]
        return len(set(problem.encoding.keys(problem.encoding.encode(configs)))) >= size

    def _warn_of_lacking(self, study: optuna.Study, trial: FrozenTrial, problem: Problem) -> None:
        """Say once a study of each parameter that its trials vary and the space lacks."""
        for name in _beyond(trial, problem):
            if (study.study_name, name) not in self._lacking:
                self._lacking.add((study.study_name, name))
                text = (
                    "trial %d: space= has no %s, which is drawn from the design and not searched; add it to the space"
                )
                _log.warning(text, trial.number, name)

    def _given_problem(self, search_space: Mapping[str, BaseDistribution]) -> Problem | None:
        """Return the stated space, or the part of it that is searched where another sampler fixes the rest; None without a space."""
        if self._given is None:
            return None
        varying = {name for name, distribution in self._given.distributions.items() if _is_searched(distribution)}
        if varying <= search_space.keys():
            return self._given
        if self._part is None or self._part.distributions.keys() != search_space.keys():
            self._part = self._given.part(search_space)
        return self._part

    def _shown_problem(self, trials: Sequence[FrozenTrial], search_space: Mapping[str, BaseDistribution]) -> Problem:
        """Return the space of distributions, with the conditions that completed trials show."""
        found, conditions = shown(_completed(trials))
        kept = {
            child: presence
            for child, presence in conditions.items()
            if child in search_space and search_space.get(presence.parent) == found[presence.parent]
        }
        asked: tuple[Mapping[str, BaseDistribution], Mapping[str, Presence]] = dict(search_space), kept
        last = self._shown
        if last is None or last[0] != asked:
            self._shown = last = asked, Problem(to_space(*asked), asked[0], is_given=False)
        return last[1]

    def _known(self, trials: Sequence[FrozenTrial], problem: Problem, study: optuna.Study) -> Known:
        """Read trials, and say once of each that is passed over."""
        known = read_trials(trials, problem, study.direction)
        for number in known.unread:
            if (study.study_name, number) in self._unread:
                continue
            self._unread.add((study.study_name, number))
            _log.warning("trial %d: its parameters are no configuration of the space, and it is passed over", number)
        return known

    def _optimizer(
        self,
        problem: Problem,
        known: Known,
        checkpoint: Mapping[str, Any] | None,
        number: int,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> Optimizer:
        """Set up the optimiser that suggests for a trial, with other settings where some are given."""
        wanted = self._n_startup_trials
        n_designed = wanted if wanted is None or known.count < wanted else 0
        settings = self._settings if settings is None else settings
        if problem is not self._given:  # both are of the whole space
            settings, n_designed = {**settings, "initial": (), "related": ()}, n_designed or 0
        optimizer = Optimizer(problem.space, **settings, n_startup_trials=n_designed, seed=self._seed)
        optimizer.tell_all(known.told)
        last = checkpoint or optimizer.checkpoint()
        count, digest = last.get("related", self._related)
        if count != self._related[0]:
            last = {**last, "models": {}}  # their chains are about other tasks
        elif digest != self._related[1]:
            last = {**last, "told": last["told"] - 1}  # the related tasks were told more
        optimizer.resume({**last, "asked": number}, pending=known.pending)
        return optimizer


def _all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials of a study in order of their numbers; Optuna's Hyperband shows samplers one bracket alone."""
    return study._storage.get_all_trials(study._study_id, deepcopy=False)  # noqa: SLF001


def _others(study: optuna.Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """Return the other trials of a study, in order of their numbers."""
    return [other for other in _all_trials(study) if other.number != trial.number]


def _is_choosing(trial: FrozenTrial) -> bool:
    """Tell whether a worker has noted a choice that it may yet give up."""
    return trial.state == TrialState.RUNNING and CLAIM in trial.system_attrs and CHECKPOINT not in trial.system_attrs


def _beyond(trial: FrozenTrial, problem: Problem) -> list[str]:
    """Return the parameters that a trial varies and a space lacks."""
    return [
        name
        for name, distribution in trial.distributions.items()
        if name not in problem.distributions and not distribution.single()
    ]


def _completed(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that show a space: those that ended of themselves."""
    return [trial for trial in trials if trial.state == TrialState.COMPLETE]


def _said(trial: FrozenTrial) -> tuple[Any, ...]:
    """Return what tells whether a trial says something else than before."""
    return trial.number, trial.state, trial.system_attrs.get(CLAIM), trial.params, trial.values, trial.constraints


def _note(study: optuna.Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Keep a system attribute of a trial."""
    study._storage.set_trial_system_attr(trial._trial_id, key, value)  # noqa: SLF001  where samplers keep what they must


def _digest(related: Sequence[RelatedTask]) -> list[int]:
    """Count related tasks, and tell what they say from anything else."""
    return [len(related), zlib.crc32(json.dumps([task.to_dict() for task in related]).encode())]


def _newest(trials: Sequence[FrozenTrial], setup: str) -> dict[str, Any] | None:
    """Find the newest checkpoint that is good for a setup; a trial that Optuna retries carries a copy of an older one.

    With it comes what others forecast with as many related tasks: of workers that choose at the same moment, none knows of the others.
    """
    kept: list[dict[str, Any]] = [
        trial.system_attrs[CHECKPOINT] for trial in trials if CHECKPOINT in trial.system_attrs
    ]
    good = [checkpoint for checkpoint in reversed(kept) if checkpoint["setup"] == setup]
    newest = max(good, key=lambda checkpoint: int(checkpoint["asked"]), default=None)
    if newest is None or FORECASTS not in newest["models"]:
        return newest
    forecasts: dict[str, Any] = {}
    for each in sorted(good, key=lambda checkpoint: int(checkpoint["asked"])):
        if each.get("related", [None])[0] == newest.get("related", [None])[0]:
            forecasts = each["models"].get(FORECASTS, {}) | forecasts  # the first one of a point counts
    return {**newest, "models": {**newest["models"], FORECASTS: forecasts}}


def _is_searched(distribution: BaseDistribution) -> bool:
    """Tell whether a parameter varies and has a space."""
    if isinstance(distribution, CategoricalDistribution):
        try:
            to_space({"": distribution})
        except UsageError:
            return False
        return not distribution.single()
    return not distribution.single() and _range(distribution) is not None


@functools.lru_cache(maxsize=256)  # thousands of steps take half a second
def _range(distribution: BaseDistribution) -> Encoding | None:
    """Return the space of one number as an array; None where ConfigSpace cannot express it."""
    try:
        return Encoding(to_space({"": distribution}))
    except UsageError:
        return None
