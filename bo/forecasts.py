"""Compare one-step forecasts with and without related tasks; related tasks are used while their forecasts are better.

A model of several tasks can fit nearly any evaluations after the fact, so its fit says little. Its forecasts say more:
unrelated tasks make them confident and wrong. The sum of the differences of log densities is the log Bayes factor of
the related tasks.
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
"""Log odds that related tasks need after 0, 1, 2, ... forecasts, the last number after all later ones. At first they
are trusted; later, uninformative ones do worse than the task at hand alone..."""
FEW = 3
"""...and 0 with fewer evaluations than this: a point of the design is as good then."""
STRANGE = -2.0
"""Log odds, before any forecast, of related tasks that do not forecast one another."""
DISMISSAL = -4.0
"""Sum of log odds, without `STRANGE`, at which related tasks are dropped for the rest of the run."""
WORST, BEST = -5.0, 2.0
"""Limits of the log odds of one forecast: tails of densities are not reliable."""
BESIDE = 0.01
"""Root mean square distance of columns within which a forecast does not count: both models forecast a repeat well."""
STALLED = 4
"""A search has stalled when its last evaluations, this many, gain no more..."""
LITTLE = 0.05
"""...than this share of the distance from the median error to the best."""
DIGITS = 9
"""Decimal places to which equal points agree."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Moments of the next error, forecast with related tasks and without.

    Attributes:
        mean: with related tasks.
        sd: with related tasks, noise included.
        mean_alone: without related tasks; after a single evaluation, its error.
        sd_alone: without related tasks; None after a single evaluation, when better and worse are equally likely.
    """

    mean: float
    sd: float
    mean_alone: float
    sd_alone: float | None

    def log_odds(self, error: float, *, n_before: int) -> float:
        """Compute the log odds of the forecast with related tasks against the one without, at the observed error.

        Densities are Student's t with one degree of freedom fewer than earlier evaluations, as these set the units.
        After a single evaluation the odds are those of its being improved on or not.

        Args:
            error: observed.
            n_before: number of earlier evaluations.
        """
        if self.sd_alone is None:
            above = 0.5 * math.erfc((self.mean_alone - self.mean) / self.sd / math.sqrt(2.0))
            share = 0.5 if error == self.mean_alone else above if error > self.mean_alone else 1.0 - above
            odds = math.log(max(share, 1e-300) / 0.5)
        else:
            freedom = max(n_before - 1, 1)
            odds = _log_density(error, self.mean, self.sd, freedom)
            odds -= _log_density(error, self.mean_alone, self.sd_alone, freedom)
        return 0.0 if math.isnan(odds) else min(max(odds, WORST), BEST)  # NaN: infinite densities


class Forecasts:
    """Forecasts of the points of one run.

    Args:
        strangers: related tasks do not forecast one another.
    """

    def __init__(self, *, strangers: bool = False) -> None:
        self._prior = STRANGE if strangers else 0.0
        self._forecasts: dict[str, Forecast] = {}

    def add(self, x: Floats, forecast: Forecast) -> None:
        """Store the forecast of a point `d`, unless it has one."""
        self._forecasts.setdefault(_key(x), forecast)

    def believed(self, X: Floats, errors: Sequence[float] | Floats) -> bool:
        """Tell whether related tasks have forecast `n` errors at `n x d` points well enough to be used."""
        odds = self._log_odds(X, errors)
        needed = 0.0 if len(errors) < FEW else NEEDED[min(len(odds), len(NEEDED) - 1)]
        return self._prior + sum(odds) >= needed

    def dismissed(self, X: Floats, errors: Sequence[float] | Floats) -> bool:
        """Tell whether the forecasts of related tasks were so wrong that they are dropped for good."""
        return sum(self._log_odds(X, errors)) <= DISMISSAL

    def _log_odds(self, X: Floats, errors: Sequence[float] | Floats) -> list[float]:
        """Compute the log odds of forecasts at new points, in order, until related tasks are dropped."""
        odds: list[float] = []
        for n_before, (x, error) in enumerate(zip(X, map(float, errors), strict=True)):
            forecast = self._forecasts.get(_key(x))
            if forecast is not None and sum(odds) > DISMISSAL and not _is_repeat(x, X[:n_before]):
                odds.append(forecast.log_odds(error, n_before=n_before))
        return odds

    def to_dict(self) -> dict[str, Any]:
        """Return the forecasts in JSON types."""
        return {key: list(astuple(forecast)) for key, forecast in self._forecasts.items()}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore a record of `to_dict`."""
        self._forecasts = {key: Forecast(*values) for key, values in record.items()}


def has_stalled(errors: Floats) -> bool:
    """Tell whether the last `STALLED` of `n` errors improved the best by next to nothing."""
    if len(errors) < 2 * STALLED:
        return False
    halves = 0.5 * errors  # sums and differences of whole errors may overflow
    best = halves.min()
    return bool(halves[:-STALLED].min() - best <= LITTLE * (np.median(halves) - best))


def moments(prediction: Prediction, units: ErrorUnits) -> tuple[float, float]:
    """Return mean and standard deviation, noise included, of a prediction at one point, as errors."""
    band = units.band(prediction, noise=True)
    mean, sd = float(band.mean[0]), float(band.sd[0])
    return mean, max(sd, math.ulp(mean))  # near the floor of logarithms both ends may round to it


def _log_density(error: float, mean: float, sd: float, freedom: int) -> float:
    """Compute the log density of Student's t, up to a constant."""
    z = (error - mean) / sd
    return -0.5 * (freedom + 1) * math.log1p(z * z / freedom) - math.log(sd)


def _is_repeat(x: Floats, points: Floats) -> bool:
    """Tell whether a point `d` repeats one of `n x d`; an active and an inactive value are 1 apart."""
    apart = np.where(np.isnan(x) & np.isnan(points), 0.0, np.nan_to_num(np.abs(points - x), nan=1.0))
    return bool((np.mean(np.square(apart), axis=1) < BESIDE**2).any())


def _key(x: Floats) -> str:
    """Return a text that is the same for points that agree to `DIGITS`."""
    return (np.round(x, DIGITS) + 0.0).tobytes().hex()
