"""Novelty of a dataset: comparison with the history by distance, pixels and class information.

Every limit is a quantile over the history's datasets, each compared with other sibling groups. So each check is wrong
about two or three in a hundred of them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError

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


def judge_novelty(nearest: float, reference: ArrayLike) -> Novelty:
    """Rank a new dataset's nearest distance among those of the history's datasets.

    Args:
        nearest: the distance, ≥ 0.
        reference: nearest distances of the history's datasets, each to the nearest of another sibling group; NaN are left out. Without
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
        weight: of the query's labels, see `warmstart.metafeat.sample_statistics`.
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
