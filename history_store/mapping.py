"""Mapping of configurations to another space.

Each hyperparameter is kept, renamed, rescaled, clipped, filled or dropped.

Hyperparameters are matched by name (`warmstart.history_store.hyperparameter_names`), their scale by name and values
(`warmstart.history_store.rescaling`). Nothing is done silently: `Mapped.matches` has an entry for each name of either space, with
the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.conversion import (
    Column,
    Converted,
    Match,
    Wishes,
    choice_among,
    convert,
    describe,
    read_numbers,
)
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import ForeignParameter
from warmstart.history_store.hyperparameter_names import in_names, join_spellings, pair_names
from warmstart.history_store.numbering import Numbering
from warmstart.history_store.records import Value
from warmstart.history_store.rescaling import inside
from warmstart.history_store.space import with_logarithms

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
__all__ = ["NO_PLACE", "Mapped", "Match", "Wishes", "describe_space", "map_configs", "match_columns"]
NO_PLACE = "no such hyperparameter here"


@dataclass(frozen=True, slots=True)
class Mapped:
    """Configurations in our space, and the matches of hyperparameters behind them.

    Attributes:
        configs: `n`, None where one cannot be expressed.
        matches: one a name, ours first, in the order of the space.
        lost: number of configurations that cannot be expressed, by reason.
    """

    configs: tuple[dict[str, Value] | None, ...]
    matches: tuple[Match, ...]
    lost: Mapping[str, int]


def map_configs(
    params: Mapping[str, Sequence[object]],
    space: ConfigurationSpace,
    *,
    n: int,
    known: Mapping[str, ForeignParameter] | None = None,
    wishes: Wishes | None = None,
    where: str = "mapping",
) -> Mapped:
    """Convert `n` configurations of another space to ours.

    A number outside our bounds is clipped, or its configuration given up; a choice that ours lacks gives the
    configuration up, and so does a value that is missing where other configurations have one. What none of theirs has
    gets our default where it is active. `wishes.fill` comes before both.

    Args:
        params: `n` values a name, None = not set.
        space: ours.
        n: number of configurations.
        known: descriptions of hyperparameters by the other tool.
        wishes: of a person.
        where: begins the message if nothing is in common; empty = the message is about the argument ``space``.

    Raises:
        UsageError: a wish names what is not there.
        DataError: the two spaces have nothing in common, or no value of a hyperparameter of the same name fits ours.
    """
    wishes = wishes or Wishes()
    params = _drop_natural_values(params, where)
    params, joined = join_spellings(params, ours=space, apart={*wishes.rename, *wishes.rescale})
    wishes = replace(wishes, fill=_fill_in_names(wishes.fill, space))
    converted, matches = match_columns(params, space, known=known or {}, wishes=wishes, where=where)
    if not converted:
        unread = "".join(
            f"; {match.there}: {match.reason}" for match in matches if not match.reason.startswith(NO_PLACE)
        )
        head = f"{where}: " if where else ""
        msg = f"{head}expected hyperparameters in common with {', '.join(space)}, got {', '.join(params) or 'none'}{unread}. Say which is which with `rename` theirs=ours."
        raise DataError(msg, param=() if where else "space")
    mapped, ours = _assemble_configs(space, converted, wishes.fill, n)
    lost = {**{f"{name}: {match.reason}": match.lost for name, match in ours.items() if match.lost}, **mapped.lost}
    here_by_name = {match.there: match.here for match in ours.values()}
    spellings = [
        Match(
            name,
            here_by_name.get(target),
            "renamed" if target in here_by_name else "dropped",
            f"another name of {target}",
        )
        for name, target in joined.items()
    ]
    return replace(mapped, matches=(*ours.values(), *spellings, *matches), lost=lost)


def match_columns(
    params: Mapping[str, Sequence[object]],
    space: ConfigurationSpace,
    *,
    known: Mapping[str, ForeignParameter],
    wishes: Wishes,
    where: str = "",
) -> tuple[dict[str, Converted], list[Match]]:
    """Pair the hyperparameters of two spaces, and convert the values of each pair.

    Arguments as in `map_configs`.

    Returns: converted columns by our name; and the matches of their names without a place here.

    Raises:
        UsageError: a wish names what is not there.
        DataError: none of the values of a pair fits, unless the configurations are to be tried, or `fill` or `outside` says
            what is to be done.
    """
    renamed = {in_names(params, source): in_names(space, target) for source, target in wishes.rename.items()}
    wishes = replace(wishes, rename=renamed)
    apart = partial(_are_exclusive, space) if wishes.nearest else lambda names: False  # noqa: ARG005
    pairs, rivals = pair_names(list(params), list(space), rename=wishes.rename, guess=wishes.nearest, exclusive=apart)
    _check_wishes(wishes, params, space)
    converted = {
        here: convert(space[here], there, params[there], known.get(there), wishes) for here, there in pairs.items()
    }
    if not wishes.nearest:
        _check_rivals(rivals, pairs, wishes, where)
        converted = {
            here: column
            if column.match.here is not None or here in wishes.fill
            else _without_fit(here, column, space, params, wishes, where)
            for here, column in converted.items()
        }
    usable = {here: column for here, column in converted.items() if column.match.here is not None}
    used = {column.match.there for column in usable.values()}
    unfit = {column.match.there: column.match for column in converted.values() if column.match.here is None}
    unmatched = [
        unfit.get(there) or _dropped_match(there, () if wishes.nearest else params[there], rivals.get(there))
        for there in params
        if there not in used
    ]
    return usable, unmatched


def _without_fit(
    here: str,
    column: Converted,
    space: ConfigurationSpace,
    params: Mapping[str, Sequence[object]],
    wishes: Wishes,
    where: str,
) -> Converted:
    """Return a column of which no value fits as values that cannot be expressed, where such runs are to be left out.

    Raises:
        DataError: where they are not: our default in their place would be a measurement that was none.
    """
    there = str(column.match.there)
    if wishes.outside != "drop":
        head = f"{where}: " if where else ""
        msg = f"{head}expected values of {here} ({describe(space[here])}), got {there!r}, of which none fits: {column.match.reason}. Say what these runs had with `fill` {here}=VALUE, or leave them out with `outside` drop."
        raise DataError(msg)
    bad = np.array([value is not None for value in params[there]], dtype=np.bool_)
    match = replace(column.match, here=here, action="kept", lost=int(bad.sum()))
    return Converted([None] * len(bad), bad, np.zeros_like(bad), match)


def _check_rivals(rivals: Mapping[str, str], pairs: Mapping[str, str], wishes: Wishes, where: str) -> None:
    """Raise if several names there could be one of ours: our default in their place would be a measurement that was none.

    Raises:
        DataError: names them.
    """
    for here in set(rivals.values()) - {*pairs, *wishes.fill}:
        names = [there for there, ours in rivals.items() if ours == here]
        if len(names) > 1:
            head = f"{where}: " if where else ""
            msg = f"{head}expected one name of {here}, got {', '.join(names)}. Say which it is with `rename` theirs={here}, or what these runs had with `fill` {here}=VALUE."
            raise DataError(msg)


def _drop_natural_values(params: Mapping[str, Sequence[object]], location: str) -> dict[str, Sequence[object]]:
    """Drop natural values beside their logarithms; both must agree.

    Raises:
        UsageError: where they do not.
    """
    columns = dict(params)
    for name in [name for name in params if f"log10_{name}" in params]:
        logarithm = f"log10_{name}"
        (values, unread), (logs, unread_too) = read_numbers(params[name]), read_numbers(params[logarithm])
        if unread.any() or unread_too.any():
            continue  # reported by the conversion of the columns
        with np.errstate(divide="ignore", invalid="ignore"):
            of_values = np.log10(values)
        differs = ~np.isnan(values) & ~np.isnan(logs) & ~np.isclose(of_values, logs, rtol=0, atol=5e-4)
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            msg = f"{location}: expected {name} to be 10^{logarithm}, got {values[row]:g} and {logs[row]:g} in run {row + 1}. Leave one of the two out."
            raise UsageError(msg)
        both = np.where(np.isnan(logs), of_values, logs).tolist()
        columns[logarithm] = [None if np.isnan(value) else value for value in both]
        del columns[name]
    return columns


def _fill_in_names(fill: Mapping[str, Value], space: ConfigurationSpace) -> dict[str, Any]:
    """Return values to fill in under the names of a space; natural values become logarithms."""
    numbers = {}
    for name, value in fill.items():
        number, unread = read_numbers([value])
        is_natural = name not in space and f"log10_{name}" in space and not unread[0]
        numbers[name] = float(number[0]) if is_natural else value
    return with_logarithms(numbers, list(space), location="fill")


def _are_exclusive(space: ConfigurationSpace, names: Collection[str]) -> bool:
    """Return whether at most one of some hyperparameters is active: one parent, another value for each."""
    taken: set[tuple[str, Any]] = set()
    parents: set[str] = set()
    for name in names:
        conditions = space.parent_conditions_of[name]
        if len(conditions) != 1 or not hasattr(conditions[0], "parent"):
            return False
        condition = conditions[0]
        values = getattr(condition, "values", None) or (getattr(condition, "value", None),)
        if type(condition).__name__ not in ("EqualsCondition", "InCondition"):
            return False
        parents.add(condition.parent.name)
        pairs = {(condition.parent.name, value) for value in values}
        if pairs & taken:
            return False
        taken |= pairs
    return len(parents) == 1


def describe_space(space: ConfigurationSpace) -> dict[str, ForeignParameter]:
    """Describe a space as another tool would."""
    return {name: describe(hyperparameter) for name, hyperparameter in space.items()}


def _check_wishes(wishes: Wishes, params: Mapping[str, Any], space: ConfigurationSpace) -> None:
    for name in wishes.rescale:
        if name not in params:
            msg = f"expected a name of the source ({', '.join(params)}), got {name!r}. Correct it."
            raise UsageError(msg, param="rescale")
    for name in wishes.fill:
        if name not in space:
            msg = f"expected a hyperparameter of the space ({', '.join(space)}), got {name!r}. Correct it."
            raise UsageError(msg, param="fill")


def _dropped_match(there: str, values: Sequence[object], rivals: str | None) -> Match:
    """Return the match of a foreign name without a place here, with the reason and whether it mattered."""
    kinds = len({str(value) for value in values if value is not None})
    reason = NO_PLACE if rivals is None else f"not alone in what could be {rivals}: use --rename"
    varied = f"; it took {kinds} values, which runs here do not tell apart" if kinds > 1 else ""
    return Match(there, None, "dropped", reason + varied)


def _assemble_configs(
    space: ConfigurationSpace, converted: Mapping[str, Converted], fill: Mapping[str, Value], n: int
) -> tuple[Mapped, dict[str, Match]]:
    """Fill missing values, remove inactive ones, and build the configurations."""
    columns: dict[str, Column] = {}
    absent: dict[str, NDArray[np.bool_]] = {}
    defaults = {name: _fill_value(space[name], fill.get(name)) for name in space}
    lost = np.zeros(n, dtype=np.bool_)
    reasons: dict[str, int] = {}
    for name in space:
        values: Column = converted[name].values if name in converted else [None] * n
        absent[name] = np.array([value is None for value in values], dtype=np.bool_)
        columns[name] = [defaults[name] if value is None else value for value in values]
        if name in converted:
            lost |= converted[name].bad
    silent = ~lost & np.all(list(absent.values()), axis=0)
    lost |= silent
    numbering = Numbering(space)
    numbers = numbering.parse_columns(columns, n)
    present = np.array([[value is not None for value in columns[name]] for name in space], dtype=np.bool_).T
    illegal = (present & np.isnan(numbering.shares(numbers))).any(axis=1)
    active = numbering.active(numbers)
    for index, name in enumerate(space):
        if name not in fill and not absent[name].all() and not hasattr(space[name], "value"):
            unset = absent[name] & active[:, index] & ~lost
            reasons |= (
                {f"without {name}, which others have (`fill` {name}=VALUE takes them)": int(unset.sum())}
                if unset.any()
                else {}
            )
            lost |= unset
    forbidden = ~lost & (numbering.forbidden(np.where(active, numbers, np.nan)) | illegal)
    lost |= forbidden
    matches: dict[str, Match] = {}
    for index, name in enumerate(space):
        filled = int((absent[name] & active[:, index] & ~lost).sum())
        match = converted[name].match if name in converted else None
        matches[name] = _filled_match(match, space[name], value=defaults[name], count=filled, wished=name in fill)
        columns[name] = [
            value if on else None for value, on in zip(columns[name], active[:, index].tolist(), strict=True)
        ]
    names = list(space)
    rows = zip(*(columns[name] for name in names), strict=True)
    configs = tuple(
        None if is_lost else {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row, is_lost in zip(rows, lost.tolist(), strict=True)
    )
    reasons |= {"forbidden by the space": int(forbidden.sum())} if forbidden.any() else {}
    reasons |= {"naming no hyperparameter of the space": int(silent.sum())} if silent.any() else {}
    return Mapped(configs, (), reasons), matches


def _fill_value(hyperparameter: Any, wish: Value | None) -> Any:
    """Return the value for missing cells: the person's, else the default.

    Raises:
        UsageError: the space does not allow the value wanted.
    """
    default = hyperparameter.default_value
    if wish is None:
        return default.item() if isinstance(default, np.generic) else default
    ours = describe(hyperparameter)
    value = choice_among(ours.choices, wish) if ours.choices else _legal_number(hyperparameter, wish)
    if value is None:
        msg = f"expected a value of {hyperparameter.name} ({ours}), got {wish!r}. Correct it."
        raise UsageError(msg, param="fill")
    return value


def _legal_number(hyperparameter: Any, wish: Value) -> int | float | None:
    """Return a number that a numeric hyperparameter allows; None if it does not."""
    number = float(read_numbers([wish])[0][0])
    if not inside(np.array([number]), (float(hyperparameter.lower), float(hyperparameter.upper))).all():
        return None
    if not isinstance(hyperparameter.default_value, int | np.integer):
        return number
    return int(number) if number.is_integer() else None


def _filled_match(match: Match | None, hyperparameter: Any, *, value: Any, count: int, wished: bool) -> Match:
    """Return a match with the note that `count` configurations got a value."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    why = "as --fill says" if wished else "the only value" if hasattr(hyperparameter, "value") else "the default here"
    if match is None:
        inactive = "" if count else "; nowhere active"
        return Match(None, hyperparameter.name, "filled", f"missing there; {text}, {why}{inactive}", filled=count)
    if not count:
        return match
    return replace(match, filled=count, reason=f"{match.reason}; {text}, {why}, where it is missing")
