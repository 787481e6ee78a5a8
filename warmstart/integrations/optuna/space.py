"""Convert between spaces of ConfigSpace and distributions of Optuna; infer the space of Optuna's trials.

Optuna has no ordered choices: an ordinal of ConfigSpace becomes a categorical. ConfigSpace has no steps and no range of one
value: these become an ordinal and a constant with Optuna's distribution in their `meta`, so that every distribution
that has a space is restored exactly.
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

from warmstart.history_store.axes import Integer as Whole
from warmstart.history_store.axes import Real, axis_of
from warmstart.history_store.errors import DataError, UsageError

META = "optuna"
"""Key of a hyperparameter's `meta` for Optuna's distribution, as JSON."""
STEPS = 10_001
"""Largest number of steps of a range that becomes an ordinal."""
ROUNDING = 1e-6
"""Largest shift of a bound by ConfigSpace, as a share of the range, or of the lower bound on a logarithmic scale."""
SETTLED = 5
"""Consecutive trials with a new range after which it replaces the earlier one."""
SURE = 20
"""The same if ranges alternated, as when workers learn of a change one after another."""
PARENT_VALUES = 100
"""Number of values from which an integer cannot be the parent of a conditional parameter."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Condition of a parameter: it is active if its parent has one of these values."""

    parent: str
    values: tuple[Any, ...]


def to_distributions(space: ConfigurationSpace) -> dict[str, BaseDistribution]:
    """Return the distribution of every hyperparameter of a space, without conditions, clauses, priors and defaults.

    Raises:
        UsageError: a choice of a type that Optuna cannot store.
    """
    return {name: _distribution(hyperparameter) for name, hyperparameter in space.items()}


def to_space(
    distributions: Mapping[str, BaseDistribution], conditions: Mapping[str, Presence] | None = None
) -> ConfigurationSpace:
    """Build the space of named distributions.

    Args:
        distributions: of every parameter.
        conditions: of the conditional parameters, by name.

    Raises:
        UsageError: a distribution that ConfigSpace cannot express: equal choices or no plain values, a range that
            overflows or has bounds with too many decimals, more than 10,001 steps; or a condition on values that its
            parent lacks.
    """
    space = ConfigurationSpace()
    for name, distribution in distributions.items():
        try:
            with np.errstate(over="raise"):
                space.add(_hyperparameter(name, _as_current_class(distribution)))
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


