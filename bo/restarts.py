"""Searching elsewhere once a search has converged: fresh processes that know only what they asked for.

A process that has filled one basin promises little anywhere, also where it has hardly looked: its lengthscales are those of the
basin. Larger designs or other priors do not change that; a process that starts anew and knows only its own evaluations finds another basin
as easily as the first one did. Of five suggestions four are its own, as long as the search as a whole, which is told everything, promises
next to nothing. It is given up when it comes back to a basin that is known, or has converged itself.

None of this begins where the process knows the whole space, or where its lengthscales are so short that it knows nothing between its points:
then it looks everywhere alike by itself, and finds small basins sooner than a process that starts anew.
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
"""Promises beyond all numbers count as the largest one."""
LAST = 3
"""Promises that are judged together, by their median."""
NEXT_TO_NOTHING = 0.005
"""Promised improvements, as a share of what is between the median error and the best, below which nothing more is expected; where half of the
errors are the best, the median of the others..."""
STALLED = 8
"""...where so many evaluations have brought a tenth of that, or less."""
LEAST, LEAST_ELSEWHERE = 40, 20
"""Evaluations before which no search counts as converged: the first one, and those that start elsewhere."""
ELSEWHERE = 4
"""Suggestions of a fresh process to one of the search as a whole."""
SAME_BASIN = 0.1
"""Points of the cube that differ by less, as a root mean square of their coordinates, count as one basin."""

KNOWN, BLIND = 0.007, 0.95
"""Shares of its variance before any data that a process has left at the median of random points; restarts begin between the two. Once the search
has converged, it has 1e-4 to 0.006 on Branin, 0.009 to 0.014 where one of two wells was seen, 0.4 to 0.9 on Hartmann-6, 1 on Shekel-4."""
PLACES = 256
"""These random points."""


def has_converged(errors: Sequence[float], log_gains: Sequence[float], *, least: int) -> bool:
    """Tell whether a search has stalled and promises next to nothing.

    Args:
        errors: `n` in the order in which they came.
        log_gains: logarithms of the improvements that the last suggestions promised, in the errors' unit.
        least: evaluations before which it has not.
    """
    if len(errors) < max(least, STALLED + 1) or len(log_gains) < LAST:
        return False
    halves = [0.5 * error for error in errors]  # sums and differences of whole ones may be beyond all numbers
    best = min(halves)
    middle = float(np.median(halves))
    if middle == best:
        middle = float(np.median([half for half in halves if half > best] or [best]))
    enough = NEXT_TO_NOTHING * (middle - best)
    brought = min(halves[:-STALLED]) - best
    promised = math.exp(min(float(np.median(log_gains[-LAST:])), LARGEST_LOG))
    return promised < 2.0 * enough and brought <= 0.1 * enough


@dataclass(slots=True)
class Elsewhere:
    """What a fresh process is about.

    Attributes:
        number: of the process, the first one 1; 0 = there was none yet.
        turn: suggestions since the search has converged.
        own: keys of the configurations that the process asked for.
        log_gains: what its last suggestions promised.
        basins: points `p` of the cube where earlier ones converged.
    """

    number: int = 0
    turn: int = 0
    own: dict[str, None] = field(default_factory=dict)
    log_gains: list[float] = field(default_factory=list)
    basins: list[list[float]] = field(default_factory=list)

    def note_gain(self, gain: float | None) -> None:
        """Keep what a suggestion promised, where a model did."""
        if gain is not None:
            self.log_gains[:] = [*self.log_gains, gain][-LAST:]

    def begin(self, *, basin: Floats | None = None) -> None:
        """Give the process up for the next one, and remember where it converged."""
        if basin is not None:
            self.basins.append(basin.tolist())
        self.number += 1
        self.own.clear()
        self.log_gains.clear()

    def is_over(self, errors: Sequence[float], points: Floats, known: Sequence[Floats], *, design: int) -> bool:
        """Tell whether the process has come back to a basin that is known, or has converged.

        Args:
            errors: `n` of its own, in order.
            points: `n x p`.
            known: points `p` of the best evaluation that is not its own, if there is one.
            design: evaluations that it begins with, which are nowhere in particular.
        """
        if len(errors) <= design:
            return False
        best = points[int(np.argmin(errors))]
        return near(best, [*known, *map(np.array, self.basins)]) or has_converged(
            errors, self.log_gains, least=LEAST_ELSEWHERE
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {
            "number": self.number,
            "turn": self.turn,
            "own": list(self.own),
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
    """When a search goes on elsewhere, and with which models.

    Attributes:
        log_gains: what the last suggestions of the search as a whole promised.
        elsewhere: the process that starts elsewhere; `models`, its own.
    """

    def __init__(self, make: Callable[[int], SurrogateModels]) -> None:
        """Take what makes the models of a process by its number."""
        self._make = make
        self.log_gains: list[float] = []
        self.elsewhere, self.models = Elsewhere(), make(0)

    def note_gain(self, gain: float | None) -> None:
        """Keep what a suggestion of the search as a whole promised, where a model did."""
        if gain is not None:
            self.log_gains = [*self.log_gains, gain][-LAST:]

    def is_turn(self) -> bool:
        """Count one more suggestion of a converged search; tell whether it is the other process's."""
        self.elsewhere.turn += 1
        return bool(self.elsewhere.turn % (ELSEWHERE + 1))

    def begin(self, *, basin: Floats | None) -> None:
        """Begin with the next process; the basin is where the last one converged."""
        self.elsewhere.begin(basin=basin)
        self.models = self._make(self.elsewhere.number)

    def to_dict(self) -> dict[str, Any]:
        """Return what restarts depend on, as JSON has it."""
        return {
            "log_gains": list(self.log_gains),
            "elsewhere": self.elsewhere.to_dict(),
            "models": self.models.to_dict(),
        }

    def restore(self, record: Mapping[str, Any] | None) -> None:
        """Take a record of `to_dict`; runs of before have none."""
        if record is None:
            return
        self.log_gains = [float(gain) for gain in record["log_gains"]]
        self.elsewhere = Elsewhere.from_dict(record["elsewhere"])
        self.models = self._make(self.elsewhere.number)
        self.models.restore(record["models"])


def near(point: Floats, others: Collection[Floats]) -> bool:
    """Tell whether a point `p` is in the basin of one of others."""
    return any(float(np.sqrt(np.mean(np.square(point - other)))) < SAME_BASIN for other in others)
