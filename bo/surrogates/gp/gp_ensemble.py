"""Gaussian processes under several samples of hyperparameters, in the units of the targets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import Prediction, checked_fantasies, checked_points
from warmstart.bo.surrogates.gp.posterior import Posterior

Floats = NDArray[np.float64]

SMALLEST_VAR = 1e-12
"""Predicted variances of standardised targets are at least this."""


@dataclass(frozen=True, slots=True)
class ProcessEnsemble:
    """One posterior for each sample of hyperparameters.

    Attributes:
        posteriors: S of them, of standardised targets.
        mean: of the targets.
        sd: of the targets.
        conditional: columns that may be NaN.
        task: of the points to predict; None = the posteriors have no tasks.
    """

    posteriors: Sequence[Posterior]
    mean: float
    sd: float
    conditional: Collection[int]
    task: int | None

    @property
    def d(self) -> int:
        """Return the number of columns of points."""
        return int(self.posteriors[0].points.shape[1]) - (self.task is not None)

    @property
    def amplitudes(self) -> Floats:
        """Return the prior variances: `S`."""
        return self.sd**2 * np.array([posterior.amplitude for posterior in self.posteriors])

    def of_task(self, points: Floats) -> Floats:
        """Append the column of the task, if the posteriors have tasks."""
        return points if self.task is None else np.column_stack([points, np.full(len(points), float(self.task))])

    def thin(self, samples: slice) -> "ProcessEnsemble":
        """Return an ensemble with a subset of the samples."""
        return replace(self, posteriors=self.posteriors[samples])

    def predict(self, points: Floats) -> Prediction:
        """Predict `m x d` points."""
        parts = [posterior.predict(self.of_task(points)) for posterior in self.posteriors]
        return self._prediction([mean[0] for mean, _ in parts], [var for _, var in parts])

    def predict_gradient(self, points: Floats) -> tuple[Prediction, Floats, Floats]:
        """Predict, with gradients `S x m x d`."""
        means, variances, dmeans, dvars = zip(
            *(p.predict_gradient(self.of_task(points)) for p in self.posteriors), strict=True
        )
        prediction = self._prediction([mean[0] for mean in means], variances)
        return prediction, self.sd * np.array([dmean[0] for dmean in dmeans]), self.sd**2 * np.array(dvars)

    def joint_gradient(self, points: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict jointly: mean, covariance, and their gradients `S x J x d` and `S x J x J x d`."""
        parts = [posterior.joint_gradient(self.of_task(points)) for posterior in self.posteriors]
        means, covariances, dmeans, dcovariances = zip(*parts, strict=True)
        return (
            self.mean + self.sd * np.array([mean[0] for mean in means]),
            self.sd**2 * np.array(covariances),
            self.sd * np.array([dmean[0] for dmean in dmeans]),
            self.sd**2 * np.array(dcovariances),
        )

    def sample_joint(self, points: Floats, n: int, *, rng: np.random.Generator) -> Floats:
        """Draw `S x n x J` values of the latent function."""
        normals = rng.standard_normal((len(self.posteriors), n, len(points)))
        draws = [p.draw(self.of_task(points), row) for p, row in zip(self.posteriors, normals, strict=True)]
        return self.mean + self.sd * np.array(draws)

    def condition(self, points: Floats, Y: ArrayLike) -> "ConditionedEnsemble":
        """Return the ensemble conditioned on J points with targets `S x F x J`."""
        _, targets = checked_fantasies(points, Y, samples=len(self.posteriors), conditional=self.conditional)
        scaled = (targets - self.mean) / self.sd
        posteriors = [p.conditioned(self.of_task(points), z) for p, z in zip(self.posteriors, scaled, strict=True)]
        return ConditionedEnsemble(replace(self, posteriors=posteriors))

    def _prediction(self, means: Sequence[Floats], variances: Sequence[Floats]) -> Prediction:
        """Return predictions in the units of the targets."""
        noise = np.exp([posterior.theta[-2] for posterior in self.posteriors])
        var = np.maximum(np.array(variances), SMALLEST_VAR)
        return Prediction(self.mean + self.sd * np.array(means), self.sd**2 * var, self.sd**2 * noise)


@dataclass(frozen=True, slots=True)
class ConditionedEnsemble:
    """ProcessEnsemble conditioned on F fantasies of every sample; their variances do not depend on the fantasies."""

    processes: ProcessEnsemble

    def thin(self, samples: slice) -> "ConditionedEnsemble":
        """Return an ensemble with a subset of the samples."""
        return ConditionedEnsemble(self.processes.thin(samples))

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict `m x d` points: mean `S x F x m` and latent variance `S x 1 x m`."""
        p = self.processes
        parts = [posterior.predict(self._points(X)) for posterior in p.posteriors]
        return p.mean + p.sd * np.array([mean for mean, _ in parts]), self._variance([var for _, var in parts])

    def predict_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict, with the gradients of mean, `S x F x m x d`, and of variance, `S x 1 x m x d`."""
        p, points = self.processes, self._points(X)
        parts = [posterior.predict_gradient(points) for posterior in p.posteriors]
        means, variances, dmeans, dvars = zip(*parts, strict=True)
        return (
            p.mean + p.sd * np.array(means),
            self._variance(variances),
            p.sd * np.array(dmeans),
            p.sd**2 * np.array(dvars)[:, None],
        )

    def _points(self, X: ArrayLike) -> Floats:
        return self.processes.of_task(checked_points(X, conditional=self.processes.conditional))

    def _variance(self, variances: Sequence[Floats]) -> Floats:
        """Return variances > 0 in the units of the targets: `S x 1 x m`."""
        var: Floats = self.processes.sd**2 * np.maximum(np.array(variances), SMALLEST_VAR)[:, None]
        return var
