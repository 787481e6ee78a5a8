"""Acquisition functions by name.

To add one, write its score and slopes in one file, and one line in your package's metadata:
`[project.entry-points."warmstart.acquisitions"]`, `mine = "package.module:MINE"`, where `MINE` is an `Acquisition`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.scores import (
    integrate,
    integrate_log,
    integration_weights,
    log_confidence_gain,
    log_confidence_gain_slopes,
    log_expected_improvement,
    log_expected_improvement_slopes,
    log_integration_weights,
    log_probability_of_improvement,
    log_probability_of_improvement_slopes,
    lower_confidence_bound,
    lower_confidence_bound_slopes,
)
from warmstart.history_store.registry import Registry

Floats = NDArray[np.float64]
PI_MARGIN = 0.03
"""Least improvement that `pi` counts, in standard deviations of the errors: without it, points beside the best one
win."""


@dataclass(frozen=True, slots=True)
class Acquisition:
    """A score of a point by mean, variance and the best error so far; see `warmstart.bo.acquisition.scores`.

    Attributes:
        score: of means, variances and best errors.
        slopes: its derivatives by mean and by variance.
        label: of its values in plots.
        is_log: whether scores are logarithms, which are averaged and multiplied as such.
        logarithmic: the form with the same ranking that other logarithmic criteria are added to; None = itself.
        margin: least improvement that counts, in standard deviations of the errors.
        per_second: whether it is divided by the expected duration.
    """

    score: Callable[[Floats, Floats, Floats], Floats]
    slopes: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]
    label: str
    is_log: bool = True
    logarithmic: "Acquisition | None" = None
    margin: float = 0.0
    per_second: bool = False

    def average(self, scores: Floats) -> Floats:
        """Return the average of `S x M` scores over samples: `M`."""
        return integrate_log(scores) if self.is_log else integrate(scores)

    def weights(self, scores: Floats) -> Floats:
        """Return the share of each of `S x M` scores in the slope of their average: `S x M`."""
        return log_integration_weights(scores) if self.is_log else integration_weights(scores)


EI = Acquisition(log_expected_improvement, log_expected_improvement_slopes, "log EI")
ACQUISITIONS: Registry[Acquisition] = Registry(
    "warmstart.acquisitions",
    "acquisition",
    {
        "ei": EI,
        "pi": Acquisition(
            log_probability_of_improvement, log_probability_of_improvement_slopes, "log PI", margin=PI_MARGIN
        ),
        "lcb": Acquisition(
            lower_confidence_bound,
            lower_confidence_bound_slopes,
            "−LCB",
            is_log=False,
            logarithmic=Acquisition(log_confidence_gain, log_confidence_gain_slopes, "log −LCB"),
        ),
        "ei-per-second": replace(EI, label="log EI per second", per_second=True),
    },
    check=lambda entry: isinstance(entry, Acquisition),
    requirement="a warmstart.bo.acquisition.registry.Acquisition",
)
"""Every acquisition function by name; EI and PI as logarithms, which do not underflow."""
