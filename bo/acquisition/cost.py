"""Expected improvement per second, by a model of the logarithm of durations [Snoek2012practical] §3.2.

The expectation of the inverse duration is exact: E[1/c] = exp(-μ + σ²/2) for ln c ~ N(μ, σ²). It grows without bound
where durations are unknown, so σ² is limited to 2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.acquisition.scores import integrate_log, log_integration_weights
from warmstart.bo.surrogates import Surrogate

Floats = NDArray[np.float64]

SHORTEST = 1e-6
"""Least duration of an evaluation, as a share of the median."""
LARGEST_VAR = 2.0
"""Limit of the variance of a log duration."""


def log_durations(durations: ArrayLike) -> Floats:
    """Return the logarithms of `n` durations, or other costs, in any unit.

    Shorter ones count as the least duration above 0, or `SHORTEST` of the median, whichever is longer. All logarithms
    are 0 when no duration is above 0.
    """
    values = np.asarray(durations, dtype=np.float64)
    least = float(values.min(initial=np.inf, where=values > 0))
    if not np.isfinite(least):
        return np.zeros_like(values)
    logs: Floats = np.log(np.maximum(values, max(least, SHORTEST * float(np.median(values)))))
    return logs


def log_expected_inverse(mean: Floats, var: Floats) -> Floats:
    """Compute log E[1/c] = -μ + min(σ², 2)/2 of mean and variance of ln c, of any shape."""
    value: Floats = -mean + 0.5 * np.minimum(var, LARGEST_VAR)
    return value


@dataclass(frozen=True, slots=True)
class InverseCost:
    """Acquisition function log E[1/c], averaged over samples of a surrogate of durations.

    Attributes:
        surrogate: fitted to `log_durations`.
    """

    surrogate: Surrogate

    @property
    def rough(self) -> "InverseCost":
        """Return itself."""
        return self

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`."""
        prediction = self.surrogate.predict(X)
        return integrate_log(log_expected_inverse(prediction.mean, prediction.var))

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`."""
        prediction, dmean, dvar = self.surrogate.predict_gradient(X)
        values = log_expected_inverse(prediction.mean, prediction.var)
        slopes = -dmean + 0.5 * np.where((prediction.var < LARGEST_VAR)[..., None], dvar, 0.0)
        return integrate_log(values), np.einsum("sm,smd->md", log_integration_weights(values), slopes)
