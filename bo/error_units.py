"""Units in which a surrogate models errors: standard deviations, or those of logarithms.

No stationary process fits errors that span orders of magnitude: it promises too much everywhere. Their logarithms above
a floor, which lies below the best error, are closer to stationary. The evidence of a Gaussian process, with the
Jacobian, decides between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.base import Prediction, Standardised
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, lengthscale_prior, level_priors, most_probable
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence

Floats = NDArray[np.float64]

WARPING = ("gp", "gp-map", "mt-gp")
"""Surrogates whose evidence chooses the units; with related tasks, the evidence of the task at hand alone."""
OFFSETS = (1.0, 0.1)
"""Floors to try: distances below the best error, in units of its distance to the median."""
LEAD = 5.0
"""Lead in log evidence that logarithms need."""
FIRST = 10
"""Evaluations from which the evidence is compared..."""
GROWTH = 1.3
"""...and their growth before it is compared again."""
MOST = 100
"""Most evaluations in a comparison, evenly spaced over the search."""
STEPS = 40
"""Steps to the most probable hyperparameters."""
ROUGHLY = 1e-4
"""Relative growth of the log evidence at which these steps end: tenths of a nat do not matter."""
MANY_FAIL = 0.1
"""Share of failed evaluations and missed constraints above which errors stay as they are."""
LARGEST = float(np.finfo(np.float64).max)
"""The largest float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Predicted errors of `m` points, with an interval.

    Attributes:
        mean: `m`; medians for logarithms.
        sd: `m`; for logarithms a quarter of the distance from low to high.
        low: `m`, two standard deviations below, in the model's units.
        high: `m`, two above.
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats


ROUNDINGS = 8
"""Least distance of an error from the floor, in units in the last place: a smaller one is rounding."""


def all_equal(y: Floats) -> bool:
    """Tell whether `n` ≥ 1 errors differ by roundings only."""
    return bool(
        0.5 * y.max() - 0.5 * y.min() <= 0.5 * ROUNDINGS * np.spacing(np.abs(y).max())
    )  # halves: 1e308 would overflow


@dataclass(frozen=True, slots=True)
class ErrorUnits:
    """Linear or logarithmic units: z = (y - zero) / scale, with a floor z = (log(y - floor) - zero) / scale.

    Attributes:
        zero: the error, or logarithm, at z = 0.
        scale: the error, or logarithm, per unit of z.
        floor: below all errors; None = linear.
    """

    zero: float
    scale: float
    floor: float | None = None

    @classmethod
    def standard(cls, y: Floats) -> tuple[Floats, ErrorUnits]:
        """Return `n` ≥ 1 errors with mean 0 and standard deviation 1, and these units."""
        standardised = Standardised.of(y)
        return standardised.z, cls(standardised.mean, standardised.sd)

    @classmethod
    def logarithmic(cls, y: Floats, offset: float) -> tuple[Floats, ErrorUnits] | None:
        """Return standardised logarithms of `n` ≥ 1 errors above a floor, and these units.

        Returns: None when half of the errors equal the least one, so that the floor is the least error but for
        rounding.

        Args:
            y: errors.
            offset: of the floor, one of `OFFSETS`.
        """
        least, greatest = float(y.min()), float(y.max())
        middle = 2.0 * float(np.median(0.5 * y))  # the sum of two errors may overflow
        floor = least - offset * (middle - least)
        if not math.isfinite(greatest - floor):
            return None
        if least - floor <= ROUNDINGS * float(np.spacing(max(abs(least), abs(floor)))):
            return None
        standardised = Standardised.of(np.log(y - floor))
        return standardised.z, cls(standardised.mean, standardised.sd, floor)

    def log_slope(self, y: Floats) -> Floats:
        """Compute log dy/dz at `n` errors."""
        rest = np.zeros_like(y) if self.floor is None else np.log(y - self.floor)
        return float(np.log(self.scale)) + rest

    def errors(self, z: Floats) -> Floats:
        """Convert values in these units to errors, at most `LARGEST` in size."""
        with np.errstate(over="ignore"):
            line = self.zero + self.scale * z
            return np.clip(line if self.floor is None else self.floor + np.exp(line), -LARGEST, LARGEST)

    def band(self, prediction: Prediction, *, noise: bool = False) -> Band:
        """Convert predictions at `m` points, mixed over samples, to errors.

        Args:
            prediction: in these units.
            noise: include the noise of an observation.
        """
        mean = prediction.mean.mean(axis=0)
        var = (prediction.var + prediction.noise[:, None] * noise).mean(axis=0) + prediction.mean.var(axis=0)
        sd = np.sqrt(var)
        low, middle, high = (self.errors(mean + k * sd) for k in (-2.0, 0.0, 2.0))
        with np.errstate(over="ignore"):
            linear = np.minimum(self.scale * sd, LARGEST)
        return Band(middle, linear if self.floor is None else 0.25 * high - 0.25 * low, low, high)


