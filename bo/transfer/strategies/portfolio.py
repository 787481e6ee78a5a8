"""Strategy `portfolio`: configurations that together do well on all datasets, whatever the new one is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.strategies.noise import with_noise
from warmstart.bo.transfer.strategies.query import Choice, Query
from warmstart.bo.transfer.strategies.scenarios import Scenarios, make_scenarios
from warmstart.bo.transfer.strategies.sources import equal_weights
from warmstart.history_store.errors import DataError, UsageError


def portfolio(query: Query) -> list[Choice]:
    """Choose the greedy portfolio of all sources. Distances are not used.

    Use it without distances, or where the new dataset is far from all others. Not where near datasets are known to be
    right: `joint` adds weights to it.

    >>> errors = np.array([[0.1, 0.2, 0.9], [0.1, 0.3, 0.9], [0.9, 0.8, 0.1]])
    >>> [choice.row for choice in portfolio(Query(errors, None, k=2))]  # the best of most, then of the rest
    [0, 2]
    """
    weights = equal_weights(len(query.errors), query.groups)
    return [Choice(row) for row in portfolio_rows(query.errors, query.k, weights=weights, noise=query.noise)]


def portfolio_rows(
    errors: NDArray[np.float64],
    k: int,
    *,
    weights: ArrayLike | None = None,
    start: Sequence[int] = (),
    scenarios: Scenarios | None = None,
    noise: float = 0.0,
) -> list[int]:
    """Add, one by one, the configuration that most lowers the mean best normalised regret over the datasets.

    The mean is taken over what missing cells may be, and over what noise may have made of the others; see
    `warmstart.bo.transfer.strategies.scenarios` and `warmstart.bo.transfer.strategies.noise`. Equal gains go to the lower mean regret, then
    to the lower row, so the order stays useful after every dataset's best is in.

    Args:
        errors: `m x c`, NaN = missing.
        k: how many to add.
        weights: `m` ≥ 0, the worth of each dataset; None = all alike.
        start: rows that are chosen already; they count towards the best and are not chosen again.
        scenarios: of the errors, where they are made already.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0.

    Returns: at most k rows, best first; a configuration without any error is never among them.

    Raises:
        UsageError: when there is not one weight a dataset.
        DataError: when weights are negative, not finite or all 0.
    """
    worlds = with_noise(make_scenarios(errors) if scenarios is None else scenarios, noise)
    share, regrets = _shares(weights, len(errors))[worlds.dataset] * worlds.share, worlds.regrets
    overall = share @ regrets
    best = regrets[:, list(start)].min(axis=1, initial=np.inf)
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
