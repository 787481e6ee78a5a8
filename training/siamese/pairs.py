"""The pairs of datasets on which a Siamese network is trained. None of what is drawn needs a list of all pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.error_tables import ErrorDistances
from warmstart.history_store.errors import UsageError
from warmstart.metafeat.index import DatasetIndex

Rows = NDArray[np.int64]

MANY = 1000
"""Datasets from which on a step takes neighbours: of fewer, one of 64 drawn at random often has one among the others."""
MOST = 10_000
"""Datasets among which neighbours are searched, so that a step takes as long on any number."""
NEAREST = 8
"""Neighbours of a dataset, one of which joins it."""
_AT_ONCE = 256


def spread(rows: Rows, most: int) -> Rows:
    """Return all rows, or `most` of them, spread evenly."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64))]


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
    """Pairs of training datasets with a known target distance."""

    def __init__(self, target: ErrorDistances | GivenDistances, training: Rows) -> None:
        self._target, self._training = target, training

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no pair."""
        return not any(self._target.has_target(block, self._training).any() for block in self._blocks())

    def _blocks(self) -> Iterator[Rows]:
        """Yield the training datasets some at a time, so that no table of all pairs is made."""
        yield from (self._training[at : at + _AT_ONCE] for at in range(0, len(self._training), _AT_ONCE))

    @cached_property
    def _ends(self) -> Rows:
        """Return how many ordered pairs begin with each training dataset or one before it."""
        counts = [self._target.has_target(block, self._training).sum(axis=1) for block in self._blocks()]
        ends: Rows = np.cumsum(np.concatenate(counts))
        return ends

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        """Return the errors of the training datasets, `m x n`, without gaps."""
        return self._target.vectors()[self._training]

    @cached_property
    def _indexed(self) -> Rows:
        """Return the positions that are searched for neighbours, spread over all."""
        return spread(np.arange(len(self._training)), MOST)

    @cached_property
    def _index(self) -> DatasetIndex:
        return DatasetIndex(self._vectors[self._indexed])

    def draw(self, rng: np.random.Generator, n: int) -> Rows:
        """Draw n ordered pairs, all equally probable: `n x 2` datasets."""
        numbers = rng.integers(int(self._ends[-1]), size=n)
        firsts = np.searchsorted(self._ends, numbers, side="right")
        pairs = np.empty((n, 2), np.int64)
        for row, (first, number) in enumerate(zip(firsts.tolist(), numbers.tolist(), strict=True)):
            dataset = self._training[first : first + 1]
            partners = np.flatnonzero(self._target.has_target(dataset, self._training)[0])
            pairs[row] = dataset[0], self._training[partners[number - self._ends[first] + len(partners)]]
        return pairs

    def datasets(self, rng: np.random.Generator, n: int) -> Rows:
        """Draw at most n different datasets, all of whose pairs are trained on.

        Of many datasets two drawn at random are hardly ever alike, and a network would learn far distances alone: half
        are drawn, each with one of the nearest by their errors among `MOST`.
        """
        if len(self._training) <= MANY:
            drawn: Rows = rng.choice(self._training, size=n, replace=False)
            return drawn
        firsts = rng.choice(len(self._training), size=n - n // 2, replace=False)
        near = self._index.search(self._vectors[firsts[: n // 2]], NEAREST + 1)[0]
        neighbours = self._indexed[near[np.arange(len(near)), rng.integers(1, NEAREST + 1, size=len(near))]]
        return self._training[np.union1d(firsts, neighbours)]
