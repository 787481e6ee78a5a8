"""Chain of the hyperparameters of a Gaussian process, which continues from fit to fit."""

from collections import deque
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, most_probable, sweep, updates
from warmstart.bo.surrogates.gp.importance import resample
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.history_store.errors import DataError, UsageError

Floats = NDArray[np.float64]
Inference = Literal["slice", "evidence"]

FULL_SWEEPS = 10
"""Default sweeps of a fit, for up to `CHEAP_POINTS` points."""
CHEAP_POINTS = 300
"""Points above which sweeps get fewer in proportion: 3 at 1,000. Also the points of burn-in without a climb."""
BURN_IN_POINTS = 100
"""Points of burn-in with a climb."""
CLIMB = 30
"""Most steps of the climb by all points."""
TRIAL = 10
"""Steps from each of several starts before the best continues."""
ROUGHLY = 1e-6
"""Relative growth of the log posterior at which a climb ends: draws around the maximum need no exact maximum."""
FIRST_TIMES = 3
"""Factor of the sweeps in the first fit of a climbing chain, which has no earlier samples."""
MANY_POINTS = 20
"""Points from which the first samples are drawn around the maximum instead (`importance`)."""


class Chain:
    """Hyperparameters of a Gaussian process: the last samples of a slice sampler, or the most probable ones.

    Each fit continues the last one: burn-in happens once, and the window of the last samples moves. The search for the
    most probable hyperparameters starts from the last ones.
    """

    def __init__(
        self,
        *,
        inference: Inference,
        samples: int,
        burn_in: int,
        sweeps: int | None,
        restarts: int,
        climbs: bool = True,
    ) -> None:
        if inference not in get_args(Inference):
            msg = f"Chain: expected inference slice or evidence, got {inference!r}. Leave it out for the default."
            raise UsageError(msg)
        if min(samples, 1 if sweeps is None else sweeps, restarts) < 1 or burn_in < 0:
            msg = f"Chain: expected positive samples, sweeps and restarts and no negative burn_in, got {samples}, {sweeps}, {restarts} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._inference, self._samples, self._burn_in = inference, samples, burn_in
        self._sweeps, self._restarts, self._climbs = sweeps, restarts, climbs
        self._states: deque[Floats] = deque(maxlen=1 if inference == "evidence" else samples)

    @property
    def thetas(self) -> Floats:
        """Return the hyperparameters of standardised targets: `S x size`, oldest first."""
        return np.array(self._states)

    def advance(self, evidence: Evidence, prior: HyperPrior, *, rng: np.random.Generator) -> None:
        """Continue the chain by the evidence; a chain of another size or out of bounds starts anew."""
        if self._states and not prior.contains(self._states[-1]):
            self._states.clear()
        if self._inference == "evidence":
            self._states.append(most_probable(evidence, prior, self._starts(prior, rng)))
        else:
            self._walk(evidence, prior, rng)

    def state(self) -> dict[str, Any]:
        """Return the states of the chain in JSON types."""
        return {"thetas": [theta.tolist() for theta in self._states]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a record of `state`.

        Raises:
            DataError: when the record is damaged.
        """
        try:
            thetas = np.array(state["thetas"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"surrogate state: expected thetas, rows of numbers, got {str(state)[:80]}. Start anew without it."
            raise DataError(msg) from error
        if not (thetas.ndim == 2 or thetas.size == 0) or not np.isfinite(thetas).all():
            msg = f"surrogate state: expected finite thetas `S x p`, got shape {thetas.shape}. Start anew without it."
            raise DataError(msg)
        self._states.clear()
        self._states.extend(thetas)

    def _starts(self, prior: HyperPrior, rng: np.random.Generator) -> list[Floats]:
        """Return the starts of the search for the maximum."""
        if self._states:
            return [self._states[-1], prior.start()]
        return [prior.start(), *(prior.draw(rng) for _ in range(self._restarts - 1))]

    def _walk(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> None:
        """Advance the chain and store its last states."""
        n = len(evidence.points)
        is_new = not self._states
        first = is_new and self._climbs
        if first and self._sweeps is None and n >= MANY_POINTS:
            top = self._top(evidence, prior, rng)
            self._states.extend(resample(evidence, prior, top, self._samples, rng=rng))
            return
        theta = self._burnt_in(evidence, prior, rng) if is_new else self._states[-1]
        steps = self._sweeps or max(
            1, round(FULL_SWEEPS * (FIRST_TIMES if first else min(1.0, CHEAP_POINTS / max(n, 1))))
        )
        if is_new and steps < self._samples:
            if self._sweeps is None:  # sweeps are few and slow: the states within a sweep count as samples
                for _ in range(steps):
                    self._states.extend(updates(evidence, prior, theta, rng=rng))
                    theta = self._states[-1]
                return
            steps = self._samples
        thin = max(1, steps // self._samples)
        for step in range(1, (thin * self._samples if is_new else steps) + 1):
            theta = sweep(evidence, prior, theta, rng=rng)
            if step % thin == 0:
                self._states.append(theta)

    def _top(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> Floats:
        """Return the most probable hyperparameters, by a few points, by more, then by all."""
        top = prior.start()
        for most in (BURN_IN_POINTS, CHEAP_POINTS):
            subset = _subset(evidence, most, rng)
            top = most_probable(subset, prior, [top, prior.smooth()], steps=TRIAL, tolerance=ROUGHLY)
            top = most_probable(subset, prior, [top], steps=CLIMB, tolerance=ROUGHLY)
            if subset is evidence:
                return top
        return most_probable(evidence, prior, [top], steps=CLIMB, tolerance=ROUGHLY)

    def _burnt_in(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> Floats:
        """Return the start of a new chain: a climb and burn-in on a few points, then a climb on all."""
        climbs = self._climbs and len(evidence.points) > 0
        subset = _subset(evidence, BURN_IN_POINTS if climbs else CHEAP_POINTS, rng)
        theta = most_probable(subset, prior, [prior.start()]) if climbs else prior.start()
        for _ in range(self._burn_in):
            theta = sweep(subset, prior, theta, rng=rng)
        return most_probable(evidence, prior, [theta], steps=CLIMB) if climbs and subset is not evidence else theta


def _subset(evidence: Evidence, most: int, rng: np.random.Generator) -> Evidence:
    """Return the evidence of a random subset of points, at most `most`."""
    n = len(evidence.points)
    return evidence if n <= most else evidence.subset(rng.choice(n, most, replace=False))
