"""Plan of the configurations to try in a given time, by the expected gain per second on datasets like the new one.

Like `warmstart.bo.transfer.strategies.joint`, it lowers the expected best normalised regret over the datasets of a
history. There are two greedy plans, by gain per second and by gain alone, since the first may fill the time with short
runs; the plan with the lower final regret wins [Khuller1999budgeted]. Its runs are in order of gain per second, so that
the plan is good wherever it is cut off.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.strategies.scenarios import make_scenarios

Floats = NDArray[np.float64]

LEAST_GAIN = 1e-3
"""Least expected gain of a run, as a share of the distance from the worst to the best configuration."""

SURE = 0.9
"""Chance to end in time that the first run needs, if any run has it, so that there is a result in the end."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Run of a plan.

    Attributes:
        row: of the configuration.
        begins: its start, in seconds after the start of the plan.
        seconds: its duration.
    """

    row: int
    begins: float
    seconds: float

    @property
    def ends(self) -> float:
        """Return its end, in seconds after the start of the plan."""
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
    """Plan the configurations to run within a time limit.

    Args:
        errors: `m x c` of a history, lower is better, NaN = missing; every row has one.
        seconds: `c` durations, > 0; NaN = excluded.
        limit: seconds until the end of the last run.
        weights: `m` ≥ 0, of the datasets.
        most: largest number of runs; None = any.
        workers: runs at a time.
        first: rows that come first if they fit, with any gain.
        chances: `c` chances of a run that starts now to end in time; with them, a run with chance `SURE` comes first,
            if any.

    Returns: runs in the order of their starts; empty when none fits, or none gains `LEAST_GAIN`.
    """
    worlds = make_scenarios(errors)
    share = (weights / weights.sum())[worlds.dataset] * worlds.share
    usable = ~np.isnan(errors).all(axis=0) & (seconds > 0)
    task = _Problem(worlds.regrets, share, np.where(usable, seconds, np.inf), limit, workers, most)
    runs = task.best(first)
    if chances is None or not runs or chances[runs[0].row] >= SURE:
        return runs
    sure = replace(task, seconds=np.where(chances >= SURE, task.seconds, np.inf), most=1).best(())
    return task.best((sure[0].row, *(row for row in first if row != sure[0].row))) if sure else runs


@dataclass(frozen=True, slots=True)
class _Problem:
    """Planning problem: `n x c` regrets of scenarios with their shares, and `c` seconds, infinite if excluded."""

    regrets: Floats
    share: Floats
    seconds: Floats
    limit: float
    workers: int
    most: int | None

    def best(self, first: Sequence[int]) -> list[PlannedRun]:
        """Return the better of the two greedy plans."""
        by_rate, by_gain = self.greedy(first, per_second=True), self.greedy(first, per_second=False)
        better = by_rate if self.regret_after(by_rate) <= self.regret_after(by_gain) + 1e-12 else by_gain
        return self.schedule(self.ordered([run.row for run in better], first))

    def greedy(self, first: Sequence[int], *, per_second: bool) -> list[PlannedRun]:
        """Build a plan run by run: the largest gain, or gain per second, among the runs that fit."""
        runs, free = list[PlannedRun](), [0.0] * self.workers
        best, is_open = np.ones(len(self.regrets)), np.isfinite(self.seconds)
        pending = list(first)
        while self.most is None or len(runs) < self.most:
            fits = is_open & (free[0] + self.seconds <= self.limit)
            if not fits.any():
                break
            # Rounded, so that equal gains tie, whatever the order of the sums on a machine.
            gains = np.round(self.share @ (best[:, None] - np.minimum(best[:, None], self.regrets)), 12)
            forced = next((row for row in pending if fits[row]), None)
            worth = gains / self.seconds if per_second else gains
            row = int(np.where(fits, worth, -1.0).argmax()) if forced is None else forced
            if forced is None and gains[row] < LEAST_GAIN:
                break
            pending = [pending_row for pending_row in pending if pending_row != row]
            runs.append(PlannedRun(row, free[0], float(self.seconds[row])))
            heapq.heapreplace(free, runs[-1].ends)
            is_open[row] = False
            best = np.minimum(best, self.regrets[:, row])
        return runs

    def regret_after(self, runs: Sequence[PlannedRun]) -> float:
        """Compute the expected best regret after runs."""
        return float(self.share @ self.regrets[:, [run.row for run in runs]].min(axis=1, initial=1.0))

    def ordered(self, rows: list[int], first: Sequence[int]) -> list[int]:
        """Order rows by gain per second, after the rows that must come first."""
        ordered = [row for row in dict.fromkeys(first) if row in rows]
        rest = [row for row in rows if row not in ordered]
        best = self.regrets[:, ordered].min(axis=1, initial=1.0)
        while rest:
            after = self.share @ np.minimum(best[:, None], self.regrets[:, rest])
            row = rest[int(np.round((float(self.share @ best) - after) / self.seconds[rest], 12).argmax())]
            ordered.append(row)
            rest.remove(row)
            best = np.minimum(best, self.regrets[:, row])
        return ordered

    def schedule(self, rows: Sequence[int]) -> list[PlannedRun]:
        """Schedule each row on the worker that is free first; runs that would end too late are left out."""
        runs, free = list[PlannedRun](), [0.0] * self.workers
        for row in rows:
            run = PlannedRun(row, free[0], float(self.seconds[row]))
            # In another order, the same runs may end later by a rounding error.
            if run.ends <= self.limit * (1 + 1e-9):
                runs.append(run)
                heapq.heapreplace(free, run.ends)
        return runs