def space_of_trials(trials: Sequence[FrozenTrial]) -> tuple[dict[str, BaseDistribution], dict[str, Presence]]:
    """Infer the space of finished trials: parameters with a stable distribution, and their conditions.

    A changed range counts from the fifth trial in a row with it; one that alternated may depend on something, and
    counts from the twentieth. A parameter that some trials lack is conditional if the values of one categorical or
    integer parameter separate the trials with it from those without; else it counts as always active. Values not seen
    yet count as without. A parameter is left out if its parent's range has no value with it any more.

    Returns: distributions by name, in order of the names' first appearance; conditions by name.
    """
    all_distributions: dict[str, list[BaseDistribution]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            all_distributions.setdefault(name, []).append(distribution)
    distributions = {name: values[-1] for name, values in all_distributions.items() if _is_settled(values)}
    rows = {
        name: frozenset(i for i, trial in enumerate(trials) if name in trial.distributions) for name in distributions
    }
    conditions: dict[str, Presence] = {}
    for child, with_child in rows.items():
        # A parent must be active in strictly more trials: so conditions cannot be circular.
        parents = (name for name in distributions if with_child < rows[name] and _can_be_parent(distributions[name]))
        if len(with_child) < len(trials) and (presence := _presence(trials, with_child, parents)):
            conditions[child] = presence
    reachable = {
        name: distribution
        for name, distribution in distributions.items()
        if _is_reachable(name, distributions, conditions)
    }
    return reachable, {
        child: Presence(presence.parent, _values_in_range(presence, distributions))
        for child, presence in conditions.items()
        if child in reachable
    }


def _is_reachable(name: str, distributions: Mapping[str, BaseDistribution], conditions: Mapping[str, Presence]) -> bool:
    """Tell whether a parameter can be active with values of its ancestors that are still in range."""
    if name not in conditions:
        return True
    presence = conditions[name]
    return bool(_values_in_range(presence, distributions)) and _is_reachable(presence.parent, distributions, conditions)


def _values_in_range(presence: Presence, distributions: Mapping[str, BaseDistribution]) -> tuple[Any, ...]:
    """Return the values of a condition within the parent's range, which may have changed."""
    parent: Any = distributions[presence.parent]
    if isinstance(parent, CategoricalDistribution):
        return tuple(value for value in presence.values if value in parent.choices)
    return tuple(value for value in presence.values if value in range(parent.low, parent.high + 1, parent.step))


def _is_settled(distributions: Sequence[BaseDistribution]) -> bool:
    """Tell whether the distribution of a parameter never changed, or changed for good some trials ago."""
    runs = [(repr(distribution), len(list(group))) for distribution, group in itertools.groupby(distributions)]
    has_alternated = len(dict(runs)) < len(runs)
    return len(runs) == 1 or runs[-1][1] >= (SURE if has_alternated else SETTLED)


def snap_to_step(distribution: BaseDistribution, value: Any, hyperparameter: Any = None) -> Any:
    """Return the exact value of a stepped range nearest to a value; other values, and values outside, unchanged.

    Args:
        distribution: of the parameter.
        value: of a trial.
        hyperparameter: of the space; the values of an ordinal, which differ from Optuna's by rounding, are used.
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
    """Return the number at a share in [0, 1) of a range: equal shares for every value, or for the logarithm."""
    low, high = distribution.low, distribution.high
    if distribution.log:
        value = math.exp((1.0 - u) * math.log(low) + u * math.log(high))
        return min(max(round(value) if isinstance(distribution, IntDistribution) else value, low), high)
    if distribution.step is None:
        return min(max((1.0 - u) * low + u * high, low), high)  # high - low may overflow
    count = round((high - low) / distribution.step) + 1
    return _at(distribution, min(int(u * count), count - 1))


def _as_current_class(distribution: BaseDistribution) -> BaseDistribution:
    """Return a distribution of an older class as the class of Optuna 3."""
    if isinstance(distribution, FloatDistribution) and type(distribution) is not FloatDistribution:
        return FloatDistribution(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    if isinstance(distribution, IntDistribution) and type(distribution) is not IntDistribution:
        return IntDistribution(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    return distribution


def _distribution(hyperparameter: Any) -> BaseDistribution:
    """Return the distribution of one hyperparameter."""
    text = (hyperparameter.meta or {}).get(META)
    if text is not None:
        return _distribution_of_meta(text, hyperparameter)
    axis = axis_of(hyperparameter)
    if isinstance(axis, Real):
        return FloatDistribution(axis.low, axis.high, log=axis.log)
    if isinstance(axis, Whole):
        return IntDistribution(axis.low, axis.high, log=axis.log)
    _check_choices(axis.name, axis.choices)
    return CategoricalDistribution(axis.choices)


def _distribution_of_meta(text: Any, hyperparameter: Any) -> BaseDistribution:
    """Read the distribution that a hyperparameter's metadata has; its values have to be the hyperparameter's.

    Raises:
        DataError: it is none, or of other values.
    """
    try:
        distribution = json_to_distribution(text)
        is_same = _has_values_of(distribution, hyperparameter)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_same = False
    if not is_same:
        msg = f"{hyperparameter.name}: expected Optuna's distribution of the same values as metadata, got {text!r:.80}. Leave it out."
        raise DataError(msg, param="space")
    return distribution


def _has_values_of(distribution: BaseDistribution, hyperparameter: Any) -> bool:
    """Tell whether a distribution has the values of a hyperparameter, whose range may be rounded."""
    if hasattr(hyperparameter, "lower"):
        ends, low, high = (distribution.low, distribution.high), hyperparameter.lower, hyperparameter.upper  # type: ignore[attr-defined]  # or the caller catches it
        return bool(np.allclose(ends, (low, high), rtol=ROUNDING, atol=2 * ROUNDING * (high - low)))
    values = getattr(hyperparameter, "sequence", None) or getattr(hyperparameter, "choices", None)
    values = (hyperparameter.value,) if values is None else values
    return all(distribution._contains(distribution.to_internal_repr(value)) for value in values)  # noqa: SLF001  as Optuna's storages


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
    inner = _round_inward(low, 1.0), _round_inward(high, -1.0)
    if max(inner[0] - low, high - inner[1]) > ROUNDING * (low if log else high - low):
        msg = f"parameter {name}: expected bounds of at most 13 decimals, as ConfigSpace keeps them, got [{low}, {high}]. Search its logarithm, or another unit."
        raise UsageError(msg)
    return Float(name, inner, log=log, meta=None if inner == (low, high) else meta)


def _round_inward(bound: float, direction: float) -> float:
    """Round a bound to 13 decimals, as ConfigSpace does, but never outward."""
    step = max(1e-13, float(np.spacing(abs(bound))))
    # Rounding to the nearest may go outward: then try the next decimals inward.
    rounded = (float(np.round(bound + direction * k * step, 13)) for k in range(4))
    return next((candidate for candidate in rounded if (candidate - bound) * direction >= 0), bound)


def _step(distribution: BaseDistribution) -> float | None:
    """Return the step of a range, unless it is an integer's 1; None without one."""
    step = getattr(distribution, "step", None)
    return None if step == 1 and isinstance(distribution, IntDistribution) else step


def _at(distribution: Any, k: int) -> Any:
    """Return the value after k steps, as Optuna's own samplers compute it."""
    return min(k * distribution.step + distribution.low, distribution.high)


def _check_choices(name: str, choices: Sequence[Any]) -> None:
    """Check that Optuna's storages can store the choices."""
    for choice in choices:
        if not _is_plain(choice):
            msg = f"parameter {name}: expected choices among None, truth values, numbers and texts, got {choice!r}. Name the choices, and look them up in the objective."
            raise UsageError(msg)


def _is_plain(choice: Any) -> bool:
    """Tell whether Optuna's storages store a choice exactly: not a list, nor a tuple, which comes back as a list."""
    return choice is None or isinstance(choice, bool | int | float | str)


def _can_be_parent(distribution: BaseDistribution) -> bool:
    """Tell whether a parameter can be the parent of a conditional one."""
    if isinstance(distribution, IntDistribution):
        return distribution.high - distribution.low < PARENT_VALUES
    return isinstance(distribution, CategoricalDistribution) and all(map(_is_plain, distribution.choices))


def _presence(trials: Sequence[FrozenTrial], with_child_rows: frozenset[int], parents: Any) -> Presence | None:
    """Return the condition that separates trials with a child from others, on the parent with the fewest values."""
    candidates: list[tuple[int, str, tuple[Any, ...]]] = []
    for parent in parents:
        values = [trial.params.get(parent) for trial in trials]
        with_child = list(dict.fromkeys(values[i] for i in sorted(with_child_rows)))
        without = {values[i] for i, trial in enumerate(trials) if i not in with_child_rows and parent in trial.params}
        if not without & set(with_child):
            candidates.append((len(without) + len(with_child), parent, tuple(with_child)))
    if not candidates:
        return None
    _, parent, parent_values = min(candidates, key=lambda candidate: candidate[0])
    return Presence(parent, parent_values)