def preferred_offset(X: Floats, y: Floats, conditional: tuple[int, ...] = ()) -> float | None:
    """Return the offset of the floor that a Gaussian process prefers; None when it prefers linear units.

    Args:
        X: `n x d` points, in the order of their evaluation.
        y: `n` errors.
        conditional: columns that may be NaN.
    """
    n = len(y)
    if n < FIRST:
        return None
    rows = np.linspace(0, n - 1, min(n, MOST)).round().astype(np.intp)
    points, errors = (np.asarray(array[rows], dtype=np.float64) for array in (X, y))
    return _preferred(points.tobytes(), errors.tobytes(), conditional)


@lru_cache(maxsize=64)  # a stateless sampler repeats the comparison for every trial
def _preferred(points: bytes, errors: bytes, conditional: tuple[int, ...]) -> float | None:
    """Compute `preferred_offset` from the bytes of float64 arrays, which can be hashed."""
    y = np.frombuffer(errors)
    X = np.frombuffer(points).reshape(len(y), -1)
    plain = _log_evidence(X, y, *ErrorUnits.standard(y), conditional)
    best, most = None, plain + LEAD
    for offset in OFFSETS:
        logarithms = ErrorUnits.logarithmic(y, offset)
        value = -np.inf if logarithms is None else _log_evidence(X, y, *logarithms, conditional)
        if value > most:
            best, most = offset, value
        if value < plain:  # closer floors are no better then
            break
    return best


def preferred_logarithms(X: Floats, y: Floats, conditional: tuple[int, ...] = ()) -> tuple[Floats, ErrorUnits] | None:
    """Return standardised logarithms of `n` errors at `n x d` points, with units; None when linear units fit better."""
    n_compared = evidence_rows(len(y))
    offset = preferred_offset(X[:n_compared], y[:n_compared], conditional)
    return None if offset is None else ErrorUnits.logarithmic(y, offset)


def evidence_rows(n: int) -> int:
    """Return the number of evaluations in the last comparison, at most n; the next needs `GROWTH` times as many."""
    last = following = FIRST
    while following <= n:
        last, following = following, int(np.ceil(GROWTH * following))
    return min(last, n)


def _log_evidence(X: Floats, y: Floats, z: Floats, units: ErrorUnits, conditional: tuple[int, ...]) -> float:
    """Compute the log evidence of `n` errors, z in units, at the most probable hyperparameters, with their prior."""
    metric = Metric(X.shape[1], conditional=conditional)
    shape = metric.prior(lengthscale_prior(metric.d, "modern"))
    prior = HyperPrior((*shape, *level_priors("modern", noiseless=False)))
    evidence = Evidence(X, z, Stationary(KERNELS["matern52"], metric))
    theta = most_probable(evidence, prior, [prior.start()], steps=STEPS, tolerance=ROUGHLY)
    return evidence.value(theta) + prior.value_and_gradient(theta)[0] - float(units.log_slope(y).sum())
