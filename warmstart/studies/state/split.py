"""Which of several datasets gets the next trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

Split = Literal["equal", "gain"]
"""The same number of trials for each, or by the improvement that each may expect."""
FLOOR = 0.5
"""No dataset gets less than this part of an equal share: surrogates may be wrong about themselves."""


@dataclass(frozen=True, slots=True)
class GainEstimate:
    """What the next trial of one dataset promises.

    Attributes:
        log_gain: logarithm of the expected improvement; None where no model knows.
        own: trials of the dataset when that was computed.
        told: trials of all datasets that had ended by then.
    """

    log_gain: float | None
    own: int
    told: int


def equal_next(counts: Sequence[int], members: Collection[int]) -> int:
    """Choose the one that has the fewest trials, the first of several."""
    return min(members, key=lambda i: (counts[i], i))


def gain_next(
    counts: Sequence[int],
    members: Collection[int],
    offers: Sequence[GainEstimate | None],
    told: int,
    *,
    refresh: Callable[[int], GainEstimate],
) -> int:
    """Choose the one whose next trial promises the largest gain.

    The least tried goes first where no model knows what it promises, or where it has less than half of an equal share. Of the
    others, an offer from before the dataset's own last trial, or as old as one round of trials, is made anew, and so is
    the largest where anything was told since: a choice costs about two suggestions, however many datasets there are.

    Args:
        counts: trials of each dataset.
        members: those that may be chosen, at least one.
        offers: what each promised last; None = nothing yet.
        told: trials of all datasets that have ended.
        refresh: makes the offer of a dataset anew.
    """
    least = equal_next(counts, members)
    if counts[least] < FLOOR * sum(counts[i] for i in members) / len(members):
        return least
    fresh: dict[int, GainEstimate] = {}
    for i in members:
        estimate = offers[i]
        if estimate is None or estimate.own != counts[i] or told - estimate.told >= len(members):
            estimate = refresh(i)
        fresh[i] = estimate
    if fresh[least].log_gain is None:
        return least
    while True:
        best = max(fresh, key=lambda i: (_gain(fresh[i]), -counts[i], -i))
        if fresh[best].told == told:
            return best
        fresh[best] = refresh(best)


def _gain(estimate: GainEstimate) -> float:
    return -math.inf if estimate.log_gain is None else estimate.log_gain
