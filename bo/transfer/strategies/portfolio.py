"""Strategy `portfolio`: configurations that together do well on all datasets, for any new one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.strategies.query import Choice, Query, equal_weights
from warmstart.bo.transfer.strategies.scenarios import Scenarios, make_scenarios, with_noise
from warmstart.history_store.errors import DataError, UsageError


def portfolio(query: Query) -> list[Choice]:
    """Choose the greedy portfolio of all sources. Distances are not used.

    Use it without distances, or for a dataset far from all others. Not if near datasets are right: `joint` adds
    weights.

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
    """Choose configurations one by one, each of which most lowers the mean best normalised regret over the datasets.

    The mean includes scenarios of missing cells and of noise; see `warmstart.bo.transfer.strategies.scenarios` and
    `warmstart.bo.transfer.strategies.scenarios`. Equal gains go to the lower mean regret, then to the lower row, so the
    order stays useful after every dataset's best is in.

    Args:
        errors: `m x c`, NaN = missing.
        k: number of configurations to add.
        weights: `m` ≥ 0, of the datasets; None = equal.
        start: rows chosen before; they count towards the best and are not chosen again.
        scenarios: of the errors; None = computed here.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0.

    Returns: at most k rows, best first; a configuration without any error is never among them.

    Raises:
        UsageError: when weights and datasets differ in number.
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
    numbers = np.asarray(weights, dtype=np.float64)
    if numbers.shape != (m,):
        msg = f"portfolio: expected one weight a dataset ({m}), got shape {numbers.shape}. Give {m} numbers ≥ 0."
        raise UsageError(msg)
    if not (np.all(np.isfinite(numbers)) and np.all(numbers >= 0) and numbers.sum() > 0):
        msg = f"portfolio: expected weights ≥ 0, not all 0, got {numbers.tolist()}. Leave them out for equal ones."
        raise DataError(msg)
    scaled: NDArray[np.float64] = numbers / numbers.sum()
    return scaled
