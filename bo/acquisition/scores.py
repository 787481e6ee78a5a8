"""Acquisition functions of mean and variance. Errors are minimised; scores are maximised.

Means, variances and the best error so far broadcast against each other, usually `S x M`, `S x M` and `S x 1`. A score
is averaged over samples of hyperparameters (`integrate`). It is never computed from averaged moments
[Snoek2012practical] Eq. (6).
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
KAPPA = 2.0
"""Standard deviations that `lcb` subtracts."""
DIRECT_ABOVE = -1.0
"""Below this γ the formula of log EI that cannot underflow is used."""
SERIES_BELOW = -1e3
"""Below this γ the differences of that formula cancel, and the tail's expansion is used."""
SURE_ABOVE = 30.0
"""Above this γ an improvement is certain, and φ/Φ stays at 1e-196."""
NO_GAIN_BELOW = -36.0
"""Below this x, log(1 + exp(x)) is exp(x) to the last digit."""


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


def log_confidence_gain(mean: Floats, var: Floats, best: Floats) -> Floats:
    """Compute log log(1 + exp(best - μ + κσ)): it grows with `lower_confidence_bound`, on a logarithmic scale."""
    value: Floats = _log_softplus(best - mean + KAPPA * np.sqrt(var))
    return value


def log_expected_improvement_slopes(mean: Floats, var: Floats, best: Floats) -> tuple[Floats, Floats]:
    """Compute the derivatives of log EI by μ and by σ²: -Φ/(σh) and φ/(2σ²h), h = γΦ + φ; finite wherever log EI is."""
    from scipy.special import ndtr

    sd = np.sqrt(var)
    gamma = (best - mean) / sd
    near, rest = np.maximum(gamma, DIRECT_ABOVE), np.exp(-_log_rest(gamma))
    direct = near * ndtr(near) + _density(near)
    above = gamma > DIRECT_ABOVE
    by_gain = np.where(above, ndtr(near) / direct, _mills(gamma) * rest)
    by_spread = np.where(above, _density(near) / direct, rest)
    return -by_gain / sd, by_spread / (2.0 * var)


def log_probability_of_improvement_slopes(mean: Floats, var: Floats, best: Floats) -> tuple[Floats, Floats]:
    """Compute the derivatives of log Φ(γ) by μ and by σ²: -(φ/Φ)/σ and -γ(φ/Φ)/(2σ²)."""
    from scipy.special import erfcx

    sd = np.sqrt(var)
    gamma = (best - mean) / sd
    ratio = math.sqrt(2.0 / math.pi) / erfcx(-np.minimum(gamma, SURE_ABOVE) * math.sqrt(0.5))
    return -ratio / sd, -gamma * ratio / (2.0 * var)


def lower_confidence_bound_slopes(mean: Floats, var: Floats, best: Floats) -> tuple[Floats, Floats]:  # noqa: ARG001
    """Compute the derivatives of -μ + κσ by μ and by σ²: -1 and κ/(2σ)."""
    return np.full_like(mean, -1.0), KAPPA / (2.0 * np.sqrt(var))


def log_confidence_gain_slopes(mean: Floats, var: Floats, best: Floats) -> tuple[Floats, Floats]:
    """Compute the derivatives of `log_confidence_gain` by μ and by σ²."""
    sd = np.sqrt(var)
    gain = best - mean + KAPPA * sd
    slope = np.exp(-np.logaddexp(0.0, -gain) - _log_softplus(gain))
    return -slope, slope * KAPPA / (2.0 * sd)


def integrate(values: Floats) -> Floats:
    """Return the average of `S x M` scores over samples: `M`."""
    mean: Floats = values.mean(axis=0)
    return mean


def integrate_log(values: Floats) -> Floats:
    """Compute the logarithm of the average of `S x M` scores that are logarithms: `M`."""
    top = values.max(axis=0)
    mean: Floats = top + np.log(np.exp(values - top).mean(axis=0))
    return mean


def integration_weights(values: Floats) -> Floats:
    """Return the share of each of `S x M` scores in the slope of their average: 1/S, `S x M`."""
    return np.full_like(values, 1.0 / len(values))


def log_integration_weights(values: Floats) -> Floats:
    """Return the share of each of `S x M` logarithms in the slope of `integrate_log`: `S x M`, columns sum to 1."""
    weights: Floats = np.exp(values - values.max(axis=0))
    weights /= weights.sum(axis=0)
    return weights


def _density(gamma: Floats) -> Floats:
    """Compute φ(γ), the standard normal density."""
    value: Floats = np.exp(-0.5 * np.square(gamma) - LOG_SQRT_2PI)
    return value


def _log_improvement(gamma: Floats) -> Floats:
    """Compute log(γΦ(γ) + φ(γ)) in three pieces."""
    from scipy.special import ndtr

    near = np.maximum(gamma, DIRECT_ABOVE)
    below = _log_rest(gamma) - 0.5 * np.square(gamma) - LOG_SQRT_2PI
    value: Floats = np.where(gamma > DIRECT_ABOVE, np.log(near * ndtr(near) + _density(near)), below)
    return value


def _log_rest(gamma: Floats) -> Floats:
    """Compute log(1 - |γ| Φ(γ)/φ(γ)) for γ ≤ -1; above, its value at -1."""
    middle = np.clip(gamma, SERIES_BELOW, DIRECT_ABOVE)
    far = np.minimum(gamma, SERIES_BELOW)
    value: Floats = np.where(
        gamma >= SERIES_BELOW,
        np.log1p(middle * _mills(middle)),
        -2.0 * np.log(-far) + np.log1p(-3.0 / np.square(far)),
    )
    return value


def _mills(gamma: Floats) -> Floats:
    """Compute Φ(γ)/φ(γ) for γ ≤ -1; above, its value at -1."""
    from scipy.special import erfcx

    value: Floats = math.sqrt(0.5 * math.pi) * erfcx(-np.minimum(gamma, DIRECT_ABOVE) * math.sqrt(0.5))
    return value


def _log_softplus(x: Floats) -> Floats:
    """Compute log log(1 + exp(x)), finite for every finite x."""
    value: Floats = np.where(x < NO_GAIN_BELOW, x, np.log(np.logaddexp(0.0, np.maximum(x, NO_GAIN_BELOW))))
    return value
