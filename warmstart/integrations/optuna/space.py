"""Search spaces of ConfigSpace as Optuna's distributions, and back; the space that Optuna's trials show.

Optuna has no ordered choices: an ordinal of ConfigSpace becomes a categorical. ConfigSpace has no steps and no range of one
value: these become an ordinal and a constant that carry Optuna's distribution in their `meta`, so that every distribution
that has a space comes back as it was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, Constant, Float, InCondition, Integer, OrdinalHyperparameter
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from optuna.trial import FrozenTrial

from warmstart.bo.space.axes import Integer as Whole
from warmstart.bo.space.axes import Real, axis_of
from warmstart.history_store.errors import UsageError

META = "optuna"
"""The key of a hyperparameter's `meta` under which Optuna's distribution is kept, as JSON."""
STEPS = 10_001
"""The most steps of a range that become an ordinal."""
ROUNDING = 1e-6
"""How far, as a share of a range, or of the lower bound on a logarithmic scale, ConfigSpace may move a bound."""
SETTLED = 5
"""Trials in a row with a range after which another one that was there before is taken for given up."""
SURE = 20
"""The same where ranges came and went, as when workers learn of a change one after another."""
PARENT_VALUES = 100
"""Values above which an integer is not taken for what decides whether another parameter is there."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What decides whether a parameter is there: its parent has one of these values."""

    parent: str
    values: tuple[Any, ...]


def to_distributions(space: ConfigurationSpace) -> dict[str, BaseDistribution]:
    """Return the distribution of every hyperparameter of a space; conditions, clauses, priors and defaults are left behind.

    Raises:
        UsageError: when a choice is of a kind that Optuna cannot store.
    """
    return {name: _distribution(hyperparameter) for name, hyperparameter in space.items()}


def to_space(
    distributions: Mapping[str, BaseDistribution], conditions: Mapping[str, Presence] | None = None
) -> ConfigurationSpace:
    """Build the space of named distributions.

    Args:
        distributions: of every parameter.
        conditions: of the parameters that are not always there, by name.

    Raises:
        UsageError: when ConfigSpace cannot express a distribution: choices that are equal or no plain values, a range that
            overflows or has bounds of too many decimals, more than 10,001 steps; or a condition on values that its parent lacks.
    """
    space = ConfigurationSpace()
    for name, distribution in distributions.items():
        try:
            with np.errstate(over="raise"):
                space.add(_hyperparameter(name, _renewed(distribution)))
        except (ValueError, ArithmeticError, TypeError) as error:
            if isinstance(error, UsageError):
                raise
            msg = f"parameter {name}: expected a distribution that ConfigSpace can express, got {distribution}. Change its range or its choices."
            raise UsageError(msg) from error
    for child, presence in (conditions or {}).items():
        try:
            space.add(InCondition(space[child], space[presence.parent], list(presence.values)))
        except ValueError as error:
            msg = f"parameter {child}: expected a condition on values of {presence.parent} in {distributions[presence.parent]}, got {presence.values}. Correct the values."
            raise UsageError(msg) from error
    return space


def shown(trials: Sequence[FrozenTrial]) -> tuple[dict[str, BaseDistribution], dict[str, Presence]]:
    """Tell the space that finished trials show: the parameters whose distribution stays as it is, and when each is there.

    A range that was changed by hand counts from the fifth trial on that has it; one that came and went may depend on something, and
    counts from the twentieth in a row.
    A parameter that some trials lack is conditional where the values of one categorical or integer parameter tell the trials
    with it from those without; else it counts as always there. Values not seen yet count as without. A parameter is left out
    where its parent's range no longer holds a value with it.

    Returns: distributions by name, in order of the names' first appearance; conditions by name.
    """
    had: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            had.setdefault(name, []).append(distribution)
    found = {name: each[-1] for name, each in had.items() if _has_settled(each)}
    rows = {name: frozenset(i for i, trial in enumerate(trials) if name in trial.distributions) for name in found}
    conditions: dict[str, Presence] = {}
    for child, there in rows.items():
        # Only what is there in more trials can be a parent, so that nobody is their own grandparent.
        parents = (name for name in found if there < rows[name] and _can_decide(found[name]))
        if len(there) < len(trials) and (presence := _presence(trials, there, parents)):
            conditions[child] = presence
    kept = {name: distribution for name, distribution in found.items() if _can_be_there(name, found, conditions)}
    return kept, {
        child: Presence(presence.parent, _kept_values(presence, found))
        for child, presence in conditions.items()
        if child in kept
    }


