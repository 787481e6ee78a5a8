"""What the trials of an Optuna study say about one space: evaluations, and configurations under way."""

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

from warmstart.bo.observation import Observation
from warmstart.bo.space.axes import Axis, axis_of
from warmstart.bo.space.clauses import mentioned
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import dump_space
from warmstart.integrations.optuna.space import snapped
from warmstart.studies.state.trial_queue import OUTCOME

CLAIM = "warmstart:config"
"""System attribute of a trial: the configuration that was suggested for it."""
CUT = "warmstart:cut"
"""User attribute of a trial that was ended with the time of its command: seconds that the whole of it takes, at least."""
_WHOLE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True)
class Problem:
    """The space of a suggestion, and how trials are read as its configurations.

    Attributes:
        space: what is searched.
        distributions: of its parameters.
        is_given: the user stated the space: what a finished trial lacks is not made up.
    """

    space: ConfigurationSpace
    distributions: Mapping[str, BaseDistribution]
    is_given: bool

    @cached_property
    def encoding(self) -> Encoding:
        """Return the space as arrays."""
        return Encoding(self.space)

    @cached_property
    def digest(self) -> str:
        """Return a text that tells spaces apart."""
        return hashlib.sha256(dump_space(self.space).encode()).hexdigest()[:16]

    def part(self, names: Collection[str]) -> Problem:
        """Return the problem of some of the parameters; conditions and clauses on others are left out."""
        space = ConfigurationSpace()
        space.add(*(self.space[name] for name in names))
        conditions = [each for each in self.space.conditions if each.child.name in names]
        space.add(*(each for each in [*conditions, *self.space.forbidden_clauses] if mentioned(each) <= set(names)))
        return Problem(space, {name: self.distributions[name] for name in names}, is_given=True)

    def config(self, trial: FrozenTrial) -> dict[str, Value] | None:
        """Read one trial; see `configs`."""
        return self.configs([trial])[0]

    def configs(self, trials: Collection[FrozenTrial]) -> list[dict[str, Value] | None]:
        """Read trials as configurations: their own values, then what was planned for them; inactive ones left out.

        Returns: for each trial its configuration; None where something is missing, or the space does not allow it.
        """
        found = []
        for trial in trials:
            planned = trial.system_attrs.get(CLAIM, {}) | trial.system_attrs.get("fixed_params", {})
            found.append(self.values({**planned, **trial.params}))
        fits = self.encoding.fits(found)
        return [
            values if ok else self._completed(values, is_whole=trial.state in _WHOLE)
            for trial, values, ok in zip(trials, found, fits, strict=True)
        ]

    def _completed(self, values: Mapping[str, Value], *, is_whole: bool) -> dict[str, Value] | None:
        """Leave out what is inactive, and take defaults for what a finished trial lacks, unless the user stated the space."""
        if any(math.isnan(self._axes[name].parse([value])[0]) for name, value in values.items()):
            return None  # ConfigSpace raises all kinds of errors over what was enqueued
        full = {name: values.get(name, self.space[name].default_value) for name in self.space}
        try:
            active = deactivate_inactive_hyperparameters(full, self.space)
        except (ForbiddenValueError, ValueError):
            return None
        missing = [n for n in active if n not in values and not isinstance(self.space[n], Constant)]
        if missing and (self.is_given or not is_whole):
            return None
        completed = {name: full[name] for name in active}
        return completed if self.encoding.fits([completed])[0] else None

    def values(self, params: Mapping[str, Any]) -> dict[str, Value]:
        """Return Optuna's parameters as values of the space, those that are none of it left out."""
        given = {name: d for name, d in self.distributions.items() if name in params}
        values = {name: snapped(d, params[name], self.space[name]) for name, d in given.items()}
        for name in self._reals.keys() & values.keys():
            value, known, kept = values[name], self._reals[name], self.space[name]
            if isinstance(value, int | float) and known.low <= value <= known.high:
                values[name] = min(max(value, kept.lower), kept.upper)  # bounds are rounded to 13 decimals
        return values

    @cached_property
    def _axes(self) -> dict[str, Axis]:
        """Return what tells the values of each parameter from others."""
        return {name: axis_of(hyperparameter) for name, hyperparameter in self.space.items()}

    @cached_property
    def _reals(self) -> dict[str, FloatDistribution]:
        """Return the distributions of reals without steps."""
        return {
            name: d
            for name, d in self.distributions.items()
            if isinstance(d, FloatDistribution) and d.step is None and not d.single()
        }

    def repeated(self, pending: Sequence[Config], *, rng: np.random.Generator) -> dict[str, Value]:
        """Draw a configuration that is not pending; any where all are."""
        keys = set(self.encoding.keys(self.encoding.encode(pending)))
        for exclude in (keys, set[str]()):
            points = self.encoding.sample(1, design="uniform", rng=rng, exclude=exclude)
            if len(points):
                break
        return self.encoding.decode(points)[0]


@dataclass(frozen=True, slots=True)
class Known:
    """What the trials of a study say.

    Attributes:
        told: evaluations, in order of the trials' numbers.
        pending: configurations of trials that run, and of those that wait.
        unread: numbers of completed trials that are no configurations of the space.
    """

    told: tuple[Observation, ...]
    pending: tuple[dict[str, Value], ...]
    unread: tuple[int, ...]

    @property
    def count(self) -> int:
        """Count the configurations."""
        return len(self.told) + len(self.pending)

    def holds(self, config: Config) -> bool:
        """Tell whether a configuration is among them."""
        return config in self.pending or any(observation.config == config for observation in self.told)


def read_trials(trials: Collection[FrozenTrial], problem: Problem, direction: StudyDirection) -> Known:
    """Read trials as evaluations of a problem, errors as they are or negated, and as configurations under way."""
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    told: list[Observation] = []
    pending: list[dict[str, Value]] = []
    unread: list[int] = []
    for trial, config in zip(trials, problem.configs(trials), strict=True):
        if config is None:
            if trial.state == TrialState.COMPLETE:
                unread.append(trial.number)
        elif tells_nothing(trial):
            continue
        elif trial.state.is_finished():
            told.append(_observation(trial, config, sign))
        else:
            pending.append(config)
    return Known(tuple(told), tuple(pending), tuple(unread))


def tells_nothing(trial: FrozenTrial) -> bool:
    """Tell whether a trial was ended with the time of its command before it said anything: it may be tried again."""
    is_cut = trial.state == TrialState.PRUNED and trial.user_attrs.get(CUT) is not None
    return is_cut and not trial.intermediate_values


def _observation(trial: FrozenTrial, config: Config, sign: float) -> Observation:
    """Read a finished trial; a pruned one has the error that it reported last."""
    value = math.nan
    if trial.state == TrialState.COMPLETE and trial.value is not None:
        value = trial.value
    elif trial.state == TrialState.PRUNED and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    if OUTCOME in trial.user_attrs:  # the clock counts also the night before a trial was taken over
        seconds = trial.user_attrs[OUTCOME].get("duration")
    return Observation.of(
        config,
        sign * value,
        duration=None if seconds is None or seconds < 0 else seconds,  # a clock may be put back
        status="failed" if trial.state == TrialState.FAIL else "ok",
        constraints={name: bound <= 0 for name, bound in trial.constraints.items()},
    )
