"""Search spaces of ConfigSpace as Optuna's distributions, and back; the space that Optuna's trials show.

Optuna has no ordered choices: an ordinal of ConfigSpace becomes a categorical. ConfigSpace has no steps and no range of one
value: these become an ordinal and a constant that carry Optuna's distribution in their `meta`, so that every distribution
that has a space comes back as it was.
"""

from __future__ import annotations

import itertools
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

from bo.space.axes import Integer as Whole
from bo.space.axes import Real, axis_of
from history_store.errors import UsageError

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
            overflows or has bounds of too many decimals, more than 10,001 steps.
    """
    space = ConfigurationSpace()
    for name, distribution in distributions.items():
        try:
            with np.errstate(over="raise"):
                space.add(_hyperparameter(name, distribution))
        except (ValueError, ArithmeticError, TypeError) as error:
            if isinstance(error, UsageError):
                raise
            msg = f"parameter {name}: expected a distribution that ConfigSpace can express, got {distribution}. Change its range or its choices."
            raise UsageError(msg) from error
    for child, presence in (conditions or {}).items():
        space.add(InCondition(space[child], space[presence.parent], list(presence.values)))
    return space


def shown(trials: Sequence[FrozenTrial]) -> tuple[dict[str, BaseDistribution], dict[str, Presence]]:
    """Tell the space that finished trials show: the parameters whose distribution stays as it is, and when each is there.

    A range that was changed by hand counts from the fifth trial on that has it; one that came and went may depend on something, and
    counts from the twentieth in a row.
    A parameter that some trials lack is conditional where the values of one categorical or integer parameter tell the trials
    with it from those without; else it counts as always there. Values not seen yet count as without.

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
    return found, conditions


def _has_settled(distributions: Sequence[BaseDistribution]) -> bool:
    """Tell whether the distributions of a parameter, in order, are one, or were changed for good some trials ago."""
    lengths = [len(list(same)) for _, same in itertools.groupby(distributions)]
    came_and_went = len(set(distributions)) < len(lengths)
    return len(lengths) == 1 or lengths[-1] >= (SURE if came_and_went else SETTLED)


def snapped(distribution: BaseDistribution, value: Any, hyperparameter: Any = None) -> Any:
    """Return the value of a stepped range that a value stands for, exactly; other values are left as they are.

    Args:
        distribution: of the parameter.
        value: of a trial.
        hyperparameter: of the space; an ordinal says how it writes its values, which differ from Optuna's by rounding.
    """
    if _step(distribution) is None or not isinstance(value, int | float):
        return value
    k = round((value - distribution.low) / distribution.step)  # type: ignore[attr-defined]
    written = getattr(hyperparameter, "sequence", ())
    return written[k] if 0 <= k < len(written) else _at(distribution, k)


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
        if choice is not None and not isinstance(choice, bool | int | float | str):
            msg = f"parameter {name}: expected choices among None, truth values, numbers and texts, got {choice!r}. Name the choices, and look them up in the objective."
            raise UsageError(msg)


def _can_decide(distribution: BaseDistribution) -> bool:
    """Tell whether the values of a parameter may decide on another one."""
    if isinstance(distribution, IntDistribution):
        return distribution.high - distribution.low < PARENT_VALUES
    return isinstance(distribution, CategoricalDistribution)


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
