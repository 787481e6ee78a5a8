"""How long a network is trained on from its frozen features: so many steps, or so many seconds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from warmstart.history_store.errors import UsageError
from warmstart.training.workloads.base import Budget


@dataclass(frozen=True, slots=True)
class TransferBudget:
    """The most that one run takes; a configuration may want less.

    Attributes:
        name: ``time`` or ``steps``.
        amount: steps, or seconds of work, > 0. Features and heads are computed whatever it is.
        curve_points: validation errors along a fine-tuning, beside that of the head it starts from.
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
        """Name what an amount counts."""
        return {"steps": "steps", "time": "seconds"}[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as shards keep them."""
        return asdict(self)

    def steps(self, wanted: int) -> int:
        """Return the steps of a run that wants so many, where time does not end it."""
        return min(wanted, max(int(self.amount), 1)) if self.name == "steps" else wanted

    def progress(self, step: int, length: int, seconds: float) -> float:
        """Tell the share of a run that is done: of its steps or of its seconds, whichever is more."""
        of_steps = step / length
        return of_steps if self.name == "steps" else min(max(of_steps, seconds / self.amount), 1.0)


BUDGETS = {budget.name: budget for budget in (TransferBudget("time", 60), TransferBudget("steps", 400))}


def own_budget(budget: Budget) -> TransferBudget:
    """Return a budget that is this workload's.

    Raises:
        UsageError: when it is another workload's.
    """
    if not isinstance(budget, TransferBudget):
        msg = f"transfer: expected a budget of the workload 'transfer', got {budget!r}. Take one from Transfer().budget()."
        raise UsageError(msg)
    return budget
