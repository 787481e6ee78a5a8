"""Units in which a surrogate models errors: standard deviations, or those of logarithms.

Where errors go over orders of magnitude, no stationary process fits them: it promises too much everywhere. Their logarithms, above a
floor below the best, are closer to one. Which of the two a Gaussian process fits better is told by its evidence, the Jacobian included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.base import Prediction, Standardised
from warmstart.bo.surrogates.gp.covariance import Stationary
from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, lengthscale_prior, level_priors, most_probable
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.bo.surrogates.gp.metric import Metric

Floats = NDArray[np.float64]

WARPING = ("gp", "gp-map", "mt-gp")
"""Surrogates whose evidence tells how errors are to be modelled; with related tasks, those of the task at hand alone."""
OFFSETS = (1.0, 0.1)
"""Floors that are tried: so far below the best error, in units of what lies between it and the median."""
LEAD = 5.0
"""Log evidence that logarithms must have ahead."""
FIRST = 10
"""Evaluations before which the evidence is not asked..."""
GROWTH = 1.3
"""...and how many times as many there must be before it is asked again."""
MOST = 100
"""Evaluations that it is asked about, evenly spaced over the search, and steps to the most probable hyperparameters."""
STEPS = 40
ROUGHLY = 1e-4
"""Growth of the log evidence, as a share, with which a search for them ends: tenths of a nat do not matter."""
MANY_FAIL = 0.1
"""Share of evaluations that fail, or miss a constraint, above which logarithms are not taken."""
LARGEST = float(np.finfo(np.float64).max)
"""The largest number there is."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Predicted errors.

    Attributes:
        mean: `m`; medians, where logarithms are modelled.
        sd: `m`; a quarter of what is between low and high, where logarithms are modelled.
        low: `m`, two standard deviations below, in the model's units.
        high: `m`, two above.
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats


ROUNDINGS = 8
"""Units in the last place by which the least error is above a floor, at least: the logarithm of fewer is one of rounding."""


def all_equal(y: Floats) -> bool:
    """Tell whether `n` ≥ 1 errors differ by no more than roundings: then nothing tells what makes them."""
    return bool(0.5 * y.max() - 0.5 * y.min() <= 0.5 * ROUNDINGS * np.spacing(np.abs(y).max()))  # may be 1e308


@dataclass(frozen=True, slots=True)
class ErrorUnits:
    """z = (y - zero) / one; with a floor z = (log(y - floor) - zero) / one.

    Attributes:
        zero: the error, or logarithm, that is 0 in these units.
        one: the size of 1.
        floor: below all errors; None = no logarithms are taken.
    """

    zero: float
    one: float
    floor: float | None = None

    @classmethod
    def standard(cls, y: Floats) -> tuple[Floats, ErrorUnits]:
        """Return `n` ≥ 1 errors with mean 0 and standard deviation 1, and these units."""
        own = Standardised.of(y)
        return own.z, cls(own.mean, own.sd)

    @classmethod
    def logarithmic(cls, y: Floats, offset: float) -> tuple[Floats, ErrorUnits] | None:
        """Return standardised logarithms of `n` ≥ 1 errors above a floor, and these units.

        Returns: None where half of the errors are the least one, or as good as: where the floor is it but for rounding.

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
        own = Standardised.of(np.log(y - floor))
        return own.z, cls(own.mean, own.sd, floor)

    def log_slope(self, y: Floats) -> Floats:
        """Compute log dy/dz at `n` errors."""
        rest = np.zeros_like(y) if self.floor is None else np.log(y - self.floor)
        return float(np.log(self.one)) + rest

    def errors(self, z: Floats) -> Floats:
        """Return values in these units as errors; what is beyond all numbers, as the largest one."""
        with np.errstate(over="ignore"):
            line = self.zero + self.one * z
            return np.clip(line if self.floor is None else self.floor + np.exp(line), -LARGEST, LARGEST)

    def band(self, prediction: Prediction, *, noise: bool = False) -> Band:
        """Return predictions at `m` points, the mixture over samples, as errors.

        Args:
            prediction: in these units.
            noise: of what would be observed, rather than of the function without noise.
        """
        mean = prediction.mean.mean(axis=0)
        var = (prediction.var + prediction.noise[:, None] * noise).mean(axis=0) + prediction.mean.var(axis=0)
        sd = np.sqrt(var)
        low, middle, high = (self.errors(mean + k * sd) for k in (-2.0, 0.0, 2.0))
        with np.errstate(over="ignore"):
            linear = np.minimum(self.one * sd, LARGEST)
        return Band(middle, linear if self.floor is None else 0.25 * high - 0.25 * low, low, high)


def preferred_offset(X: Floats, y: Floats, conditional: tuple[int, ...] = ()) -> float | None:
    """Return the offset of the floor that a Gaussian process prefers; None where it prefers the errors as they are.

    Args:
        X: `n x d` points, in the order of their evaluation.
        y: `n` errors.
        conditional: columns that may be NaN.
    """
    n = len(y)
    if n < FIRST:
        return None
    rows = np.linspace(0, n - 1, min(n, MOST)).round().astype(np.intp)
    points, errors = (np.asarray(each[rows], dtype=np.float64) for each in (X, y))
    return _preferred(points.tobytes(), errors.tobytes(), conditional)


@lru_cache(maxsize=64)  # a sampler without a state asks again for every trial
def _preferred(points: bytes, errors: bytes, conditional: tuple[int, ...]) -> float | None:
    """Return what `preferred_offset` does, of the bytes of float64 arrays."""
    y = np.frombuffer(errors)
    X = np.frombuffer(points).reshape(len(y), -1)
    plain = _log_evidence(X, y, *ErrorUnits.standard(y), conditional)
    best, most = None, plain + LEAD
    for offset in OFFSETS:
        logarithms = ErrorUnits.logarithmic(y, offset)
        value = -np.inf if logarithms is None else _log_evidence(X, y, *logarithms, conditional)
        if value > most:
            best, most = offset, value
        if value < plain:  # nor are closer floors preferred then
            break
    return best


def preferred_logarithms(X: Floats, y: Floats, conditional: tuple[int, ...] = ()) -> tuple[Floats, ErrorUnits] | None:
    """Return standardised logarithms of `n` errors at `n x d` points, and their units; None where errors were preferred as they are, when that was asked last."""
    asked = evidence_rows(len(y))
    offset = preferred_offset(X[:asked], y[:asked], conditional)
    return None if offset is None else ErrorUnits.logarithmic(y, offset)


def evidence_rows(n: int) -> int:
    """Return the number of evaluations, at most n, about which the evidence was asked last: there must be 1.3 times as many before it is asked again."""
    last = following = FIRST
    while following <= n:
        last, following = following, int(np.ceil(GROWTH * following))
    return min(last, n)


def _log_evidence(X: Floats, y: Floats, z: Floats, units: ErrorUnits, conditional: tuple[int, ...]) -> float:
    """Compute the log evidence of `n` errors, z in some units, by the most probable hyperparameters, with their prior."""
    metric = Metric(X.shape[1], conditional=conditional)
    shape = metric.prior(lengthscale_prior(metric.d, "modern"))
    prior = HyperPrior((*shape, *level_priors("modern", noiseless=False)))
    evidence = Evidence(X, z, Stationary(KERNELS["matern52"], metric))
    theta = most_probable(evidence, prior, [prior.start()], steps=STEPS, tolerance=ROUGHLY)
    return evidence.value(theta) + prior.value_and_gradient(theta)[0] - float(units.log_slope(y).sum())
