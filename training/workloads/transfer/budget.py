"""Budgets of fine-tuning from frozen features, in steps or seconds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from warmstart.history_store.errors import UsageError
from warmstart.training.workloads.base import Budget


@dataclass(frozen=True, slots=True)
class TransferBudget:
    """Upper limit of one run; a configuration may set fewer steps.

    Attributes:
        name: ``time`` or ``steps``.
        amount: steps, or seconds of work, > 0, of fine-tuning alone, without features and heads.
        curve_points: validation errors along a fine-tuning, besides that of the initial head.
    """

    name: Literal["steps", "time"]
    amount: float
    curve_points: int = 8

    def __post_init__(self) -> None:
        if not (self.amount > 0 and math.isfinite(self.amount) and self.curve_points >= 1):
            msg = f"budget {self.name!r}: expected an amount > 0, got {self.amount}. Give {self.unit}."
            raise UsageError(msg)

    @property
    def unit(self) -> str:
        """Return the unit of an amount."""
        return {"steps": "steps", "time": "seconds"}[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for shards."""
        return asdict(self)

    def steps(self, steps: int) -> int:
        """Return the steps of a run, at most the wanted ones, if time does not end it."""
        return min(steps, max(int(self.amount), 1)) if self.name == "steps" else steps

    def progress(self, step: int, length: int, seconds: float) -> float:
        """Return the finished share of a run, of its steps or of its seconds, whichever is larger."""
        of_steps = step / length
        return of_steps if self.name == "steps" else min(max(of_steps, seconds / self.amount), 1.0)


BUDGETS = {budget.name: budget for budget in (TransferBudget("time", 60), TransferBudget("steps", 400))}


def transfer_budget(budget: Budget) -> TransferBudget:
    """Return the budget, checked to be one of this workload.

    Raises:
        UsageError: when it belongs to another workload.
    """
    if not isinstance(budget, TransferBudget):
        msg = f"transfer: expected a budget of the workload 'transfer', got {budget!r}. Take one from Transfer().budget()."
        raise UsageError(msg)
    return budget
