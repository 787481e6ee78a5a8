"""State of the hyperparameters of a Gaussian process between fits."""

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
"""Sweeps a fit, where nothing else is told, while they are cheap."""
CHEAP_POINTS = 300
"""Up to so many points; beyond, sweeps are fewer in proportion: 3 at 1,000. A chain that does not climb burns in on so many."""
BURN_IN_POINTS = 100
"""A chain that climbs burns in on so many points."""
CLIMB = 30
"""Steps that it climbs by all points then, at most."""
TRIAL = 10
"""Steps from each of several starts, before the best goes on."""
ROUGHLY = 1e-6
"""Growth of the log posterior, as a share, with which a climb ends: draws about the top need not be about its very point."""
FIRST_TIMES = 3
"""Sweeps of the first fit of a chain that climbs are so many times as many: its samples are all that there is."""
MANY_POINTS = 20
"""From so many points on, the first samples are drawn about the maximum instead: see `importance`."""


class Chain:
    """Hyperparameters of a Gaussian process: the last samples of a slice sampler, or the most probable ones.

    The next fit starts from the last one. The chain continues, so burn-in is paid once, and the window of the last
    samples moves on. The most probable hyperparameters are searched from the last ones.
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
        """Hyperparameters of standardised targets: `S x size`, oldest first."""
        return np.array(self._states)

    def advance(self, evidence: Evidence, prior: HyperPrior, *, rng: np.random.Generator) -> None:
        """Learn from the evidence; what was known of hyperparameters of another size or out of bounds is forgotten."""
        if self._states and not prior.contains(self._states[-1]):
            self._states.clear()
        if self._inference == "evidence":
            self._states.append(most_probable(evidence, prior, self._starts(prior, rng)))
        else:
            self._walk(evidence, prior, rng)

    def state(self) -> dict[str, Any]:
        """Return what is known, as JSON has it."""
        return {"thetas": [theta.tolist() for theta in self._states]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take what `state` gave.

        Raises:
            DataError: when it is something else.
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
        """Choose where to start the search for the maximum."""
        if self._states:
            return [self._states[-1], prior.start()]
        return [prior.start(), *(prior.draw(rng) for _ in range(self._restarts - 1))]

    def _walk(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> None:
        """Move the chain on and keep its last states."""
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
            if self._sweeps is None:  # of few dear sweeps, the states on the way count, too
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
        """Find the most probable hyperparameters: by some of the points, by more of them, then by all."""
        top = prior.start()
        for most in (BURN_IN_POINTS, CHEAP_POINTS):
            some = _some(evidence, most, rng)
            top = most_probable(some, prior, [top, prior.smooth()], steps=TRIAL, tolerance=ROUGHLY)
            top = most_probable(some, prior, [top], steps=CLIMB, tolerance=ROUGHLY)
            if some is evidence:
                return top
        return most_probable(evidence, prior, [top], steps=CLIMB, tolerance=ROUGHLY)

    def _burnt_in(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> Floats:
        """Find where a new chain starts: by sweeps over some points, from their most probable hyperparameters; then up to those of all."""
        climbs = self._climbs and len(evidence.points) > 0
        some = _some(evidence, BURN_IN_POINTS if climbs else CHEAP_POINTS, rng)
        theta = most_probable(some, prior, [prior.start()]) if climbs else prior.start()
        for _ in range(self._burn_in):
            theta = sweep(some, prior, theta, rng=rng)
        return most_probable(evidence, prior, [theta], steps=CLIMB) if climbs and some is not evidence else theta


def _some(evidence: Evidence, most: int, rng: np.random.Generator) -> Evidence:
    """Draw so many of the points, at most."""
    n = len(evidence.points)
    return evidence if n <= most else evidence.subset(rng.choice(n, most, replace=False))
