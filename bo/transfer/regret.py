"""Regret of a list of configurations, and the interval of a mean over datasets."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.error_tables import min_max_normalised
from warmstart.history_store.errors import DataError, UsageError


def regret_curve(errors: ArrayLike, rows: Sequence[int]) -> NDArray[np.float64]:
    """Compute the normalised regret of the best configuration so far on one dataset.

    (best so far - min) / (max - min) over the dataset's known errors. A missing cell counts as the worst error;
    on a dataset whose errors are all equal the regret is 0.

    Args:
        errors: `c` of the dataset, NaN = missing.
        rows: `t` configurations in the order of their evaluation.

    Returns: `t` float64 in [0, 1], never increasing.

    Raises:
        UsageError: when errors are not one row, or a row of `rows` is not in 0..c-1.
        DataError: when the dataset has no error at all.
    """
    regrets = _row_regrets(errors)
    order = np.asarray(rows, dtype=np.int64)
    if order.size and not (order.min() >= 0 and order.max() < regrets.size):
        msg = f"regret_curve: expected rows in 0..{regrets.size - 1}, got {order.min()}..{order.max()}. Give rows of the same table."
        raise UsageError(msg)
    curve: NDArray[np.float64] = np.minimum.accumulate(regrets[order])
    return curve


def random_curve(errors: ArrayLike, t: int) -> NDArray[np.float64]:
    """Compute the expected regret curve of t distinct random configurations: exactly, without drawing.

    The best of s draws is the j-th best of all c with probability C(c - j, s - 1) / C(c, s).

    Args:
        errors: `c` of the dataset, NaN = missing, which counts as the worst error.
        t: length of the curve, in 1..c.

    Returns: `t` float64 in [0, 1].

    Raises:
        UsageError: when errors are not one row, or t is not in 1..c.
        DataError: when the dataset has no error at all.
    """
    regrets = np.sort(_row_regrets(errors))
    c = regrets.size
    if not 1 <= t <= c:
        msg = f"random_curve: expected a length in 1..{c}, got t={t}. Draw each configuration at most once."
        raise UsageError(msg)
    worse, draw = np.arange(c, -1, -1)[:, None], np.arange(t)[None, :]
    all_worse = np.cumprod(
        np.maximum(worse - draw, 0) / (c - draw), axis=1
    )  # [j, s]: the first s + 1 draws miss the best j
    curve: NDArray[np.float64] = regrets @ (all_worse[:-1] - all_worse[1:])
    return curve


def expected_evaluations(errors: ArrayLike, t: int, *, goal: float) -> float:
    """Compute the expected number of distinct random configurations to a regret: exactly, without drawing.

    Σ_s P(s draws have missed it), s = 0..t, with P = C(c - b, s) / C(c, s) for b configurations that reach it.

    Args:
        errors: `c` of the dataset, NaN = missing, which counts as the worst error.
        t: largest number of draws, in 1..c; t + 1 stands for "not reached".
        goal: normalised regret.

    Raises:
        UsageError: when errors are not one row, or t is not in 1..c.
        DataError: when the dataset has no error at all.
    """
    regrets = _row_regrets(errors)
    c, reach = regrets.size, int(np.count_nonzero(regrets <= goal))
    if not 1 <= t <= c:
        msg = f"expected_evaluations: expected draws in 1..{c}, got t={t}. Draw each configuration at most once."
        raise UsageError(msg)
    drawn = np.arange(t)
    missed = np.cumprod(np.maximum(c - reach - drawn, 0) / (c - drawn))
    return float(1.0 + missed.sum())


def _row_regrets(errors: ArrayLike) -> NDArray[np.float64]:
    """Scale the errors of one dataset to regrets in [0, 1]; a missing cell has the worst regret."""
    row = np.asarray(errors, dtype=np.float64)
    if row.ndim != 1:
        msg = f"regret: expected the `c` errors of one dataset, got shape {row.shape}. Give one row of the table."
        raise UsageError(msg)
    if np.isnan(row).all():
        msg = "regret: expected at least one known error, got none. Leave the dataset out."
        raise DataError(msg)
    regrets = min_max_normalised(row[None, :])[0]
    filled: NDArray[np.float64] = np.nan_to_num(regrets, nan=float(np.nanmax(regrets)))
    return filled


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean over datasets with its confidence interval.

    Attributes:
        mean: with equal weights of the datasets.
        low: lower end; NaN with a single unit.
        high: upper end; NaN with a single unit.
        level: of confidence, in (0, 1).
        n: independent units: groups.
        standard_error: of the mean; NaN with a single unit.
    """

    mean: float
    low: float
    high: float
    level: float
    n: int
    standard_error: float = np.nan


def clustered_interval(values: ArrayLike, *, groups: Sequence[Hashable], level: float = 0.95) -> Interval:
    """Compute the mean of values over datasets, with a confidence interval clustered by sibling group.

    Datasets have equal weights in the mean; the standard error is that of a ratio of group sums to group sizes:
    √(G / (G - 1) · Σ_g (Σ_i∈g (x_i - mean))²) / n.

    Args:
        values: `n`, for example differences of two methods; NaN is left out.
        groups: `n` labels.
        level: of confidence.

    Returns: all NaN without a value.

    Raises:
        UsageError: when lengths do not fit.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (len(groups),):
        msg = f"clustered_interval: expected one value a dataset ({len(groups)}), got shape {numbers.shape}. Give one group a value."
        raise UsageError(msg)
    present = ~np.isnan(numbers)
    if not present.any():
        return Interval(np.nan, np.nan, np.nan, level, 0)
    mean = float(numbers[present].mean())
    labels = [label for label, has in zip(groups, present.tolist(), strict=True) if has]
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    g = len(codes)
    if g == 1:
        return Interval(mean, np.nan, np.nan, level, 1)
    sums = np.bincount([codes[label] for label in labels], weights=numbers[present] - mean)
    return _t_interval(mean, float(np.sqrt(g / (g - 1) * np.sum(sums**2)) / present.sum()), g, level)


def _t_interval(mean: float, standard_error: float, n: int, level: float) -> Interval:
    """Return Student's interval of a mean over n units."""
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + level) / 2)) * standard_error
    return Interval(mean, mean - half, mean + half, level, n, standard_error)
