"""Strategy `joint`: k configurations with the lowest expected best regret on datasets like the new one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.bo.transfer.strategies.query import Choice, Query, Reach, equal_weights
from warmstart.bo.transfer.strategies.scenarios import Scenarios, make_scenarios

NEARLY = 0.5
"""Share of the largest gain from which a gain counts as nearly as large."""


def joint(query: Query) -> list[Choice]:
    """Choose k configurations together: the lowest expected best regret, with more weight on near datasets.

    Use it by default: it equals `portfolio` within chance if distances mean nothing or datasets agree, and is better if
    they disagree. Not with exact distances: `nearest` may then be better with few configurations.

    >>> errors = np.array([[0.10, 0.30, 0.90], [0.20, 0.25, 0.80], [0.90, 0.40, 0.10]])
    >>> query = Query(errors, np.array([0.1, 0.2, 5.0]), k=2)
    >>> [choice.row for choice in joint(query)]  # 1 is never bad; 0 wins on the near datasets
    [1, 0]

    It is the greedy portfolio with each dataset weighted by `nearness_weights`. A choice names the nearest of the
    datasets whose weighted regret it lowers most, or nearly so. Without distances all weights are equal, and it is the
    portfolio.
    """
    weights, worlds = query_weights(query), make_scenarios(query.errors)
    rows = portfolio_rows(query.errors, query.k, weights=weights, scenarios=worlds, noise=query.noise)
    return with_sources(query, rows, scenarios=worlds, weights=weights)


def with_sources(
    query: Query,
    rows: Sequence[int],
    *,
    scenarios: Scenarios | None = None,
    weights: NDArray[np.float64] | None = None,
) -> list[Choice]:
    """Return choices of rows with the dataset behind each, as in `joint`; without distances there is none.

    `scenarios` and `weights` are outputs of `make_scenarios` and `query_weights`; None = computed here.
    """
    if query.distances is None:
        return [Choice(row) for row in rows]
    weights = query_weights(query) if weights is None else weights
    worlds = make_scenarios(query.errors) if scenarios is None else scenarios
    regrets, share = worlds.regrets, weights[worlds.dataset] * worlds.share
    best, choices = np.ones(len(regrets)), []
    for row in rows:
        gains = np.bincount(
            worlds.dataset, weights=share * np.maximum(best - regrets[:, row], 0.0), minlength=len(weights)
        )
        gains[np.isnan(query.errors[:, row])] = -1.0
        # Without a gain, the nearest dataset that measured the configuration is its source.
        most = max(float(gains.max()), 0.0)
        dataset = int(np.lexsort((query.distances, gains < NEARLY * most))[0])
        choices.append(Choice(row, dataset, float(query.distances[dataset]), float(query.errors[dataset, row])))
        best = np.minimum(best, regrets[:, row])
    return choices


def expected_regrets(query: Query, rows: Sequence[int], *, scenarios: Scenarios | None = None) -> NDArray[np.float64]:
    """Compute the weighted mean over the datasets of the best normalised regret after each of the rows.

    `joint` minimises this number, so it is too optimistic; `warmstart.bo.transfer.calibration` corrects it.

    Returns: `len(rows)` in [0, 1], never increasing.
    """
    worlds = make_scenarios(query.errors) if scenarios is None else scenarios
    share = query_weights(query)[worlds.dataset] * worlds.share
    regrets = worlds.regrets[:, list(rows)]
    expected: NDArray[np.float64] = share @ np.minimum.accumulate(regrets, axis=1)
    return expected


def query_weights(query: Query) -> NDArray[np.float64]:
    """Compute weights of the datasets by nearness, or equal ones of the sources without distances: `m` with sum 1."""
    if query.distances is None:
        return equal_weights(len(query.errors), query.groups)
    return nearness_weights(query.distances, query.reach, groups=query.groups)


def nearness_weights(
    distances: NDArray[np.float64], reach: Reach, *, groups: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Compute weights 1 / (rank + reach), rank 0 for the nearest; several reaches are averaged by their shares.

    Only the order of the distances counts, so their scale and their crowding far from the origin, as in many
    dimensions, do not. The tail is heavy on purpose: the portfolio of all datasets is hard to beat, and a few near
    datasets can be the wrong ones. Reach 0.3 trusts the nearest, infinity gives equal weights. Equal distances share
    their mean rank. A source of several datasets has the rank of its nearest, and splits its weight among them by the
    same rule.

    Args:
        distances: `m` ≥ 0.
        reach: pairs of reach > 0 and share ≥ 0.
        groups: `m` numbers of the datasets' sources; None = each dataset is a source.

    Returns: `m` > 0 with sum 1.
    """
    alone = np.zeros(len(distances), dtype=np.int64)
    if groups is None:
        return _by_rank(distances, reach, among=alone)
    sources, source = np.unique(groups, return_inverse=True)
    nearest = np.full(len(sources), np.inf)
    np.minimum.at(nearest, source, distances)
    weights: NDArray[np.float64] = _by_rank(nearest, reach, among=alone[: len(sources)])[source]
    return weights * _by_rank(distances, reach, among=source)


def _by_rank(distances: NDArray[np.float64], reach: Reach, *, among: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute weights by the rank of distances within their source, numbered by `among`; each source has sum 1."""
    order = np.lexsort((distances, among))
    source, apart = among[order], distances[order]
    is_first = np.append(True, source[1:] != source[:-1])
    is_new = is_first | np.append(True, apart[1:] != apart[:-1])  # equal distances share their mean rank
    run = np.cumsum(is_new) - 1
    start, length = np.flatnonzero(is_new), np.bincount(run)
    first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    ranks = np.empty(len(order))
    ranks[order] = (start + (length - 1) / 2)[run] - first
    total = np.zeros(len(distances))
    for distance_reach, share in reach:
        weights = np.ones(len(ranks)) if np.isinf(distance_reach) else 1.0 / (ranks + distance_reach)
        total += share * weights / np.bincount(among, weights)[among]
    scaled: NDArray[np.float64] = total / np.bincount(among, total)[among]
    return scaled
