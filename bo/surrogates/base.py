"""What every surrogate takes and gives."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from history_store.errors import DataError, UsageError

SMALLEST_SD = 1e-12
"""Targets that spread less are constant."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What S samples of hyperparameters (or weights) say about M points; never averaged here.

    Attributes:
        mean: `S x M`, in the units of the targets.
        var: `S x M`, variance of the latent function, > 0.
        noise: `S`, variance of the noise on top of it.
    """

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    noise: NDArray[np.float64]


class Surrogate(Protocol):
    """A model of the errors that an acquisition function can ask."""

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit `n x d` points in [0, 1] and their `n` finite targets; what a former fit learned may be kept."""
        ...

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict `m x d` points."""
        ...


@dataclass(frozen=True, slots=True)
class Standardised:
    """Targets with mean 0 and standard deviation 1 (or 0, where they are constant).

    Attributes:
        z: `n`.
        mean: of the targets.
        sd: of the targets; 1 where they spread less than 1e-12.
    """

    z: NDArray[np.float64]
    mean: float
    sd: float

    @classmethod
    def of(cls, y: NDArray[np.float64]) -> Self:
        """Standardise `n` ≥ 1 finite targets of any magnitude."""
        unit = max(float(np.abs(y).max()), SMALLEST_SD)
        scaled = y / unit  # squares of 1e200 overflow
        mean, sd = float(scaled.mean()), float(scaled.std())
        if sd * unit < SMALLEST_SD:
            return cls(np.zeros_like(y), mean * unit, 1.0)
        return cls((scaled - mean) / sd, mean * unit, sd * unit)


def checked_data(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read points and targets as float64.

    Raises:
        UsageError: when shapes do not fit.
        DataError: when a point or a target is no finite number.
    """
    points, targets = checked_points(X), np.asarray(y, dtype=np.float64)
    if not len(points) or targets.shape != (len(points),):
        msg = f"surrogate: expected one target a point, got {len(points)} points and targets of shape {targets.shape}. Give `n x d` and `n`."
        raise UsageError(msg)
    bad = np.flatnonzero(~np.isfinite(targets))
    if len(bad):
        msg = f"surrogate: expected finite targets, got y[{bad[0]}]={targets[bad[0]]}. Leave failed evaluations out."
        raise DataError(msg)
    return points, targets


def checked_points(X: ArrayLike) -> NDArray[np.float64]:
    """Read points as `n x d` float64; refusals as in `checked_data`."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        msg = f"surrogate: expected `n x d` points, got shape {points.shape}. Give one row a point."
        raise UsageError(msg)
    if not np.isfinite(points).all():
        msg = "surrogate: expected finite points, got NaN or inf. Encode inactive hyperparameters first."
        raise DataError(msg)
    return points
