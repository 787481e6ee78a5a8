"""Inputs of a network: columns of the unit cube mapped to [-1, 1], conditional ones on an arc [Swersky2013raiders].

A conditional column x becomes (sin πρx, cos πρx) with ρ = ½, and (0, 0) if it is inactive. So the value of an
inactive hyperparameter has no effect.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ANGLE = 0.5 * math.pi
"""πρ."""


class Inputs:
    """Map from `n x d` points, NaN = inactive, to `n x width` network inputs.

    Unconditional columns come first, in order, then the sines of conditional ones, then their cosines; `column` holds
    the column of the points behind each input.
    """

    def __init__(self, d: int, conditional: Sequence[int] = ()) -> None:
        self.d = d
        self._arc = np.array(sorted(conditional), dtype=np.intp)
        self._plain = np.setdiff1d(np.arange(d), self._arc)
        self.width = d + len(self._arc)
        self.column = np.concatenate([self._plain, self._arc, self._arc])

    def __call__(self, X: Floats) -> Floats:
        """Return the network inputs of `n x d` points."""
        plain = 2.0 * X[:, self._plain] - 1.0
        if not len(self._arc):
            return plain
        angle = ANGLE * X[:, self._arc]
        return np.hstack([plain, np.nan_to_num(np.sin(angle)), np.nan_to_num(np.cos(angle))])

    def pull_back(self, X: Floats, slope: Floats) -> Floats:
        """Convert gradients by inputs to gradients by points, 0 in inactive columns.

        Args:
            X: `n x d`.
            slope: `... x n x width`.

        Returns: `... x n x d`.
        """
        p, c = len(self._plain), len(self._arc)
        result = np.zeros((*slope.shape[:-1], self.d))
        result[..., self._plain] = 2.0 * slope[..., :p]
        if c:
            angle = ANGLE * X[:, self._arc]
            by_sine, by_cosine = slope[..., p : p + c], slope[..., p + c :]
            result[..., self._arc] = ANGLE * np.nan_to_num(np.cos(angle) * by_sine - np.sin(angle) * by_cosine)
        return result
