"""Importance resampling of hyperparameters around the maximum of their posterior, without a chain.

A new chain over many points spends its first sweeps, of some fifty factorisations each, on the way between modes.
Proposals around the maximum are independent and cost one factorisation each; weights correct for the proposal
distribution.
"""

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence

Floats = NDArray[np.float64]

PROPOSALS, FEWEST_PROPOSALS, CHEAP_POINTS = 100, 20, 150
"""Proposals up to 150 points, in proportion fewer beyond, but at least 20."""
FREEDOM = 6.0
"""Degrees of freedom of the proposals' Student's t: its tails are heavier than the posterior's..."""
WIDER = 1.15
"""...and its width, relative to the posterior's."""
FLATTEST = 0.15
"""Least curvature of the proposals: a flatter log posterior is not quadratic."""
STEP = 0.1
"""Step of the differences of gradients, in logarithms."""


def resample(evidence: Evidence, prior: HyperPrior, top: Floats, n: int, *, rng: np.random.Generator) -> list[Floats]:
    """Draw hyperparameters by importance resampling around the most probable ones.

    Args:
        evidence: of the points.
        prior: of the hyperparameters.
        top: the most probable ones, `size + 3`.
        n: draws, in random order; draws repeat if proposals are few.
        rng: the only source of randomness.
    """
    free = np.array([k for k, density in enumerate(prior.densities) if not density.fixed])
    count = max(FEWEST_PROPOSALS, round(PROPOSALS * min(1.0, CHEAP_POINTS / max(len(evidence.points), 1))))
    curvature, axes = np.linalg.eigh(_curvature(evidence, prior, top, free))
    scales = WIDER * axes / np.sqrt(np.maximum(curvature, FLATTEST))
    z = rng.standard_normal((count, len(free))) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
    proposals = np.tile(top, (count, 1))
    proposals[:, free] += z @ scales.T
    proposed = -0.5 * (FREEDOM + len(free)) * np.log1p(np.square(z).sum(axis=1) / FREEDOM)
    logs = np.array([_log_posterior(evidence, prior, theta) for theta in proposals]) - proposed
    if not np.isfinite(logs).any():
        return [top.copy() for _ in range(n)]
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights, weights.mean() * np.sqrt(count))  # a finite variance [Ionides2008truncated]
    cumulated = np.cumsum(weights) / weights.sum()
    drawn = np.searchsorted(cumulated, (rng.random() + np.arange(n)) / n).clip(max=count - 1)
    return list(proposals[rng.permutation(drawn)])


def _curvature(evidence: Evidence, prior: HyperPrior, top: Floats, free: NDArray[np.intp]) -> Floats:
    """Compute the negative Hessian of the log posterior, by differences of gradients away from the bounds."""

    def gradient(theta: Floats) -> Floats:
        slopes: Floats = evidence.value_and_gradient(theta)[1] + prior.value_and_gradient(theta)[1]
        return slopes[free]

    here, hessian = gradient(top), np.empty((len(free), len(free)))
    for row, k in enumerate(free.tolist()):
        step = STEP if top[k] + STEP < prior.densities[k].upper else -STEP
        beside = top.copy()
        beside[k] += step
        hessian[row] = (here - gradient(beside)) / step
    return 0.5 * (hessian + hessian.T)


def _log_posterior(evidence: Evidence, prior: HyperPrior, theta: Floats) -> float:
    """Compute the log of evidence times prior, up to a constant; -inf out of bounds."""
    if not prior.contains(theta):
        return -np.inf
    return evidence.value(theta) + sum(d.value(u) for d, u in zip(prior.densities, theta.tolist(), strict=True))
