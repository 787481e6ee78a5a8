"""Stochastic gradient Hamiltonian Monte Carlo with a step size for every coordinate [Springenberg2016bayesian].

    v ← v - h g - a v + ξ √(2ha - h² Var g),  θ ← θ + v,  h = ε² / √V

g is a noisy gradient of the energy U = -log p(θ | data). V is an average of g², learned during burn-in. With V = 1 this
is plain SGHMC [Chen2014stochastic]. With friction a = 1 it is Langevin dynamics (SGLD [Welling2011bayesian];
preconditioned with V). Chains move side by side, in place: θ and g are `K x P`.

Four differences from the published code:

- Where ε²√V > a, the noise to inject is negative. Clamping it at 0 freezes the coordinate for good. Instead, friction
  is raised there once burn-in ends, and the step is cut where friction would exceed 1.
- V is not a variance of the noise: the share ḡ²/V of it is signal.
- With all data in the batch there is no noise to subtract, and V needs a window of its own.
- Injected noise is uniform, not normal: only its first two moments count, and drawing it takes an eighth of the time.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.surrogates.network import Array

STEP = 1e-2
"""ε."""
FRICTION = 0.05
"""Least friction a."""
WINDOW = 200
"""Least number of exact gradients in the average V: the window τ, which measures noise, would shrink to single ones."""
UNIT = 1.0 / np.iinfo(np.uint16).max * 12.0**0.5
"""Scale of uniform 16-bit integers with variance 1."""


class Sghmc:
    """Momenta and step sizes of chains.

    They adapt to the gradients until `settle`; afterwards the target is invariant.
    """

    def __init__(
        self,
        like: Array,
        *,
        adaptive: bool = True,
        step: float = STEP,
        friction: float = FRICTION,
        full_batch: bool = False,
    ) -> None:
        """Set up K chains at rest, before burn-in.

        Args:
            like: `K x P`, array of the shape and type.
            adaptive: learn V; otherwise it is 1.
            step: ε.
            friction: a, in (0, 1]; 1 is Langevin dynamics.
            full_batch: gradients are exact, without noise to correct.
        """
        self._step, self._least, self.adaptive, self._exact = step**2, friction, adaptive, full_batch
        self._buffer = np.empty_like(like)
        self.momentum = np.zeros_like(like)
        self.square: Array = np.ones_like(like)
        """V."""
        self._tau, self._mean = np.ones_like(like), np.ones_like(like)
        self._count = 0
        self.settled = False
        self._rescale()

    def step(self, theta: Array, gradient: Array, *, rng: np.random.Generator) -> None:
        """Move θ by one step along a gradient at the scale of all data; both arrays are overwritten."""
        if self.adaptive and not self.settled:
            self._adapt(gradient)
            self._rescale()
        momentum, buffer = self.momentum, self._buffer
        momentum *= self._retention
        gradient *= self._h
        momentum -= gradient
        momentum += unit_noise(buffer, rng=rng, scale=self._noise)
        theta += momentum

    def settle(self) -> None:
        """End burn-in: fix V and the step sizes."""
        self.settled = True
        self._rescale()

    def _adapt(self, g: Array) -> None:
        """Update the averages τ, ḡ and V, each from the last values."""
        self._count += 1
        # The order matters: τ uses the old ḡ and V, and V the old window.
        window = np.maximum(self._tau, min(self._count, WINDOW)) if self._exact else self._tau
        rate, change = 1.0 / (window + 1.0), self._buffer
        np.square(self._mean, out=change)
        change /= self.square
        np.subtract(1.0, change, out=change)
        self._tau *= change
        self._tau += 1.0
        np.subtract(g, self._mean, out=change)
        change *= rate
        self._mean += change
        np.square(g, out=change)
        change -= self.square
        change *= rate
        self.square += change

    def _rescale(self) -> None:
        """Compute the step h, the retention 1 - a and the scale of the noise."""
        root: Any = np.sqrt(self.square)
        self._h = self._step / root
        friction: Any = self._least
        if self.settled:
            np.minimum(self._h, 1.0 / self.square, out=self._h)
            friction = np.clip(self._step * root, self._least, 1.0)
        self._retention = np.asarray(1.0 - friction, dtype=root.dtype)
        variance = 2.0 * friction * self._h
        if not self._exact and self.adaptive:
            noise = np.square(self._mean)
            np.subtract(self.square, noise, out=noise)
            np.maximum(noise, 0.0, out=noise)
            noise *= self._h
            noise *= self._h
            variance -= noise
            np.maximum(variance, 0.0, out=variance)
        self._noise: Array = np.sqrt(variance, out=variance)


def unit_noise(out: Array, *, rng: np.random.Generator, scale: Array) -> Array:
    """Fill an array with uniform noise of mean 0 and standard deviation `scale`, of the same shape."""
    bits: NDArray[np.int16] = np.frombuffer(rng.bytes(2 * out.size), dtype=np.int16).reshape(out.shape)
    # The mean of all 16-bit integers is -0.5.
    np.add(bits, 0.5, out=out, dtype=out.dtype, casting="unsafe")
    out *= scale
    out *= UNIT
    return out


SAMPLERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adaptive": {},
        "sghmc": {"adaptive": False},
        "psgld": {"friction": 1.0},
        "sgld": {"adaptive": False, "friction": 1.0},
    }
)
"""Options of `Sghmc` by the name of the sampler; all but the first serve comparison."""
