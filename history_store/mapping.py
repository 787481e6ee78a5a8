"""Configurations of one space put into another: every hyperparameter kept, renamed, rescaled, clipped, filled or dropped.

Hyperparameters are matched by name (`history_store.pairing`), their scale by name and values (`history_store.rescaling`).
Nothing is done silently: `Mapped.matches` has an entry for each name of either space, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from history_store.errors import DataError, UsageError
from history_store.foreign import ForeignParameter
from history_store.pairing import last_part, pair_names, split_logarithm
from history_store.records import Value
from history_store.rescaling import SAME, choose_rescaling, implied_rescaling, inside, rescaling
from history_store.space_arrays import active_values, encode_columns, forbidden_rows

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Action = Literal["kept", "renamed", "rescaled", "clipped", "filled", "dropped"]
Outside = Literal["clip", "drop"]
Column = list[Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person says about a mapping.

    Attributes:
        rename: our name by theirs.
        fill: values for hyperparameters of ours where theirs have none, as typed or as values.
        rescale: name of a rescaling by their name; see `RESCALINGS`.
        outside: what to do with numbers outside our bounds: `clip` them, or `drop` the runs.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, Value] = field(default_factory=dict)
    rescale: Mapping[str, str] = field(default_factory=dict)
    outside: Outside = "clip"


@dataclass(frozen=True, slots=True)
class Match:
    """What became of one hyperparameter.

    Attributes:
        there: name in the other space; None where it lacks it.
        here: name in ours; None where it was dropped.
        action: the most that happened to it.
        reason: why, in words.
        clipped: number of configurations whose value was moved to a bound; `rounded` to a whole number.
        filled: number of configurations that got a value which they did not have.
        lost: number of configurations that cannot be expressed because of it.
    """

    there: str | None
    here: str | None
    action: Action
    reason: str
    clipped: int = 0
    rounded: int = 0
    filled: int = 0
    lost: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as JSON types."""
        return {
            "there": self.there,
            "here": self.here,
            "action": self.action,
            "reason": self.reason,
            "clipped": self.clipped,
            "rounded": self.rounded,
            "filled": self.filled,
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class Mapped:
    """Configurations in our space, and how they came there.

    Attributes:
        configs: `n`, None where one cannot be expressed.
        matches: one a name, ours first, in the order of the space.
        lost: number of configurations that cannot be expressed, by reason.
    """

    configs: tuple[dict[str, Value] | None, ...]
    matches: tuple[Match, ...]
    lost: Mapping[str, int]


@dataclass(slots=True)
class _Converted:
    """One column in our values: None where there is none; `bad` rows have a value that cannot be expressed."""

    values: Column
    bad: NDArray[np.bool_]
    match: Match


def map_configs(
    params: Mapping[str, Sequence[object]],
    space: ConfigurationSpace,
    *,
    n: int,
    known: Mapping[str, ForeignParameter] | None = None,
    wishes: Wishes | None = None,
    where: str = "mapping",
) -> Mapped:
    """Put `n` configurations of another space into ours.

    A number outside our bounds is clipped, or its configuration given up; a choice that ours lacks gives the
    configuration up. What theirs lacks gets the value of `wishes.fill`, else our default, where it is active.

    Args:
        params: `n` values a name, None = not set.
        space: ours.
        n: number of configurations.
        known: what the other tool says of its hyperparameters.
        wishes: what a person says about it.
        where: begins the message where nothing is in common; empty = it is about the argument ``space``.

    Raises:
        UsageError: a wish names what is not there.
        DataError: the two spaces have nothing in common.
    """
    wishes, known = wishes or Wishes(), known or {}
    pairs, rivals = pair_names(list(params), list(space), rename=wishes.rename)
    _check_wishes(wishes, params, space)
    found: dict[str, _Converted] = {}
    matches: dict[str, Match] = {}
    for here, there in pairs.items():
        converted = _convert(space[here], there, params[there], known.get(there), wishes)
        if converted.match.here is None:
            matches[there] = converted.match
        else:
            found[here] = converted
    if not found:
        unread = "".join(f"; {name}: {match.reason}" for name, match in matches.items())
        head = f"{where}: " if where else ""
        msg = f"{head}expected hyperparameters in common with {', '.join(space)}, got {', '.join(params) or 'none'}{unread}. Say which is which with `rename` theirs=ours."
        raise DataError(msg, param=() if where else "space")
    for there in params:
        if there not in matches and all(found[here].match.there != there for here in found):
            matches[there] = _dropped(there, params[there], rivals.get(there))
    mapped, ours = _assembled(space, found, wishes.fill, n)
    lost = {**{f"{name}: {match.reason}": match.lost for name, match in ours.items() if match.lost}, **mapped.lost}
    return replace(mapped, matches=(*ours.values(), *matches.values()), lost=lost)


def describe_space(space: ConfigurationSpace) -> dict[str, ForeignParameter]:
    """Describe a space as another tool's would be."""
    return {name: describe(hyperparameter) for name, hyperparameter in space.items()}


def describe(hyperparameter: Any) -> ForeignParameter:
    """Describe a hyperparameter of ConfigSpace."""
    if hasattr(hyperparameter, "lower"):
        return ForeignParameter(
            float(hyperparameter.lower), float(hyperparameter.upper), bool(getattr(hyperparameter, "log", False))
        )
    return ForeignParameter(choices=_choices(hyperparameter))


def _check_wishes(wishes: Wishes, params: Mapping[str, Any], space: ConfigurationSpace) -> None:
    for name in wishes.rescale:
        if name not in params:
            msg = f"expected a name of the source ({', '.join(params)}), got {name!r}. Correct it."
            raise UsageError(msg, param="rescale")
    for name in wishes.fill:
        if name not in space:
            msg = f"expected a hyperparameter of the space ({', '.join(space)}), got {name!r}. Correct it."
            raise UsageError(msg, param="fill")


def _convert(
    hyperparameter: Any, there: str, values: Sequence[object], known: ForeignParameter | None, wishes: Wishes
) -> _Converted:
    """Put one column into the values of a hyperparameter of ours."""
    same = there == hyperparameter.name
    match = Match(there, hyperparameter.name, "kept" if same else "renamed", "same name" if same else "by name")
    if there in wishes.rename:
        match = replace(match, reason="as --rename says")
    ours = describe(hyperparameter)
    if known is not None and str(known) not in ("unknown", str(ours)):
        match = replace(match, reason=f"{match.reason}; {known} there, {ours} here")
    if ours.choices:
        return _convert_choices(ours.choices, values, match)
    return _convert_numbers(hyperparameter, values, match, wishes)


def _convert_choices(choices: Sequence[Any], values: Sequence[object], match: Match) -> _Converted:
    found = {key: _choice(choices, key[1]) for key in {(type(value), value) for value in values}}
    column = [found[type(value), value] for value in values]
    bad = np.array([mine is None and value is not None for mine, value in zip(column, values, strict=True)])
    if bad.any():
        missing = sorted({str(value) for value, lost in zip(values, bad.tolist(), strict=True) if lost})
        reason = f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''} not among {', '.join(map(str, choices))} here"
        match = replace(match, reason=reason, lost=int(bad.sum()))
        if all(mine is None for mine in column):
            return _Converted([], bad, replace(match, here=None, action="dropped", lost=0))
    return _Converted(column, bad, match)


