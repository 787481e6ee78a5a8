"""What the optimiser knows of a surrogate before it is made."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bo.surrogates.base import Surrogate

Growth = Literal["linear", "cubic"]


@dataclass(frozen=True, slots=True)
class SurrogateInfo:
    """A surrogate by name: how it is made, and when it can be used.

    Attributes:
        name: in `bo.surrogates.SURROGATES`; the multi-task relative of `x` is `mt-x`.
        factory: takes the keyword `conditional`, columns that may be NaN, and returns an unfitted surrogate; a multi-task one
            takes `related` and `meta` too, see `bo.surrogates.Task`.
        multitask: whether it learns from related tasks.
        alone: of one that does: the surrogate that knows the task at hand alone. Related tasks are then believed only where the
            evaluations were forecast better with them than without; None = they are always believed.
        min_points: valid evaluations before the first fit, ≥ 1; with related tasks none are needed.
        growth: of the cost with the evaluations; constraints and durations are modelled by a process beside one of `cubic` growth,
            by a network beside one of `linear` growth.
    """

    name: str
    factory: Callable[..., Surrogate]
    multitask: bool = False
    min_points: int = 3
    growth: Growth = "linear"
    alone: str | None = None

    def __call__(self, **keywords: Any) -> Surrogate:
        """Make the surrogate."""
        return self.factory(**keywords)

    @classmethod
    def of(cls, surrogate: Surrogate) -> SurrogateInfo:
        """Describe an unfitted surrogate that somebody made; each run fits a copy.

        Attributes `min_points` and `growth` of its own are taken over.
        """
        own = {key: getattr(surrogate, key) for key in ("min_points", "growth") if hasattr(surrogate, key)}
        return cls(type(surrogate).__name__, lambda **_: copy.deepcopy(surrogate), **own)