def _can_be_there(name: str, distributions: Mapping[str, BaseDistribution], conditions: Mapping[str, Presence]) -> bool:
    """Tell whether any values of a parameter's parents, and of theirs, that are still in range have it."""
    if name not in conditions:
        return True
    presence = conditions[name]
    return bool(_kept_values(presence, distributions)) and _can_be_there(presence.parent, distributions, conditions)


def _kept_values(presence: Presence, distributions: Mapping[str, BaseDistribution]) -> tuple[Any, ...]:
    """Return the values that the distribution of the parent holds: a range may have been changed, and an enqueued value lie outside."""
    parent: Any = distributions[presence.parent]
    if isinstance(parent, CategoricalDistribution):
        return tuple(value for value in presence.values if value in parent.choices)
    return tuple(value for value in presence.values if value in range(parent.low, parent.high + 1, parent.step))


def _has_settled(distributions: Sequence[BaseDistribution]) -> bool:
    """Tell whether the distributions of a parameter, in order, are one, or were changed for good some trials ago."""
    runs = [(repr(distribution), len(list(same))) for distribution, same in itertools.groupby(distributions)]
    came_and_went = len(dict(runs)) < len(runs)
    return len(runs) == 1 or runs[-1][1] >= (SURE if came_and_went else SETTLED)


def snapped(distribution: BaseDistribution, value: Any, hyperparameter: Any = None) -> Any:
    """Return the value of a stepped range that a value stands for, exactly; other values, and those outside, are left as they are.

    Args:
        distribution: of the parameter.
        value: of a trial.
        hyperparameter: of the space; an ordinal says how it writes its values, which differ from Optuna's by rounding.
    """
    step = _step(distribution)
    if step is None or not isinstance(value, int | float):
        return value
    low, high = distribution.low, distribution.high  # type: ignore[attr-defined]
    if not low - step / 2 < value < high + step / 2:  # nan neither
        return value
    k = round((value - low) / step)
    written = getattr(hyperparameter, "sequence", ())
    return written[k] if 0 <= k < len(written) else _at(distribution, k)


def value_at(distribution: Any, u: float) -> Any:
    """Return the number of a range that a share of it in [0, 1) stands for: equal shares of every value, or of the logarithm."""
    low, high = distribution.low, distribution.high
    if distribution.log:
        value = math.exp((1.0 - u) * math.log(low) + u * math.log(high))
        return min(max(round(value) if isinstance(distribution, IntDistribution) else value, low), high)
    if distribution.step is None:
        return min(max((1.0 - u) * low + u * high, low), high)  # high - low may overflow
    count = round((high - low) / distribution.step) + 1
    return _at(distribution, min(int(u * count), count - 1))


