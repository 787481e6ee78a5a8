"""Sequential Bayesian optimisation over a finite table of configurations."""

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.error_units import WARPING
from warmstart.bo.models import Related, SurrogateModels, TrialData
from warmstart.bo.observation import Observation
from warmstart.bo.surrogates import Surrogate, SurrogateInfo, Task, find_surrogate
from warmstart.history_store.errors import DataError, UsageError

RANDOM_STARTS = 2
"""Rows drawn at random without initial rows."""


def search_table(
    unit: ArrayLike,
    errors: ArrayLike,
    *,
    initial: Sequence[int],
    t: int,
    rng: np.random.Generator,
    surrogate: str | SurrogateInfo | Surrogate = "gp",
    acquisition: str = "ei",
    related: Sequence[Task] = (),
    meta: NDArray[np.float64] | None = None,
) -> list[int]:
    """Run one search for the lowest error over the rows of a table, one evaluation after another.

    The initial rows come first and in order; without initial rows and related tasks, two random ones. Then comes the
    row with the largest acquisition by the models of `Optimizer`. A failed run teaches where runs fail and is not
    repeated. While too few have succeeded for a fit, rows are drawn at random. Errors of rows that are not evaluated
    are not read.

    Args:
        unit: `c x d` configurations in [0, 1], NaN = inactive hyperparameter.
        errors: `c`, lower is better; NaN or infinite = the run fails.
        initial: distinct rows to evaluate first, at most t.
        t: evaluations, in 0..c.
        rng: the only source of randomness.
        surrogate: a name in `warmstart.bo.surrogates.SURROGATES`, a `SurrogateInfo`, or an unfitted surrogate.
        acquisition: a name in `warmstart.bo.acquisition.registry.ACQUISITIONS`, but for those per second.
        related: tasks over the same columns, for the surrogates `mt-...`.
        meta: `p` meta-feature, if the related tasks have theirs.

    Returns: t distinct rows in order of evaluation.

    Raises:
        UsageError: when shapes, rows, t or a name do not fit.
        DataError: when a configuration lies outside [0, 1].
    """
    points, targets = _checked_table(unit, errors)
    rows = _checked_rows(initial, t, len(points))
    info = find_surrogate(surrogate, "search_table")
    if acquisition not in ACQUISITIONS or ACQUISITIONS[acquisition].per_second:
        names = [name for name, named in ACQUISITIONS.items() if not named.per_second]  # a table has no durations
        msg = f"search_table: expected an acquisition among {', '.join(names)}, got {acquisition!r}. Leave it out for the default."
        raise UsageError(msg)
    if related and not info.multitask:
        msg = f"search_table: related needs a surrogate for related tasks, mt-..., got {info.name!r}."
        raise UsageError(msg)
    starts = [] if rows else rng.choice(len(points), size=min(RANDOM_STARTS, t), replace=False).tolist()
    rows = rows[:t] if related else (rows or starts)[:t]
    fitted = SurrogateModels(
        surrogate=info,
        acquisition=acquisition,
        incumbent="posterior-mean",
        conditional=tuple(np.flatnonzero(np.isnan(points).any(axis=0)).tolist()),
        related=Related(related, meta, RANDOM_STARTS),
        warp_errors=info.name in WARPING,
        seed=int(rng.integers(2**32)),
    )
    return _search(fitted, points, targets, rows, starts, t=t, rng=rng)


def _search(
    fitted: SurrogateModels,
    points: NDArray[np.float64],
    targets: NDArray[np.float64],
    rows: list[int],
    starts: list[int],
    *,
    t: int,
    rng: np.random.Generator,
) -> list[int]:
    """Evaluate the row with the largest acquisition until there are t; without a model, starts, then random rows."""
    observations = [Observation.of({}, targets[row]) for row in rows]
    while len(rows) < t:
        rest = np.setdiff1d(np.arange(len(points)), rows)
        data = TrialData(observations, points[rows], points[:0], len(rows))
        criterion = fitted.acquisition_function(data, rng=rng)
        if criterion is None:
            row = next((start for start in starts if start not in rows), None)
            row = int(rng.choice(rest)) if row is None else row
        else:
            row = int(rest[criterion[0].value(points[rest]).argmax()])
        # Before the error is read: models are judged by their forecasts.
        fitted.forecast(data, points[[row]])
        rows.append(row)
        observations.append(Observation.of({}, targets[row]))
    return rows


def _checked_table(unit: ArrayLike, errors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check the table and return it as float64."""
    points, targets = np.asarray(unit, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if points.ndim != 2 or 0 in points.shape or targets.shape != points.shape[:1]:
        msg = f"search_table: expected `c x d` configurations and `c` errors, got shapes {points.shape} and {targets.shape}. Give one error a configuration."
        raise UsageError(msg)
    bad = np.argwhere(~(np.isnan(points) | ((points >= 0.0) & (points <= 1.0))))
    if len(bad):
        row, column = bad[0]
        msg = f"search_table: expected configurations in [0, 1] or NaN, got unit[{row}, {column}]={points[row, column]}. Scale every column."
        raise DataError(msg)
    return points, targets


def _checked_rows(initial: Sequence[int], t: int, c: int) -> list[int]:
    """Check the initial rows and the number of evaluations; return the rows."""
    try:
        count, rows = operator.index(t), [operator.index(row) for row in initial]
    except TypeError as error:
        msg = f"search_table: expected whole numbers for t and the initial rows, got t={t!r} and {initial!r}. Give rows of the table."
        raise UsageError(msg) from error
    if not 0 <= count <= c:
        msg = f"search_table: expected t in 0..{c}, the rows of the table, got t={count}. Every row is evaluated at most once."
        raise UsageError(msg)
    if len(set(rows)) < len(rows) or not all(0 <= row < c for row in rows):
        msg = f"search_table: expected distinct initial rows in 0..{c - 1}, got {rows}. Leave repeats out."
        raise UsageError(msg)
    return rows
