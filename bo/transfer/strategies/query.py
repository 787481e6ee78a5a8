"""Query and choices: the input and the output of a strategy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Dedupe = Literal["next_best", "next_neighbour", "keep"]

Reach = tuple[tuple[float, float], ...]
"""How far a weighting of datasets by nearness reaches: pairs of reach > 0 and share ≥ 0; see `nearness_weights`."""

UNCALIBRATED: Reach = ((3.0, 1.0),)
"""The reach where a history was not calibrated."""


@dataclass(frozen=True, slots=True)
class Query:
    """Checked request for designs (see `warmstart.bo.transfer.designs.designs` for the checks).

    Attributes:
        errors: `m x c` float64, NaN = missing, at least one known in each row.
        distances: `m` float64 ≥ 0 from the new dataset, or None.
        k: designs wanted, in 1..c.
        dedupe: what `nearest` does where a neighbour's best configuration is taken already.
        reach: how quickly `joint` lets weights fall with the rank.
        groups: `m` numbers of the datasets' sources, or None: each is a source of its own.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0: `joint` and `portfolio` choose what
            does well over all that the errors might be; see `warmstart.bo.transfer.strategies.noise`.
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
    """One chosen configuration.

    Attributes:
        row: of the configuration, in 0..c-1.
        neighbour: row of the dataset on which it did well, or None where it comes from all datasets together.
        distance: of that dataset, or None.
        source_error: its error on that dataset, or None.
    """

    row: int
    neighbour: int | None = None
    distance: float | None = None
    source_error: float | None = None


Strategy = Callable[[Query], list[Choice]]
"""Answers a query with at most k choices, best first; what is short of k is filled by `warmstart.bo.transfer.designs.designs`."""
