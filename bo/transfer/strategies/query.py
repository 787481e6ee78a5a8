"""Query and choices: the input and the output of a strategy."""

from collections.abc import Callable
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
            `warmstart.bo.transfer.strategies.noise`.
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
