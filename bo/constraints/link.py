"""Link functions: the probability of a label given a normally distributed latent value, with its gradient."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def logistic(z: Floats) -> Floats:
    """Compute 1 / (1 + exp -z)."""
    from scipy.special import expit

    value: Floats = expit(z)
    return value


def logistic_slope(z: Floats) -> Floats:
    """Compute σ(1 - σ), the derivative of the logistic function."""
    p = logistic(z)
    return p * (1.0 - p)


def normal(z: Floats) -> Floats:
    """Compute Φ(z), the standard normal distribution function."""
    from scipy.special import ndtr

    value: Floats = ndtr(z)
    return value


def normal_slope(z: Floats) -> Floats:
    """Compute φ(z), the standard normal density, which is the derivative of Φ."""
    value: Floats = np.exp(-0.5 * np.square(z)) / math.sqrt(2.0 * math.pi)
    return value


@dataclass(frozen=True, slots=True)
class Link:
    """P = F(μ / √(a + b s²)) for a latent value N(μ, s²).

    Attributes:
        a: 0 when the latent value determines the label.
        b: weight of the latent variance.
        cdf: F.
        slope: F'.
    """

    a: float
    b: float
    cdf: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]

    def probability(self, mean: Floats, var: Floats) -> Floats:
        """Compute P for means and variances > 0 of one shape."""
        return self.cdf(mean / np.sqrt(self.a + self.b * var))

    def gradient(self, mean: Floats, var: Floats, *, dmean: Floats, dvar: Floats) -> Floats:
        """Compute the gradients of P, `... x d`, from those of mean and variance."""
        spread = self.a + self.b * var
        z = mean / np.sqrt(spread)
        inner = dmean / np.sqrt(spread)[..., None] - (0.5 * self.b * z / spread)[..., None] * dvar
        return self.slope(z)[..., None] * inner


LINKS: Mapping[str, Link] = MappingProxyType(
    {
        "logistic": Link(1.0, math.pi / 8.0, logistic, logistic_slope),
        "probit": Link(1.0, 1.0, normal, normal_slope),
        "step": Link(0.0, 1.0, normal, normal_slope),
    }
)
"""Every link by name; probit and step are exact, the logistic one is within 0.02 [MacKay1992evidence]."""
