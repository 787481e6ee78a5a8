"""Interface of all surrogates: tasks and fantasies in, predictions out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError, UsageError

SMALLEST_SD = 1e-12
"""Standard deviation below which targets count as constant."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predictions of S samples of hyperparameters (or weights) at M points; samples are not averaged here.

    Attributes:
        mean: `S x M`, in the units of the targets.
        var: `S x M`, variance of the latent function, > 0.
        noise: `S`, variance of the noise.
    """

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    noise: NDArray[np.float64]


class Surrogate(Protocol):
    """Interface of a model of errors that an acquisition function can use.

    Every constructor takes keywords only. One of them is `conditional`: the columns that may be NaN, which means that
    the hyperparameter is inactive there.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit `n x d` points in [0, 1] and their `n` finite targets; a fit may continue the last one."""
        ...

    def predict(self, X: ArrayLike) -> Prediction:
        """Predict `m x d` points."""
        ...

    def predict_gradient(self, X: ArrayLike) -> tuple[Prediction, NDArray[np.float64], NDArray[np.float64]]:
        """Predict `m x d` points, with gradients `S x m x d` of mean and variance; 0 in inactive columns."""
        ...

    def joint_gradient(
        self, X: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Predict J points jointly: mean `S x J`, covariance of the latent function `S x J x J`, and their gradients.

        Those of the mean are `S x J x d`; those of the covariance, with respect to the first of the two points,
        `S x J x J x d`.
        """
        ...

    def sample_joint(self, X: ArrayLike, n: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw n samples of the latent function for each hyperparameter sample, jointly at J points: `S x n x J`."""
        ...

    def condition(self, X: ArrayLike, Y: ArrayLike) -> Conditioned:
        """Return the surrogate conditioned on targets `S x F x J`, with the model's noise, at `J x d` pending points.

        Hyperparameters and the units of the targets stay as fitted; every sample has F fantasies.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return the state from which the next fit starts, in JSON types; empty if fits are independent."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a record of `state`, so that the next fit equals that of the recorded surrogate."""
        ...


class Conditioned(Protocol):
    """Fitted surrogate, conditioned on F fantasies of every sample."""

    def predict(self, X: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict `m x d` points: mean `S x F x m`, latent variance > 0, `S x F x m` or `S x 1 x m` (all F alike)."""
        ...

    def predict_gradient(
        self, X: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Predict, with the gradients of mean, `S x F x m x d`, and of variance, `S x F x m x d` or `S x 1 x m x d`."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """Evaluations of a related task, for multi-task surrogates.

    A multi-task surrogate takes `related: Sequence[Task] = ()` and `meta` (the target's own meta-feature, `p` or None)
    at construction. `fit` and `predict` are then about the target alone, and `fit` accepts no points (`0 x d`).

    Attributes:
        X: `n x d` points in [0, 1], NaN in conditional columns = inactive.
        y: `n` targets, in the units of this task.
        meta: `p` meta-feature of the task, or None if no task has one.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    meta: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Standardised:
    """Targets with mean 0 and standard deviation 1, or 0 if they are constant.

    Attributes:
        z: `n`.
        mean: of the targets.
        sd: of the targets; 1 if below 1e-12 of the largest target, which is rounding.
    """

    z: NDArray[np.float64]
    mean: float
    sd: float

    @property
    def varies(self) -> bool:
        """Tell whether the targets differ, so that their standard deviation is known."""
        return bool(self.z.any())

    @classmethod
    def of(cls, y: NDArray[np.float64]) -> Self:
        """Standardise `n` ≥ 1 finite targets of any magnitude."""
        unit = float(np.abs(y).max()) or 1.0
        scaled = y / unit  # squares of 1e200 overflow
        mean, sd = float(scaled.mean()), float(scaled.std())
        if sd < SMALLEST_SD or not sd * unit:
            return cls(np.zeros_like(y), mean * unit, 1.0)
        return cls((scaled - mean) / sd, mean * unit, sd * unit)


def checked_data(
    X: ArrayLike, y: ArrayLike, *, conditional: Collection[int] = (), least: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check points and targets, and return them as float64.

    Raises:
        UsageError: when shapes do not fit.
        DataError: when a point or a target is no finite number, but for NaN in conditional columns.
    """
    points, targets = checked_points(X, conditional=conditional), np.asarray(y, dtype=np.float64)
    if len(points) < least or targets.shape != (len(points),):
        msg = f"surrogate: expected one target a point, got {len(points)} points and targets of shape {targets.shape}. Give `n x d` and `n`."
        raise UsageError(msg)
    bad = np.flatnonzero(~np.isfinite(targets))
    if len(bad):
        msg = f"surrogate: expected finite targets, got y[{bad[0]}]={targets[bad[0]]}. Leave failed evaluations out."
        raise DataError(msg)
    return points, targets


def checked_points(X: ArrayLike, *, conditional: Collection[int] = ()) -> NDArray[np.float64]:
    """Check points, and return them as `n x d` float64; errors as in `checked_data`."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        msg = f"surrogate: expected `n x d` points, got shape {points.shape}. Give one row a point."
        raise UsageError(msg)
    if not all(0 <= column < points.shape[1] for column in conditional):
        msg = f"surrogate: expected conditional columns in 0..{points.shape[1] - 1}, got {sorted(conditional)}. Give points with all columns."
        raise UsageError(msg)
    bad = ~np.isfinite(points)
    # Conditional columns may be NaN, but not infinite.
    bad[:, list(conditional)] &= ~np.isnan(points[:, list(conditional)])
    if bad.any():
        msg = "surrogate: expected finite points, got NaN or inf. Name the columns that may be NaN, inactive, as conditional."
        raise DataError(msg)
    return points


class _Fit(Protocol):
    @property
    def d(self) -> int: ...


F = TypeVar("F", bound=_Fit)


def points_of_fit(
    X: ArrayLike, fit: F | None, name: str, *, conditional: Collection[int] = ()
) -> tuple[NDArray[np.float64], F]:
    """Check points against the `d` columns of a fit, and return both; errors as in `checked_data`."""
    points = checked_points(X, conditional=conditional)
    if fit is None or fit.d != points.shape[1]:
        fitted = "none" if fit is None else fit.d
        msg = f"{name}: expected points with the dimensions of the fit ({fitted}), got {points.shape[1]}. Fit first, on the same columns."
        raise UsageError(msg)
    return points, fit


def checked_fantasies(
    X: ArrayLike, Y: ArrayLike, *, samples: int, conditional: Collection[int] = ()
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check `J x d` pending points and `S x F x J` targets, and return them as float64; errors as in `checked_data`."""
    points, targets = checked_points(X, conditional=conditional), np.asarray(Y, dtype=np.float64)
    if targets.ndim != 3 or targets.shape[0] != samples or targets.shape[1] == 0 or targets.shape[2] != len(points):
        msg = f"surrogate: expected fantasies of shape ({samples}, F, {len(points)}), got {targets.shape}. Give `S x F x J`."
        raise UsageError(msg)
    if not np.isfinite(targets).all():
        msg = "surrogate: expected finite fantasies, got NaN or inf. Draw them with sample_joint."
        raise DataError(msg)
    return points, targets


Growth = Literal["linear", "cubic"]


@dataclass(frozen=True, slots=True)
class SurrogateInfo:
    """Surrogate by name.

    Attributes:
        name: in `warmstart.bo.surrogates.SURROGATES`; the multi-task form of `x` is `mt-x`.
        factory: takes the keyword `conditional` (columns that may be NaN) and returns an unfitted surrogate. A
            multi-task one takes `related` and `meta` too, see `warmstart.bo.surrogates.Task`.
        multitask: whether it learns from related tasks.
        alone: of a multi-task surrogate, the surrogate of the target alone, which suggests when a Gaussian process of
            the target alone forecasts evaluations better; None = related tasks are always used.
        min_points: valid evaluations before the first fit, ≥ 1; none with related tasks.
        growth: of the cost with the evaluations. With a `cubic` surrogate, processes model constraints and durations;
            with a `linear` one, networks do (constraints from 101 labels on).
    """

    name: str
    factory: Callable[..., Surrogate]
    multitask: bool = False
    min_points: int = 3
    growth: Growth = "linear"
    alone: str | None = None

    def __call__(self, **keywords: Any) -> Surrogate:
        """Return a new surrogate."""
        return self.factory(**keywords)

    @classmethod
    def of(cls, surrogate: Surrogate) -> SurrogateInfo:
        """Return the description of an unfitted instance; each run fits a copy.

        Its attributes `min_points` and `growth`, if any, are used.
        """
        options = {key: getattr(surrogate, key) for key in ("min_points", "growth") if hasattr(surrogate, key)}
        return cls(type(surrogate).__name__, partial(_copied, surrogate), **options)


def _copied(surrogate: Surrogate, **_: Any) -> Surrogate:
    """Return a copy of an unfitted surrogate; keywords of the run are ignored."""
    return copy.deepcopy(surrogate)
