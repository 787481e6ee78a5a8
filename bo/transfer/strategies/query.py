"""Query and choices: the input and the output of a strategy; siblings and parts of one source count as one."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Dedupe = Literal["next_best", "next_neighbour", "keep"]

Reach = tuple[tuple[float, float], ...]
"""Reach of a weighting of datasets by nearness: pairs of reach > 0 and share ≥ 0; see `nearness_weights`."""

UNCALIBRATED: Reach = ((3.0, 1.0),)
"""Reach without a calibration."""


@dataclass(frozen=True, slots=True)
class Query:
    """Checked request for designs (see `warmstart.bo.transfer.designs.designs` for the checks).

    Attributes:
        errors: `m x c` float64, NaN = missing, at least one known in each row.
        distances: `m` float64 ≥ 0 from the new dataset, or None.
        k: number of designs, in 1..c.
        dedupe: rule of `nearest` for a neighbour whose best configuration is taken.
        reach: of the weights of `joint`, which fall with the rank.
        groups: `m` numbers of the datasets' sources, or None: each dataset is a source.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0, for `joint` and `portfolio`; see
            `warmstart.bo.transfer.strategies.scenarios`.
    """

    errors: NDArray[np.float64]
    distances: NDArray[np.float64] | None
    k: int
    dedupe: Dedupe = "next_best"
    reach: Reach = UNCALIBRATED
    groups: NDArray[np.int64] | None = None
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen configuration.

    Attributes:
        row: of the configuration, in 0..c-1.
        neighbour: row of the dataset on which it did well, or None for a choice by all datasets together.
        distance: of the neighbour, or None.
        source_error: error on the neighbour, or None.
    """

    row: int
    neighbour: int | None = None
    distance: float | None = None
    source_error: float | None = None


Strategy = Callable[[Query], list[Choice]]
"""Function from a query to at most k choices, best first; `warmstart.bo.transfer.designs.designs` fills them up to
k."""


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
