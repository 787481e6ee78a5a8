"""Hyperparameters of a Gaussian process: their prior, and two ways to infer them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bo.samplers import random_direction, slice_step
from bo.surrogates.evidence import Evidence

Floats = NDArray[np.float64]

SMALLEST_LENGTHSCALE = 0.025
SMALLEST_NOISE = 1e-6
"""As a variance of standardised targets; the noise of a noiseless process."""
WIDTH = 3.0
"""First bracket of the slice sampler, in logarithms: of 1 to 6, the one with fewest evaluations at 3 to 100 points."""
REACH = 8.0
"""The prior is cut off so many standard deviations away, where exponentials are still far from overflow."""


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Independent normal densities of θ = (log ℓ_1..ℓ_d, log θ0, log ν, m) within bounds.

    ℓ ~ LogNormal(√2 + ½ log d, √3), at least 0.025; √θ0 ~ LogNormal(0, 1); ν ~ LogNormal(-4, 1), at least 1e-6, or fixed there
    (noiseless); m ~ N(0, 1). A log-normal density times its Jacobian is a normal density of the logarithm.

    Attributes:
        location: `d + 3`.
        scale: `d + 3` standard deviations.
        lower: `d + 3` bounds.
        upper: `d + 3` bounds; the noise of a noiseless process has two equal ones.
    """

    location: Floats
    scale: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, d: int, *, noiseless: bool = False) -> Self:
        """Make the prior for d dimensions."""
        least = math.log(SMALLEST_NOISE)
        location = np.array([math.sqrt(2.0) + 0.5 * math.log(d)] * d + [0.0, least if noiseless else -4.0, 0.0])
        scale = np.array([math.sqrt(3.0)] * d + [2.0, 1.0, 1.0])
        bounds = np.array([math.log(SMALLEST_LENGTHSCALE)] * d + [-np.inf, least, -np.inf])
        lower, upper = np.maximum(location - REACH * scale, bounds), location + REACH * scale
        if noiseless:
            upper[-2] = least
        return cls(location, scale, lower, upper)

    @property
    def noiseless(self) -> bool:
        """Tell whether the noise is fixed."""
        return bool(self.lower[-2] == self.upper[-2])

    def start(self) -> Floats:
        """Make the θ that a search or a chain starts from: lengthscales and amplitude 1, the rest at its location."""
        theta = self.location.copy()
        theta[:-2] = 0.0
        return theta

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw θ; what falls outside the bounds is set to them."""
        theta = self.location + self.scale * rng.standard_normal(len(self.location))
        return np.clip(theta, self.lower, self.upper)

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Compute the log density within the bounds, up to a constant, and its gradient `d + 3`."""
        deviation = (theta - self.location) / self.scale
        return -0.5 * float(deviation @ deviation), -deviation / self.scale


def sweep(evidence: Evidence, prior: HyperPrior, theta: Floats, *, rng: np.random.Generator) -> Floats:
    """Update every hyperparameter once by slice sampling; leaves their posterior invariant.

    Lengthscales go one by one in random order; amplitude, noise and mean jointly along one random direction, for which no
    distance is computed again [Snoek2012practical].

    Returns: the new θ, `d + 3`.
    """
    theta, d = theta.copy(), evidence.d
    logs = theta[:d]
    location: list[float] = prior.location.tolist()
    scale: list[float] = prior.scale.tolist()
    lower: list[float] = prior.lower.tolist()
    upper: list[float] = prior.upper.tolist()
    amplitude, noise, mean = math.exp(theta[-3]), math.exp(theta[-2]), float(theta[-1])
    likelihood = evidence.value(theta)

    for k in rng.permutation(d).tolist():

        def along(offset: float, k: int = k, start: float = float(logs[k])) -> float:
            value = start + offset
            if not lower[k] <= value <= upper[k]:
                return -math.inf
            logs[k] = value
            fit = evidence.given_correlation(evidence.correlation(logs), amplitude, noise, mean)
            return fit - 0.5 * ((value - location[k]) / scale[k]) ** 2

        start = float(logs[k])
        offset, density = slice_step(
            along, likelihood - 0.5 * ((start - location[k]) / scale[k]) ** 2, rng=rng, width=WIDTH
        )
        logs[k] = start + offset
        likelihood = density + 0.5 * ((start + offset - location[k]) / scale[k]) ** 2

    correlation, rest = evidence.correlation(logs), theta[d:].copy()
    direction = random_direction(3 - prior.noiseless, rng)
    if prior.noiseless:
        direction = np.insert(direction, 1, 0.0)
    (a, n, m), (da, dn, dm) = rest.tolist(), direction.tolist()

    def jointly(offset: float) -> float:
        values = (a + offset * da, n + offset * dn, m + offset * dm)
        share = 0.0
        for k, value in enumerate(values, start=d):
            if not lower[k] <= value <= upper[k]:
                return -math.inf
            share -= 0.5 * ((value - location[k]) / scale[k]) ** 2
        return evidence.given_correlation(correlation, math.exp(values[0]), math.exp(values[1]), values[2]) + share

    offset, _ = slice_step(jointly, jointly(0.0), rng=rng, width=WIDTH)
    theta[d:] = rest + offset * direction
    return theta


def most_probable(evidence: Evidence, prior: HyperPrior, starts: Sequence[Floats]) -> Floats:
    """Maximise evidence times prior by L-BFGS-B from every start.

    Returns: the best θ found, `d + 3`.
    """
    from scipy.optimize import minimize

    def loss(theta: Floats) -> tuple[float, Floats]:
        fit, slope = evidence.value_and_gradient(theta)
        share, pull = prior.value_and_gradient(theta)
        return -fit - share, -slope - pull

    bounds = np.column_stack([prior.lower, prior.upper])
    found = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100}) for start in starts
    ]
    best: Floats = min(found, key=lambda result: float(result.fun)).x
    return best
