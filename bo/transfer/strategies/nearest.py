"""Strategy `nearest`: the best configurations of the datasets most like the new one [Kim2017warmstart]."""

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies.query import Choice, Query, turns
from warmstart.bo.transfer.strategies.scenarios import make_scenarios
from warmstart.history_store.errors import UsageError


def nearest(query: Query) -> list[Choice]:
    """Choose the best configuration of each of the k nearest datasets [Kim2017warmstart] Algorithm 3.

    Use it with good distances, or to repeat the paper. Not with doubtful ones: each choice rests on one dataset, and
    near datasets repeat each other's bests. `joint` has neither weakness.

    >>> errors = np.array([[0.10, 0.30, 0.90], [0.20, 0.25, 0.80], [0.90, 0.40, 0.10]])
    >>> query = Query(errors, np.array([5.0, 0.2, 0.1]), k=2)
    >>> [choice.row for choice in nearest(query)]  # the best of dataset 2, then of dataset 1
    [2, 0]

    Ties of distance are decided by dataset row, ties of error by configuration row. Sources take turns: the
    second-nearest dataset of a source follows when every source was used once. An error that a neighbour has not
    measured is replaced by the expected one; such a choice names the nearest dataset that has measured it. If a
    neighbour's best is taken, `next_best` takes its next-best one, `next_neighbour` continues with the next dataset,
    and `keep` repeats it, as in the paper.

    Returns: at most k choices; fewer if datasets run out.

    Raises:
        UsageError: when there are no distances.
    """
    if query.distances is None:
        msg = "strategy 'nearest' needs distances to the history's datasets. Give them, or use 'portfolio'."
        raise UsageError(msg)
    expected = make_scenarios(query.errors).expected_errors(len(query.errors))
    order = np.argsort(query.distances, kind="stable")
    choices: list[Choice] = []
    taken: set[int] = set()
    for dataset in turns(order, query.groups).tolist():
        if len(choices) == query.k:
            break
        ranked = _best_first(expected[dataset])
        if query.dedupe == "next_best":
            ranked = [row for row in ranked if row not in taken]
        if not ranked or (query.dedupe == "next_neighbour" and ranked[0] in taken):
            continue
        row = ranked[0]
        taken.add(row)
        neighbour = next(
            candidate for candidate in (dataset, *order.tolist()) if not np.isnan(query.errors[candidate, row])
        )
        choices.append(Choice(row, neighbour, float(query.distances[neighbour]), float(query.errors[neighbour, row])))
    return choices


def _best_first(errors: NDArray[np.float64]) -> list[int]:
    """Return the configurations with an error, lowest first, ties by row."""
    # Rounding noise must not decide a tie.
    order: list[int] = np.argsort(np.round(errors, 12), kind="stable").tolist()  # NaN sorts last
    return order[: int(np.count_nonzero(~np.isnan(errors)))]
