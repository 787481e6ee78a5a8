"""Which configurations to try in a given time: those that fit and pay most per second, on datasets like the new one.

As `warmstart.bo.transfer.strategies.joint`, it lowers the expected best normalised regret over the datasets of a history, now per second. Two greedy orders
are made, by gain per second and by gain alone, since the first may fill the time with what is short; the one that ends lower is taken
[Khuller1999budgeted]. Within it, what pays most per second comes first, so that the plan is good wherever it is cut off.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies.scenarios import make_scenarios

Floats = NDArray[np.float64]

LEAST_GAIN = 1e-3
"""Expected gain, as a share of the way from the worst to the best configuration, below which a run is not worth its time."""

SURE = 0.9
"""Chance to end in time that the first run of a plan has, where any has it: in the end there shall be a result."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of a plan.

    Attributes:
        row: of the configuration.
        begins: seconds after the plan's begin.
        seconds: that it will take.
    """

    row: int
    begins: float
    seconds: float

    @property
    def ends(self) -> float:
        """Return when it will end, in seconds after the plan's begin."""
        return self.begins + self.seconds


def plan_runs(
    errors: Floats,
    seconds: Floats,
    *,
    limit: float,
    weights: Floats,
    most: int | None = None,
    workers: int = 1,
    first: Sequence[int] = (),
    chances: Floats | None = None,
) -> list[PlannedRun]:
    """Plan which configurations to run in a time.

    Args:
        errors: `m x c` of a history, lower is better, NaN = missing; every row has one.
        seconds: `c` that each configuration will take, > 0; NaN = not to be planned.
        limit: seconds in which all shall end.
        weights: `m` ≥ 0, the worth of each dataset.
        most: runs at most; None = any number.
        workers: runs at a time.
        first: rows that come first, where they fit, whatever they are worth.
        chances: `c` that a run which begins at once ends in time; where they are given, a run that is sure to comes first, if there is one.

    Returns: runs in the order in which they begin; none where none fits, or none gains `LEAST_GAIN`.
    """
    worlds = make_scenarios(errors)
    share = (weights / weights.sum())[worlds.dataset] * worlds.share
    usable = ~np.isnan(errors).all(axis=0) & (seconds > 0)
    task = _Task(worlds.regrets, share, np.where(usable, seconds, np.inf), limit, workers, most)
    runs = task.best(first)
    if chances is None or not runs or chances[runs[0].row] >= SURE:
        return runs
    sure = replace(task, seconds=np.where(chances >= SURE, task.seconds, np.inf), most=1).best(())
    return task.best((sure[0].row, *(row for row in first if row != sure[0].row))) if sure else runs


@dataclass(frozen=True, slots=True)
class _Task:
    """What is planned: `n x c` regrets of scenarios with their shares, and `c` seconds, infinite where a configuration is out."""

    regrets: Floats
    share: Floats
    seconds: Floats
    limit: float
    workers: int
    most: int | None

    def best(self, first: Sequence[int]) -> list[PlannedRun]:
        """Return the better one of the two greedy plans."""
        by_rate, by_gain = self.greedy(first, per_second=True), self.greedy(first, per_second=False)
        better = by_rate if self.left_by(by_rate) <= self.left_by(by_gain) + 1e-12 else by_gain
        return self.schedule(self.ordered([run.row for run in better], first))

    def greedy(self, first: Sequence[int], *, per_second: bool) -> list[PlannedRun]:
        """Add what gains most, or most per second, among what still fits."""
        runs, free = list[PlannedRun](), [0.0] * self.workers
        best, is_open = np.ones(len(self.regrets)), np.isfinite(self.seconds)
        wanted = list(first)
        while self.most is None or len(runs) < self.most:
            fits = is_open & (free[0] + self.seconds <= self.limit)
            if not fits.any():
                break
            gains = np.round(self.share @ (best[:, None] - np.minimum(best[:, None], self.regrets)), 12)
            forced = next((row for row in wanted if fits[row]), None)
            worth = gains / self.seconds if per_second else gains
            row = int(np.where(fits, worth, -1.0).argmax()) if forced is None else forced
            if forced is None and gains[row] < LEAST_GAIN:
                break
            wanted = [each for each in wanted if each != row]
            runs.append(PlannedRun(row, free[0], float(self.seconds[row])))
            heapq.heapreplace(free, runs[-1].ends)
            is_open[row] = False
            best = np.minimum(best, self.regrets[:, row])
        return runs

    def left_by(self, runs: Sequence[PlannedRun]) -> float:
        """Compute the expected best regret after some runs."""
        return float(self.share @ self.regrets[:, [run.row for run in runs]].min(axis=1, initial=1.0))

    def ordered(self, rows: list[int], first: Sequence[int]) -> list[int]:
        """Put first what pays most per second, after those that come first anyway."""
        found = [row for row in dict.fromkeys(first) if row in rows]
        rest = [row for row in rows if row not in found]
        best = self.regrets[:, found].min(axis=1, initial=1.0)
        while rest:
            after = self.share @ np.minimum(best[:, None], self.regrets[:, rest])
            row = rest[int(np.round((float(self.share @ best) - after) / self.seconds[rest], 12).argmax())]
            found.append(row)
            rest.remove(row)
            best = np.minimum(best, self.regrets[:, row])
        return found

    def schedule(self, rows: Sequence[int]) -> list[PlannedRun]:
        """Give each run its begin, on the worker that is free first; what would end too late in this order is left out."""
        runs, free = list[PlannedRun](), [0.0] * self.workers
        for row in rows:
            run = PlannedRun(row, free[0], float(self.seconds[row]))
            if run.ends <= self.limit * (1 + 1e-9):
                runs.append(run)
                heapq.heapreplace(free, run.ends)
        return runs
