"""Designs in the unit cube: uniform, Latin hypercube, Halton, Sobol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import UsageError

Design = Literal["uniform", "latin", "halton", "sobol"]


def unit_points(design: Design, p: int, *, n: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Yield batches of points of a design without end; the first batch holds its n points, and each doubles the total.

    Halton and Sobol sequences are scrambled (the first point of a plain one is a corner) and continue from batch to
    batch. Uniform points follow the n points of a Latin hypercube.

    Args:
        design: `uniform`, `latin`, `halton` or `sobol`.
        p: dimensions of the cube.
        n: points of the design.
        rng: the only source of randomness.

    Returns: batches `m x p` in [0, 1), the first with m >= n.

    Raises:
        UsageError: when the design is unknown.
    """
    from scipy.stats import qmc

    if design not in get_args(Design):
        msg = f"design: expected one of {', '.join(get_args(Design))}, got {design!r}. Use 'sobol'."
        raise UsageError(msg)
    drawn = 0
    if design == "latin" and p and n:
        yield qmc.LatinHypercube(p, rng=rng).random(n)
        drawn = n
    sequence = {"halton": qmc.Halton, "sobol": qmc.Sobol}.get(design) if p else None
    sampler = sequence(p, scramble=True, rng=rng) if sequence else None
    while True:
        size = drawn or 1 << max(n - 1, 0).bit_length()  # Sobol points are balanced in powers of two
        yield rng.random((size, p)) if sampler is None else sampler.random(size)
        drawn += size


def design_points(design: Design, n: int, p: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the n points of a design: `n x p` in [0, 1); a Sobol sequence is balanced if n is a power of two.

    Raises:
        UsageError: when the design is unknown, or n or p is below 1.
    """
    if n < 1 or p < 1:
        msg = f"design: expected at least one point and one dimension, got n={n}, p={p}. Ask for n=3."
        raise UsageError(msg)
    return next(unit_points(design, p, n=n, rng=rng))[:n]
