"""Completion of partly known configurations: open values are spread evenly; the first one has the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.space.axes import axis_of, plain
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]
DRAWS = 256
"""Random values for what is open, where those of the design are forbidden or were given before."""


class Completion:
    """Completes up to n configurations so that all are allowed and no two are equal.

    Attributes:
        encoding: of the space.
        keys: of the configurations returned so far.
    """

    def __init__(self, space: ConfigurationSpace, *, n: int, rng: np.random.Generator) -> None:
        """Build a design of `n` points over all hyperparameters; each configuration uses its open ones."""
        self.encoding = Encoding(space)
        self.keys: set[str] = set()
        self._axes = [axis_of(space[name]) for name in self.encoding.names]
        defaults = [axis.parse([plain(space[axis.name].default_value)]) for axis in self._axes]
        anchor = np.array([axis.units(number)[0] for axis, number in zip(self._axes, defaults, strict=True)])
        self._points = anchored_design(anchor, n, rng=rng)
        self._rng = rng

    def complete(self, known: Config) -> dict[str, Value] | None:
        """Complete a configuration.

        Args:
            known: values by name; those of hyperparameters that turn out inactive are left out.

        Returns: an allowed configuration that was not given before; None where none was found.

        Raises:
            DataError: when the space does not have a name or allow a value.
        """
        place = min(len(self.keys), len(self._points) - 1)
        for points in (self._points[place : place + 1], self._rng.random((DRAWS, self.encoding.p))):
            fixed = self.fixed(points, known)
            keys = self.encoding.keys(fixed)
            for row in np.flatnonzero(self.encoding.valid(fixed)).tolist():
                if keys[row] not in self.keys:
                    self.keys.add(keys[row])
                    found = self.encoding.decode(fixed[row : row + 1])[0]
                    return {name: known.get(name, value) for name, value in found.items()}
        return None

    def fill(self, n: int) -> list[dict[str, Value]]:
        """Return n configurations of which nothing is known, from a Sobol sequence; fewer where the space has no more."""
        points = self.encoding.sample(n, design="sobol", rng=self._rng, exclude=self.keys)
        self.keys.update(self.encoding.keys(points))
        return self.encoding.decode(points)

    def fixed(self, points: Floats, known: Config) -> Floats:
        """Set the known values in `n x p` points; raises as `complete`."""
        fixed = points.copy()
        for k, axis in enumerate(self._axes):
            if axis.name in known:
                number = axis.parse([known[axis.name]])
                if np.isnan(number[0]):
                    msg = f"configuration: expected {axis} for {axis.name}, got {known[axis.name]!r}. Correct it."
                    raise DataError(msg)
                fixed[:, k] = axis.units(number)[0]
        return fixed


def anchored_design(anchor: Floats, n: int, *, rng: np.random.Generator) -> Floats:
    """Return a Latin hypercube whose first point is given.

    Each dimension is cut into n equal parts; the other points lie in the middles of those without the first, each in
    another one, in random order.

    Args:
        anchor: `p` coordinates in [0, 1).
        n: points.
        rng: orders the parts.

    Returns: `n x p` in [0, 1).
    """
    points = np.empty((n, len(anchor)))
    points[0] = anchor
    for k, first in enumerate(np.floor(anchor * n).astype(np.int64).tolist()):
        rest = np.delete(np.arange(n), first)
        points[1:, k] = (rng.permutation(rest) + 0.5) / n
    return points
