"""Weights and turns by source: siblings and parts of one source count as one."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray


def equal_weights(m: int, groups: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Return weights of datasets that are equal for all sources, and equal within a source.

    Args:
        m: number of datasets.
        groups: `m` numbers of their sources; None = each dataset is a source.

    Returns: `m` > 0 with sum 1.
    """
    if groups is None:
        return np.full(m, 1.0 / m)
    _, source, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return 1.0 / (len(counts) * counts[source])


def turns(order: NDArray[np.int64], groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Reorder datasets so that every source is used once before any is used twice; otherwise the order stays.

    Args:
        order: rows of the datasets.
        groups: by row, as in `equal_weights`.
    """
    if groups is None:
        return order
    uses: dict[int, int] = {}
    rounds = []
    for group in groups[order].tolist():
        rounds.append(uses.get(group, 0))
        uses[group] = rounds[-1] + 1
    return order[np.argsort(np.array(rounds, dtype=np.int64), kind="stable")]


def number_groups(groups: Sequence[Hashable] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of groups in order of first appearance; an array of numbers is returned unchanged."""
    if isinstance(groups, np.ndarray) and np.issubdtype(groups.dtype, np.integer):
        return groups.astype(np.int64, copy=False)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([numbers[group] for group in groups], dtype=np.int64)
