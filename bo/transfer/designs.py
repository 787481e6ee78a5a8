"""Initial designs: the first configurations to evaluate on a new dataset, chosen from a history of errors."""

import operator
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.calibration import Calibration
from warmstart.bo.transfer.strategies import STRATEGIES, Choice, Dedupe, Query
from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.bo.transfer.strategies.query import equal_weights, number_groups
from warmstart.history_store.errors import DataError, UsageError

WITH_DISTANCES = "joint"
"""Default strategy with distances, the winner of the evaluation."""
WITHOUT_DISTANCES = "portfolio"
"""Default strategy without distances."""


def initial_designs(
    errors: ArrayLike,
    distances: ArrayLike | None = None,
    k: int = 3,
    *,
    strategy: str | None = None,
    dedupe: Dedupe = "next_best",
    calibration: Calibration | None = None,
    groups: Sequence[Hashable] | NDArray[np.int64] | None = None,
    noise: float = 0.0,
) -> list[int]:
    """Choose k configurations to evaluate first; arguments and errors as in `designs`.

    Returns: k rows in 0..c-1, best first; distinct, except under `dedupe="keep"`.
    """
    choices = designs(
        errors, distances, k, strategy=strategy, dedupe=dedupe, calibration=calibration, groups=groups, noise=noise
    )
    return [choice.row for choice in choices]


def designs(
    errors: ArrayLike,
    distances: ArrayLike | None = None,
    k: int = 3,
    *,
    strategy: str | None = None,
    dedupe: Dedupe = "next_best",
    calibration: Calibration | None = None,
    groups: Sequence[Hashable] | NDArray[np.int64] | None = None,
    noise: float = 0.0,
) -> list[Choice]:
    """Choose k configurations to evaluate first, each with its source dataset.

    If the strategy returns fewer than k, the greedy portfolio continues from them, then unmeasured configurations in
    order of rows. A dataset without any error is left out.

    Args:
        errors: `m x c` of the history: datasets x configurations, lower is better, NaN = missing.
        distances: `m` ≥ 0 from the new dataset to the history's, or None.
        k: their number, in 1..c.
        strategy: a name in `warmstart.bo.transfer.strategies.STRATEGIES`; None = `joint` with distances, `portfolio`
            without. Without distances, `joint` is `portfolio`.
        dedupe: for `nearest`, when a neighbour's best is taken: `next_best` takes its next-best configuration,
            `next_neighbour` continues with the next dataset, `keep` repeats it.
        calibration: for `joint`: reliability of the distances; see `warmstart.bo.transfer.calibration.calibrate`.
        groups: `m` names of the datasets' sources: siblings and parts count as one. None = each dataset is a source.
        noise: standard deviation of an error as a share of its dataset's range, for `joint` and `portfolio`: they do
            not follow leads that may be luck. `warmstart.bo.transfer.strategies.scenarios.USUAL_NOISE` fits short runs.

    Returns: k choices, best first.

    Raises:
        UsageError: when shapes, k or a name do not fit.
        DataError: when nothing was measured, or an error or a distance is not a usable number.
    """
    query, measured = _checked(errors, distances, k, dedupe, groups)
    trusted: object = calibration
    if trusted is not None and not isinstance(trusted, Calibration):
        msg = f"initial_designs: expected a warmstart.bo.transfer.calibration.Calibration, got {trusted!r}. Leave it out if there is none."
        raise UsageError(msg)
    reach = query.reach if calibration is None else calibration.reach
    query = replace(query, noise=_checked_noise(noise), reach=reach)
    default = WITHOUT_DISTANCES if query.distances is None else WITH_DISTANCES
    name = default if strategy is None else strategy
    if not isinstance(name, str) or name not in STRATEGIES:
        msg = f"initial_designs: expected a strategy among {', '.join(STRATEGIES)}, got {name!r}. Leave it out for the default."
        raise UsageError(msg)
    if name == "nearest" and query.distances is None:
        name = WITHOUT_DISTANCES
    return [
        choice if choice.neighbour is None else replace(choice, neighbour=int(measured[choice.neighbour]))
        for choice in _filled(STRATEGIES[name](query), query)
    ]


