"""Initial designs without a history: points spread over the unit cube."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from history_store.errors import UsageError

Baseline = Callable[[int, int, np.random.Generator], NDArray[np.float64]]


def uniform(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw independent points: `n x d` in [0, 1)."""
    _check(n, d)
    return rng.random((n, d))


def latin(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a Latin hypercube: `n x d`, in each column one point in each n-th of [0, 1)."""
    from scipy.stats import qmc

    _check(n, d)
    return np.asarray(qmc.LatinHypercube(d, rng=rng).random(n))


def halton(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the first n points of a scrambled Halton sequence: `n x d`; unscrambled, the first would be the origin."""
    from scipy.stats import qmc

    _check(n, d)
    return np.asarray(qmc.Halton(d, scramble=True, rng=rng).random(n))


def sobol(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the first n points of a scrambled Sobol sequence: `n x d`; balanced where n is a power of two."""
    from scipy.stats import qmc

    _check(n, d)
    return np.asarray(qmc.Sobol(d, scramble=True, rng=rng).random_base2((n - 1).bit_length())[:n])


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {"uniform": uniform, "latin": latin, "halton": halton, "sobol": sobol}
)
"""Every baseline takes (n, d, rng) and gives `n x d` float64 in [0, 1)."""


def _check(n: int, d: int) -> None:
    """Refuse an empty design."""
    if n < 1 or d < 1:
        msg = f"baseline design: expected at least one point and one dimension, got n={n}, d={d}. Ask for n=3."
        raise UsageError(msg)
