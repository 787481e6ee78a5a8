"""Choice of the dataset that gets the next trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

Split = Literal["equal", "gain"]
"""Equal numbers of trials for all datasets, or by the expected improvement of each."""
FLOOR = 0.5
"""Smallest part of an equal share of trials that every dataset gets: surrogates may be overconfident."""


@dataclass(frozen=True, slots=True)
class GainEstimate:
    """The expected improvement by the next trial of one dataset; stored by its field names.

    Attributes:
        log_gain: logarithm of the expected improvement; None without a model.
        own: number of the dataset's trials at that time.
        told: number of ended trials of all datasets at that time.
    """

    log_gain: float | None
    own: int
    told: int


def equal_next(counts: Sequence[int], members: Collection[int]) -> int:
    """Return the member with the fewest trials, the first of several."""
    return min(members, key=lambda i: (counts[i], i))


def gain_next(
    counts: Sequence[int],
    members: Collection[int],
    offers: Sequence[GainEstimate | None],
    n_ended: int,
    *,
    refresh: Callable[[int], GainEstimate],
) -> int:
    """Return the member with the largest expected gain of the next trial.

    The member with the fewest trials goes first if it has no model or less than half of an equal share. Of the others,
    an offer older than the dataset's last trial or than a round of trials is computed anew, and so is the largest one
    if any trial ended since: a choice costs about two suggestions, however many datasets there are.

    Args:
        counts: trials of each dataset.
        members: indices to choose from, at least one.
        offers: last estimate of each dataset; None = none yet.
        n_ended: number of ended trials of all datasets.
        refresh: computes the estimate of a dataset anew.
    """
    fewest = equal_next(counts, members)
    if counts[fewest] < FLOOR * sum(counts[i] for i in members) / len(members):
        return fewest
    fresh: dict[int, GainEstimate] = {}
    for i in members:
        estimate = offers[i]
        if estimate is None or estimate.own != counts[i] or n_ended - estimate.told >= len(members):
            estimate = refresh(i)
        fresh[i] = estimate
    if fresh[fewest].log_gain is None:
        return fewest
    while True:
        best = max(fresh, key=lambda i: (_gain(fresh[i]), -counts[i], -i))
        if fresh[best].told == n_ended:
            return best
        fresh[best] = refresh(best)


def _gain(estimate: GainEstimate) -> float:
    return -math.inf if estimate.log_gain is None else estimate.log_gain
