"""Reports at fractional steps. Optuna stores integers: another step is an attribute beside a number in its place."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.attributes import STEP

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

LARGEST = 2**31 - 1
"""Largest number that every database can store as a step."""


def steps_of(attrs: Mapping[str, Any]) -> dict[int, float]:
    """Return the steps that differ from their numbers, by number, from a trial's system attributes."""
    return {int(name.removeprefix(STEP)): step for name, step in attrs.items() if name.startswith(STEP)}


def numbers_of(steps: Collection[float], *, taken: Iterable[int], fractional: Mapping[int, float]) -> dict[float, int]:
    """Return the numbers in Optuna for reports of a trial, by step, in the order of growing steps.

    Args:
        steps: of the reports.
        taken: numbers of earlier reports.
        fractional: earlier steps that differ from their numbers, by number.

    Returns: by step, its earlier number; else the step itself if it is an integer, at most `LARGEST` and free; else the
        next number after all others, or the first free one.
    """
    step_of: dict[int, float] = {number: number for number in taken} | dict(fractional)
    number_of, last = {step: number for number, step in step_of.items()}, max(step_of, default=-1)
    for step in steps:
        if step not in number_of:
            is_free = step == int(step) and step <= LARGEST and int(step) not in step_of
            number = int(step) if is_free else last + 1
            if number > LARGEST:
                number = next(free for free in itertools.count() if free not in step_of)
            number_of[step], step_of[number], last = number, step, max(last, number)
    return {step: number_of[step] for step in steps}


def as_reported(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial with its reports by their exact steps; the same object if all are integers."""
    if is_whole(trial):
        return trial
    copied, steps = copy.copy(trial), steps_of(trial.system_attrs)
    copied.intermediate_values = {steps.get(key, key): error for key, error in trial.intermediate_values.items()}  # type: ignore[misc]
    copied._system_attrs = {k: v for k, v in trial.system_attrs.items() if not k.startswith(STEP)}  # noqa: SLF001  they are read
    return copied


def is_whole(trial: FrozenTrial) -> bool:
    """Tell whether all steps of a stored trial equal their numbers."""
    return not any(name.startswith(STEP) for name in trial.system_attrs)
