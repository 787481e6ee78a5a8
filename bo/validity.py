"""P(valid) by regression on labels."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.acquisition import LOG_SQRT_2PI
from bo.surrogates.gp import GaussianProcess

Floats = NDArray[np.float64]

HALF = 0.5


class LabelRegression:
    """A Gaussian process on labels 0 and 1: P(valid) = Φ((μ - ½)/√(σ² + ν))."""

    def __init__(self, *, conditional: Sequence[int] = ()) -> None:
        self._process = GaussianProcess(conditional=conditional)

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit `n x d` points and `n` labels, 1 = valid."""
        self._process.fit(X, y, rng=rng)
        return self

    def probability(self, X: Floats) -> Floats:
        """Give P(valid) under every sample: `S x m`."""
        from scipy.special import ndtr

        prediction = self._process.predict(X)
        value: Floats = ndtr((prediction.mean - HALF) / np.sqrt(prediction.var + prediction.noise[:, None]))
        return value

    def probability_gradient(self, X: Floats) -> tuple[Floats, Floats]:
        """Give P(valid), with its gradients `S x m x d`."""
        from scipy.special import ndtr

        prediction, dmean, dvar = self._process.predict_gradient(X)
        spread = prediction.var + prediction.noise[:, None]
        gamma = (prediction.mean - HALF) / np.sqrt(spread)
        density = np.exp(-0.5 * np.square(gamma) - LOG_SQRT_2PI)
        by_mean, by_var = density / np.sqrt(spread), -0.5 * density * gamma / spread
        return ndtr(gamma), by_mean[..., None] * dmean + by_var[..., None] * dvar

    def state(self) -> dict[str, Any]:
        """Give what the next fit starts from."""
        return self._process.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take what the next fit starts from."""
        self._process.restore(state)
