"""Hyperparameters of a Gaussian process: their prior, and inference by slice sampling or by maximisation."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.bo.surrogates.gp.priors import Density, fixed, log_horseshoe, log_uniform_below, normal
from warmstart.bo.surrogates.slice_sampling import random_direction, slice_step

Floats = NDArray[np.float64]
Priors = Literal["modern", "paper"]

SMALLEST_LENGTHSCALE = 0.025
LARGEST_LENGTHSCALE = 10.0
"""Upper limit of the paper's uniform prior."""
SMALLEST_NOISE = 1e-6
"""Noise variance of standardised targets; a noiseless process has it."""
HORSESHOE = 0.1
"""Scale of the paper's prior of the noise."""
SMOOTH_AMPLITUDE, SMOOTH_NOISE = 4.0, -2.0
"""Offsets of log θ0 and log ν from the start of a search to the start at a smooth function."""
WIDTH = 3.0
"""First bracket of the slice sampler, in logarithms: of 1 to 6, 3 needs fewest evaluations at 3 to 100 points."""


def lengthscale_prior(d: int, priors: Priors) -> Density:
    """Return the prior of log ℓ in d dimensions.

    Modern: ℓ ~ LogNormal(½ log(d/6), ¾): points of the unit cube, whose squared distance is d/6 on average, are about
    one lengthscale apart in any dimension, as in [Hvarfner2024vanilla]. The prior of that paper, LogNormal(√2 + ½ log
    d, √3), suits its mode: of its samples, half exceed 4√d, and with few data many columns count as irrelevant. Paper:
    ℓ ~ U(0, 10) [Snoek2012practical]. At least 0.025.
    """
    least = math.log(SMALLEST_LENGTHSCALE)
    if priors == "paper":
        return log_uniform_below(LARGEST_LENGTHSCALE, lower=least, start=0.0)
    return normal(0.5 * math.log(d / 6.0), 0.75, lower=least, start=0.0)


def level_priors(priors: Priors, *, noiseless: bool) -> list[Density]:
    """Return the priors of log θ0, log ν and m.

    √θ0 ~ LogNormal(0, 1); m ~ N(0, 1). Modern: ν ~ LogNormal(-7, 2), wide enough for noisy and for exact
    errors, whose minimum needs a process that trusts them. Paper: ν has a horseshoe of scale 0.1. ν is at least 1e-6,
    or fixed there (noiseless).
    """
    least = math.log(SMALLEST_NOISE)
    if noiseless:
        noise = fixed(least)
    elif priors == "paper":
        noise = log_horseshoe(HORSESHOE, lower=least, upper=math.log(1e4), start=math.log(1e-3))
    else:
        noise = normal(-7.0, 2.0, lower=least)
    return [normal(0.0, 2.0), noise, normal(0.0, 1.0)]


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Independent densities of θ: the shape of the covariance, log θ0, log ν, m."""

    densities: tuple[Density, ...]

    @property
    def size(self) -> int:
        """Return the number of hyperparameters."""
        return len(self.densities)

    def start(self) -> Floats:
        """Return the initial θ of a search or a chain."""
        return np.array([density.start for density in self.densities])

    def smooth(self) -> Floats:
        """Return the θ of a wide, noiseless function, a second start: with many points it has a separate maximum."""
        theta = self.start()
        for k, by in ((-3, SMOOTH_AMPLITUDE), (-2, SMOOTH_NOISE)):
            theta[k] = min(max(theta[k] + by, self.densities[k].lower), self.densities[k].upper)
        return theta

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw θ from the prior."""
        return np.array([density.sample(rng) for density in self.densities])

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Compute the log density within the bounds, up to a constant, and its gradient by θ."""
        pairs = list(zip(self.densities, theta.tolist(), strict=True))
        return sum(density.value(u) for density, u in pairs), np.array([density.slope(u) for density, u in pairs])

    def contains(self, theta: Floats) -> bool:
        """Return whether θ has the right length and is within the bounds."""
        pairs = zip(self.densities, theta.tolist(), strict=False)
        return len(theta) == self.size and all(density.lower <= u <= density.upper for density, u in pairs)


def sweep(evidence: Evidence, prior: HyperPrior, theta: Floats, *, rng: np.random.Generator) -> Floats:
    """Update every hyperparameter once by slice sampling; their posterior is invariant.

    Returns: the new θ.
    """
    *_, last = updates(evidence, prior, theta, rng=rng)
    return last


def updates(evidence: Evidence, prior: HyperPrior, theta: Floats, *, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield θ after each step of a sweep; the posterior is invariant under every step.

    Hyperparameters of the shape go one by one in random order. Amplitude, noise and mean go jointly along one random
    direction, which needs no new distances [Snoek2012practical].

    Returns: θ after each step.
    """
    theta, size = theta.copy(), evidence.size
    shape, densities = theta[:size], prior.densities
    amplitude, level, mean = math.exp(theta[-3]), math.exp(theta[-2]), float(theta[-1])
    likelihood = evidence.value(theta)

    for k in rng.permutation(size).tolist():
        density = densities[k]

        # Defaults bind the values of this turn of the loop.
        def along(offset: float, k: int = k, density: Density = density, start: float = float(shape[k])) -> float:
            value = start + offset
            if not density.lower <= value <= density.upper:
                return -math.inf
            shape[k] = value
            noise = evidence.noise(shape, level)
            fit = evidence.log_likelihood(evidence.correlation(shape), amplitude, noise, mean)
            return fit + density.value(value)

        start = float(shape[k])
        offset, height = slice_step(along, likelihood + density.value(start), rng=rng, width=WIDTH)
        shape[k] = start + offset
        likelihood = height - density.value(start + offset)
        yield theta.copy()

    correlation, rest = evidence.correlation(shape), theta[size:].copy()
    free = np.array([not density.fixed for density in densities[size:]])
    direction = np.zeros(3)
    direction[free] = random_direction(int(free.sum()), rng)

    def jointly(offset: float) -> float:
        values = (rest + offset * direction).tolist()
        share = 0.0
        for density, value in zip(densities[size:], values, strict=True):
            if not density.lower <= value <= density.upper:
                return -math.inf
            share += density.value(value)
        noise = evidence.noise(shape, math.exp(values[1]))
        return evidence.log_likelihood(correlation, math.exp(values[0]), noise, values[2]) + share

    offset, _ = slice_step(jointly, jointly(0.0), rng=rng, width=WIDTH)
    theta[size:] = rest + offset * direction
    yield theta


def most_probable(
    evidence: Evidence, prior: HyperPrior, starts: Sequence[Floats], *, steps: int = 100, tolerance: float = 2.2e-9
) -> Floats:
    """Maximise evidence times prior by L-BFGS-B from every start.

    Args:
        evidence: of the points.
        prior: of the hyperparameters.
        starts: initial θ.
        steps: most steps from each start.
        tolerance: relative growth of the logarithm at which a search ends.

    Returns: the best θ.
    """
    from scipy.optimize import minimize

    def loss(theta: Floats) -> tuple[float, Floats]:
        fit, slope = evidence.value_and_gradient(theta)
        share, pull = prior.value_and_gradient(theta)
        return -fit - share, -slope - pull

    bounds = [(density.lower, density.upper) for density in prior.densities]
    optima = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps, "ftol": tolerance})
        for start in starts
    ]
    best: Floats = min(optima, key=lambda result: float(result.fun)).x
    return best
