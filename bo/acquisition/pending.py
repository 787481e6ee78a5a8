"""Monte-Carlo fantasies of pending evaluations [Snoek2012practical] §3.2, [Snoek2015scalable] §3.3.

Outcomes of the evaluations that still run are drawn jointly from the surrogate. The acquisition function is averaged
over them; each outcome has its own incumbent. All candidates of a suggestion use the same draws.
"""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates import Conditioned, Surrogate

Floats = NDArray[np.float64]

FEW_PENDING = 4
"""Pending points up to which there are many draws."""
MANY_FANTASIES, FEW_FANTASIES = 32, 16


@runtime_checkable
class Thinnable(Protocol):
    """Interface of a surrogate that can drop samples because each of them costs a linear solve."""

    def thin(self, samples: slice) -> Self:
        """Return a model with a subset of the samples; the surrogate itself is unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class Fantasies:
    """Surrogate conditioned on each of F outcomes of the pending evaluations.

    Attributes:
        model: predicts `S x F x m`; F = 1 where nothing is pending.
        best: `S x F x 1`, the lowest error of every sample and outcome.
    """

    model: Conditioned
    best: Floats

    def thin(self, samples: slice) -> Self | None:
        """Return fantasies with a subset of the samples; None when that saves nothing."""
        model = None if len(self.best) == 1 else _thinned(self.model, samples)
        return None if model is None else type(self)(model, self.best[samples])


@dataclass(frozen=True, slots=True)
class Unconditioned:
    """Surrogate without pending evaluations, in the shapes of one fantasy."""

    surrogate: Surrogate

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict mean and variance at `m x d` points: `S x 1 x m`."""
        prediction = self.surrogate.predict(X)
        return prediction.mean[:, None], prediction.var[:, None]

    def predict_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict mean and variance, with gradients `S x 1 x m x d`."""
        prediction, dmean, dvar = self.surrogate.predict_gradient(X)
        return prediction.mean[:, None], prediction.var[:, None], dmean[:, None], dvar[:, None]


@dataclass(frozen=True, slots=True)
class Observed:
    """Surrogate of observations: its variances include the noise.

    Attributes:
        model: predicts the latent function.
        noise: `S x 1 x 1`, variances.
    """

    model: Conditioned
    noise: Floats

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Predict mean and variance, noise included, at `m x d` points."""
        mean, var = self.model.predict(X)
        return mean, var + self.noise

    def predict_gradient(self, X: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Predict mean and variance with gradients; the noise has none."""
        mean, var, dmean, dvar = self.model.predict_gradient(X)
        return mean, var + self.noise, dmean, dvar


def _thinned(model: Conditioned, samples: slice) -> Conditioned | None:
    """Return a model with a subset of the samples; None when all samples cost as much as one."""
    if isinstance(model, Thinnable):
        return model.thin(samples)
    if isinstance(model, Unconditioned):
        return Unconditioned(model.surrogate.thin(samples)) if isinstance(model.surrogate, Thinnable) else None
    if isinstance(model, Observed):
        thinned = _thinned(model.model, samples)
        return None if thinned is None else Observed(thinned, model.noise[samples])
    return None


def fantasise(
    surrogate: Surrogate,
    X: Floats,
    best: Floats,
    *,
    rng: np.random.Generator,
    probability: Floats | None = None,
    n: int | None = None,
) -> Fantasies:
    """Return fantasies of pending points: outcomes drawn jointly, and the surrogate conditioned on them.

    Outcomes include the model's noise. A fantasy's incumbent is the lowest of `best` and of the posterior means at the
    pending points that are valid in it; without noise, these are the outcomes themselves. A pending point that a
    fantasy draws as invalid is no incumbent. Its outcome still informs the points beside it: all fantasies share one
    covariance.

    Args:
        surrogate: fitted.
        X: `J x d` pending points, in any order: the draws do not depend on it.
        best: `S x 1` lowest error so far of every sample.
        rng: the only source of randomness.
        probability: `J` of being valid; None = all are.
        n: fantasies a sample; None = 32 for up to 4 pending points, else 16.
    """
    if not len(X):
        return Fantasies(Unconditioned(surrogate), best[:, None])
    order = np.lexsort(X.T[::-1])
    points = X[order]
    draws = (MANY_FANTASIES if len(X) <= FEW_PENDING else FEW_FANTASIES) if n is None else n
    latent = surrogate.sample_joint(points, draws, rng=rng)
    noise = np.sqrt(surrogate.predict(points[:1]).noise)[:, None, None]
    model = surrogate.condition(points, latent + noise * rng.standard_normal(latent.shape))
    means, _ = model.predict(points)
    if probability is not None:
        means = np.where(rng.random((draws, len(X))) < probability[order], means, np.inf)
    return Fantasies(model, np.minimum(best[:, None], means.min(axis=2, keepdims=True)))
