"""Values of a warm trial, fitted to the parameters that an objective asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.external_runs import ForeignParameter
from warmstart.history_store.hyperparameter_names import both_scales, pair_names
from warmstart.history_store.mapping import Wishes, match_columns
from warmstart.integrations.optuna.space import to_space
from warmstart.studies.state.attributes import FITTED, ORIGIN, PROMISED, RANGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import optuna
    from ConfigSpace import ConfigurationSpace
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_FIXED = "fixed_params"
"""Optuna's system attribute with the values of an enqueued trial."""


@dataclass(frozen=True, slots=True)
class FittedValue:
    """An enqueued value as a parameter takes it; `moved` if it is another one than was suggested."""

    value: Any
    moved: bool


def begin_warm_trial(study: optuna.Study, trial: FrozenTrial) -> None:
    """Take a warm trial's values from Optuna, which would use them unfitted, or raise; the storage keeps them."""
    if ORIGIN not in trial.user_attrs or not trial.system_attrs.get(_FIXED):
        return
    # Storing makes the stored trial another object than this one in each of Optuna's storages.
    study._storage.set_trial_system_attr(trial._trial_id, FITTED, "as asked")  # noqa: SLF001  as Optuna's samplers do
    trial.system_attrs = {**trial.system_attrs, _FIXED: {}}


def warm_value(
    study: optuna.Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
) -> FittedValue | None:
    """Return the value of a warm trial for a parameter; None if it has none that fits."""
    values = _values(study, trial)
    source = _sources([*(asked for asked in trial.distributions if asked != name), name], values).get(name)
    return None if source is None else fitted(name, distribution, source, values[source], _ranges(study).get(source))


def without_warm_values(study: optuna.Study, trial: FrozenTrial, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a sampler suggests jointly, without those for which a warm trial has a value."""
    return {name: value for name, value in params.items() if name not in _sources(params, _values(study, trial))}


def end_warm_trial(study: optuna.Study, trial: FrozenTrial) -> list[str]:
    """Note in a warm trial which values are not those of its suggestion, and that its error is no longer promised.

    Returns: names of the suggestion that the objective never asked for.
    """
    values = _values(study, trial)
    sources = _sources(trial.distributions, values)
    asked = {twin for source in sources.values() for twin in both_scales(source)}
    if values:
        ranges = _ranges(study)
        others = []
        for name, distribution in trial.distributions.items():
            source = sources.get(name)
            fit = source and fitted(name, distribution, source, values[source], ranges.get(source))
            if not distribution.single() and (not fit or fit.moved or fit.value != trial.params[name]):
                others.append(name)
        _note_other_values(study, trial, others)
    return [name for name in values if name not in asked and _is_natural(name, set(values))]


def fitted(
    name: str, distribution: BaseDistribution, source: str, value: Any, known: ForeignParameter | None
) -> FittedValue | None:
    """Convert a value to one that a distribution allows: on its scale, in its range, the nearest step or choice.

    Args:
        name: of the parameter.
        distribution: of the parameter.
        source: name of the value.
        value: to convert.
        known: range from which the value comes.

    Returns: None if the parameter is on another scale, or has other choices.
    """
    if name == source and _is_allowed(distribution, value):
        return FittedValue(value, moved=False)
    try:
        space = to_space({name: distribution})
        columns, _ = match_columns(
            {source: [value]},
            space,
            known={} if known is None else {source: known},
            wishes=Wishes(rename={source: name}, nearest=True),
        )
    except WarmstartError:
        return None
    column = columns.get(name)
    if column is None or column.bad[0] or column.values[0] is None or not _is_allowed(distribution, column.values[0]):
        return None
    return FittedValue(column.values[0], bool(column.moved[0]))


def ranges_of(space: ConfigurationSpace, rename: Mapping[str, str]) -> dict[str, list[float]]:
    """Return lower and upper bounds of a space's numbers, of logarithms also under their natural names."""
    ranges: dict[str, list[float]] = {}
    for name, hyperparameter in space.items():
        if not hasattr(hyperparameter, "lower"):
            continue
        natural, logarithm = both_scales(name)
        low, high = float(hyperparameter.lower), float(hyperparameter.upper)
        ranges[rename.get(name, name)] = [low, high]
        if name == logarithm:
            ranges[rename.get(natural, natural)] = [10.0**low, 10.0**high]
    return ranges


def store_ranges(study: optuna.Study, ranges: Mapping[str, list[float]]) -> None:
    """Store with a study the ranges from which the values of its warm trials come."""
    storage, number = study._storage, study._study_id  # noqa: SLF001
    storage.set_study_system_attr(number, RANGES, {**storage.get_study_system_attrs(number).get(RANGES, {}), **ranges})


def _values(study: optuna.Study, trial: FrozenTrial) -> Mapping[str, Any]:
    """Return the values of a warm trial that is fitted; none of another trial."""
    if ORIGIN not in trial.user_attrs:
        return {}
    attributes = study._storage.get_trial(trial._trial_id).system_attrs  # noqa: SLF001
    return attributes.get(_FIXED, {}) if FITTED in attributes else {}


def _ranges(study: optuna.Study) -> dict[str, ForeignParameter]:
    stored = study._storage.get_study_system_attrs(study._study_id).get(RANGES, {})  # noqa: SLF001
    return {name: ForeignParameter(*ends) for name, ends in stored.items()}


def _sources(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, str]:
    """Pair parameters, in the order in which they are asked for, with names of values; each value once."""
    left, sources = set(values), dict[str, str]()
    for name in names:
        # Of a value under both of its names the natural one, unless the objective says the other.
        candidates = [name] if name in left else [n for n in values if n in left and _is_natural(n, left)]
        pairs, _ = pair_names(candidates, [name], rename={}, guess=True)
        if name in pairs:
            sources[name] = pairs[name]
            left -= set(both_scales(pairs[name]))
    return sources


def _is_natural(name: str, names: set[str]) -> bool:
    natural, logarithm = both_scales(name)
    return name != logarithm or natural not in names


def _is_allowed(distribution: BaseDistribution, value: Any) -> bool:
    """Tell whether a parameter can have a value."""
    try:
        return distribution._contains(distribution.to_internal_repr(value))  # noqa: SLF001  as Optuna's own check
    except (ValueError, TypeError):
        return False


def _note_other_values(study: optuna.Study, trial: FrozenTrial, names: list[str]) -> None:
    """Store that some values of a warm trial were not measured, nor its error promised."""
    origin = trial.user_attrs[ORIGIN]
    new = [name for name in names if name not in origin.get("not_measured", ())]
    if not new:
        return
    noted = {**origin, "measured": False, "not_measured": [*origin.get("not_measured", ()), *new], "source_error": None}
    storage, number = study._storage, trial._trial_id  # noqa: SLF001
    storage.set_trial_user_attr(number, ORIGIN, noted)
    if PROMISED in trial.user_attrs:
        storage.set_trial_user_attr(number, PROMISED, None)
