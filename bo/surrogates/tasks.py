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
"""Share of the targets that count as independent draws: near points have similar targets."""
TINY = 1e-100
"""Least standard deviation of a task: squares of smaller ones underflow."""
PRIOR_TASKS = 0.5
"""Weight of an imaginary task, one standard deviation (or e-fold) off, in the moments of related tasks."""
FAR = 100.0
"""Largest standardised target in units of the related tasks; beyond, the units do not match."""
MOST_META = 8
"""Most dimensions of reduced meta-features."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Points and targets of T tasks, each standardised by itself; the last task is the target.

    Attributes:
        X: `n x d`.
        z: `n`, in units of each task.
        task: `n`, in 0..T-1.
        n_tasks: T.
        mean: of the target's errors, estimated with the help of the related tasks.
        sd: of the target's errors, likewise.
        units: variances of this mean, in units of sd², and of log sd; 0 if the target is standardised by itself.
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
        """Pool related tasks, checked by `checked_related`, with `n x d` points and `n` targets of the task at hand.

        Raises:
            UsageError: when the columns of the points and of the related tasks differ.
        """
        if any(task.X.shape[1] != X.shape[1] for task in related):
            msg = f"surrogate: expected the columns of the related tasks, got {X.shape[1]} and {[task.X.shape[1] for task in related]}. Encode all of them in one space."
            raise UsageError(msg)
        parts = [Standardised.of(task.y) for task in related]
        target, units = _target_units(parts, y)
        parts.append(target)
        return cls(
            np.concatenate([*(task.X for task in related), X]),
            np.concatenate([part.z for part in parts]),
            np.repeat(np.arange(len(parts)), [len(part.z) for part in parts]),
            len(parts),
            target.mean,
            target.sd,
            units,
        )


def _target_units(related: Sequence[Standardised], y: Floats) -> tuple[Standardised, tuple[float, float]]:
    """Standardise the task at hand as a member of the population of its related tasks.

    Its mean and log standard deviation have normal priors with the moments of the related tasks. Its targets count like
    a quarter as many independent ones; the log sd is the mode under a χ² distributed variance. If targets lie 100 sd
    off, units differ, and the task is standardised by itself.

    Returns: its targets, and the posterior variances of mean (in units of sd²) and log sd.
    """
    from scipy.special import wrightomega

    n = len(y)
    if not related:
        return Standardised.of(y), (0.0, 0.0)
    means, sds = np.array([part.mean for part in related]), known_spreads(related)
    largest = max(float(np.abs(array).max(initial=TINY)) for array in (y, means, sds))  # squares of 1e200 overflow
    targets, means, logs = y / largest, means / largest, np.log(sds) - math.log(largest)
    typical, vague = _moments(logs, 1.0)
    sd = math.exp(typical)
    if n > 1:
        observed = max(float(targets.std(ddof=1)), SMALLEST_SD)
        typical, vague = _moments(logs, 1.0, math.log(observed), INDEPENDENT * (n - 1))
        weight = 2.0 * vague * INDEPENDENT * (n - 1)
        # The mode solves x + log x = const, whose solution is the Wright omega function.
        excess = float(wrightomega(math.log(weight) + 2.0 * (math.log(observed) - typical) + weight))
        sd, vague = math.exp(typical + 0.5 * (excess - weight)), vague / (1.0 + excess)
    sd = max(sd, TINY)
    centre, spread = _moments(means, sd, *(() if not n else (float(targets.mean()), INDEPENDENT * n)))
    trust = spread / (spread + sd**2 / (INDEPENDENT * n)) if n else 0.0
    mean = centre + (trust * (float(targets.mean()) - centre) if n else 0.0)
    z = (targets - mean) / sd
    if np.abs(z).max(initial=0.0) > FAR:
        return Standardised.of(y), (0.0, 0.0)
    return Standardised(z, mean * largest, sd * largest), (spread * (1.0 - trust) / sd**2, vague)


def known_spreads(tasks: Sequence[Standardised]) -> Floats:
    """Return the standard deviations of tasks whose targets differ, or else the size of the targets."""
    spreads = [task.sd for task in tasks if task.varies]
    return np.array(spreads or [max(abs(task.mean) for task in tasks) or 1.0])


def _moments(values: Floats, sd: float, estimate: float = 0.0, n_points: float = 0.0) -> tuple[float, float]:
    """Return mean and variance of a value over T tasks.

    Half an imaginary task is off by `sd`. The task at hand, with an estimate of its value from m points, counts m / (1
    + m) in the variance: a distant value is evidence that tasks differ.

    Args:
        values: `T`, of the tasks.
        sd: of the imaginary task.
        estimate: estimate for the task at hand.
        n_points: m.
    """
    centre, share = float(values.mean()), n_points / (1.0 + n_points)
    squares = float(np.square(values - centre).sum()) + PRIOR_TASKS * sd**2 + share * (estimate - centre) ** 2
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
        most: largest number of components.

    Returns: `T x q`, the task at hand last; q = 0 without meta-features.

    Raises:
        UsageError: when only some tasks have a meta-feature, or lengths differ.
        DataError: when a meta-feature is not finite.
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
    rank = min(most, int((weights > 1e-9 * max(weights.max(initial=0.0), 1.0)).sum()))
    result: Floats = left[:, :rank] * (weights[:rank] / max(weights.max(initial=0.0), 1e-300)) * len(metas) ** 0.5
    return result
