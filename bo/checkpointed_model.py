"""A model that is refitted when its data change, and can be checkpointed and resumed exactly."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Fittable(Protocol):
    """Interface that surrogates and classifiers share."""

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit the model to points `n x d` and their targets `n`."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the state from which the next fit starts."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Set the state from which the next fit starts."""
        ...


M = TypeVar("M", bound=Fittable)


class CheckpointedModel(Generic[M]):
    """Model together with the state from which its last fit started.

    A checkpoint holds the states, not the fit. After a resume with the same data, the last fit is repeated from the
    state before it with the same generator. With new data, the next fit starts from the state after it.
    """

    def __init__(self, model: M, *, seed: tuple[int, ...]) -> None:
        self._model, self._seed = model, seed
        self._before: dict[str, Any] | None = None
        self._fits, self._revision, self._stale = 0, -1, False

    def fitted(self, X: NDArray[np.float64], y: NDArray[np.float64], *, revision: int) -> M:
        """Return the model fitted to the data of a revision; equal revisions mean equal data."""
        if revision != self._revision:
            self._before = self._model.state()
            self._fits += 1
        elif self._stale and self._before is not None:
            self._model.restore(self._before)
        else:
            return self._model
        self._model.fit(X, y, rng=np.random.default_rng([*self._seed, self._fits]))
        self._revision, self._stale = revision, False
        return self._model

    def to_dict(self) -> dict[str, Any]:
        """Return the states before and after the last fit in JSON types; the model must be in the state after it."""
        after = self._model.state() if self._before is not None else None
        return {"before": self._before, "after": after, "fits": self._fits, "revision": self._revision}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Set the states from a record of `to_dict`."""
        self._before, self._fits, self._revision = record["before"], record["fits"], record["revision"]
        if record["after"] is not None:
            self._model.restore(record["after"])
            self._stale = True
