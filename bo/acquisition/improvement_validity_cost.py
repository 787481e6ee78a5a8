"""The function that the next suggestion maximises: log improvement + log P(valid) + log inverse cost.

A function takes model columns `m x d` (NaN = inactive). It returns `m` values and their gradients `m x d`. The
posteriors of errors, constraints and durations are independent. So the average of their product over samples is the
product of their averages, and its logarithm is the sum of their logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.acquisition.pending import Fantasies
from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.acquisition.scores import integrate_log, log_integration_weights
from warmstart.bo.surrogates import Surrogate

Floats = NDArray[np.float64]

SHORTEST = 1e-6
"""Least duration of an evaluation, as a share of the median."""
LARGEST_VAR = 2.0
"""Limit of the variance of a log duration."""


def log_durations(durations: ArrayLike) -> Floats:
    """Return the logarithms of `n` durations, or other costs, in any unit.

    Shorter ones count as the least duration above 0, or `SHORTEST` of the median, whichever is longer. All logarithms
    are 0 when no duration is above 0.
    """
    values = np.asarray(durations, dtype=np.float64)
    least = float(values.min(initial=np.inf, where=values > 0))
    if not np.isfinite(least):
        return np.zeros_like(values)
    logs: Floats = np.log(np.maximum(values, max(least, SHORTEST * float(np.median(values)))))
    return logs


def log_expected_inverse(mean: Floats, var: Floats) -> Floats:
    """Compute log E[1/c] = -μ + min(σ², 2)/2 of mean and variance of ln c, of any shape."""
    value: Floats = -mean + 0.5 * np.minimum(var, LARGEST_VAR)
    return value


@dataclass(frozen=True, slots=True)
class InverseCost:
    """Acquisition function log E[1/c], averaged over samples of a surrogate of durations.

    Attributes:
        surrogate: fitted to `log_durations`.
    """

    surrogate: Surrogate

    @property
    def rough(self) -> "InverseCost":
        """Return itself."""
        return self

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`."""
        prediction = self.surrogate.predict(X)
        return integrate_log(log_expected_inverse(prediction.mean, prediction.var))

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`."""
        prediction, dmean, dvar = self.surrogate.predict_gradient(X)
        values = log_expected_inverse(prediction.mean, prediction.var)
        slopes = -dmean + 0.5 * np.where((prediction.var < LARGEST_VAR)[..., None], dvar, 0.0)
        return integrate_log(values), np.einsum("sm,smd->md", log_integration_weights(values), slopes)


CHUNK = 512
"""Points of one call of a model; it bounds the memory."""
SUBSAMPLE = slice(None, None, 4)
"""Samples of the rough ranking: every fourth."""
SMALLEST_PROBABILITY = 1e-300
"""Probabilities are at least this, so that their logarithms are finite."""


class AcquisitionFunction(Protocol):
    """Interface of a function of points that the search maximises."""

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`, finite."""
        ...

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`; gradients are 0 in inactive columns."""
        ...

    @property
    def rough(self) -> "AcquisitionFunction":
        """Return a cheaper function that ranks points nearly alike, or itself."""
        ...


class Classifier(Protocol):
    """The part of `warmstart.bo.constraints.classifier.Classifier` that a function uses."""

    def probability(self, X: Floats) -> Floats:
        """Return P(valid) at `m x d` points under every sample: `S x m`."""
        ...

    def probability_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Return P(valid), with its gradients `S x m x d`."""
        ...


class Improvement:
    """Acquisition function of a surrogate, averaged over samples and fantasies [Snoek2012practical] Eqs. (6), (8)."""

    def __init__(self, fantasies: Fantasies, *, acquisition: str, weighed: bool = False) -> None:
        """Build the function from fantasies and the name of an acquisition function.

        Args:
            fantasies: the surrogate conditioned on pending points, and the best error of each fantasy.
            acquisition: a name in `warmstart.bo.acquisition.registry.ACQUISITIONS`.
            weighed: other logarithmic criteria are added to it, so `lcb` takes its logarithmic form.
        """
        named = ACQUISITIONS[acquisition]
        self._form = (named.logarithmic if weighed else None) or named
        self._fantasies, self._acquisition, self._weighed = fantasies, acquisition, weighed
        self._model, self._best = fantasies.model, fantasies.best

    @property
    def rough(self) -> AcquisitionFunction:
        """Return the same function on a quarter of the samples."""
        thinned = self._fantasies.thin(SUBSAMPLE)
        return self if thinned is None else Improvement(thinned, acquisition=self._acquisition, weighed=self._weighed)

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`."""
        mean, var = self._model.predict(X)
        return self._form.average(_flat(self._form.score(mean, var, self._best)))

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`."""
        mean, var, dmean, dvar = self._model.predict_gradient(X)
        scores = self._form.score(mean, var, self._best)
        weights = self._form.weights(_flat(scores)).reshape(scores.shape)
        by_mean, by_var = self._form.slopes(mean, var, self._best)
        by_var = weights * by_var
        if dvar.shape[1] == 1:  # the same for all fantasies
            by_var = by_var.sum(axis=1, keepdims=True)
        gradient = np.einsum("sfm,sfmd->md", weights * by_mean, dmean) + np.einsum("sfm,sfmd->md", by_var, dvar)
        return self._form.average(_flat(scores)), gradient


@dataclass(frozen=True, slots=True)
class Validity:
    """log P(valid) under a classifier, averaged over its samples [Snoek2015scalable] §3.2."""

    classifier: Classifier

    @property
    def rough(self) -> AcquisitionFunction:
        """Return itself."""
        return self

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`."""
        return _log(self.classifier.probability(X).mean(axis=0))

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`."""
        probability, gradient = self.classifier.probability_gradient(X)
        mean = probability.mean(axis=0)
        return _log(mean), gradient.mean(axis=0) / np.maximum(mean, SMALLEST_PROBABILITY)[:, None]


@dataclass(frozen=True, slots=True)
class Product:
    """Product of criteria as the sum of their logarithms, computed in chunks of points."""

    factors: Sequence[AcquisitionFunction]

    @property
    def rough(self) -> AcquisitionFunction:
        """Return the product of rough factors."""
        factors = [factor.rough for factor in self.factors]
        same = all(rough is factor for rough, factor in zip(factors, self.factors, strict=True))
        return self if same else Product(factors)

    def value(self, X: Floats) -> Floats:
        """Compute the values of `m x d` points: `m`."""
        chunks = [X[start : start + CHUNK] for start in range(0, len(X), CHUNK)]
        values = [np.sum([factor.value(chunk) for factor in self.factors], axis=0) for chunk in chunks]
        return np.concatenate([np.empty(0), *values])

    def value_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Compute the values and their gradients `m x d`."""
        values, gradients = zip(*(factor.value_gradient(X) for factor in self.factors), strict=True)
        return np.sum(values, axis=0), np.sum(gradients, axis=0)


def _flat(scores: Floats) -> Floats:
    """Flatten samples and fantasies `S x F x m` to `SF x m`."""
    return scores.reshape(-1, scores.shape[-1])


def _log(probability: Floats) -> Floats:
    """Compute the logarithm of probabilities that may be 0."""
    value: Floats = np.log(np.maximum(probability, SMALLEST_PROBABILITY))
    return value
