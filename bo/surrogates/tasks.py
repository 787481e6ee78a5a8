"""Points and targets of several tasks in one data set."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.base import SMALLEST_SD, Standardised, Task, checked_data
from warmstart.history_store.errors import DataError, UsageError

Floats = NDArray[np.float64]

INDEPENDENT = 0.25
"""Share of the targets that count as independent draws: neighbours say the same."""
TINY = 1e-100
"""Standard deviation of a task at least: smaller ones have no square."""
PRIOR_TASKS = 0.5
"""Tasks that are imagined beside the related ones, one standard deviation (or e-fold) off."""
FAR = 100.0
"""Standard deviations within which targets lie, if units are those of the related tasks."""
MOST_META = 8
"""Dimensions that meta-features are reduced to, at most."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Points and targets of T tasks, each standardised by itself; the last task is the target.

    Attributes:
        X: `n x d`.
        z: `n`, in units of each task.
        task: `n`, in 0..T-1.
        n_tasks: T.
        mean: of the target's errors, estimated from them and from the related tasks.
        sd: of them, likewise.
        units: variances of that mean, in units of sd², and of log sd; 0 where the target is standardised by itself
            alone.
    """

    X: Floats
    z: Floats
    task: NDArray[np.intp]
    n_tasks: int
    mean: float
    sd: float
    units: tuple[float, float]

    @classmethod
    def of(cls, related: Sequence[Task], X: Floats, y: Floats) -> Self:
        """Pool related tasks, as checked by `checked_related`, with the `n x d` points and `n` targets of the one at hand.

        Raises:
            UsageError: when the points have other columns than those of the related tasks.
        """
        if any(task.X.shape[1] != X.shape[1] for task in related):
            msg = f"surrogate: expected the columns of the related tasks, got {X.shape[1]} and {[task.X.shape[1] for task in related]}. Encode all of them in one space."
            raise UsageError(msg)
        parts = [Standardised.of(task.y) for task in related]
        own, units = _own_units(parts, y)
        parts.append(own)
        return cls(
            np.concatenate([*(task.X for task in related), X]),
            np.concatenate([part.z for part in parts]),
            np.repeat(np.arange(len(parts)), [len(part.z) for part in parts]),
            len(parts),
            own.mean,
            own.sd,
            units,
        )


def _own_units(others: Sequence[Standardised], y: Floats) -> tuple[Standardised, tuple[float, float]]:
    """Standardise the task at hand as one of a population of tasks, of which others are known.

    Its mean and log standard deviation are drawn from normal distributions whose moments are those of the others; its
    targets say of them what a fourth as many independent ones would: the log sd is the mode given a variance that is χ²
    distributed. Where that leaves targets 100 sd off, units differ, and it is standardised by itself.

    Returns: its targets, and the variances of mean (in units of sd²) and log sd that remain.
    """
    from scipy.special import wrightomega

    n = len(y)
    if not others:
        return Standardised.of(y), (0.0, 0.0)
    means, sds = np.array([part.mean for part in others]), known_spreads(others)
    largest = max(float(np.abs(each).max(initial=TINY)) for each in (y, means, sds))  # squares of 1e200 overflow
    own, means, logs = y / largest, means / largest, np.log(sds) - math.log(largest)
    typical, vague = _moments(logs, 1.0)
    sd = math.exp(typical)
    if n > 1:
        observed = max(float(own.std(ddof=1)), SMALLEST_SD)
        typical, vague = _moments(logs, 1.0, math.log(observed), INDEPENDENT * (n - 1))
        weight = 2.0 * vague * INDEPENDENT * (n - 1)
        excess = float(wrightomega(math.log(weight) + 2.0 * (math.log(observed) - typical) + weight))
        sd, vague = math.exp(typical + 0.5 * (excess - weight)), vague / (1.0 + excess)
    sd = max(sd, TINY)
    centre, spread = _moments(means, sd, *(() if not n else (float(own.mean()), INDEPENDENT * n)))
    trust = spread / (spread + sd**2 / (INDEPENDENT * n)) if n else 0.0
    mean = centre + (trust * (float(own.mean()) - centre) if n else 0.0)
    z = (own - mean) / sd
    if np.abs(z).max(initial=0.0) > FAR:
        return Standardised.of(y), (0.0, 0.0)
    return Standardised(z, mean * largest, sd * largest), (spread * (1.0 - trust) / sd**2, vague)


def known_spreads(tasks: Sequence[Standardised]) -> Floats:
    """Return the standard deviations of the tasks whose targets differ; where no task's do, the size of the targets stands in."""
    known = [task.sd for task in tasks if task.varies]
    return np.array(known or [max(abs(task.mean) for task in tasks) or 1.0])


def _moments(values: Floats, sd: float, own: float = 0.0, known: float = 0.0) -> tuple[float, float]:
    """Return mean and variance of what T tasks have.

    Half a task more is imagined that is off by `sd`; and the task at hand counts m / (1 + m) in the variance, if m
    points say that it has `own`: tasks differ, if it is far off.
    """
    centre, share = float(values.mean()), known / (1.0 + known)
    squares = float(np.square(values - centre).sum()) + PRIOR_TASKS * sd**2 + share * (own - centre) ** 2
    return centre, squares / (len(values) - 1 + PRIOR_TASKS + share)


def checked_related(related: Sequence[Task], *, conditional: Sequence[int] = ()) -> list[Task]:
    """Check related tasks, and return them as float64.

    Raises:
        UsageError: when shapes do not fit, or a task has no point.
        DataError: when a point or a target is no finite number, but for NaN in conditional columns.
    """
    return [Task(*checked_data(task.X, task.y, conditional=conditional), task.meta) for task in related]


def reduced_meta(related: Sequence[Task], meta: Floats | None, *, most: int = MOST_META) -> Floats:
    """Reduce meta-features to the principal components that distinguish the tasks; the first has standard deviation 1.

    Args:
        related: T - 1 tasks.
        meta: `p`, of the task at hand, or None.
        most: components kept, at most.

    Returns: `T x q`, the task at hand last; q = 0 where there are no meta-features.

    Raises:
        UsageError: when some tasks have a meta-feature and others have none, or lengths differ.
        DataError: when one is not finite.
    """
    metas = [*(task.meta for task in related), meta]
    if all(row is None for row in metas):
        return np.zeros((len(metas), 0))
    lengths = {None if row is None else np.shape(row) for row in metas}
    if len(lengths) > 1 or any(length is None or len(length) != 1 for length in lengths):
        msg = f"surrogate: expected a meta-feature of one length for the target and every related task, or none at all, got shapes {[None if row is None else np.shape(row) for row in metas]}. Leave all of them out to learn from the targets alone."
        raise UsageError(msg)
    table = np.array(metas, dtype=np.float64)
    if not np.isfinite(table).all():
        msg = "surrogate: expected finite meta-features, got NaN or inf. Leave them out."
        raise DataError(msg)
    columns = np.column_stack([Standardised.of(column).z for column in table.T]) if table.size else table
    left, weights, _ = np.linalg.svd(columns, full_matrices=False)
    kept = min(most, int((weights > 1e-9 * max(weights.max(initial=0.0), 1.0)).sum()))
    result: Floats = left[:, :kept] * (weights[:kept] / max(weights.max(initial=0.0), 1e-300)) * len(metas) ** 0.5
    return result
