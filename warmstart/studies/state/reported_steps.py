"""The steps of reports as trials give them. Optuna keeps whole numbers: a step that is none lies beside a number that stands for it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

STEP = "warmstart:step:"
"""System attribute of a trial, with the number of a report in Optuna behind it: the step, where that is another."""
STEPS = "warmstart:steps"
"""System attribute of a study whose steps are kept as they are reported; studies begun before it was there round them."""

LARGEST = 2**31 - 1
"""The largest number that every database keeps for a step."""


def steps_of(attrs: Mapping[str, Any]) -> dict[int, float]:
    """Return the steps that are not their own numbers, by these; of a trial's system attributes."""
    return {int(name.removeprefix(STEP)): step for name, step in attrs.items() if name.startswith(STEP)}


def numbers_of(steps: Collection[float], *, taken: Iterable[int], known: Mapping[int, float]) -> dict[float, int]:
    """Find the numbers of reports of a trial, in the order of steps that grow.

    Args:
        steps: of the reports.
        taken: numbers of those before.
        known: steps that are not their own numbers, by these.

    Returns: by step, the number that it has already; the step itself where it is whole, at most `LARGEST` and not taken; else the next after
        all others, or the first that is free.
    """
    step_of: dict[int, float] = {number: number for number in taken} | dict(known)
    found, last = {step: number for number, step in step_of.items()}, max(step_of, default=-1)
    for step in steps:
        if step not in found:
            is_own = step == int(step) and step <= LARGEST and int(step) not in step_of
            number = int(step) if is_own else last + 1
            if number > LARGEST:
                number = next(free for free in itertools.count() if free not in step_of)
            found[step], step_of[number], last = number, step, max(last, number)
    return {step: found[step] for step in steps}


def as_reported(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial whose reports have their steps as keys; the same one where all are whole anyway."""
    if is_whole(trial):
        return trial
    found, steps = copy.copy(trial), steps_of(trial.system_attrs)
    found.intermediate_values = {steps.get(key, key): error for key, error in trial.intermediate_values.items()}  # type: ignore[misc]
    found._system_attrs = {k: v for k, v in trial.system_attrs.items() if not k.startswith(STEP)}  # noqa: SLF001  they are read
    return found


def is_whole(trial: FrozenTrial) -> bool:
    """Tell whether the steps of a trial, as the storage has it, are all their own numbers."""
    return not any(name.startswith(STEP) for name in trial.system_attrs)