def _filled(choices: list[Choice], query: Query) -> list[Choice]:
    """Fill choices up to k by the portfolio, then by unmeasured configurations."""
    if len(choices) >= query.k:
        return choices
    taken = list(dict.fromkeys(choice.row for choice in choices))
    weights = equal_weights(len(query.errors), query.groups)
    rows = portfolio_rows(query.errors, query.k - len(choices), start=taken, weights=weights, noise=query.noise)
    rows += sorted({*range(query.errors.shape[1])} - {*taken, *rows})
    return [*choices, *(Choice(row) for row in rows)][: query.k]


def _checked(
    errors: ArrayLike,
    distances: ArrayLike | None,
    k: int,
    dedupe: Dedupe,
    groups: Sequence[Hashable] | NDArray[np.int64] | None,
) -> tuple[Query, NDArray[np.int64]]:
    """Check the arguments; return a query over the datasets with errors, and their rows."""
    table = _floats(errors, "errors")
    if table.ndim != 2 or 0 in table.shape:
        msg = f"initial_designs: expected `m x c` errors (datasets x configurations), got shape {table.shape}. Give one row a dataset."
        raise UsageError(msg)
    missing = np.isnan(table)
    if not (np.isfinite(table) | missing).all():
        msg = "initial_designs: expected errors that are numbers or NaN, got an infinite one. Give NaN for a run without an error."
        raise DataError(msg)
    if missing.all():
        msg = f"initial_designs: expected at least one measured error, got {table.size} NaN. Add evaluations to the history."
        raise DataError(msg)
    try:
        count = operator.index(k)
    except TypeError as error:
        msg = f"initial_designs: expected a whole number of designs, got k={k!r}. Use k=3."
        raise UsageError(msg) from error
    if not 1 <= count <= table.shape[1]:
        msg = f"initial_designs: expected k in 1..{table.shape[1]}, the number of configurations, got k={count}. Ask for as many as there are."
        raise UsageError(msg)
    if dedupe not in get_args(Dedupe):
        msg = f"initial_designs: expected dedupe among {', '.join(get_args(Dedupe))}, got {dedupe!r}. Use 'next_best'."
        raise UsageError(msg)
    checked_distances = None if distances is None else _checked_distances(distances, len(table))
    named: object = groups
    if named is not None and (isinstance(named, str) or not isinstance(named, Sequence | np.ndarray)):
        msg = (
            f"initial_designs: expected a sequence of groups, got {named!r}. Give the source of each dataset, or None."
        )
        raise UsageError(msg)
    if groups is not None and len(groups) != len(table):
        msg = f"initial_designs: expected one group a dataset ({len(table)}), got {len(groups)}. Give the source of each, or None."
        raise UsageError(msg)
    rows = np.flatnonzero(~missing.all(axis=1))
    selection = slice(None) if len(rows) == len(table) else rows
    return (
        Query(
            table[selection],
            None if checked_distances is None else checked_distances[selection],
            count,
            dedupe,
            groups=None if groups is None else number_groups(groups)[selection],
        ),
        rows,
    )


def _checked_noise(noise: float) -> float:
    """Check a noise, a share of a range."""
    if not (isinstance(noise, int | float) and 0 <= noise < np.inf):
        msg = f"initial_designs: expected a noise of 0 or more, got {noise!r}. Leave it out for exact errors."
        raise UsageError(msg)
    return noise


def _checked_distances(distances: ArrayLike, m: int) -> NDArray[np.float64]:
    """Check the distances: one for each dataset, finite and ≥ 0."""
    values = _floats(distances, "distances")
    if values.shape != (m,):
        msg = f"initial_designs: expected one distance a dataset ({m}), got shape {values.shape}. Give {m} numbers, or None."
        raise UsageError(msg)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        msg = f"initial_designs: expected distances of 0 or more, got distances[{bad[0]}]={values[bad[0]]}. Leave such a dataset out of both arrays."
        raise DataError(msg)
    return values


def _floats(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Convert an argument to float64."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"initial_designs: expected {name} to be an array of numbers, got {type(values).__name__} ({error}). Give NaN for a missing one."
        raise UsageError(msg) from error
