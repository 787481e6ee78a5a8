"""What is known of the hyperparameters, from one fit to the next."""

from collections import deque
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bo.surrogates.evidence import Evidence
from bo.surrogates.hyperparameters import HyperPrior, most_probable, sweep
from history_store.errors import DataError, UsageError

Floats = NDArray[np.float64]
Inference = Literal["slice", "evidence"]

FULL_SWEEPS = 10
"""Sweeps a fit, where nothing else is told, while they are cheap."""
CHEAP_POINTS = 300
"""Up to so many points; beyond, sweeps are fewer in proportion: 3 at 1,000. A new chain burns in on so many of them."""


class Chain:
    """Hyperparameters of a Gaussian process: the last samples of a slice sampler, or the most probable ones.

    What a fit learned starts the next one: the chain goes on where it stood, so that burn-in is paid once, and the window of
    the last samples moves on; the most probable hyperparameters are sought from the last ones.
    """

    def __init__(self, *, inference: Inference, samples: int, burn_in: int, sweeps: int | None, restarts: int) -> None:
        if inference not in get_args(Inference):
            msg = f"Chain: expected inference slice or evidence, got {inference!r}. Leave it out for the default."
            raise UsageError(msg)
        if min(samples, 1 if sweeps is None else sweeps, restarts) < 1 or burn_in < 0:
            msg = f"Chain: expected positive samples, sweeps and restarts and no negative burn_in, got {samples}, {sweeps}, {restarts} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._inference, self._samples, self._burn_in = inference, samples, burn_in
        self._sweeps, self._restarts = sweeps, restarts
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
        """Give what is known, as JSON has it."""
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
        if self._states:
            theta = self._states[-1]
            steps = self._sweeps or max(1, round(FULL_SWEEPS * min(1.0, CHEAP_POINTS / max(n, 1))))
            thin = max(1, steps // self._samples)
        else:
            theta = prior.start()
            thin = max(1, (self._sweeps or FULL_SWEEPS) // self._samples)
            steps = thin * self._samples
            some = evidence if n <= CHEAP_POINTS else evidence.subset(rng.choice(n, CHEAP_POINTS, replace=False))
            for _ in range(self._burn_in):
                theta = sweep(some, prior, theta, rng=rng)
        for step in range(1, steps + 1):
            theta = sweep(evidence, prior, theta, rng=rng)
            if step % thin == 0:
                self._states.append(theta)
