"""Exact Gaussian process: the surrogate of choice up to some hundred evaluations [Snoek2012practical].

`gp` averages over slice-sampled hyperparameters, `gp-map` takes the most probable ones: faster, and over-confident where
there are few points. Inside, targets are standardised; inputs lie in [0, 1].
"""

from collections import deque
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.kernels import KERNELS, square_differences
from bo.surrogates.base import Prediction, Standardised, checked_data, checked_points
from bo.surrogates.evidence import Evidence
from bo.surrogates.hyperparameters import HyperPrior, most_probable, sweep
from history_store.errors import UsageError

Floats = NDArray[np.float64]
Inference = Literal["slice", "evidence"]

SMALLEST_VAR = 1e-12
"""Predicted variances of standardised targets are at least this."""


class GaussianProcess:
    """Gaussian process with one lengthscale a dimension, sampled or most probable hyperparameters.

    What a fit learned starts the next one: the chain goes on where it stood, so that burn-in is paid once, and the window of
    the last samples moves on; the most probable hyperparameters are sought from the last ones. Other dimensions start anew.
    """

    def __init__(
        self,
        *,
        kernel: str = "matern52",
        inference: Inference = "slice",
        samples: int = 10,
        burn_in: int = 100,
        sweeps: int = 10,
        restarts: int = 5,
        noiseless: bool = False,
    ) -> None:
        """Set up a process.

        Args:
            kernel: a name in `bo.kernels.KERNELS`.
            inference: `slice`, samples from the posterior of the hyperparameters; `evidence`, its one maximum.
            samples: of hyperparameters, for `slice`.
            burn_in: sweeps of a new chain that are thrown away.
            sweeps: of the chain a fit. With fewer than `samples`, the window keeps some of the last fit's samples; with
                more, it is thinned.
            restarts: starts of a first search for the maximum, for `evidence`; later ones go on from the last maximum.
            noiseless: fix the noise at 1e-6 of the targets' variance.

        Raises:
            UsageError: when a name or a number does not fit.
        """
        if kernel not in KERNELS or inference not in get_args(Inference):
            msg = f"GaussianProcess: expected a kernel among {', '.join(KERNELS)} and inference slice or evidence, got {kernel!r} and {inference!r}. Leave them out for the defaults."
            raise UsageError(msg)
        if min(samples, sweeps, restarts) < 1 or burn_in < 0:
            msg = f"GaussianProcess: expected positive samples, sweeps and restarts and no negative burn_in, got {samples}, {sweeps}, {restarts} and {burn_in}. Leave them out for the defaults."
            raise UsageError(msg)
        self._kernel, self._inference, self._noiseless = KERNELS[kernel], inference, noiseless
        self._samples, self._burn_in, self._sweeps, self._restarts = samples, burn_in, sweeps, restarts
        self._thin = max(1, sweeps // samples)
        self._states: deque[Floats] = deque(maxlen=1 if inference == "evidence" else samples)
        self._evidence: Evidence | None = None

    @property
    def thetas(self) -> Floats:
        """Hyperparameters of standardised targets: `S x (d + 3)`, log ℓ_1..ℓ_d, log θ0, log ν, m; oldest first."""
        return np.array(self._states)

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit hyperparameters to `n x d` points and `n` ≥ 1 targets.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a target is not finite.
        """
        points, targets = checked_data(X, y)
        if self._evidence is not None and self._evidence.d != points.shape[1]:
            self._states.clear()
        self._targets = Standardised.of(targets)
        self._evidence = Evidence(points, self._targets.z, self._kernel)
        prior = HyperPrior.of(points.shape[1], noiseless=self._noiseless)
        if self._inference == "evidence":
            self._states.append(most_probable(self._evidence, prior, self._starts(prior, rng)))
        else:
            self._walk(self._evidence, prior, rng)
        return self

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict the latent function at `m x d` points under every sample of hyperparameters.

        Raises:
            UsageError: when the process was not fitted, or the points have other dimensions.
            DataError: when a point is not finite.
        """
        points = checked_points(X)
        evidence = self._evidence
        if evidence is None or evidence.d != points.shape[1]:
            fitted = "none" if evidence is None else evidence.d
            msg = f"GaussianProcess: expected points with the dimensions of the fit ({fitted}), got {points.shape[1]}. Fit first, on the same columns."
            raise UsageError(msg)
        square = square_differences(points, evidence.points)
        mean, var = np.empty((2, len(self._states), len(points)))
        for s, theta in enumerate(self._states):
            mean[s], var[s] = evidence.predict(square, theta)
        noise = np.exp(self.thetas[:, -2])
        sd = self._targets.sd
        return Prediction(self._targets.mean + sd * mean, sd**2 * np.maximum(var, SMALLEST_VAR), sd**2 * noise)

    def _starts(self, prior: HyperPrior, rng: np.random.Generator) -> list[Floats]:
        """Choose where to start the search for the maximum."""
        if self._states:
            return [self._states[-1], prior.start()]
        return [prior.start(), *(prior.draw(rng) for _ in range(self._restarts - 1))]

    def _walk(self, evidence: Evidence, prior: HyperPrior, rng: np.random.Generator) -> None:
        """Move the chain on and keep its last states."""
        if self._states:
            theta, steps = self._states[-1], self._sweeps
        else:
            theta, steps = prior.start(), self._thin * self._samples
            for _ in range(self._burn_in):
                theta = sweep(evidence, prior, theta, rng=rng)
        for step in range(1, steps + 1):
            theta = sweep(evidence, prior, theta, rng=rng)
            if step % self._thin == 0:
                self._states.append(theta)
