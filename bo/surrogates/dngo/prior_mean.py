"""Quadratic prior mean of the error, a bowl [Snoek2015scalable] §3.1.

η(x) = λ + Σ_k Λ_k (x_k - c_k)² with Λ_k ≥ 0, over active columns: the optimum usually lies inside the space. η is
linear in its coefficients on the columns 1, a, ax, ax² (a = 1 if active), the form that a regression uses.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CENTRE, CENTRE_SD = 0.5, 0.25
"""c_k ~ N(0.5, 0.25²) in [0, 1]; λ ~ N(0, 1); Λ_k ~ half-horseshoe of scale 1."""
LOG_CURVATURE = (-20.0, 8.0)
"""Bounds of log Λ_k."""
ASYMPTOTIC_ABOVE = 500.0


def design(X: Floats) -> Floats:
    """Compute the columns 1, a, ax, ax² of `n x d` points: `n x (1 + 3d)`."""
    active = np.isfinite(X).astype(np.float64)
    x = np.nan_to_num(X)
    return np.hstack([np.ones((len(X), 1)), active, x, np.square(x)])


def coefficients(eta: Floats) -> Floats:
    """Convert η = (λ, c_1..d, log Λ_1..d), `... x (1 + 2d)`, to coefficients of `design` columns, `... x (1 + 3d)`."""
    d = eta.shape[-1] // 2
    centre, curvature = eta[..., 1 : 1 + d], np.exp(eta[..., 1 + d :])
    return np.concatenate([eta[..., :1], curvature * np.square(centre), -2.0 * curvature * centre, curvature], axis=-1)


def slopes(X: Floats, eta: Floats) -> Floats:
    """Compute the gradients of `S` bowls (`S x (1 + 2d)`) at `n x d` points: `S x n x d`, 0 in inactive columns."""
    d = X.shape[1]
    centre, curvature = eta[:, None, 1 : 1 + d], np.exp(eta[:, None, 1 + d :])
    return np.nan_to_num(2.0 * curvature * (X - centre))


def start(d: int) -> Floats:
    """Return the initial bowl of sampling, which is also the fixed one: λ = 0, c = 0.5, Λ = 1."""
    return np.concatenate([[0.0], np.full(d, CENTRE), np.zeros(d)])


def log_density(eta: Floats) -> float:
    """Compute the log prior of η, up to a constant, with the Jacobian of log Λ; -inf outside the bounds."""
    d = len(eta) // 2
    centre, log_curvature = eta[1 : 1 + d], eta[1 + d :]
    if (
        min(
            centre.min(),
            1.0 - centre.max(),
            log_curvature.min() - LOG_CURVATURE[0],
            LOG_CURVATURE[1] - log_curvature.max(),
        )
        < 0.0
    ):
        return -math.inf
    off = (centre - CENTRE) / CENTRE_SD
    return -0.5 * float(eta[0] ** 2 + off @ off) + float(
        (log_half_horseshoe(np.exp(log_curvature)) + log_curvature).sum()
    )


def log_half_horseshoe(x: Floats) -> Floats:
    """Compute the log density of the half-horseshoe of scale 1 [Carvalho2010horseshoe] at x > 0.

    p(x) = 2 (2π³)^(-1/2) exp(x²/2) E1(x²/2), E1 the exponential integral.
    """
    from scipy.special import exp1

    z = 0.5 * np.square(x)
    near, far = np.minimum(z, ASYMPTOTIC_ABOVE), np.maximum(z, ASYMPTOTIC_ABOVE)
    tail = np.log1p((-1.0 + (2.0 - 6.0 / far) / far) / far) - np.log(far)
    value: Floats = np.where(z < ASYMPTOTIC_ABOVE, near + np.log(exp1(near)), tail)
    return value + math.log(2.0) - 0.5 * math.log(2.0 * math.pi**3)
