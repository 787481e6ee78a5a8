"""Description of a surrogate: its factory and its requirements."""

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
        alone: of a multi-task surrogate, the surrogate of the target alone, which suggests when a Gaussian process of
            the target alone forecasts evaluations better; None = related tasks are always used.
        min_points: valid evaluations before the first fit, ≥ 1; none with related tasks.
        growth: of the cost with the evaluations. With a `cubic` surrogate, processes model constraints and durations;
            with a `linear` one, networks do (constraints from 101 labels on).
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

        Its attributes `min_points` and `growth`, if any, are used.
        """
        options = {key: getattr(surrogate, key) for key in ("min_points", "growth") if hasattr(surrogate, key)}
        return cls(type(surrogate).__name__, partial(_copied, surrogate), **options)


def _copied(surrogate: Surrogate, **_: Any) -> Surrogate:
    """Return a copy of an unfitted surrogate; keywords of the run are ignored."""
    return copy.deepcopy(surrogate)