def _convert_numbers(hyperparameter: Any, values: Sequence[object], match: Match, wishes: Wishes) -> _Converted:
    numbers, bad = _numbers(values)
    whole = isinstance(hyperparameter.default_value, int | np.integer)
    bounds = float(hyperparameter.lower), float(hyperparameter.upper)
    finite = numbers[np.isfinite(numbers)]
    there = match.there or ""
    if there in wishes.rescale:
        chosen, note = rescaling(wishes.rescale[there]), "as --rescale says"
    else:
        prefixes = split_logarithm(last_part(there))[0], split_logarithm(last_part(hyperparameter.name))[0]
        chosen_or_none, note = choose_rescaling(finite, bounds, implied_rescaling(*prefixes), whole=whole)
        if chosen_or_none is None or (bad.any() and not finite.size):
            reason = note or f"expected numbers, got {values[int(np.flatnonzero(bad)[0])]!r}"
            return _Converted([], bad, replace(match, here=None, action="dropped", reason=reason))
        chosen = chosen_or_none
    if chosen is not SAME:
        match = replace(match, action="rescaled", reason=f"{chosen.name}; {match.reason}")
    match = replace(match, reason=f"{match.reason}; {note}" if note else match.reason)
    present = ~np.isnan(numbers)
    scaled = chosen(numbers)
    bad |= present & ~np.isfinite(scaled)
    outside = np.isfinite(scaled) & ~inside(scaled, bounds)
    clipped = np.clip(scaled, *bounds)
    rounded = np.rint(clipped) if whole else clipped
    moved = np.isfinite(scaled) & (np.abs(rounded - clipped) > 1e-6)
    if wishes.outside == "drop":
        bad |= outside
        outside = np.zeros_like(outside)
    match = replace(match, clipped=int(outside.sum()), rounded=int((moved & ~bad).sum()), lost=int(bad.sum()))
    if match.clipped:
        match = replace(match, action="clipped", reason=f"{match.reason}; outside {bounds[0]:.6g} .. {bounds[1]:.6g}")
    if match.lost:
        match = replace(match, reason=f"{match.reason}; values that are no number in the bounds")
    column = [int(number) if whole else number for number in np.where(np.isfinite(rounded), rounded, 0.0).tolist()]
    keep = (present & ~bad).tolist()
    return _Converted([number if here else None for number, here in zip(column, keep, strict=True)], bad, match)


