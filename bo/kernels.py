"""Stationary kernels as functions of the scaled squared distance r² = Σ (x_d - x'_d)² / ℓ_d².

Matérn 5/2 unless something is known: the squared exponential is too smooth for errors of trained models
[Snoek2012practical] §3.1. Everything is written in r², so that no derivative divides by a distance of 0.
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


def square_differences(X: Floats, Z: Floats) -> Floats:
    """Compute (x_d - z_d)² for every pair and dimension: `n x d`, `m x d` to `d x n x m`, exactly 0 for equal values."""
    differences = X.T[:, :, None] - Z.T[:, None, :]
    return np.square(differences, out=differences)


def scaled_square_distances(square: Floats, log_lengthscales: Floats) -> Floats:
    """Sum squared differences `d x n x m` over dimensions, each divided by its ℓ²: `n x m`."""
    d, n, m = square.shape
    result: Floats = (np.exp(-2.0 * log_lengthscales) @ square.reshape(d, n * m)).reshape(n, m)
    return result


def _matern52(r2: Floats) -> Floats:
    """(1 + √5 r + 5 r²/3) exp(-√5 r)."""
    r2 *= 5.0
    root = np.sqrt(r2)
    r2 /= 3.0
    r2 += root
    r2 += 1.0
    np.negative(root, out=root)
    r2 *= np.exp(root, out=root)
    return r2


def _matern52_slope(r2: Floats) -> Floats:
    """-5/6 (1 + √5 r) exp(-√5 r)."""
    root = np.sqrt(5.0 * r2)
    slope: Floats = (-5.0 / 6.0) * (1.0 + root) * np.exp(-root)
    return slope


def _matern32(r2: Floats) -> Floats:
    """(1 + √3 r) exp(-√3 r)."""
    root = np.sqrt(3.0 * r2)
    value: Floats = (1.0 + root) * np.exp(-root)
    return value


def _matern32_slope(r2: Floats) -> Floats:
    """-3/2 exp(-√3 r)."""
    slope: Floats = -1.5 * np.exp(-np.sqrt(3.0 * r2))
    return slope


def _se(r2: Floats) -> Floats:
    """exp(-r²/2)."""
    r2 *= -0.5
    return np.exp(r2, out=r2)


def _se_slope(r2: Floats) -> Floats:
    """-1/2 exp(-r²/2)."""
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
