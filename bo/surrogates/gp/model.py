"""Exact Gaussian process: the default surrogate, up to some hundred evaluations [Snoek2012practical].

`gp` averages over slice-sampled hyperparameters. `gp-map` takes the most probable ones: it is faster, and
over-confident with few points. Targets are standardised inside; inputs lie in [0, 1].
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import Prediction, Standardised, checked_data, points_of_fit
from warmstart.bo.surrogates.gp.arc_and_warping import Metric
from warmstart.bo.surrogates.gp.chain import Chain, Inference
from warmstart.bo.surrogates.gp.covariance import Covariance, Stationary
from warmstart.bo.surrogates.gp.gp_ensemble import ConditionedEnsemble, ProcessEnsemble
from warmstart.bo.surrogates.gp.hyperparameters import HyperPrior, Priors, lengthscale_prior, level_priors
from warmstart.bo.surrogates.gp.kernels import KERNELS
from warmstart.bo.surrogates.gp.marginal_likelihood import Evidence
from warmstart.bo.surrogates.gp.posterior import Posterior
from warmstart.bo.surrogates.gp.priors import Density
from warmstart.history_store.errors import UsageError

Floats = NDArray[np.float64]


class GaussianProcess:
    """Gaussian process with one lengthscale for each dimension, and sampled or most probable hyperparameters.

    Use it up to some hundred evaluations. Not for thousands: the cost grows with their cube, so use `DNGO` there.

    >>> x = np.linspace(0, 1, 8)[:, None]
    >>> model = GaussianProcess(samples=3).fit(x, (x[:, 0] - 0.3) ** 2, rng=np.random.default_rng(0))
    >>> float(np.abs(model.predict(x).mean.mean(axis=0) - (x[:, 0] - 0.3) ** 2).max()) < 0.1
    True

    Each fit continues the last one: burn-in happens once, and the window of the last samples moves. The search for the
    most probable hyperparameters starts from the last ones. A fit with another number of dimensions starts anew.
    """

    def __init__(
        self,
        *,
        kernel: str = "matern52",
        inference: Inference = "slice",
        samples: int = 10,
        burn_in: int = 15,
        sweeps: int | None = None,
        restarts: int = 5,
        priors: Priors = "modern",
        noiseless: bool = False,
        isotropic: bool = False,
        warping: bool = False,
        conditional: Sequence[int] = (),
        climbs: bool = True,
    ) -> None:
        """Build an unfitted process.

        Args:
            kernel: a name in `warmstart.bo.surrogates.gp.kernels.KERNELS`.
            inference: `slice`, samples from the posterior of the hyperparameters; `evidence`, its maximum.
            samples: of hyperparameters, for `slice`.
            burn_in: discarded sweeps of a new chain.
            sweeps: of the chain in each fit. With fewer than `samples`, the window keeps samples of the last fit; with
                more, it is thinned. None = 10 up to 300 points, then fewer, down to 1; a first fit to 20 points or more
                draws its samples around the most probable hyperparameters instead, by importance resampling.
            restarts: starts of the first search for the maximum, for `evidence`; later searches start from the last
                one.
            priors: of the hyperparameters: `modern`, which suit many dimensions, or the `paper`'s.
            noiseless: fix the noise at 1e-6 of the targets' variance.
            isotropic: one lengthscale for all columns.
            warping: infer a monotone warping of every column. It takes three times as long. It predicts better when the
                detail of a function lies at one end of a scale, else worse with few points.
            conditional: columns that may be NaN, inactive.
            climbs: a new chain starts from the most probable hyperparameters, not from their prior.

        Raises:
            UsageError: when a name or a number does not fit.
        """
        if kernel not in KERNELS or priors not in get_args(Priors):
            msg = f"GaussianProcess: expected a kernel among {', '.join(KERNELS)} and priors modern or paper, got {kernel!r} and {priors!r}. Leave them out for the defaults."
            raise UsageError(msg)
        self._kernel, self._priors, self._noiseless = KERNELS[kernel], priors, noiseless
        self._isotropic, self._warping, self._conditional = isotropic, warping, tuple(conditional)
        self._chain = Chain(
            inference=inference, samples=samples, burn_in=burn_in, sweeps=sweeps, restarts=restarts, climbs=climbs
        )
        self._processes: ProcessEnsemble | None = None

    @property
    def thetas(self) -> Floats:
        """Return hyperparameters of standardised targets, `S x p`: `Metric`, log θ0, log ν, m; oldest first."""
        return self._chain.thetas

    @property
    def amplitudes(self) -> Floats:
        """Return the prior variance under every sample of hyperparameters: `S`, in squared units of the targets.

        Raises:
            UsageError: before a fit.
        """
        if self._processes is None:
            msg = "GaussianProcess: expected a fitted process to ask for amplitudes, got none. Fit first."
            raise UsageError(msg)
        return self._processes.amplitudes

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit hyperparameters to `n x d` points and `n` ≥ 1 targets.

        Raises:
            UsageError: when shapes do not fit.
            DataError: when a point or a target is not finite.
        """
        points, targets = checked_data(X, y, conditional=self._conditional)
        covariance, scaled = Stationary(self._kernel, self._metric(points.shape[1])), Standardised.of(targets)
        shape = self._shape_prior(covariance.metric)
        self._learn(covariance, shape, points, scaled.z, scale=(scaled.mean, scaled.sd), task=None, rng=rng)
        return self

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict the latent function at `m x d` points under every sample of hyperparameters.

        Raises:
            UsageError: before a fit, or when the points have other dimensions.
            DataError: when a point is not finite.
        """
        points, processes = self._fitted(X)
        return processes.predict(points)

    def predict_gradient(self, X: ArrayLike) -> tuple[Prediction, Floats, Floats]:
        """Predict, with the gradients `S x m x d` of mean and variance; refusals as in `predict`."""
        points, processes = self._fitted(X)
        return processes.predict_gradient(points)

    def joint_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict J points jointly, with gradients `S x J x d` and `S x J x J x d`; refusals as in `predict`."""
        points, processes = self._fitted(X)
        return processes.joint_gradient(points)

    def sample_joint(self, X: ArrayLike, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw n values of the latent function per sample, jointly at J points, `S x n x J`; raises as `predict`."""
        points, processes = self._fitted(X)
        return processes.sample_joint(points, n, rng=rng)

    def condition(self, X: ArrayLike, Y: ArrayLike) -> ConditionedEnsemble:
        """Return the process conditioned on targets `S x F x J` at J points; errors as in `predict`."""
        points, processes = self._fitted(X)
        return processes.condition(points, Y)

    def thin(self, samples: slice) -> Self:
        """Return a copy with a subset of the samples, to rank many points quickly; its data are shared.

        Raises:
            UsageError: before a fit.
        """
        if self._processes is None:
            msg = "GaussianProcess: expected a fitted process to thin, got none. Fit first."
            raise UsageError(msg)
        thinned = copy(self)
        thinned._processes = self._processes.thin(samples)  # noqa: SLF001  of its own class
        return thinned

    def state(self) -> dict[str, Any]:
        """Return the chain in JSON types."""
        return self._chain.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Set the chain from which the next fit continues.

        Raises:
            DataError: when the record is damaged.
        """
        self._chain.restore(state)

    def _metric(self, d: int) -> Metric:
        """Build the metric of points in d dimensions."""
        return Metric(d, conditional=self._conditional, isotropic=self._isotropic, warping=self._warping)

    def _shape_prior(self, metric: Metric) -> list[Density]:
        """Build the prior of a metric's shape."""
        return metric.prior(lengthscale_prior(metric.d, self._priors))

    def _learn(
        self,
        covariance: Covariance,
        shape: list[Density],
        points: Floats,
        z: Floats,
        *,
        scale: tuple[float, float],
        task: int | None,
        rng: np.random.Generator,
    ) -> None:
        """Infer hyperparameters, and condition on the data.

        Args:
            covariance: of the points.
            shape: prior of its shape.
            points: `n x d`, with a column of the task if there are several.
            z: `n` standardised targets.
            scale: mean and standard deviation of the targets.
            task: of the points to predict, or None.
            rng: the only source of randomness.
        """
        prior = HyperPrior((*shape, *level_priors(self._priors, noiseless=self._noiseless)))
        self._chain.advance(Evidence(points, z, covariance), prior, rng=rng)
        posteriors = [Posterior.of(covariance, theta, points, z) for theta in self._chain.thetas]
        self._processes = ProcessEnsemble(posteriors, *scale, self._conditional, task)

    def _fitted(self, X: ArrayLike) -> tuple[Floats, ProcessEnsemble]:
        """Check points against the columns of the fit, and return both."""
        return points_of_fit(X, self._processes, "GaussianProcess", conditional=self._conditional)