def _renewed(distribution: BaseDistribution) -> BaseDistribution:
    """Return the distribution that Optuna writes since its version 3 in place of one of an older class."""
    if isinstance(distribution, FloatDistribution) and type(distribution) is not FloatDistribution:
        return FloatDistribution(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    if isinstance(distribution, IntDistribution) and type(distribution) is not IntDistribution:
        return IntDistribution(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    return distribution


def _distribution(hyperparameter: Any) -> BaseDistribution:
    """Return the distribution of one hyperparameter."""
    kept = (hyperparameter.meta or {}).get(META)
    if kept is not None:
        return json_to_distribution(kept)
    axis = axis_of(hyperparameter)
    if isinstance(axis, Real):
        return FloatDistribution(axis.low, axis.high, log=axis.log)
    if isinstance(axis, Whole):
        return IntDistribution(axis.low, axis.high, log=axis.log)
    _check_choices(axis.name, axis.choices)
    return CategoricalDistribution(axis.choices)


def _hyperparameter(name: str, distribution: BaseDistribution) -> Any:
    """Return the hyperparameter of one distribution."""
    if isinstance(distribution, CategoricalDistribution):
        _check_choices(name, distribution.choices)
        return Constant(name, distribution.choices[0]) if distribution.single() else Categorical(name, distribution.choices)  # fmt: skip
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        msg = f"parameter {name}: expected a float, an integer or a categorical distribution, got {distribution}. Use one of these."
        raise UsageError(msg)
    meta = {META: distribution_to_json(distribution)}
    if distribution.single():
        return Constant(name, distribution.low, meta=meta)
    if (step := _step(distribution)) is not None:
        count = round((distribution.high - distribution.low) / step) + 1
        if count > STEPS:
            msg = f"parameter {name}: expected at most {STEPS:,} steps, got {count:,}. Leave the step out."
            raise UsageError(msg)
        return OrdinalHyperparameter(name, [_at(distribution, k) for k in range(count)], meta=meta)
    low, high, log = distribution.low, distribution.high, distribution.log
    if isinstance(distribution, IntDistribution):
        return Integer(name, (int(low), int(high)), log=log)
    inner = _inward(low, 1.0), _inward(high, -1.0)
    if max(inner[0] - low, high - inner[1]) > ROUNDING * (low if log else high - low):
        msg = f"parameter {name}: expected bounds of at most 13 decimals, as ConfigSpace keeps them, got [{low}, {high}]. Search its logarithm, or another unit."
        raise UsageError(msg)
    return Float(name, inner, log=log, meta=None if inner == (low, high) else meta)


def _inward(bound: float, direction: float) -> float:
    """Round a bound as ConfigSpace does, to 13 decimals, but never to the outside of its range."""
    step = max(1e-13, float(np.spacing(abs(bound))))
    rounded = (float(np.round(bound + direction * k * step, 13)) for k in range(4))
    return next((found for found in rounded if (found - bound) * direction >= 0), bound)


def _step(distribution: BaseDistribution) -> float | None:
    """Return the step of a range that ConfigSpace does not have; None where there is none."""
    step = getattr(distribution, "step", None)
    return None if step == 1 and isinstance(distribution, IntDistribution) else step


def _at(distribution: Any, k: int) -> Any:
    """Return the value after k steps, as Optuna's own samplers compute it."""
    return min(k * distribution.step + distribution.low, distribution.high)


def _check_choices(name: str, choices: Sequence[Any]) -> None:
    """Refuse choices that Optuna's storages cannot keep."""
    for choice in choices:
        if not _is_plain(choice):
            msg = f"parameter {name}: expected choices among None, truth values, numbers and texts, got {choice!r}. Name the choices, and look them up in the objective."
            raise UsageError(msg)


def _is_plain(choice: Any) -> bool:
    """Tell whether Optuna's storages keep a choice as it is: a list, say, is none, and a tuple comes back as one."""
    return choice is None or isinstance(choice, bool | int | float | str)


def _can_decide(distribution: BaseDistribution) -> bool:
    """Tell whether the values of a parameter may decide on another one."""
    if isinstance(distribution, IntDistribution):
        return distribution.high - distribution.low < PARENT_VALUES
    return isinstance(distribution, CategoricalDistribution) and all(map(_is_plain, distribution.choices))


def _presence(trials: Sequence[FrozenTrial], there: frozenset[int], parents: Any) -> Presence | None:
    """Find the parameter whose values tell trials with a child from trials without: the one of the fewest values seen."""
    found: list[tuple[int, str, tuple[Any, ...]]] = []
    for parent in parents:
        values = [trial.params.get(parent) for trial in trials]
        with_child = list(dict.fromkeys(values[i] for i in sorted(there)))
        without = {values[i] for i, trial in enumerate(trials) if i not in there and parent in trial.params}
        if not without & set(with_child):
            found.append((len(without) + len(with_child), parent, tuple(with_child)))
    if not found:
        return None
    _, parent, known = min(found, key=lambda one: one[0])
    return Presence(parent, known)
