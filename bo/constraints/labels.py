"""Points with labels: constraint met or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.surrogates.base import checked_data
from warmstart.history_store.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Points with labels.

    Attributes:
        X: `n x d`.
        signs: `n`, 1 = valid, -1 = invalid.
        constant: P(valid) when all labels are equal, else None.
    """

    X: Floats
    signs: Floats
    constant: float | None

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike, *, conditional: Sequence[int]) -> Self:
        """Check points and labels; errors as in `checked_data`.

        Raises:
            DataError: when a label is neither 0 nor 1.
        """
        points, labels = checked_data(X, y, conditional=conditional)
        bad = np.flatnonzero((labels != 0.0) & (labels != 1.0))
        if len(bad):
            msg = (
                f"classifier: expected labels 0 and 1, got y[{bad[0]}]={labels[bad[0]]}. Give 1 where a point is valid."
            )
            raise DataError(msg)
        constant = 1.0 if labels.all() else 1.0 / (len(labels) + 2.0) if not labels.any() else None
        return cls(points, 2.0 * labels - 1.0, constant)

    @property
    def d(self) -> int:
        """Return the number of columns of points."""
        return int(self.X.shape[1])

    def flat(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the constant at `m x d` points as one sample, `1 x m`, and its gradients, 0."""
        return np.full((1, len(points)), self.constant), np.zeros((1, *points.shape))
