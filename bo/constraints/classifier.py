"""P(valid | x) of constraints that only an evaluation reveals [Snoek2015scalable] §3.2."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.constraints.gp_classifier import GPClassifier
from warmstart.bo.constraints.network_classifier import NetworkClassifier

Floats = NDArray[np.float64]


class Classifier(Protocol):
    """Interface of a model of labels. Its constructor takes keywords only, among them `conditional` and `labels`.

    With equal labels the probability is constant: 1 if all points are valid, 1 / (n + 2) if none is.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit `n x d` points, NaN = inactive, and `n` labels, 1 or True = valid."""
        ...

    def probability(self, X: ArrayLike) -> Floats:
        """Return P(valid) at `m x d` points under every sample: `S x m`."""
        ...

    def probability_gradient(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return P(valid), with its gradients `S x m x d`, 0 in inactive columns."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the state from which the next fit starts, in JSON types."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Set the state from which the next fit starts."""
        ...


CLASSIFIERS: Mapping[str, Callable[..., Classifier]] = MappingProxyType(
    {"network": NetworkClassifier, "gp": GPClassifier}
)
"""Every classifier by name. A run with a network surrogate and many labels uses `network`, any other `gp`."""
