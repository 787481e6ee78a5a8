"""A model that is fitted again when it is told more, in a run that can be saved at any time and goes on as if it had not been."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Fittable(Protocol):
    """What surrogates and classifiers have in common."""

    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: np.random.Generator) -> Self:
        """Fit points and targets."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what the next fit starts from."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take what the next fit starts from."""
        ...


M = TypeVar("M", bound=Fittable)


class CheckpointedModel(Generic[M]):
    """A model, and what its last fit started from.

    A resumed run has the states but not the fit. Asked again about the same data, it makes the last fit anew from the state
    before it, with the same generator; told more, it goes on from the state after it.
    """

    def __init__(self, model: M, *, seed: tuple[int, ...]) -> None:
        self._model, self._seed = model, seed
        self._before: dict[str, Any] | None = None
        self._fits, self._revision, self._stale = 0, -1, False

    def fitted(self, X: NDArray[np.float64], y: NDArray[np.float64], *, revision: int) -> M:
        """Return the model fitted to the data of a revision; the same revision means the same data."""
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
        """Return the states around the last fit, as JSON has them; the model is taken as it is after it."""
        after = self._model.state() if self._before is not None else None
        return {"before": self._before, "after": after, "fits": self._fits, "revision": self._revision}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Take a record of `to_dict`."""
        self._before, self._fits, self._revision = record["before"], record["fits"], record["revision"]
        if record["after"] is not None:
            self._model.restore(record["after"])
            self._stale = True
