"""Conversion of one column of values from another space to a hyperparameter of this one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.external_runs import ForeignParameter
from warmstart.history_store.hyperparameter_names import last_part, pairing_rule, split_logarithm
from warmstart.history_store.records import Value
from warmstart.history_store.rescaling import (
    SAME,
    Rescaling,
    check_scale,
    choose_rescaling,
    implied_rescaling,
    inside,
    rescaling,
)


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """One column as values of our hyperparameter.

    Attributes:
        values: `n`; None = none.
        bad: `n` bool, a value that cannot be expressed.
        moved: `n` bool, the value was clipped, rounded or snapped.
        match: the result; `here` is None if the column was dropped.
    """

    values: Column
    bad: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    match: Match


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Numbers that a hyperparameter of ours may take: bounds, scale, whole or not."""

    bounds: tuple[float, float] = field(kw_only=False)
    log: bool
    whole: bool


def describe(hyperparameter: Any) -> ForeignParameter:
    """Describe a hyperparameter of ConfigSpace."""
    if hasattr(hyperparameter, "lower"):
        return ForeignParameter(
            float(hyperparameter.lower), float(hyperparameter.upper), bool(getattr(hyperparameter, "log", False))
        )
    return ForeignParameter(choices=choices_of(hyperparameter))


def convert(
    hyperparameter: Any, there: str, values: Sequence[object], foreign: ForeignParameter | None, wishes: Wishes
) -> Converted:
    """Convert one column to values of a hyperparameter of ours."""
    same = there == hyperparameter.name
    rule = "rename" if there in wishes.rename else pairing_rule(there, hyperparameter.name)
    reason = "same name" if same else rule if wishes.nearest else "by name"
    match = Match(there, hyperparameter.name, "kept" if same else "renamed", reason, rule=rule)
    if there in wishes.rename:
        match = replace(match, reason="as --rename says")
    ours = describe(hyperparameter)
    if foreign is not None and str(foreign) not in ("unknown", str(ours)):
        match = replace(match, reason=f"{match.reason}; {foreign} there, {ours} here")
    if not ours.choices:
        return _convert_numbers(hyperparameter, values, foreign, match, wishes)
    numeric = NumericChoices.of(ours.choices) if wishes.nearest else None
    if numeric is not None and not read_numbers(values)[1].any():
        return _convert_nearest(numeric, values, foreign, match, wishes)
    return _convert_choices(ours.choices, values, match)


def _convert_choices(choices: Sequence[Any], values: Sequence[object], match: Match) -> Converted:
    values = [_hashable(value) for value in values]
    converted = {key: choice_among(choices, key[1]) for key in {(type(value), value) for value in values}}
    column = [converted[type(value), value] for value in values]
    bad = np.array([mine is None and value is not None for mine, value in zip(column, values, strict=True)])
    moved = np.zeros(len(values), dtype=np.bool_)
    if bad.any():
        missing = sorted({str(value) for value, lost in zip(values, bad.tolist(), strict=True) if lost})
        reason = f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''} not among {', '.join(map(str, choices))} here"
        match = replace(match, reason=reason, lost=int(bad.sum()))
        if all(mine is None for mine in column):
            return Converted([], bad, moved, replace(match, here=None, action="dropped", lost=0, rule=""))
    return Converted(column, bad, moved, match)


def _hashable(value: object) -> object:
    """Return a value, or its text if it cannot be hashed: a list or a mapping is no choice."""
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


def _convert_nearest(
    choices: NumericChoices, values: Sequence[object], foreign: ForeignParameter | None, match: Match, wishes: Wishes
) -> Converted:
    """Convert numbers of one scale to the nearest numeric choices; a constant takes any number."""
    numbers, none = read_numbers(values)
    is_constant = len(choices.choices) == 1
    bounds = (-np.inf, np.inf) if is_constant else choices.bounds
    here = _Range(bounds, log=choices.log, whole=True)
    chosen, match = _rescale(numbers, none, values, here, foreign, match, wishes)
    if chosen is None:
        return Converted([], none, none, match)
    column, moved = choices.nearest(chosen(numbers))
    if moved.any():
        examples = ", ".join(f"{choice}" for choice in choices.choices[:8]) + (
            ", ..." if len(choices.choices) > 8 else ""
        )
        reason = f"{match.reason}; {int(moved.sum())} values moved to the nearest of {examples}"
        match = replace(match, action="snapped", snapped=int(moved.sum()), reason=reason)
    return Converted(column, none, moved, match)


