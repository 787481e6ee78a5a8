"""Read the trials of an Optuna study in one space: observations and pending configurations."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace, Constant
from ConfigSpace.exceptions import ForbiddenValueError
from ConfigSpace.util import deactivate_inactive_hyperparameters
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from warmstart.bo.constraints import MEMORY
from warmstart.bo.observation import Observation
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.axes import Axis, axis_of
from warmstart.history_store.clauses import mentioned
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import dump_space
from warmstart.integrations.optuna.space import snap_to_step
from warmstart.studies.state.attributes import CLAIM, CUT, OUTCOME

_WHOLE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Problem:
    """The space of a search, to read trials as its configurations.

    Attributes:
        space: of the search.
        distributions: of its parameters.
        is_given: whether the user stated the space: then missing values of a finished trial get no defaults.
    """

    space: ConfigurationSpace
    distributions: Mapping[str, BaseDistribution]
    is_given: bool

    @cached_property
    def encoding(self) -> Encoding:
        """Return the encoding of the space as arrays."""
        return Encoding(self.space)

    @cached_property
    def digest(self) -> str:
        """Return a hash of the space."""
        return hashlib.sha256(dump_space(self.space).encode()).hexdigest()[:16]

    def part(self, names: Collection[str]) -> Problem:
        """Return the problem of some parameters, without conditions and clauses on others."""
        space = ConfigurationSpace()
        space.add(*(self.space[name] for name in names))
        conditions = [item for item in self.space.conditions if item.child.name in names]
        space.add(*(item for item in [*conditions, *self.space.forbidden_clauses] if mentioned(item) <= set(names)))
        return Problem(space, {name: self.distributions[name] for name in names}, is_given=True)

    def config(self, trial: FrozenTrial) -> dict[str, Value] | None:
        """Return the configuration of a trial; see `configs`."""
        return self.configs([trial])[0]

    def configs(self, trials: Collection[FrozenTrial]) -> list[dict[str, Value] | None]:
        """Return the configurations of trials: their values, then planned ones, without inactive ones.

        Returns: for each trial its configuration; None if values are missing or not in the space.
        """
        rows = []
        for trial in trials:
            planned = trial.system_attrs.get(CLAIM, {}) | trial.system_attrs.get("fixed_params", {})
            rows.append(self.values({**planned, **trial.params}))
        fits = self.encoding.fits(rows)
        return [
            values if ok else self._complete_config(values, is_whole=trial.state in _WHOLE)
            for trial, values, ok in zip(trials, rows, fits, strict=True)
        ]

    def _complete_config(self, values: Mapping[str, Value], *, is_whole: bool) -> dict[str, Value] | None:
        """Return the active values; a finished trial's missing ones get defaults, unless the user stated the space."""
        if any(math.isnan(self._axes[name].parse([value])[0]) for name, value in values.items()):
            return None  # ConfigSpace raises all kinds of errors over what was enqueued
        all_values = {name: values.get(name, self.space[name].default_value) for name in self.space}
        try:
            active = deactivate_inactive_hyperparameters(all_values, self.space)
        except (ForbiddenValueError, ValueError):
            return None
        missing = [n for n in active if n not in values and not isinstance(self.space[n], Constant)]
        if missing and (self.is_given or not is_whole):
            return None
        config = {name: all_values[name] for name in active}
        return config if self.encoding.fits([config])[0] else None

    def values(self, params: Mapping[str, Any]) -> dict[str, Value]:
        """Return the parameters of the space from Optuna's, as values of the space."""
        distributions = {name: d for name, d in self.distributions.items() if name in params}
        values = {name: snap_to_step(d, params[name], self.space[name]) for name, d in distributions.items()}
        for name in self._reals.keys() & values.keys():
            value, real, hyperparameter = values[name], self._reals[name], self.space[name]
            if isinstance(value, int | float) and real.low <= value <= real.high:
                values[name] = min(
                    max(value, hyperparameter.lower), hyperparameter.upper
                )  # bounds are rounded to 13 decimals
        return values

    @cached_property
    def _axes(self) -> dict[str, Axis]:
        """Return the axis of each parameter, which parses its values."""
        return {name: axis_of(hyperparameter) for name, hyperparameter in self.space.items()}

    @cached_property
    def _reals(self) -> dict[str, FloatDistribution]:
        """Return the distributions of reals without steps."""
        return {
            name: d
            for name, d in self.distributions.items()
            if isinstance(d, FloatDistribution) and d.step is None and not d.single()
        }

    def draw_unpending(self, pending: Sequence[Config], *, rng: np.random.Generator) -> dict[str, Value]:
        """Draw a configuration that is not pending; any if all are."""
        keys = set(self.encoding.keys(self.encoding.encode(pending)))
        for exclude in (keys, set[str]()):
            points = self.encoding.sample(1, design="uniform", rng=rng, exclude=exclude)
            if len(points):
                break
        return self.encoding.decode(points)[0]


@dataclass(frozen=True, slots=True)
class TrialData:
    """The trials of a study, read in a space.

    Attributes:
        observations: of ended trials, in order of their numbers.
        pending: configurations of running and waiting trials.
        unread: numbers of completed trials outside the space.
    """

    observations: tuple[Observation, ...]
    pending: tuple[dict[str, Value], ...]
    unread: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return the number of configurations."""
        return len(self.observations) + len(self.pending)

    def contains(self, config: Config) -> bool:
        """Tell whether a trial has a configuration."""
        return config in self.pending or any(observation.config == config for observation in self.observations)


def read_trials(trials: Collection[FrozenTrial], problem: Problem, direction: StudyDirection) -> TrialData:
    """Read trials as observations, with errors negated if values are maximised, and pending configurations."""
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    observations: list[Observation] = []
    pending: list[dict[str, Value]] = []
    unread: list[int] = []
    for trial, config in zip(trials, problem.configs(trials), strict=True):
        if config is None:
            if trial.state == TrialState.COMPLETE:
                unread.append(trial.number)
        elif is_uninformative(trial):
            continue
        elif trial.state.is_finished():
            observations.append(_observation(trial, config, sign))
        else:
            pending.append(config)
    return TrialData(tuple(observations), tuple(pending), tuple(unread))


def is_uninformative(trial: FrozenTrial) -> bool:
    """Tell whether a time limit stopped a trial before its first report: it may be tried again."""
    is_cut = trial.state == TrialState.PRUNED and trial.user_attrs.get(CUT) is not None
    return is_cut and not trial.intermediate_values


def _observation(trial: FrozenTrial, config: Config, sign: float) -> Observation:
    """Return the observation of a finished trial; a pruned one has its last reported error."""
    value = math.nan
    if trial.state == TrialState.COMPLETE and trial.value is not None:
        value = trial.value
    elif trial.state == TrialState.PRUNED and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    if OUTCOME in trial.user_attrs:  # Optuna's clock includes the pause before another worker resumed the trial
        seconds = trial.user_attrs[OUTCOME].get("duration")
    is_failed, constraints = trial.state == TrialState.FAIL, trial.constraints
    lacked_memory = is_failed and constraints.get(MEMORY, 0.0) > 0
    return Observation.of(
        config,
        None if lacked_memory else sign * value,
        duration=None if seconds is None or seconds < 0 else seconds,  # negative if the clock was set back
        status="failed" if is_failed and not lacked_memory else "ok",
        constraints={name: bound <= 0 for name, bound in constraints.items()},
    )
