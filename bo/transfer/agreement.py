"""Which measured errors fit what other datasets say: ranks of configurations compared with everyone else's.

Used where histories of several people are put together. Robust while fewer than half of the groups are wrong: every
limit is a median, and one group counts once, however many datasets it brings.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from warmstart.bo.transfer.strategies.average_rank import scaled_ranks

Matrix = NDArray[np.float64]
LEAST_CONFIGS = 8
"""Configurations shared with enough others, below which a dataset is not judged."""
LEAST_GROUPS = 5
"""Other groups that measured a configuration, below which nobody can say what is usual."""
LOWEST = 0.4
"""A rank correlation above this is never too low."""
DEVIATIONS = 4.0
"""Robust standard deviations below the median from which a rank correlation is too low."""
SHIFT = 0.6
"""A configuration whose rank (0 = best, 1 = worst) is off by less is never odd."""
SHIFTS = 4.0
"""Times the usual shift of a configuration from which its rank is odd."""
_NORMAL = 1.4826
"""Median absolute deviation to standard deviation."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How datasets agree with the rest.

    Attributes:
        scores: `m` rank correlations with what other groups say; NaN = too little is shared to judge.
        limit: scores below it are outliers; NaN where nobody is judged.
        constant: `m`, whether all of a dataset's errors are equal.
        shifts: `m x c` differences between a configuration's rank here and elsewhere, -1 to 1; negative = better here.
        odd: `m x c`, whether a difference is far beyond what is usual for the configuration.
    """

    scores: Matrix
    limit: float
    constant: NDArray[np.bool_]
    shifts: Matrix
    odd: NDArray[np.bool_]

    @property
    def outliers(self) -> NDArray[np.bool_]:
        """Tell which datasets disagree as a whole, `m`."""
        return self.constant | (self.scores < self.limit)


def agreement(errors: ArrayLike, groups: Sequence[Hashable]) -> Agreement:
    """Compare each dataset's ranking of the configurations with that of the other groups.

    A dataset's errors become ranks in [0, 1] among the configurations that it measured. What others say of a
    configuration is the median over groups of these ranks (the mean within a group).

    Args:
        errors: `m x c`, NaN = missing.
        groups: `m` sibling groups.

    Returns: what was found; nothing is an outlier where fewer than `LEAST_GROUPS` others can be compared with.
    """
    values = np.asarray(errors, dtype=np.float64)
    ranks = np.array([scaled_ranks(row) for row in values]).reshape(values.shape)
    kinds = list(dict.fromkeys(groups))
    member = np.array([[group == kind for group in groups] for kind in kinds], dtype=bool).reshape(
        len(kinds), len(groups)
    )
    of_groups = np.array([_column_means(ranks[rows]) for rows in member]).reshape(len(kinds), values.shape[1])
    usual = np.full(values.shape, np.nan)
    for number, rows in enumerate(member):
        usual[rows] = _medians(np.delete(of_groups, number, axis=0))
    measured = np.sum(~np.isnan(values), axis=1)
    spread = np.array([np.ptp(row[~np.isnan(row)]) if n else 0.0 for row, n in zip(values, measured, strict=True)])
    scores = np.array([_correlation(a, b) for a, b in zip(values, usual, strict=True)])
    shifts = ranks - usual
    per_config = np.array([_column_means(np.abs(shifts[rows])) for rows in member]).reshape(of_groups.shape)
    limits = np.maximum(SHIFT, SHIFTS * _medians(per_config))
    constant = (spread <= 0.0) & (measured >= LEAST_CONFIGS)
    with np.errstate(invalid="ignore"):
        odd = (np.abs(shifts) > limits) & ~constant[:, None]
    return Agreement(scores, _limit(scores, member), constant, shifts, odd)


def _limit(scores: Matrix, member: NDArray[np.bool_]) -> float:
    """Return the score below which a dataset is an outlier: one score a group."""
    judged = [float(np.median(own)) for rows in member if len(own := scores[rows][~np.isnan(scores[rows])])]
    if len(judged) <= LEAST_GROUPS:
        return np.nan
    middle = float(np.median(judged))
    deviation = _NORMAL * float(np.median(np.abs(np.array(judged) - middle)))
    return min(LOWEST, middle - DEVIATIONS * deviation)


def _correlation(errors: Matrix, usual: Matrix) -> float:
    """Compute Spearman's rank correlation over what both know; NaN where that is too little, or does not vary."""
    both = ~np.isnan(errors) & ~np.isnan(usual)
    if both.sum() < LEAST_CONFIGS:
        return np.nan
    a, b = rankdata(errors[both]), rankdata(usual[both])
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else np.nan


def _column_means(rows: Matrix) -> Matrix:
    known = ~np.isnan(rows)
    n = known.sum(axis=0)
    return np.where(n > 0, np.where(known, rows, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)


def _medians(rows: Matrix) -> Matrix:
    """Return the median of each column that enough groups know; NaN for the others."""
    found = np.full(rows.shape[1], np.nan)
    enough = np.sum(~np.isnan(rows), axis=0) >= LEAST_GROUPS
    if enough.any():
        found[enough] = np.nanmedian(rows[:, enough], axis=0)
    return found
