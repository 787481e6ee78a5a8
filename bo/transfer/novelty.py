"""Novelty of a dataset: comparison with the history by distance, pixels and class information.

Every limit is a quantile over the history's datasets, each compared with other sibling groups. So each check is wrong
about two or three in a hundred of them.
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
"""Percentile of the history's nearest distances up to which a new dataset is typical."""
FEW_GROUPS = 10
"""Number of groups below which a similar new one lies beyond all of them more than one time in ten."""
SILENT_SHARE = 0.02
"""Share of the history's datasets that may seem without class information at the size of a query."""
CHANCE_SCORE = 1.64
"""Largest limit: random labels score higher one time in twenty."""
WEAK_EFFECT = 0.1
"""Effect of a dataset with weak classes, for a history without effects."""
MANY_EFFECTS = 200
"""Largest number of effects; more are reduced to this many quantiles."""
WHITE = 0.1
"""Fall of a spectrum between octaves below which it is white, for a history without falls; noise has 0.01 to 0.05."""
WHITE_MARGIN = 0.9
"""Share of the least fall in the history that is the limit: falls vary by a tenth with the sample of pictures."""

BLOCK = 256
"""Rows of distances in memory at a time."""
MANY = 4000
"""Number of datasets above which candidates are searched in single precision."""
CANDIDATES = 4
"""Nearest candidates with exact distances: rounding may change their order."""


@dataclass(frozen=True, slots=True)
class Novelty:
    """Rank of a new dataset's nearest distance among the nearest distances of the history's datasets.

    Attributes:
        percentile: of the distance among them, 0 (nearer than all) to 100 (farther than all); None without two groups
            in the history.
        nearest: the distance.
        limit: the 98th percentile of the history's distances, or None as above.
    """

    percentile: float | None
    nearest: float
    limit: float | None


def nearest_other_group_of(
    vectors: ArrayLike, groups: Sequence[Hashable], *, asked: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Compute each dataset's distance to the nearest dataset of another sibling group.

    Memory holds `BLOCK` rows of the `m x m` distances at a time.

    Args:
        vectors: `m x d`; distances are Euclidean.
        groups: `m` sibling groups.
        asked: `n` rows of the result; None = all.

    Returns: `n` float64; NaN without another group.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when a number is not finite.
    """
    points = np.asarray(vectors)
    if points.ndim != 2 or len(points) != len(groups):
        msg = f"nearest_other_group_of: expected `m x d` vectors for {len(groups)} groups, got shape {points.shape}. Give one group a dataset."
        raise UsageError(msg)
    if not np.isfinite(points).all():
        msg = (
            "nearest_other_group_of: expected finite vectors, got NaN or inf. Leave datasets without an embedding out."
        )
        raise DataError(msg)
    codes, rows = number_groups(groups), np.arange(len(points)) if asked is None else asked
    # A matrix product finds the nearest few by rounded distances; their exact distances follow.
    rounded = "f8" if len(points) <= MANY else "f4"
    central: NDArray[np.floating[Any]] = points.astype(rounded)
    # Centred, because |a|² - 2ab cancels badly far from the origin.
    if len(points):
        central -= points.mean(axis=0, dtype=np.float64).astype(rounded)
    lengths = np.einsum("ij,ij->i", central, central)
    result = np.full(len(rows), np.nan)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        # Without the length of the row itself, which does not change the order in a row.
        squared = lengths - 2.0 * (central[block] @ central.T)
        squared[codes[block, None] == codes] = np.inf
        nearest = np.full(len(block), np.inf)
        for _ in range(min(CANDIDATES, len(points))):
            candidate = squared.argmin(axis=1)
            exact = np.linalg.norm(points[candidate].astype(np.float64) - points[block].astype(np.float64), axis=1)
            cells = np.arange(len(block)), candidate
            nearest = np.minimum(nearest, np.where(np.isinf(squared[cells]), np.inf, exact))
            squared[cells] = np.inf
        result[start : start + BLOCK] = np.where(np.isfinite(nearest), nearest, np.nan)
    return result


def judge_novelty(nearest: float, reference: ArrayLike) -> Novelty:
    """Rank a new dataset's nearest distance among those of the history's datasets.

    Args:
        nearest: the distance, ≥ 0.
        reference: nearest distances of the history's datasets, from `nearest_other_group_of`; NaN are left out. Without
            any, percentile and limit are None.

    Returns: the rank; percentiles interpolate linearly between the reference's values.

    Raises:
        DataError: when the distance is no finite number ≥ 0.
    """
    if not (np.isfinite(nearest) and nearest >= 0):
        msg = f"judge_novelty: expected a distance of 0 or more, got {nearest}. Embed the dataset again."
        raise DataError(msg)
    ordered = np.asarray(reference, dtype=np.float64)
    ordered = np.sort(ordered[~np.isnan(ordered)])
    if not ordered.size:
        return Novelty(percentile=None, nearest=float(nearest), limit=None)
    limit = float(np.percentile(ordered, TYPICAL_PERCENTILE))
    return Novelty(percentile=_percentile(nearest, ordered), nearest=float(nearest), limit=limit)


def _percentile(value: float, ordered: NDArray[np.float64]) -> float:
    """Invert `np.percentile`: the lowest percentile of the ordered values that reaches the value."""
    index = int(np.searchsorted(ordered, value, side="left"))
    if index == 0:
        return 0.0
    if index == ordered.size:
        return 100.0
    below, above = ordered[index - 1], ordered[index]
    return float(100.0 * (index - 1 + (value - below) / (above - below)) / (ordered.size - 1))


def signal_limit(weight: float, effects: ArrayLike) -> float:
    """Compute the score below which pictures have less class information than the history's datasets at this size.

    A score is about normal around effect times weight. Few pictures of many classes score low even with clear classes.
    The limit is low then: `SILENT_SHARE` of the history's datasets would score below it.

    Args:
        weight: of the query's labels, see `warmstart.metafeat.class_signal`.
        effects: scores per unit of weight of the history's datasets; without any, `WEAK_EFFECT`.

    Returns: the limit, at most `CHANCE_SCORE`.
    """
    values = np.asarray(effects, dtype=np.float64).ravel()
    if values.size > MANY_EFFECTS:
        values = np.quantile(values, (np.arange(MANY_EFFECTS) + 0.5) / MANY_EFFECTS)
    means = (values if values.size else np.array([WEAK_EFFECT])) * weight

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


def white_limit(falls: ArrayLike) -> float:
    """Compute the fall of the spectrum below which pixels count as shuffled.

    Args:
        falls: `m x q` falls of the spectrum between octaves, of the history's datasets, without the lowest pair.

    Returns: nine tenths of the least fall; `WHITE` without any.
    """
    values = np.asarray(falls, dtype=np.float64)
    return WHITE_MARGIN * float(values.min()) if values.size else WHITE
