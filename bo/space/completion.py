"""Completion of partial configurations: open values are spread evenly; the first configuration has the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.axes import axis_of, plain
from warmstart.history_store.errors import DataError
from warmstart.history_store.records import Config, Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Floats = NDArray[np.float64]
DRAWS = 256
"""Random draws of open values, if those of the design are forbidden or repeat an earlier configuration."""


class Completion:
    """Completion of up to n configurations, all allowed and distinct.

    Attributes:
        encoding: of the space.
        keys: of the configurations so far.
    """

    def __init__(self, space: ConfigurationSpace, *, n: int, rng: np.random.Generator) -> None:
        """Build a design of `n` points over all hyperparameters; a configuration takes open values from one of them."""
        self.encoding = Encoding(space)
        self.keys: set[str] = set()
        self._axes = [axis_of(space[name]) for name in self.encoding.names]
        defaults = [axis.parse([plain(space[axis.name].default_value)]) for axis in self._axes]
        anchor = np.array([axis.units(number)[0] for axis, number in zip(self._axes, defaults, strict=True)])
        self._points = anchored_design(anchor, n, rng=rng)
        self._rng = rng

    def complete(self, partial: Config) -> dict[str, Value] | None:
        """Complete a partial configuration with points of a shifted design or random points.

        Args:
            partial: values by name; values of inactive hyperparameters are left out.

        Returns: a new, allowed configuration, or None.

        Raises:
            DataError: when the space does not have a name or allow a value.
        """
        index = min(len(self.keys), len(self._points) - 1)
        for points in (self._points[index : index + 1], self._rng.random((DRAWS, self.encoding.p))):
            fixed = self.fixed(points, partial)
            keys = self.encoding.keys(fixed)
            for row in np.flatnonzero(self.encoding.valid(fixed)).tolist():
                if keys[row] not in self.keys:
                    self.keys.add(keys[row])
                    config = self.encoding.decode(fixed[row : row + 1])[0]
                    return {name: partial.get(name, value) for name, value in config.items()}
        return None

    def fill(self, n: int) -> list[dict[str, Value]]:
        """Return n new configurations from a Sobol sequence; fewer when the space has no more."""
        points = self.encoding.sample(n, design="sobol", rng=self._rng, exclude=self.keys)
        self.keys.update(self.encoding.keys(points))
        return self.encoding.decode(points)

    def fixed(self, points: Floats, partial: Config) -> Floats:
        """Return `n x p` points with the known values set; raises as `complete`."""
        fixed = points.copy()
        for k, axis in enumerate(self._axes):
            if axis.name in partial:
                number = axis.parse([partial[axis.name]])
                if np.isnan(number[0]):
                    msg = f"configuration: expected {axis} for {axis.name}, got {partial[axis.name]!r}. Correct it."
                    raise DataError(msg)
                fixed[:, k] = axis.units(number)[0]
        return fixed


def anchored_design(anchor: Floats, n: int, *, rng: np.random.Generator) -> Floats:
    """Return a Latin hypercube with a fixed first point.

    Each dimension has n equal parts. The other points lie in the middles of the parts without the first point, one in
    each, in random order.

    Args:
        anchor: `p` coordinates in [0, 1) of the first point.
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