def _convert_numbers(
    hyperparameter: Any, values: Sequence[object], foreign: ForeignParameter | None, match: Match, wishes: Wishes
) -> Converted:
    numbers, bad = read_numbers(values)
    whole = isinstance(hyperparameter.default_value, int | np.integer)
    bounds = float(hyperparameter.lower), float(hyperparameter.upper)
    here = _Range(bounds, log=bool(getattr(hyperparameter, "log", False)), whole=whole)
    chosen, match = _rescale(numbers, bad, values, here, foreign, match, wishes)
    if chosen is None:
        return Converted([], bad, np.zeros_like(bad), match)
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
    is_valid = (present & ~bad).tolist()
    converted = [number if here else None for number, here in zip(column, is_valid, strict=True)]
    return Converted(converted, bad, (moved | outside) & ~bad, match)


def _rescale(
    numbers: NDArray[np.float64],
    bad: NDArray[np.bool_],
    values: Sequence[object],
    ours: _Range,
    foreign: ForeignParameter | None,
    match: Match,
    wishes: Wishes,
) -> tuple[Rescaling | None, Match]:
    """Choose the scale of a column and note it in its match; None and a dropped match if no scale fits."""
    there, here = match.there or "", match.here or ""
    finite = numbers[np.isfinite(numbers)]
    if there in wishes.rescale:
        chosen: Rescaling | None = rescaling(wishes.rescale[there])
        note = "as --rescale says"
    else:
        implied = implied_rescaling(*(split_logarithm(last_part(name))[0] for name in (there, here)))
        if wishes.is_trusted:
            chosen, note = implied, ""
        elif wishes.nearest:
            chosen, note = check_scale(
                finite, ours.bounds, implied, log=ours.log, whole=ours.whole, ends=_foreign_bounds(foreign)
            )
        else:
            chosen, note = choose_rescaling(finite, ours.bounds, implied, whole=ours.whole)
        if chosen is None or (bad.any() and not finite.size):
            reason = note or f"expected numbers, got {values[int(np.flatnonzero(bad)[0])]!r}"
            return None, replace(match, here=None, action="dropped", reason=reason, rule="")
    assert chosen is not None  # noqa: S101  for mypy
    if chosen is not SAME:
        match = replace(match, action="rescaled", reason=f"{chosen.name}; {match.reason}")
    return chosen, replace(match, reason=f"{match.reason}; {note}" if note else match.reason)


def _foreign_bounds(foreign: ForeignParameter | None) -> tuple[float, float] | None:
    """Return the bounds of a hyperparameter in the other space; None if it has none."""
    return None if foreign is None or foreign.low is None or foreign.high is None else (foreign.low, foreign.high)


