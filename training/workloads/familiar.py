"""Whether a picture resembles those that a classifier learned, by the features of one of its networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

MOST = 200
"""Pictures that are kept for the comparison; 100 did nearly as well."""
_OWN_MARKED = 0.01
"""Share of the classifier's own kind of pictures that is called unlike."""
_TINY = 1e-9

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Familiar:
    """Features of pictures that a classifier learned.

    Attributes:
        bank: `m x d`, rows of length 1.
        least: cosine to the nearest of these below which a picture is unlike all.
        model: number of the classifier's model that computes the features.
    """

    bank: Matrix
    least: float
    model: int

    @classmethod
    def of(cls, rows: Matrix, others: Matrix | None, *, model: int) -> Self:
        """Return the comparison with some pictures.

        Args:
            rows: `m x d` features of pictures.
            others: of pictures of the same kind, which the network has not seen; None = these are left out in turn.
            model: number of the classifier's model that computes the features.
        """
        bank = _unit_rows(rows)
        cosines = bank @ bank.T if others is None else _unit_rows(others) @ bank.T
        if others is None:
            np.fill_diagonal(cosines, -1.0)
        return cls(bank, float(np.quantile(cosines.max(1), _OWN_MARKED)), model)

    def unlike(self, rows: Matrix) -> NDArray[np.bool_]:
        """Tell for pictures by their features whether they are unlike all."""
        return np.asarray(self.likeness(rows) < self.least)

    def likeness(self, rows: Matrix) -> Matrix:
        """Return the cosine to the nearest picture."""
        nearest: Matrix = (_unit_rows(rows) @ self.bank.T).max(1)
        return nearest


def _unit_rows(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, _TINY), dtype=np.float32)
