"""Acquisition functions: how much one evaluation at a point promises. Errors are minimised; all scores are maximised.

Means, variances and the best error so far broadcast against each other, usually `S x M`, `S x M` and `S x 1`. A score is
averaged over samples of hyperparameters (`integrate`), never computed from averaged moments [Snoek2012practical] Eq. (6).
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Acquisition = Callable[[Floats, Floats, Floats], Floats]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
KAPPA = 2.0
"""Standard deviations that `lcb` subtracts."""
DIRECT_ABOVE = -1.0
"""Below this γ the formula of log EI that cannot underflow is used."""
SERIES_BELOW = -1e3
"""Below this γ its differences cancel, and the tail's expansion is used."""


def probability_of_improvement(mean: Floats, var: Floats, best: Floats) -> Floats:
    """Compute Φ(γ), γ = (best - μ)/σ."""
    from scipy.special import ndtr

    value: Floats = ndtr((best - mean) / np.sqrt(var))
    return value


def log_probability_of_improvement(mean: Floats, var: Floats, best: Floats) -> Floats:
    """Compute log Φ(γ), finite also where Φ underflows."""
    from scipy.special import log_ndtr

    value: Floats = log_ndtr((best - mean) / np.sqrt(var))
    return value


def expected_improvement(mean: Floats, var: Floats, best: Floats) -> Floats:
    """Compute σ(γΦ(γ) + φ(γ)) [Jones1998efficient], at least max(best - μ, 0)."""
    from scipy.special import ndtr

    sd, gain = np.sqrt(var), best - mean
    gamma = gain / sd
    value: Floats = np.maximum(gain * ndtr(gamma) + sd * _density(gamma), np.maximum(gain, 0.0))
    return value


def log_expected_improvement(mean: Floats, var: Floats, best: Floats) -> Floats:
    """Compute log EI, finite for |γ| up to 1e8, where EI itself underflows at γ ≈ -38."""
    sd = np.sqrt(var)
    value: Floats = np.log(sd) + _log_improvement((best - mean) / sd)
    return value


def lower_confidence_bound(mean: Floats, var: Floats, best: Floats) -> Floats:  # noqa: ARG001  one signature for all
    """Compute -μ + κσ, κ = 2."""
    value: Floats = -mean + KAPPA * np.sqrt(var)
    return value


def integrate(values: Floats) -> Floats:
    """Average `S x M` scores over samples: `M`."""
    mean: Floats = values.mean(axis=0)
    return mean


def integrate_log(values: Floats) -> Floats:
    """Compute the logarithm of the average of `S x M` scores that are logarithms: `M`."""
    top = values.max(axis=0)
    mean: Floats = top + np.log(np.exp(values - top).mean(axis=0))
    return mean


def _density(gamma: Floats) -> Floats:
    """φ(γ)."""
    value: Floats = np.exp(-0.5 * np.square(gamma) - LOG_SQRT_2PI)
    return value


def _log_improvement(gamma: Floats) -> Floats:
    """log(γΦ(γ) + φ(γ)) in three pieces."""
    from scipy.special import erfcx, ndtr

    near = np.maximum(gamma, DIRECT_ABOVE)
    middle = -np.clip(gamma, SERIES_BELOW, DIRECT_ABOVE)
    far = -np.minimum(gamma, SERIES_BELOW)
    log_density = -0.5 * np.square(gamma) - LOG_SQRT_2PI
    below = np.where(
        gamma >= SERIES_BELOW,
        np.log1p(-middle * math.sqrt(0.5 * math.pi) * erfcx(middle * math.sqrt(0.5))),
        -2.0 * np.log(far) + np.log1p(-3.0 / np.square(far)),
    )
    value: Floats = np.where(gamma > DIRECT_ABOVE, np.log(near * ndtr(near) + _density(near)), log_density + below)
    return value


SCORES: Mapping[str, tuple[Acquisition, Callable[[Floats], Floats]]] = MappingProxyType(
    {
        "ei": (log_expected_improvement, integrate_log),
        "pi": (log_probability_of_improvement, integrate_log),
        "lcb": (lower_confidence_bound, integrate),
    }
)
"""What the search maximises under each name, and how it averages over samples; EI and PI as logarithms, which do not underflow."""
