"""Whether related tasks are to be believed: what was forecast with them and without, judged by what came.

A model of several tasks that fits the evaluations of the task at hand after the fact says little: it is free enough to. What it forecast
before they came is another matter: it is sure of what related tasks tell, and wrong where they have nothing to do with it. The difference of
the log densities, summed up, is the log Bayes factor of related tasks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bo.surrogates import Prediction

Floats = NDArray[np.float64]

IN_FAVOUR = 1.0
"""Log odds that are given for nothing: who names related tasks has a reason."""
WORST, BEST = -5.0, 2.0
"""What one forecast counts, at most: densities have no tails to be trusted."""
DIGITS = 9
"""Columns of points are the same to so many digits."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Moments of an error that is to come, with related tasks and without.

    Attributes:
        mean: with related tasks.
        sd: standard deviation of what would be observed.
        mean_alone: without; where one evaluation is all that is known alone, its error.
        sd_alone: likewise; None where one evaluation is all: better or worse than that, as likely as not.
    """

    mean: float
    sd: float
    mean_alone: float
    sd_alone: float | None

    def log_odds(self, error: float) -> float:
        """Compare log densities at the error that came; where nothing is known alone, of its being better or worse than the one before."""
        if self.sd_alone is None:
            above = 0.5 * math.erfc((self.mean_alone - self.mean) / self.sd / math.sqrt(2.0))
            share = above if error > self.mean_alone else 1.0 - above
            found = math.log(max(share, 1e-300) / 0.5)
        else:
            found = _log_density(error, self.mean, self.sd) - _log_density(error, self.mean_alone, self.sd_alone)
        return 0.0 if math.isnan(found) else min(max(found, WORST), BEST)  # NaN: errors beyond all measure


class Forecasts:
    """What was forecast of the points of one run."""

    def __init__(self) -> None:
        self._known: dict[str, Forecast] = {}

    def add(self, x: Floats, forecast: Forecast) -> None:
        """Keep the forecast of a point `d`; the first one counts."""
        self._known.setdefault(_key(x), forecast)

    def log_odds(self, X: Floats, errors: Sequence[float]) -> float:
        """Judge the forecasts of `n x d` points by their `n` errors."""
        odds = IN_FAVOUR
        for x, error in zip(X, errors, strict=True):
            forecast = self._known.get(_key(x))
            odds += 0.0 if forecast is None else forecast.log_odds(error)
        return odds

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {key: list(astuple(forecast)) for key, forecast in self._known.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`."""
        found = cls()
        found._known = {key: Forecast(*values) for key, values in record.items()}
        return found


def moments(prediction: Prediction, zero: float, one: float) -> tuple[float, float]:
    """Return mean and standard deviation of what would be observed at the one point of a prediction, in units of zero + one z."""
    means, variances = prediction.mean[:, 0], prediction.var[:, 0] + prediction.noise
    return zero + one * float(means.mean()), one * math.sqrt(float(means.var() + variances.mean()))


def _log_density(error: float, mean: float, sd: float) -> float:
    """Compute the log density of a normal distribution."""
    z = (error - mean) / sd
    return -0.5 * (z * z + math.log(2.0 * math.pi)) - math.log(sd)


def _key(x: Floats) -> str:
    """Return a text that is equal for points that are equal."""
    return (np.round(x, DIGITS) + 0.0).tobytes().hex()
