"""Draws from the posterior of hyperparameters about its maximum, without a chain: importance resampling.

A new chain over many points spends its first sweeps on the way from one mode to the next, at some fifty factorisations each. Proposals
about the maximum cost one factorisation each and do not depend on one another; the weights make up for what the proposal is not.
"""

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence

Floats = NDArray[np.float64]

PROPOSALS, FEWEST_PROPOSALS, CHEAP_POINTS = 100, 20, 150
"""Proposals up to so many points; beyond, they are fewer in proportion, but not fewer than that."""
FREEDOM = 6.0
"""Of Student's t, from which proposals come: its tails are heavier than the posterior's..."""
WIDER = 1.15
"""...and it is so many times as wide."""
FLATTEST = 0.15
"""Least curvature of the log posterior that is believed: where it is flatter, it is not quadratic either."""
STEP = 0.1
"""Of the differences of gradients, in logarithms."""


def resample(evidence: Evidence, prior: HyperPrior, top: Floats, n: int, *, rng: np.random.Generator) -> list[Floats]:
    """Draw hyperparameters by importance resampling about the most probable ones.

    Args:
        evidence: of the points.
        prior: of the hyperparameters.
        top: the most probable ones, `size + 3`.
        n: draws, in random order; few of many proposals are repeated, many of few are.
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
    """Return minus the second derivatives of the log posterior, by differences of gradients away from the bounds."""

    def gradient(theta: Floats) -> Floats:
        slopes: Floats = evidence.value_and_gradient(theta)[1] + prior.value_and_gradient(theta)[1]
        return slopes[free]

    here, found = gradient(top), np.empty((len(free), len(free)))
    for row, k in enumerate(free.tolist()):
        step = STEP if top[k] + STEP < prior.densities[k].upper else -STEP
        beside = top.copy()
        beside[k] += step
        found[row] = (here - gradient(beside)) / step
    return 0.5 * (found + found.T)


def _log_posterior(evidence: Evidence, prior: HyperPrior, theta: Floats) -> float:
    """Compute the log of evidence times prior, up to a constant; -inf out of bounds."""
    if not prior.contains(theta):
        return -np.inf
    return evidence.value(theta) + sum(d.value(u) for d, u in zip(prior.densities, theta.tolist(), strict=True))
