"""Whether a new dataset lies as near to the history as the history's own datasets lie to each other."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from history_store.errors import DataError, UsageError

TYPICAL_PERCENTILE = 95.0
"""Up to this percentile of the history's own nearest distances a new dataset is typical."""


@dataclass(frozen=True, slots=True)
class Typicality:
    """Where a new dataset's nearest distance lies among the history's own.

    Attributes:
        is_typical: the distance is within the 95th percentile of the history's own nearest distances.
        percentile: of the distance among them, 0 (nearer than all) to 100 (farther than all); None where the history has
            no two groups to compare.
        nearest: the distance itself.
        limit: the 95th percentile of the history's own, or None as above.
    """

    is_typical: bool
    percentile: float | None
    nearest: float
    limit: float | None


def nearest_other_group(distances: ArrayLike, groups: Sequence[Hashable]) -> NDArray[np.float64]:
    """Compute each stored dataset's distance to the nearest one outside its own group of siblings.

    Args:
        distances: `m x m`, symmetric, ≥ 0.
        groups: `m` sibling groups.

    Returns: `m` float64; NaN where there is no other group.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when a distance is no finite number ≥ 0.
    """
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.shape != (len(groups), len(groups)):
        msg = f"nearest_other_group: expected `m x m` distances for {len(groups)} groups, got shape {matrix.shape}. Give one group a dataset."
        raise UsageError(msg)
    if not np.all(np.isfinite(matrix) & (matrix >= 0)):
        msg = "nearest_other_group: expected finite distances of 0 or more, got others. Leave datasets without an embedding out."
        raise DataError(msg)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    codes = np.array([numbers[group] for group in groups], dtype=np.int64)
    others = np.where(codes[:, None] != codes[None, :], matrix, np.inf)
    nearest = others.min(axis=1, initial=np.inf)
    result: NDArray[np.float64] = np.where(np.isfinite(nearest), nearest, np.nan)
    return result


def judge_typicality(nearest: float, reference: ArrayLike) -> Typicality:
    """Judge a new dataset by its distance to the nearest stored one.

    Args:
        nearest: that distance, ≥ 0.
        reference: the history's own nearest distances from `nearest_other_group`; NaN are left out. Without any
            there is nothing to be typical of: the verdict is not typical, percentile and limit are None.

    Returns: the verdict; percentiles interpolate linearly between the reference's values.

    Raises:
        DataError: when the distance is no finite number ≥ 0.
    """
    if not (np.isfinite(nearest) and nearest >= 0):
        msg = f"judge_typicality: expected a distance of 0 or more, got {nearest}. Embed the dataset again."
        raise DataError(msg)
    known = np.asarray(reference, dtype=np.float64)
    known = np.sort(known[~np.isnan(known)])
    if not known.size:
        return Typicality(is_typical=False, percentile=None, nearest=float(nearest), limit=None)
    limit = float(np.percentile(known, TYPICAL_PERCENTILE))
    return Typicality(
        is_typical=bool(nearest <= limit), percentile=_percentile(nearest, known), nearest=float(nearest), limit=limit
    )


def _percentile(value: float, ordered: NDArray[np.float64]) -> float:
    """Invert `np.percentile`: the lowest percentile of the ordered values that reaches the value."""
    place = int(np.searchsorted(ordered, value, side="left"))
    if place == 0:
        return 0.0
    if place == ordered.size:
        return 100.0
    below, above = ordered[place - 1], ordered[place]
    return float(100.0 * (place - 1 + (value - below) / (above - below)) / (ordered.size - 1))
