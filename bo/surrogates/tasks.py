"""Targets of several tasks as one data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bo.surrogates.base import Standardised, Task, checked_data
from history_store.errors import DataError, UsageError

Floats = NDArray[np.float64]

OWN_SCALE_FROM = 3
"""Targets of the task at hand, before it is standardised by itself; below, by the average task."""
FAR = 100.0
"""Standard deviations of the average task within which targets of another one lie, if their units are the same."""
MOST_META = 8
"""Dimensions that meta-features are reduced to, at most."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Points and targets of T tasks, each standardised by itself; the last task is the one at hand.

    Attributes:
        X: `n x d`.
        z: `n`, in units of each task.
        task: `n`, in 0..T-1.
        n_tasks: T.
        mean: of the targets of the task at hand.
        sd: of them; where it has fewer than three, both are the average of the related tasks (unless a target is more than 100 sd
            off, which says that units differ).
    """

    X: Floats
    z: Floats
    task: NDArray[np.intp]
    n_tasks: int
    mean: float
    sd: float

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
        if len(y) >= OWN_SCALE_FROM or not parts:
            own = Standardised.of(y)
        else:
            mean, sd = float(np.mean([part.mean for part in parts])), float(np.mean([part.sd for part in parts]))
            own = Standardised((y - mean) / sd, mean, sd)
            if np.abs(own.z).max(initial=0.0) > FAR:
                own = Standardised.of(y)
        parts.append(own)
        return cls(
            np.concatenate([*(task.X for task in related), X]),
            np.concatenate([part.z for part in parts]),
            np.repeat(np.arange(len(parts)), [len(part.z) for part in parts]),
            len(parts),
            own.mean,
            own.sd,
        )


def checked_related(related: Sequence[Task], *, conditional: Sequence[int] = ()) -> list[Task]:
    """Read related tasks as float64.

    Raises:
        UsageError: when shapes do not fit, or a task has no point.
        DataError: when a point or a target is no finite number, but for NaN in conditional columns.
    """
    return [Task(*checked_data(task.X, task.y, conditional=conditional), task.meta) for task in related]


def reduced_meta(related: Sequence[Task], meta: Floats | None, *, most: int = MOST_META) -> Floats:
    """Reduce meta-features to the principal components that tell the tasks apart, the first one of standard deviation 1.

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
