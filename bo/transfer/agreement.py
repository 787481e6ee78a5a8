"""Agreement of measured errors with those of other datasets, by ranks of configurations.

For merged histories of several people. Robust while fewer than half of the groups are wrong: every limit is a median,
and a group counts once, however many datasets it has.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from warmstart.bo.transfer.strategies.average_rank import scaled_ranks

Matrix = NDArray[np.float64]
LEAST_CONFIGS = 8
"""Least number of configurations shared with enough groups; with fewer a dataset is not judged."""
LEAST_GROUPS = 5
"""Least number of other groups that measured a configuration; with fewer it has no usual rank."""
LOWEST = 0.4
"""Rank correlation above which a dataset is never an outlier."""
DEVIATIONS = 4.0
"""Robust standard deviations below the median from which a rank correlation is too low."""
SHIFT = 0.6
"""Shift of a rank (0 = best, 1 = worst) below which it is never odd."""
SHIFTS = 4.0
"""Multiple of the usual shift of a configuration from which its rank is odd."""
_NORMAL = 1.4826
"""Standard deviation of a normal variable in median absolute deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of datasets with one another.

    Attributes:
        scores: `m` rank correlations with the usual ranks of other groups; NaN = too few shared configurations.
        limit: scores below it are outliers; NaN when no dataset is judged.
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
        """Return the mask of datasets that disagree as a whole, `m`."""
        return self.constant | (self.scores < self.limit)


def agreement(errors: ArrayLike, groups: Sequence[Hashable]) -> Agreement:
    """Compare each dataset's ranking of the configurations with that of the other groups.

    A dataset's errors become ranks in [0, 1] among its measured configurations. The usual rank of a configuration is
    the median of its ranks over the other groups (the mean within a group).

    Args:
        errors: `m x c`, NaN = missing.
        groups: `m` sibling groups.

    Returns: the comparison; without `LEAST_GROUPS` other groups nothing is an outlier.
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
    """Return the score below which a dataset is an outlier, from one score for each group."""
    judged = [
        float(np.median(group_scores)) for rows in member if len(group_scores := scores[rows][~np.isnan(scores[rows])])
    ]
    if len(judged) <= LEAST_GROUPS:
        return np.nan
    middle = float(np.median(judged))
    deviation = _NORMAL * float(np.median(np.abs(np.array(judged) - middle)))
    return min(LOWEST, middle - DEVIATIONS * deviation)


def _correlation(errors: Matrix, usual: Matrix) -> float:
    """Compute Spearman's rank correlation over common values; NaN when these are too few, or constant."""
    both = ~np.isnan(errors) & ~np.isnan(usual)
    if both.sum() < LEAST_CONFIGS:
        return np.nan
    a, b = rankdata(errors[both]), rankdata(usual[both])
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else np.nan


def _column_means(rows: Matrix) -> Matrix:
    present = ~np.isnan(rows)
    n = present.sum(axis=0)
    return np.where(n > 0, np.where(present, rows, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)


def _medians(rows: Matrix) -> Matrix:
    """Return the median of each column that enough groups measured; NaN for other columns."""
    medians = np.full(rows.shape[1], np.nan)
    enough = np.sum(~np.isnan(rows), axis=0) >= LEAST_GROUPS
    if enough.any():
        medians[enough] = np.nanmedian(rows[:, enough], axis=0)
    return medians
