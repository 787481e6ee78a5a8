"""Configurations that together do well on all datasets, whatever the new one is like."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.strategies.query import Choice, Query
from history_store.errors import DataError, UsageError
from history_store.response import min_max_normalised


def portfolio(query: Query) -> list[Choice]:
    """Choose the greedy portfolio of all datasets; distances are not looked at."""
    return [Choice(row) for row in portfolio_rows(query.errors, query.k)]


def portfolio_rows(
    errors: NDArray[np.float64], k: int, *, weights: ArrayLike | None = None, start: Sequence[int] = ()
) -> list[int]:
    """Add, one by one, the configuration that most lowers the mean best normalised regret over the datasets.

    Missing cells are filled by `filled_regrets`. Equal gains go to the lower mean regret, then to the lower row, so
    the order stays useful after every dataset's best is in.

    Args:
        errors: `m x c`, NaN = missing.
        k: how many to add.
        weights: `m` ≥ 0, the worth of each dataset; None = all alike.
        start: rows that are chosen already; they count towards the best and are not chosen again.

    Returns: at most k rows, best first; a configuration without any error is never among them.

    Raises:
        UsageError: when there is not one weight a dataset.
        DataError: when weights are negative, not finite or all 0.
    """
    share = _shares(weights, len(errors))
    regrets = filled_regrets(errors)
    overall = share @ regrets
    best = regrets[:, list(start)].min(axis=1, initial=1.0)
    is_open = ~np.all(np.isnan(errors), axis=0)
    is_open[list(start)] = False
    rows: list[int] = []
    for _ in range(min(k, int(is_open.sum()))):
        after = np.round(share @ np.minimum(best[:, None], regrets), 12)  # rounding noise must not decide a tie
        row = int(np.lexsort((overall, after, ~is_open))[0])
        rows.append(row)
        is_open[row] = False
        best = np.minimum(best, regrets[:, row])
    return rows


def filled_regrets(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale each dataset's errors to [0, 1] between its best and its worst, and fill in what was not measured.

    A missing cell is expected to be as good as the configuration was elsewhere, drawn towards the mean of all cells
    as if by one dataset more: of two configurations that never failed to be good, the one seen more often comes first.

    Args:
        errors: `m x c`, NaN = missing, at least one known.

    Returns: `m x c` in [0, 1] without NaN; a dataset whose errors are all equal has 0.
    """
    regrets = min_max_normalised(errors)
    known = ~np.isnan(regrets)
    mean = (np.nansum(regrets, axis=0) + regrets[known].mean()) / (known.sum(axis=0) + 1)
    return np.where(known, regrets, mean)


def _shares(weights: ArrayLike | None, m: int) -> NDArray[np.float64]:
    """Check the weights and scale them to sum 1."""
    if weights is None:
        return np.full(m, 1.0 / m)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (m,):
        msg = f"portfolio: expected one weight a dataset ({m}), got shape {given.shape}. Give {m} numbers ≥ 0."
        raise UsageError(msg)
    if not (np.all(np.isfinite(given)) and np.all(given >= 0) and given.sum() > 0):
        msg = f"portfolio: expected weights ≥ 0, not all 0, got {given.tolist()}. Leave them out for equal ones."
        raise DataError(msg)
    scaled: NDArray[np.float64] = given / given.sum()
    return scaled
