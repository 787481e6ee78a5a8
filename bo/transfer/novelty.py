"""Novelty: is a new dataset unlike those of the history, in distance, pixels or class information?

Every limit comes from asking the history about its own datasets with their sibling groups left out. So each check is
wrong about some two or three in a hundred of them.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.strategies.sources import number_groups
from warmstart.history_store.errors import DataError, UsageError

TYPICAL_PERCENTILE = 98.0
"""Up to this percentile of the history's own nearest distances a new dataset is typical."""
PIXEL_PERCENTILE = 99.0
"""The same of its pixel statistics: two or three checks together shall be wrong about fewer than one in ten."""
NEAREST = 3
"""Pixel statistics are compared with those of so many nearest datasets."""
FEW_GROUPS = 10
"""With fewer groups than this, a further one of the same kind lies beyond all of them more than one time in ten."""
SILENT_SHARE = 0.02
"""Share of the history's own datasets that may seem to say nothing of their classes, at the size of a query."""
CHANCE_SCORE = 1.64
"""Labels that mean nothing score higher one time in twenty: no limit lies above."""
WEAK_EFFECT = 0.1
"""Effect that is expected of a dataset with weak classes, where a history knows no better."""
MANY_EFFECTS = 200
"""More are looked at by so many of their quantiles."""
WHITE = 0.1
"""A spectrum that falls by less from octave to octave is white, where a history knows no better; noise has 0.01 to 0.05."""
WHITE_MARGIN = 0.9
"""A history's own datasets vary by some tenth with the pictures drawn."""

BLOCK = 256
"""Rows of distances that are held at a time."""
MANY = 4000
"""From more datasets, those that seem nearest are sought in single precision."""
CANDIDATES = 4
"""Of those that seem nearest, so many are measured exactly: rounding may change their order."""


@dataclass(frozen=True, slots=True)
class Novelty:
    """Rank of a new dataset's nearest distance among the history's own nearest distances.

    Attributes:
        percentile: of the distance among them, 0 (nearer than all) to 100 (farther than all); None where the history
            has no two groups to compare.
        nearest: the distance itself.
        limit: the 98th percentile of the history's own, or None as above.
    """

    percentile: float | None
    nearest: float
    limit: float | None


