"""Slice sampling [Neal2003slice]: samples from an unnormalised density, without step sizes to tune."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MAX_STEPS = 1000
"""Most steps out on each side."""
SMALLEST_BRACKET = 1e-12
"""Width below which the bracket has shrunk onto the current point."""


def slice_step(
    log_density: Callable[[float], float], current: float, *, rng: np.random.Generator, width: float = 1.0
) -> tuple[float, float]:
    """Make one slice-sampling update along a line: stepping out, then shrinking.

    The line's origin is the current point. The density is invariant for any width.

    Args:
        log_density: of an offset from the current point, up to a constant; -inf outside the support.
        current: log density at offset 0.
        rng: the only source of randomness.
        width: of the first bracket and of every step out.

    Returns: the new offset and the log density there.

    Raises:
        FloatingPointError: when the density is NaN, or the current point has density 0.
    """
    if not math.isfinite(current):
        msg = (
            f"slice_step: expected a finite log density at the current point, got {current}. Start inside the support."
        )
        raise FloatingPointError(msg)
    height = current - rng.standard_exponential()
    low = -width * rng.random()
    high = low + width
    for _ in range(MAX_STEPS):
        if not _value(log_density, low) > height:
            break
        low -= width
    for _ in range(MAX_STEPS):
        if not _value(log_density, high) > height:
            break
        high += width
    while high - low > SMALLEST_BRACKET:
        offset = low + (high - low) * rng.random()
        value = _value(log_density, offset)
        if value > height:
            return offset, value
        if offset < 0.0:
            low = offset
        else:
            high = offset
    return 0.0, current


def elliptical_step(
    log_likelihood: Callable[[NDArray[np.float64]], float], current: NDArray[np.float64], *, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Make one elliptical slice-sampling update of a vector with a standard normal prior [Murray2010elliptical].

    Args:
        log_likelihood: of a vector, up to a constant; -inf outside the support.
        current: `n`, inside the support.
        rng: the only source of randomness.

    Returns: the new vector, `n`.

    Raises:
        FloatingPointError: when the likelihood is NaN, or 0 at the current vector.
    """
    here = log_likelihood(current)
    if not math.isfinite(here):
        msg = f"elliptical_step: expected a finite log likelihood at the current vector, got {here}. Start where it is possible."
        raise FloatingPointError(msg)
    height = here - rng.standard_exponential()
    direction = rng.standard_normal(len(current))
    angle = 2.0 * math.pi * rng.random()
    low, high = angle - 2.0 * math.pi, angle
    while high - low > SMALLEST_BRACKET:
        proposed = math.cos(angle) * current + math.sin(angle) * direction
        value = log_likelihood(proposed)
        if math.isnan(value):
            msg = f"elliptical_step: expected a log likelihood, got NaN at angle {angle}. Give -inf where it is impossible."
            raise FloatingPointError(msg)
        if value > height:
            return proposed
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    return current


def random_direction(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a unit vector, uniform on the sphere: `n`."""
    vector = rng.standard_normal(n)
    unit: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit


def _value(log_density: Callable[[float], float], offset: float) -> float:
    """Return the log density at an offset, checked for NaN."""
    value = log_density(offset)
    if math.isnan(value):
        msg = f"slice_step: expected a log density, got NaN at offset {offset}. Give -inf outside the support."
        raise FloatingPointError(msg)
    return value
