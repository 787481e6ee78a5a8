"""Restarts of a converged search: fresh processes that know only their own evaluations.

A process that has filled one basin promises little anywhere, also in unexplored regions: its lengthscales are those of
the basin. Larger designs or other priors do not change that. A fresh process, which knows only its own evaluations,
finds another basin as easily as the first process did. It makes four of five suggestions, while the model of all
evaluations promises next to nothing. It ends when it returns to an earlier basin, or has converged itself.

There are no restarts when the process knows the whole space, or when its lengthscales are so short that it knows
nothing between its points: it then explores evenly by itself, and finds small basins sooner than a fresh process.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.error_units import LARGEST
from warmstart.bo.models import SurrogateModels

Floats = NDArray[np.float64]

LARGEST_LOG = math.log(LARGEST)
"""Logarithm of the largest float64, to which promises are limited."""
LAST = 3
"""Last promises, whose median is compared."""
NEXT_TO_NOTHING = 0.005
"""A search has converged when promised improvements are below this share of the distance from the median error to the
best (if half of the errors are the best, from the median of the others)..."""
STALLED = 8
"""...and the last evaluations, this many, gained a tenth of that or less."""
LEAST, LEAST_FRESH = 40, 20
"""Evaluations before the first search, and before a fresh process, can have converged."""
FRESH_SHARE = 4
"""Suggestions of a fresh process to one of the model of all evaluations."""
SAME_BASIN = 0.1
"""Root mean square distance of coordinates within which points count as one basin."""

MIN_OPEN, MAX_OPEN = 0.007, 0.95
"""Restarts begin when the share of the prior variance that is left at random points, a median, lies between the two. Of
converged searches it is 1e-4 to 0.006 on Branin, 0.009 to 0.014 with one of two wells explored, 0.4 to 0.9 on
Hartmann-6, 1 on Shekel-4."""
RANDOM_POINTS = 256
"""Number of these random points."""


def has_converged(errors: Sequence[float], log_gains: Sequence[float], *, least: int) -> bool:
    """Tell whether a search has stalled and promises next to nothing.

    Args:
        errors: `n` in the order of evaluation.
        log_gains: logarithms of the improvements that the last suggestions promised, in units of errors.
        least: evaluations before which no search has converged.
    """
    if len(errors) < max(least, STALLED + 1) or len(log_gains) < LAST:
        return False
    halves = [0.5 * error for error in errors]  # sums and differences of whole errors may overflow
    best = min(halves)
    median = float(np.median(halves))
    if median == best:
        median = float(np.median([half for half in halves if half > best] or [best]))
    threshold = NEXT_TO_NOTHING * (median - best)
    gain = min(halves[:-STALLED]) - best
    promised_gain = math.exp(min(float(np.median(log_gains[-LAST:])), LARGEST_LOG))
    return promised_gain < 2.0 * threshold and gain <= 0.1 * threshold


@dataclass(slots=True)
class FreshProcess:
    """State of a fresh process: a search that starts anew after the first has converged.

    Attributes:
        number: of the process, from 1; 0 = none yet.
        turn: suggestions since the search has converged.
        keys: of the configurations that the process asked for.
        log_gains: promises of its last suggestions.
        basins: points `p` of the cube where earlier processes converged.
    """

    number: int = 0
    turn: int = 0
    keys: dict[str, None] = field(default_factory=dict)
    log_gains: list[float] = field(default_factory=list)
    basins: list[list[float]] = field(default_factory=list)

    def note_gain(self, gain: float | None) -> None:
        """Append the promise of a suggestion, if a model made one."""
        if gain is not None:
            self.log_gains[:] = [*self.log_gains, gain][-LAST:]

    def begin(self, *, basin: Floats | None = None) -> None:
        """Start the next process, and store the basin of the last one."""
        if basin is not None:
            self.basins.append(basin.tolist())
        self.number += 1
        self.keys.clear()
        self.log_gains.clear()

    def is_over(self, errors: Sequence[float], points: Floats, incumbents: Sequence[Floats], *, design: int) -> bool:
        """Tell whether the process has returned to an earlier basin, or has converged.

        Args:
            errors: `n` of this process, in order.
            points: `n x p`.
            incumbents: point `p` of the best evaluation outside the process, if any, in a list.
            design: initial evaluations, which belong to no basin.
        """
        if len(errors) <= design:
            return False
        best = points[int(np.argmin(errors))]
        return in_basin(best, [*incumbents, *map(np.array, self.basins)]) or has_converged(
            errors, self.log_gains, least=LEAST_FRESH
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record in JSON types."""
        return {
            "number": self.number,
            "turn": self.turn,
            "own": list(self.keys),
            "log_gains": list(self.log_gains),
            "basins": list(self.basins),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`."""
        return cls(
            int(record["number"]),
            int(record["turn"]),
            dict.fromkeys(record["own"]),
            [float(gain) for gain in record["log_gains"]],
            [[float(u) for u in basin] for basin in record["basins"]],
        )


class Restarts:
    """Restarts of one search.

    Attributes:
        log_gains: promises of the last suggestions by the model of all evaluations.
        fresh: state of the fresh process.
        models: of the fresh process.
    """

    def __init__(self, make: Callable[[int], SurrogateModels]) -> None:
        """Take a function that builds the models of a process from its number."""
        self._make = make
        self.log_gains: list[float] = []
        self.fresh, self.models = FreshProcess(), make(0)

    def note_gain(self, gain: float | None) -> None:
        """Append the promise of a suggestion by the model of all evaluations, if it made one."""
        if gain is not None:
            self.log_gains = [*self.log_gains, gain][-LAST:]

    def is_turn(self) -> bool:
        """Count one suggestion of a converged search, and tell whether the fresh process makes it."""
        self.fresh.turn += 1
        # Every fifth turn goes to the model of all evaluations.
        return bool(self.fresh.turn % (FRESH_SHARE + 1))

    def begin(self, *, basin: Floats | None) -> None:
        """Start the next process; the basin is the point at which the last one converged."""
        self.fresh.begin(basin=basin)
        self.models = self._make(self.fresh.number)

    def to_dict(self) -> dict[str, Any]:
        """Return the state of restarts in JSON types."""
        return {
            "log_gains": list(self.log_gains),
            "elsewhere": self.fresh.to_dict(),
            "models": self.models.to_dict(),
        }

    def restore(self, record: Mapping[str, Any] | None) -> None:
        """Restore a record of `to_dict`; runs of old versions have none."""
        if record is None:
            return
        self.log_gains = [float(gain) for gain in record["log_gains"]]
        self.fresh = FreshProcess.from_dict(record["elsewhere"])
        self.models = self._make(self.fresh.number)
        self.models.restore(record["models"])


def in_basin(point: Floats, minima: Collection[Floats]) -> bool:
    """Tell whether a point `p` lies in the basin of one of the points."""
    return any(float(np.sqrt(np.mean(np.square(point - minimum)))) < SAME_BASIN for minimum in minima)