def nearest_other_group_of(
    vectors: ArrayLike, groups: Sequence[Hashable], *, asked: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Compute each stored dataset's distance to the nearest one outside its own group of siblings.

    The `m x m` distances are never held at once: `BLOCK` rows of them at a time.

    Args:
        vectors: `m x d`; distances are Euclidean.
        groups: `m` sibling groups.
        asked: `n` rows whose distances are wanted; None = all.

    Returns: `n` float64; NaN where there is no other group.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when a number is not finite.
    """
    given = np.asarray(vectors)
    if given.ndim != 2 or len(given) != len(groups):
        msg = f"nearest_other_group_of: expected `m x d` vectors for {len(groups)} groups, got shape {given.shape}. Give one group a dataset."
        raise UsageError(msg)
    if not np.isfinite(given).all():
        msg = "nearest_other_group_of: expected finite vectors, got others. Leave datasets without an embedding out."
        raise DataError(msg)
    codes, rows = number_groups(groups), np.arange(len(given)) if asked is None else asked
    # A product of matrices finds the nearest few, rounded; their distances are then computed one by one.
    rounded = "f8" if len(given) <= MANY else "f4"
    central: NDArray[np.floating[Any]] = given.astype(rounded)
    if len(given):
        central -= given.mean(axis=0, dtype=np.float64).astype(rounded)
    lengths = np.einsum("ij,ij->i", central, central)
    result = np.full(len(rows), np.nan)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        squared = lengths - 2.0 * (central[block] @ central.T)
        squared[codes[block, None] == codes] = np.inf
        nearest = np.full(len(block), np.inf)
        for _ in range(min(CANDIDATES, len(given))):
            one = squared.argmin(axis=1)
            exact = np.linalg.norm(given[one].astype(np.float64) - given[block].astype(np.float64), axis=1)
            each = np.arange(len(block)), one
            nearest = np.minimum(nearest, np.where(np.isinf(squared[each]), np.inf, exact))
            squared[each] = np.inf
        result[start : start + BLOCK] = np.where(np.isfinite(nearest), nearest, np.nan)
    return result


def judge_novelty(nearest: float, reference: ArrayLike) -> Novelty:
    """Rank a new dataset's nearest distance among the history's own.

    Args:
        nearest: that distance, ≥ 0.
        reference: the history's own nearest distances from `nearest_other_group_of`; NaN are left out. Without
            any there is nothing to compare with: percentile and limit are None.

    Returns: the rank; percentiles interpolate linearly between the reference's values.

    Raises:
        DataError: when the distance is no finite number ≥ 0.
    """
    if not (np.isfinite(nearest) and nearest >= 0):
        msg = f"judge_novelty: expected a distance of 0 or more, got {nearest}. Embed the dataset again."
        raise DataError(msg)
    known = np.asarray(reference, dtype=np.float64)
    known = np.sort(known[~np.isnan(known)])
    if not known.size:
        return Novelty(percentile=None, nearest=float(nearest), limit=None)
    limit = float(np.percentile(known, TYPICAL_PERCENTILE))
    return Novelty(percentile=_percentile(nearest, known), nearest=float(nearest), limit=limit)


def _percentile(value: float, ordered: NDArray[np.float64]) -> float:
    """Invert `np.percentile`: the lowest percentile of the ordered values that reaches the value."""
    place = int(np.searchsorted(ordered, value, side="left"))
    if place == 0:
        return 0.0
    if place == ordered.size:
        return 100.0
    below, above = ordered[place - 1], ordered[place]
    return float(100.0 * (place - 1 + (value - below) / (above - below)) / (ordered.size - 1))


def signal_limit(weight: float, effects: ArrayLike) -> float:
    """Compute the score below which pictures say less of their classes than the history's datasets would at this size.

    A score is about normal around effect times weight. Few pictures of many classes show little even where classes mean
    much: there the limit is low, and only those are doubted that do worse than `SILENT_SHARE` of the history would.

    Args:
        weight: of the query's labels, see `warmstart.metafeat.class_signal`.
        effects: scores for each unit of weight of the history's datasets; without any, one of `WEAK_EFFECT`.

    Returns: the limit, at most `CHANCE_SCORE`.
    """
    known = np.asarray(effects, dtype=np.float64).ravel()
    if known.size > MANY_EFFECTS:
        known = np.quantile(known, (np.arange(MANY_EFFECTS) + 0.5) / MANY_EFFECTS)
    means = (known if known.size else np.array([WEAK_EFFECT])) * weight

    def silent(limit: float) -> float:
        """Return the share of datasets expected to score less."""
        return float(np.mean([math.erfc((mean - limit) / math.sqrt(2)) / 2 for mean in means.tolist()]))

    if silent(CHANCE_SCORE) <= SILENT_SHARE:
        return CHANCE_SCORE
    low, high = CHANCE_SCORE - 20.0, CHANCE_SCORE
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if silent(middle) <= SILENT_SHARE else (low, middle)
    return low


@dataclass(frozen=True, slots=True, eq=False)
class PixelNorms:
    """What pixel statistics are usual among a history's datasets.

    Attributes:
        centre: `p`; `unit`, `p`: what statistics are scaled by, the spread among the datasets.
        known: `m x p`, scaled.
        limit: the 99th percentile of the distances of its own datasets to the third nearest of those of other groups.
    """

    centre: NDArray[np.float64]
    unit: NDArray[np.float64]
    known: NDArray[np.float64]
    limit: float

    @classmethod
    def of(
        cls, reference: ArrayLike, groups: Sequence[Hashable], *, asked: NDArray[np.int64] | None = None
    ) -> "PixelNorms":
        """Compute what is usual.

        Args:
            reference: `m x p` statistics of the history's datasets.
            groups: `m` sibling groups, at least two different ones.
            asked: rows whose own distances make the limit; None = all.

        Raises:
            UsageError: when the shapes do not fit, or there is one group only.
        """
        known = np.asarray(reference, dtype=np.float64)
        if known.ndim != 2 or len(groups) != len(known) or len(set(groups)) < 2:
            msg = f"PixelNorms: expected `m x p` of two groups or more, got {known.shape} and {len(set(groups))} groups. Leave the check out."
            raise UsageError(msg)
        centre, spread = known.mean(0), known.std(0)
        unit = np.where(spread > 1e-9, spread, 1.0)
        known, codes = (known - centre) / unit, number_groups(groups)
        rows = np.arange(len(known)) if asked is None else asked
        own = [_own_distances(known, codes, rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        return cls(centre, unit, known, float(np.percentile(np.concatenate(own), PIXEL_PERCENTILE)))

    def distance(self, point: ArrayLike) -> float:
        """Compute the distance of a dataset's `p` statistics to the third nearest, in units of the spread.

        Raises:
            UsageError: when there are not p.
        """
        query = np.asarray(point, dtype=np.float64)
        if query.shape != self.centre.shape:
            msg = f"PixelNorms: expected {len(self.centre)} statistics, got {query.shape}. Leave the check out."
            raise UsageError(msg)
        query = (query - self.centre) / self.unit
        return float(_nth_nearest(np.sqrt(np.square(self.known - query).sum(1))[None])[0])


def _own_distances(
    known: NDArray[np.float64], codes: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the distances of some rows to their third nearest of another group."""
    between = np.sqrt(np.square(known[rows, None] - known[None]).sum(2))
    between[codes[rows, None] == codes[None]] = np.inf
    return _nth_nearest(between)


def white_limit(falls: ArrayLike) -> float:
    """Compute the fall of the spectrum below which pixels are out of order.

    Args:
        falls: `m x q` of the history's datasets: by how much the spectrum falls between octaves, the lowest pair left
            out.

    Returns: nine tenths of the least of them; `WHITE` without any.
    """
    known = np.asarray(falls, dtype=np.float64)
    return WHITE_MARGIN * float(known.min()) if known.size else WHITE


def _nth_nearest(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's third smallest finite distance, or the largest where there are fewer."""
    few = np.partition(distances, NEAREST - 1, axis=1)[:, :NEAREST] if distances.shape[1] > NEAREST else distances
    ordered = np.sort(few, axis=1)
    finite = np.isfinite(ordered).sum(1)
    rows: NDArray[np.float64] = ordered[np.arange(len(ordered)), np.minimum(NEAREST, finite) - 1]
    return rows
