"""Description of a surrogate: how it is made, and when it can be used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from warmstart.bo.surrogates.base import Surrogate

Growth = Literal["linear", "cubic"]


@dataclass(frozen=True, slots=True)
class SurrogateInfo:
    """Surrogate by name.

    Attributes:
        name: in `warmstart.bo.surrogates.SURROGATES`; the multi-task form of `x` is `mt-x`.
        factory: takes the keyword `conditional` (columns that may be NaN) and returns an unfitted surrogate. A
            multi-task one takes `related` and `meta` too, see `warmstart.bo.surrogates.Task`.
        multitask: whether it learns from related tasks.
        alone: of a multi-task surrogate: the surrogate of the target alone, which suggests where related tasks forecast the
            evaluations no better than a Gaussian process of the target alone; None = they are always used.
        min_points: valid evaluations before the first fit, ≥ 1; with related tasks none are needed.
        growth: of the cost with the evaluations. Beside a `cubic` surrogate, constraints and durations are modelled by
            a process; beside a `linear` one, by a network (constraints from 101 labels on).
    """

    name: str
    factory: Callable[..., Surrogate]
    multitask: bool = False
    min_points: int = 3
    growth: Growth = "linear"
    alone: str | None = None

    def __call__(self, **keywords: Any) -> Surrogate:
        """Return a new surrogate."""
        return self.factory(**keywords)

    @classmethod
    def of(cls, surrogate: Surrogate) -> SurrogateInfo:
        """Return the description of an unfitted instance; each run fits a copy.

        Attributes `min_points` and `growth` of its own are taken over.
        """
        own = {key: getattr(surrogate, key) for key in ("min_points", "growth") if hasattr(surrogate, key)}
        return cls(type(surrogate).__name__, partial(_copied, surrogate), **own)


def _copied(surrogate: Surrogate, **_: Any) -> Surrogate:
    """Return a copy of an unfitted surrogate, whatever it is told of the run."""
    return copy.deepcopy(surrogate)
