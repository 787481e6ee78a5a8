"""Stationary kernels as functions of the squared distance r² of embedded points, such as x_d / ℓ_d.

Matérn 5/2 is the default: the squared exponential is too smooth for errors of trained models [Snoek2012practical] §3.1.
Everything is written in r², so that no derivative divides by a distance of 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A correlation function of r² and its slope.

    Attributes:
        value: r² ≥ 0 of any shape to correlations in [0, 1], 1 at 0. Overwrites its argument's memory.
        slope: r² to d value / d r², finite at 0.
    """

    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]


BLOCK = 64
"""Rows at a time: their values stay in the cache."""


def square_distances(E: Floats, F: Floats) -> Floats:
    """Compute |E_i - F_j|² by one product of matrices: `m x e`, `n x e` to `m x n`, ≥ 0.

    Rounding leaves an error of 1e-16 of the squared norms, so a kernel must not have a slope in r at 0; none here
    has.
    """
    left, right = _expanded(E), _expanded(F)
    left[:, [-2, -1]] = left[:, [-1, -2]]
    left[:, :-2] *= -2.0
    r2: Floats = left @ right.T
    return np.maximum(r2, 0.0, out=r2)


def correlations(E: Floats, kernel: Kernel) -> Floats:
    """Compute the correlations of all pairs of `n x e` embedded points: `n x n`, filled in the upper triangle only."""
    n = len(E)
    right, result = _expanded(E), np.zeros((n, n))
    left = right.copy()
    left[:, [-2, -1]] = left[:, [-1, -2]]
    left[:, :-2] *= -2.0
    for i in range(0, n, BLOCK):
        r2 = left[i : i + BLOCK] @ right[i:].T
        result[i : i + BLOCK, i:] = kernel.value(np.maximum(r2, 0.0, out=r2))
    return result


def cross_correlations(E: Floats, F: Floats, kernel: Kernel) -> Floats:
    """Compute the correlations of `m x e` with `n x e` embedded points: `m x n`."""
    result = np.empty((len(E), len(F)))
    for i in range(0, len(E), BLOCK):
        result[i : i + BLOCK] = kernel.value(square_distances(E[i : i + BLOCK], F))
    return result


def _expanded(E: Floats) -> Floats:
    """Append squared norms and ones: `n x (e + 2)`."""
    n, e = E.shape
    result = np.empty((n, e + 2))
    result[:, :e] = E
    np.einsum("ij,ij->i", E, E, out=result[:, e])
    result[:, e + 1] = 1.0
    return result


def _matern52(r2: Floats) -> Floats:
    """Compute (1 + √5 r + 5 r²/3) exp(-√5 r)."""
    r2 *= 5.0
    root = np.sqrt(r2)
    r2 /= 3.0
    r2 += root
    r2 += 1.0
    np.negative(root, out=root)
    r2 *= np.exp(root, out=root)
    return r2


def _matern52_slope(r2: Floats) -> Floats:
    """Compute -5/6 (1 + √5 r) exp(-√5 r)."""
    root = 5.0 * r2
    np.sqrt(root, out=root)
    decay = np.negative(root)
    root += 1.0
    root *= -5.0 / 6.0
    root *= np.exp(decay, out=decay)
    return root


def _matern32(r2: Floats) -> Floats:
    """Compute (1 + √3 r) exp(-√3 r)."""
    root = np.sqrt(3.0 * r2)
    value: Floats = (1.0 + root) * np.exp(-root)
    return value


def _matern32_slope(r2: Floats) -> Floats:
    """Compute -3/2 exp(-√3 r)."""
    slope: Floats = -1.5 * np.exp(-np.sqrt(3.0 * r2))
    return slope


def _se(r2: Floats) -> Floats:
    """Compute exp(-r²/2)."""
    r2 *= -0.5
    return np.exp(r2, out=r2)


def _se_slope(r2: Floats) -> Floats:
    """Compute -1/2 exp(-r²/2)."""
    slope: Floats = -0.5 * np.exp(-0.5 * r2)
    return slope


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "matern52": Kernel(_matern52, _matern52_slope),
        "matern32": Kernel(_matern32, _matern32_slope),
        "se": Kernel(_se, _se_slope),
    }
)
"""Every kernel by name; amplitude and lengthscales are the caller's."""