def _numbers(values: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read numbers: NaN where there is none; and which values are something else."""
    bad = np.zeros(len(values), dtype=np.bool_)
    try:
        return np.array(values, dtype=np.float64), bad
    except (TypeError, ValueError):
        pass
    numbers = np.full(len(values), np.nan)
    for index, value in enumerate(values):
        try:
            numbers[index] = np.nan if value is None else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            bad[index] = True
    return numbers, bad


def _choices(hyperparameter: Any) -> tuple[Any, ...]:
    values = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
    return (hyperparameter.value,) if values is None else tuple(values)


def _choice(choices: Sequence[Any], value: Any) -> Any:
    """Find a value among choices: of the same type, else of the same number or text."""
    for same in (
        lambda choice: type(choice) is type(value) and choice == value,
        lambda choice: _is_number(choice) and _is_number(value) and choice == value,
        lambda choice: str(choice).casefold() == str(value).casefold(),
    ):
        for choice in choices:
            if value is not None and same(choice):
                return choice
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _dropped(there: str, values: Sequence[object], rivals: str | None) -> Match:
    """Say why a name of theirs has no place, and whether it mattered."""
    kinds = len({str(value) for value in values if value is not None})
    reason = "no such hyperparameter here" if rivals is None else f"not alone in what could be {rivals}: use --rename"
    varied = f"; it took {kinds} values, which runs here do not tell apart" if kinds > 1 else ""
    return Match(there, None, "dropped", reason + varied)


def _assembled(
    space: ConfigurationSpace, found: Mapping[str, _Converted], fill: Mapping[str, Value], n: int
) -> tuple[Mapped, dict[str, Match]]:
    """Fill what is missing, take away what is inactive, and build the configurations."""
    columns: dict[str, Column] = {}
    absent: dict[str, NDArray[np.bool_]] = {}
    defaults = {name: _filling(space[name], fill.get(name)) for name in space}
    lost = np.zeros(n, dtype=np.bool_)
    for name in space:
        values: Column = found[name].values if name in found else [None] * n
        absent[name] = np.array([value is None for value in values], dtype=np.bool_)
        columns[name] = [defaults[name] if value is None else value for value in values]
        if name in found:
            lost |= found[name].bad
    unit, sure = encode_columns(space, columns, n)
    active = active_values(space, unit)
    unit = np.where(active, unit, np.nan)
    forbidden = ~lost & (forbidden_rows(space, unit) | ~sure)
    lost |= forbidden
    matches: dict[str, Match] = {}
    for index, name in enumerate(space):
        filled = int((absent[name] & active[:, index] & ~lost).sum())
        match = found[name].match if name in found else None
        matches[name] = _filled(match, space[name], value=defaults[name], count=filled, wished=name in fill)
        columns[name] = [
            value if on else None for value, on in zip(columns[name], active[:, index].tolist(), strict=True)
        ]
    names = list(space)
    rows = zip(*(columns[name] for name in names), strict=True)
    configs = tuple(
        None if gone else {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row, gone in zip(rows, lost.tolist(), strict=True)
    )
    reasons = {"forbidden by the space": int(forbidden.sum())} if forbidden.any() else {}
    return Mapped(configs, (), reasons), matches


def _filling(hyperparameter: Any, wanted: Value | None) -> Any:
    """Give the value for what is missing: as wanted, else the default.

    Raises:
        UsageError: the space does not allow the value wanted.
    """
    default = hyperparameter.default_value
    if wanted is None:
        return default.item() if isinstance(default, np.generic) else default
    ours = describe(hyperparameter)
    value = _choice(ours.choices, wanted) if ours.choices else _number(hyperparameter, wanted)
    if value is None:
        msg = f"expected a value of {hyperparameter.name} ({ours}), got {wanted!r}. Correct it."
        raise UsageError(msg, param="fill")
    return value


def _number(hyperparameter: Any, wanted: Value) -> int | float | None:
    """Read a number that a numeric hyperparameter allows."""
    number = float(_numbers([wanted])[0][0])
    if not inside(np.array([number]), (float(hyperparameter.lower), float(hyperparameter.upper))).all():
        return None
    if not isinstance(hyperparameter.default_value, int | np.integer):
        return number
    return int(number) if number.is_integer() else None


def _filled(match: Match | None, hyperparameter: Any, *, value: Any, count: int, wished: bool) -> Match:
    """Add to a match that `count` configurations got a value."""
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    why = "as --fill says" if wished else "the only value" if hasattr(hyperparameter, "value") else "the default here"
    if match is None:
        inactive = "" if count else "; nowhere active"
        return Match(None, hyperparameter.name, "filled", f"missing there; {shown}, {why}{inactive}", filled=count)
    if not count:
        return match
    return replace(match, filled=count, reason=f"{match.reason}; {shown}, {why}, where it is missing")
