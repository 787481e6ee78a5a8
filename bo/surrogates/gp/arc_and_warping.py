"""Embedding of points, wider along hyperparameters that matter more.

- A plain column x enters as x/ℓ. With input warping it enters as w(x)/ℓ, where w is the distribution function of
  Kumaraswamy: it is close to the Beta of [Snoek2014input] and has simple derivatives.
- A conditional column enters as an arc, ω (sin πρx, cos πρx), and as (0, 0) if it is inactive [Swersky2013raiders].
  So an inactive value has no effect, and active and inactive differ by the distance ω. The distance of two active
  values, 2ω |sin(πρΔx/2)|, grows up to that by ρ = 1/3.
"""

from collections.abc import Collection
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.priors import Density, logistic, normal
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]

WARP_MARGIN = 1e-6
"""Distance of warped inputs from 0 and 1, where logarithms are infinite."""
WARP_SCALE, WARP_REACH = 1.5, 10.0
"""Prior of the warping's exponents: log-normal about 1, from a tenth to ten."""


class Metric:
    """Embedding of points as a function of its shape parameters.

    The shape is `size`: log ℓ (for each plain column, or one for all), log ω and logit ρ (for each conditional column),
    and with warping log a and log b (for each plain column).

    Attributes:
        d: number of columns.
        size: number of shape parameters.
    """

    def __init__(
        self, d: int, *, conditional: Collection[int] = (), isotropic: bool = False, warping: bool = False
    ) -> None:
        if not all(0 <= column < d for column in conditional):
            msg = f"Metric: expected conditional columns in 0..{d - 1}, got {sorted(conditional)}. Name columns of the points."
            raise UsageError(msg)
        self.d = d
        self._arcs = np.array(sorted(conditional), dtype=np.intp)
        self._plain = np.setdiff1d(np.arange(d), self._arcs)
        p, q = len(self._plain), len(self._arcs)
        self._p, self._q, self._warping = p, q, warping
        self._lengths = min(1, p) if isotropic else p
        ends = np.cumsum([0, self._lengths, q, q, p * warping, p * warping]).tolist()
        self._l, self._omega, self._rho, self._a, self._b = (slice(i, j) for i, j in pairwise(ends))
        self.size: int = ends[-1]

    def prior(self, lengthscale: Density) -> list[Density]:
        """Return the prior of the shape: ω ~ LogNormal(0, 1), ρ uniform in (0, 1), lengthscales by the argument."""
        reach = float(np.log(WARP_REACH))
        exponent = normal(0.0, WARP_SCALE, lower=-reach, upper=reach)
        arcs = [normal(0.0, 1.0)] * self._q + [logistic()] * self._q
        return [lengthscale] * self._lengths + arcs + [exponent] * (2 * self._p * self._warping)

    def embed(self, X: Floats, shape: Floats) -> Floats:
        """Embed `n x d` points, NaN = inactive: `n x e`."""
        values = X[:, self._plain] if self._q else X
        if self._warping:
            values = _warp(values, np.exp(shape[self._a]), np.exp(shape[self._b]))[0]
        values = values * np.exp(-shape[self._l])
        if not self._q:
            return values
        sine, cosine, _ = self._arc(X, shape)
        return np.concatenate([values, sine, cosine], axis=1)

    def pull_shape(self, X: Floats, shape: Floats, P: Floats) -> Floats:
        """Compute the gradient of the shape, `size`, from a gradient `n x e` of the embedding."""
        p, q, result = self._p, self._q, np.zeros(self.size)
        shares = P * self.embed(X, shape)
        by_length = shares[:, :p].sum(axis=0)
        result[self._l] = -by_length if self._lengths == p else -by_length.sum()
        if q:
            result[self._omega] = shares[:, p:].reshape(-1, 2, q).sum(axis=(0, 1))
            sine, cosine, rho = self._arc(X, shape)
            turn = np.nan_to_num(np.pi * X[:, self._arcs]) * rho * (1.0 - rho)
            result[self._rho] = (turn * (P[:, p : p + q] * cosine - P[:, p + q :] * sine)).sum(axis=0)
        if self._warping:
            _, _, by_a, by_b = _warp(X[:, self._plain], np.exp(shape[self._a]), np.exp(shape[self._b]))
            scaled = P[:, :p] * np.exp(-shape[self._l])
            result[self._a], result[self._b] = (scaled * by_a).sum(axis=0), (scaled * by_b).sum(axis=0)
        return result

    def pull_inputs(self, X: Floats, shape: Floats, P: Floats) -> Floats:
        """Compute the gradient of the points, `n x d`, 0 where inactive, from a gradient `n x e` of the embedding."""
        p, q = self._p, self._q
        slopes = P.copy()
        slopes[:, :p] *= np.exp(-shape[self._l])
        if self._warping:
            slopes[:, :p] *= _warp(X[:, self._plain], np.exp(shape[self._a]), np.exp(shape[self._b]))[1]
        if q:
            sine, cosine, rho = self._arc(X, shape)
            slopes[:, p : p + q] *= np.pi * rho * cosine
            slopes[:, p + q :] *= -np.pi * rho * sine
        result = np.empty_like(X)
        result[:, self._plain] = slopes[:, :p]
        result[:, self._arcs] = slopes[:, p : p + q] + slopes[:, p + q :]
        return result

    def _arc(self, X: Floats, shape: Floats) -> tuple[Floats, Floats, Floats]:
        """Compute ω sin πρx and ω cos πρx, `n x q` each, 0 where inactive, and ρ."""
        rho, omega = 1.0 / (1.0 + np.exp(-shape[self._rho])), np.exp(shape[self._omega])
        values = X[:, self._arcs]
        angle = np.pi * rho * values
        inactive = np.isnan(values)
        sine, cosine = omega * np.sin(angle), omega * np.cos(angle)
        sine[inactive] = cosine[inactive] = 0.0
        return sine, cosine, rho


def _warp(x: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute w = 1 - (1 - xᵃ)ᵇ and its derivatives by x, log a and log b; each `n x p`."""
    inside = np.clip(x, WARP_MARGIN, 1.0 - WARP_MARGIN)
    logs = np.log(inside)
    power = np.exp(a * logs)
    rest = np.log1p(-power)
    upper = np.exp(b * rest)
    steep = a * b * power * upper / (1.0 - power)
    return 1.0 - upper, steep / inside, steep * logs, -b * rest * upper