def read_numbers(values: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read numbers, NaN = none; and return which values are something else."""
    bad = np.zeros(len(values), dtype=np.bool_)
    with suppress(TypeError, ValueError, OverflowError):
        numbers = np.array(values, dtype=np.float64)
        if numbers.ndim == 1:  # lists of equal length would be a table
            return numbers, bad
    numbers = np.full(len(values), np.nan)
    for index, value in enumerate(values):
        try:
            numbers[index] = np.nan if value is None else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            bad[index] = True
    return numbers, bad


def choices_of(hyperparameter: Any) -> tuple[Any, ...]:
    """List the values of a choice or a constant."""
    values = getattr(hyperparameter, "choices", None) or getattr(hyperparameter, "sequence", None)
    return (hyperparameter.value,) if values is None else tuple(values)


def choice_among(choices: Sequence[Any], value: Any) -> Any:
    """Find a value among choices: of the same type, else of the same number or text, else of the same truth."""
    for same in (
        lambda choice: type(choice) is type(value) and choice == value,
        lambda choice: _is_number(choice) and _is_number(value) and choice == value,
        lambda choice: str(choice).strip().casefold() == str(value).strip().casefold(),
    ):
        for choice in choices:
            if value is not None and same(choice):
                return choice
    truths = [_truth_of(choice) for choice in choices]
    truth = None if value is None else _truth_of(value)
    return choices[truths.index(truth)] if truth is not None and sorted(map(str, truths)) == ["False", "True"] else None


def _truth_of(value: Any) -> bool | None:
    """Return what a value or an argument says: `True`, `yes`, 1, `--x`; `False`, `no`, 0, `--no-x`; None for another."""
    text = str(value).strip().casefold()
    if text in ("true", "yes", "on", "1", "1.0"):
        return True
    if text in ("false", "no", "off", "0", "0.0", ""):
        return False
    return None if not re.fullmatch(r"--?[a-z][\w-]*", text) else not re.match("--?no[-_]", text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NumericChoices:
    """Numeric choices of a hyperparameter.

    Attributes:
        choices: as the space has them: numbers, or texts of numbers.
        numbers: their values, ascending.
        log: distances count on a logarithmic scale.
    """

    choices: tuple[Any, ...]
    numbers: Floats
    log: bool
    _order: tuple[int, ...] = field(repr=False)

    @classmethod
    def of(cls, choices: Sequence[Any]) -> NumericChoices | None:
        """Read choices; None if one is no number, or two are equal."""
        values = [_number(choice) for choice in choices]
        if not values or any(math.isnan(value) for value in values) or len(set(values)) < len(values):
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        numbers = np.array([values[index] for index in order])
        return cls(tuple(choices), numbers, _is_logarithmic(numbers), tuple(order))

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the range of numbers near the choices: half a step beyond the outermost."""
        positions = self._positions(self.numbers)
        steps = np.diff(positions)
        low, high = (
            (positions[0], positions[0])
            if not steps.size
            else (positions[0] - steps[0] / 2, positions[-1] + steps[-1] / 2)
        )
        return (float(np.exp(low)), float(np.exp(high))) if self.log else (float(low), float(high))

    def nearest(self, values: Floats) -> tuple[list[Any], NDArray[np.bool_]]:
        """Return the nearest choice to each of `n` numbers; None for a NaN.

        Returns: `n` choices, None for NaN; and `n` bool, whether the choice differs from the number.
        """
        is_finite = np.isfinite(values)
        within = np.clip(np.where(is_finite, values, self.numbers[0]), self.numbers[0], self.numbers[-1])
        positions, targets = self._positions(self.numbers), self._positions(within)
        above = (
            np.clip(np.searchsorted(positions, targets), 1, max(len(positions) - 1, 1)) if len(positions) > 1 else None
        )
        if above is None:
            index = np.zeros(len(values), dtype=np.int64)
        else:
            index = np.where(targets - positions[above - 1] <= positions[above] - targets, above - 1, above)
        nearest = [
            self.choices[self._order[i]] if ok else None for i, ok in zip(index.tolist(), is_finite, strict=True)
        ]
        nearest_numbers = self.numbers[index]
        return nearest, is_finite & (
            np.abs(nearest_numbers - values) > 1e-6 * np.maximum(np.abs(nearest_numbers), np.abs(values))
        )

    def _positions(self, numbers: Floats) -> Floats:
        positions: Floats = np.log(numbers) if self.log else numbers
        return positions


def _is_logarithmic(numbers: Floats) -> bool:
    """Return whether ascending numbers grow by a factor rather than by a step."""
    if numbers[0] <= 0 or len(numbers) < 2:
        return False
    if len(numbers) == 2:
        return bool(numbers[1] >= 4 * numbers[0])
    factors, steps = np.diff(np.log(numbers)), np.diff(numbers)
    return bool(np.std(factors) / np.mean(factors) < np.std(steps) / np.mean(steps))


def _number(choice: Any) -> float:
    """Read a choice as a number; NaN if it is none."""
    if isinstance(choice, bool) or not isinstance(choice, int | float | str):
        return math.nan
    try:
        value = float(choice)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


Action = Literal["kept", "renamed", "rescaled", "snapped", "clipped", "filled", "dropped"]
Outside = Literal["clip", "drop"]
Column = list[Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """A person's wishes about a mapping.

    Attributes:
        rename: our name by theirs.
        fill: values for hyperparameters of ours where theirs have none, as typed or as values.
        rescale: name of a rescaling by their name; see `RESCALINGS`.
        outside: what to do with numbers outside our bounds: `clip` them, or `drop` the runs.
        nearest: the configurations are to be tried, they are no runs that were measured: a number goes to the nearest
            of choices that are numbers, and a scale is told by names alone.
        is_trusted: with `nearest`, scales are those of the names, whatever the values.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, Value] = field(default_factory=dict)
    rescale: Mapping[str, str] = field(default_factory=dict)
    outside: Outside = "clip"
    nearest: bool = False
    is_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """Result of the mapping for one hyperparameter.

    Attributes:
        there: name in the other space; None = it lacks it.
        here: name in ours; None = dropped.
        action: the largest change.
        reason: why, in words.
        clipped: number of configurations whose value was moved to a bound; `rounded` to a whole number; `snapped` to
            the nearest choice.
        filled: number of configurations that got a missing value.
        lost: number of configurations that cannot be expressed because of it.
        rule: by which the two names are a pair; empty if they are none.
    """

    there: str | None
    here: str | None
    action: Action
    reason: str
    clipped: int = 0
    rounded: int = 0
    filled: int = 0
    lost: int = 0
    snapped: int = 0
    rule: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "there": self.there,
            "here": self.here,
            "action": self.action,
            "reason": self.reason,
            "clipped": self.clipped,
            "rounded": self.rounded,
            "filled": self.filled,
            "lost": self.lost,
            "snapped": self.snapped,
            "rule": self.rule,
        }
