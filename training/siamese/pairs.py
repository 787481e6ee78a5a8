"""The pairs of datasets on which a Siamese network is trained. None of what is drawn needs a list of all pairs."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.error_tables import ErrorDistances
from warmstart.history_store.errors import UsageError
from warmstart.metafeat.index import DatasetIndex

Rows = NDArray[np.int64]

MANY = 1000
"""Datasets from which on a step takes neighbours: of fewer, one of 64 drawn at random often has one among the others."""
NEAREST = 8
"""Neighbours of a dataset, one of which joins it."""
_AT_ONCE = 256


class GivenDistances:
    """Target distances that are stated, `m x m`; NaN = unknown.

    Raises:
        UsageError: another shape.
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = np.asarray(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            msg = (
                f"siamese: expected `m x m` target distances, got shape {self.matrix.shape}. Align them with the data."
            )
            raise UsageError(msg)

    def __len__(self) -> int:
        return len(self.matrix)

    def between(self, a: Rows, b: Rows) -> NDArray[np.float64]:
        """Return the distances of rows `a` from rows `b`."""
        return self.matrix[np.ix_(a, b)]

    def has_target(self, a: Rows, b: Rows) -> NDArray[np.bool_]:
        """Tell which pairs are known."""
        is_pair: NDArray[np.bool_] = np.isfinite(self.between(a, b)) & (a[:, None] != b)
        return is_pair

    def vectors(self) -> NDArray[np.float32]:
        """Return `m x m` distances from all datasets, which are alike for neighbours."""
        return np.nan_to_num(self.matrix, nan=float(np.nanmean(self.matrix))).astype(np.float32)

    def digest(self) -> bytes:
        """Return a digest of all distances."""
        return hashlib.sha256(self.matrix.tobytes()).digest()


class TrainingPairs:
    """Pairs of training datasets with a known target distance.

    Attributes:
        total: number of ordered pairs.
    """

    def __init__(self, target: ErrorDistances | GivenDistances, training: Rows) -> None:
        self._target, self._training = target, training
        blocks = [training[at : at + _AT_ONCE] for at in range(0, len(training), _AT_ONCE)]
        counts = [target.has_target(block, training).sum(axis=1) for block in blocks]
        self._ends = np.cumsum(np.concatenate(counts)) if counts else np.zeros(0, np.int64)
        self.total = int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def _index(self) -> DatasetIndex:
        """Return the index of training datasets by their errors."""
        return DatasetIndex(self._target.vectors()[self._training])

    def draw(self, rng: np.random.Generator, n: int) -> Rows:
        """Draw n ordered pairs, all equally probable: `n x 2` datasets."""
        numbers = rng.integers(self.total, size=n)
        firsts = np.searchsorted(self._ends, numbers, side="right")
        pairs = np.empty((n, 2), np.int64)
        for row, (first, number) in enumerate(zip(firsts.tolist(), numbers.tolist(), strict=True)):
            dataset = self._training[first : first + 1]
            partners = np.flatnonzero(self._target.has_target(dataset, self._training)[0])
            pairs[row] = dataset[0], self._training[partners[number - self._ends[first] + len(partners)]]
        return pairs

    def datasets(self, rng: np.random.Generator, n: int) -> Rows:
        """Draw n different datasets, all of whose pairs are trained on.

        Of many datasets two drawn at random are hardly ever alike, so that a network would learn far distances alone: half
        are drawn, each with one of the nearest by their errors.
        """
        if len(self._training) <= MANY:
            drawn: Rows = rng.choice(self._training, size=n, replace=False)
            return drawn
        firsts = rng.choice(len(self._training), size=n - n // 2, replace=False)
        near = self._index.search(self._index.vectors[firsts[: n // 2]], NEAREST + 1)[0]
        neighbours = near[np.arange(len(near)), rng.integers(1, NEAREST + 1, size=len(near))]
        return self._training[np.union1d(firsts, neighbours)]
