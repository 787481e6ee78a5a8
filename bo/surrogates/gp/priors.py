"""Prior densities of single hyperparameters, on the scale on which they are sampled (logarithms of positive values).

The density of u = log v is the density of the positive value v times the Jacobian v.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

REACH = 8.0
"""Standard deviations at which normal densities are cut off; exponentials there are far from overflow."""


@dataclass(frozen=True, slots=True)
class Density:
    """A density between bounds, up to a constant.

    Attributes:
        value: its logarithm at a point within the bounds.
        slope: derivative of the logarithm.
        draw: function that draws a point, bounds ignored.
        lower: bound.
        upper: bound; equal to `lower` for a fixed hyperparameter.
        start: initial value of a chain or a search.
    """

    value: Callable[[float], float]
    slope: Callable[[float], float]
    draw: Callable[[np.random.Generator], float]
    lower: float
    upper: float
    start: float

    @property
    def fixed(self) -> bool:
        """Return whether the bounds leave a single value."""
        return self.lower == self.upper

    def sample(self, rng: np.random.Generator) -> float:
        """Draw a point within the bounds."""
        if self.fixed:
            return self.lower
        while True:
            point = self.draw(rng)
            if self.lower <= point <= self.upper:
                return point


def normal(
    location: float, scale: float, *, lower: float = -math.inf, upper: float = math.inf, start: float | None = None
) -> Density:
    """Return a normal density; of a logarithm, it is log-normal."""
    return Density(
        lambda u: -0.5 * ((u - location) / scale) ** 2,
        lambda u: (location - u) / scale**2,
        lambda rng: location + scale * rng.standard_normal(),
        max(lower, location - REACH * scale),
        min(upper, location + REACH * scale),
        location if start is None else start,
    )


def log_uniform_below(limit: float, *, lower: float, start: float) -> Density:
    """Return the density of log v, v uniform in (0, limit): exp(u) up to log limit."""
    return Density(
        lambda u: u,
        lambda u: 1.0,  # noqa: ARG005  constant
        lambda rng: math.log(limit) + math.log1p(-rng.random()),
        lower,
        math.log(limit),
        start,
    )


def log_horseshoe(scale: float, *, lower: float, upper: float, start: float) -> Density:
    """Return the density of log v, v > 0 with density ∝ log(1 + (scale/v)²): a peak at 0 and a heavy tail.

    It is the density of scale · U · |C|, U uniform and C Cauchy: a mixture of uniform densities.
    """

    def value(u: float) -> float:
        return math.log(math.log1p(math.exp(2.0 * (math.log(scale) - u)))) + u

    def slope(u: float) -> float:
        square = math.exp(2.0 * (math.log(scale) - u))
        return 1.0 - 2.0 * square / ((1.0 + square) * math.log1p(square))

    def draw(rng: np.random.Generator) -> float:
        return math.log(scale * (1.0 - rng.random()) * abs(rng.standard_cauchy()))

    return Density(value, slope, draw, lower, upper, start)


def logistic() -> Density:
    """Return the density of logit v, v uniform in (0, 1)."""

    def draw(rng: np.random.Generator) -> float:
        return float(rng.logistic())

    return Density(
        lambda u: -abs(u) - 2.0 * math.log1p(math.exp(-abs(u))),
        lambda u: -math.tanh(0.5 * u),
        draw,
        -20.0,
        20.0,
        0.0,
    )


def fixed(value: float) -> Density:
    """Return a point mass."""
    return Density(lambda u: 0.0, lambda u: 0.0, lambda rng: value, value, value, value)  # noqa: ARG005
