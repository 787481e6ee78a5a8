"""Whether related tasks are to be believed: what was forecast with them and without, judged by what came.

A model of several tasks that fits the evaluations of the task at hand after the fact says little: it is free enough to. What it forecast
before they came is another matter: it is sure of what related tasks tell, and wrong where they have nothing to do with it. The difference of
the log densities, summed up, is the log Bayes factor of related tasks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.error_units import ErrorUnits
from warmstart.bo.surrogates import Prediction

Floats = NDArray[np.float64]

NEEDED = (-1.0, -1.0, 0.0, 0.0, 1.0)
"""Log odds that related tasks need after so many forecasts, the last one after all more: at first they are trusted, and where they tell nothing in
the end the task at hand alone suggests better..."""
FEW = 3
"""...and 0 with fewer evaluations: a point of the design is as good then."""
STRANGE = -2.0
"""Log odds, before any forecast, of related tasks that do not forecast one another."""
GIVEN_UP = -4.0
"""Sum of what forecasts count at which related tasks are not asked any more, whatever comes; `STRANGE` is no part of it."""
WORST, BEST = -5.0, 2.0
"""What one forecast counts, at most: densities have no tails to be trusted."""
BESIDE = 0.01
"""A point so near to one that is known, as a root mean square of its columns, is forecast well by anybody: that counts for nobody."""
STALLED = 4
"""Evaluations, the last ones, of which something is to come..."""
LITTLE = 0.05
"""...more than this share of what is between the median error and the best."""
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

    def log_odds(self, error: float, *, known: int) -> float:
        """Compare log densities at the error that came after so many; where nothing is known alone, of its being better or worse than the one before.

        Densities are those of Student's t with one degree of freedom fewer than evaluations are known: units are known from these.
        """
        if self.sd_alone is None:
            above = 0.5 * math.erfc((self.mean_alone - self.mean) / self.sd / math.sqrt(2.0))
            share = 0.5 if error == self.mean_alone else above if error > self.mean_alone else 1.0 - above
            found = math.log(max(share, 1e-300) / 0.5)
        else:
            freedom = max(known - 1, 1)
            found = _log_density(error, self.mean, self.sd, freedom)
            found -= _log_density(error, self.mean_alone, self.sd_alone, freedom)
        return 0.0 if math.isnan(found) else min(max(found, WORST), BEST)  # NaN: errors beyond all measure


class Forecasts:
    """What was forecast of the points of one run.

    Args:
        strangers: related tasks do not forecast one another.
    """

    def __init__(self, *, strangers: bool = False) -> None:
        self._prior = STRANGE if strangers else 0.0
        self._known: dict[str, Forecast] = {}

    def add(self, x: Floats, forecast: Forecast) -> None:
        """Keep the forecast of a point `d`; the first one counts."""
        self._known.setdefault(_key(x), forecast)

    def believed(self, X: Floats, errors: Sequence[float] | Floats) -> bool:
        """Tell whether related tasks are to be believed, after `n` errors at `n x d` points."""
        odds = self._log_odds(X, errors)
        needed = 0.0 if len(errors) < FEW else NEEDED[min(len(odds), len(NEEDED) - 1)]
        return self._prior + sum(odds) >= needed

    def given_up(self, X: Floats, errors: Sequence[float] | Floats) -> bool:
        """Tell whether related tasks have been so wrong that they need not forecast any more."""
        return sum(self._log_odds(X, errors)) <= GIVEN_UP

    def _log_odds(self, X: Floats, errors: Sequence[float] | Floats) -> list[float]:
        """Judge the forecasts of points that were new by their errors, in the order in which these came, until they are given up."""
        odds: list[float] = []
        for known, (x, error) in enumerate(zip(X, map(float, errors), strict=True)):
            forecast = self._known.get(_key(x))
            if forecast is not None and sum(odds) > GIVEN_UP and not _is_beside(x, X[:known]):
                odds.append(forecast.log_odds(error, known=known))
        return odds

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {key: list(astuple(forecast)) for key, forecast in self._known.items()}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Take a record of `to_dict`."""
        self._known = {key: Forecast(*values) for key, values in record.items()}


def has_stalled(errors: Floats) -> bool:
    """Tell whether the last of `n` errors brought next to nothing."""
    if len(errors) < 2 * STALLED:
        return False
    halves = 0.5 * errors  # sums and differences of whole ones may be beyond all numbers
    best = halves.min()
    return bool(halves[:-STALLED].min() - best <= LITTLE * (np.median(halves) - best))


def moments(prediction: Prediction, units: ErrorUnits) -> tuple[float, float]:
    """Return mean and standard deviation of what would be observed at the one point of a prediction, in some units, as errors."""
    band = units.band(prediction, noise=True)
    mean, sd = float(band.mean[0]), float(band.sd[0])
    return mean, max(sd, math.ulp(mean))  # near the floor of logarithms both ends may round to it


def _log_density(error: float, mean: float, sd: float, freedom: int) -> float:
    """Compute the log density of Student's t, up to a constant."""
    z = (error - mean) / sd
    return -0.5 * (freedom + 1) * math.log1p(z * z / freedom) - math.log(sd)


def _is_beside(x: Floats, known: Floats) -> bool:
    """Tell whether a point `d` is as good as one of `n x d`; where one has a value and the other has none, they are 1 apart."""
    apart = np.where(np.isnan(x) & np.isnan(known), 0.0, np.nan_to_num(np.abs(known - x), nan=1.0))
    return bool((np.mean(np.square(apart), axis=1) < BESIDE**2).any())


def _key(x: Floats) -> str:
    """Return a text that is equal for points that are equal."""
    return (np.round(x, DIGITS) + 0.0).tobytes().hex()
