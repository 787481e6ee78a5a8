"""The cells of a collection: which are left, which run, and what came of those that ended."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from warmstart.history_store.errors import AllTrialsFailedError
from warmstart.history_store.records import Evaluation, Status
from warmstart.training.collection.measure import Measured, lost_evaluation
from warmstart.training.collection.plan import Cell, evaluation_key, wall_seconds_left
from warmstart.training.collection.progress import CollectionProgress, RunningCell
from warmstart.training.collection.race import Race
from warmstart.training.collection.report import CollectReport
from warmstart.training.processes.executor import Done, Lost

if TYPE_CHECKING:
    from warmstart.history_store.history import History

log = logging.getLogger("warmstart.training.collection.collect")

MOST_FAILURES = 6
"""So many runs of a person's own program may fail before the first one succeeds."""


class CellQueue:
    """Cells that are in the history, and the cells that are left."""

    def __init__(
        self,
        history: "History",
        plan: Sequence[Sequence[Cell]],
        *,
        workers: int,
        costs: Mapping[int, float],
        progress: Callable[[CollectionProgress], None] | None,
        race: Race | None = None,
    ) -> None:
        self.history, self.plan, self.workers, self.progress, self.race = history, plan, workers, progress, race
        self.costs = costs
        index_of = {cell.key: cell.index for block in plan for cell in block}
        self.durations: dict[int, list[float]] = {}
        known = set()
        of_config = {(dataset, config): index for (dataset, config, _), index in index_of.items()}
        for evaluation in history.evaluations():
            key = evaluation_key(evaluation)
            if key in index_of:
                known.add(key)
            if key[:2] in of_config and (key in index_of or race is not None):
                self._learn(of_config[key[:2]], evaluation)
        self.todo = {key: index for key, index in index_of.items() if key not in known}
        self.total, self.known = len(index_of), len(known)
        self.measured: Counter[Status] = Counter()
        self.running: dict[Hashable, RunningCell] = {}
        self.started = time.monotonic()
        self.begun, self.done = 0, list[int]()
        self.trusts, self.doubtful, self.failure = True, list[Evaluation](), ""
        self._tell(None)

    def missing(self) -> list[list[Cell]]:
        """List the cells to measure, block by block, in order."""
        return [[cell for cell in block if cell.key in self.todo] for block in self.plan]

    def hear(self, cell: Cell, news: tuple[float | None, float]) -> None:
        """Take what a cell under way tells: the share of its run that is done, and its error."""
        share, error = news
        began = self.running[cell.key].since if share != 0 and cell.key in self.running else time.monotonic()
        self.running[cell.key] = RunningCell(cell.dataset, cell.index, began, share, error)
        self._tell(None)

    def next_of_race(self) -> Cell | None:
        """Name a cell to repeat; None when the race is over, or there is none."""
        cell = None if self.race is None else self.race.next_cell()
        if cell is not None:
            self.todo[cell.key] = cell.index
            self.total += 1
        return cell

    def write(self, done: Done[Cell, Measured], origin: str) -> list[Evaluation]:
        """Put a result into the history, durably; failures before the first success wait for that.

        Returns: what was written.

        Raises:
            WarmstartError: when the worker said that the collection cannot go on.
            AllTrialsFailedError: when too many failed and none succeeded.
        """
        cell, note = done.task, done.note
        if done.result is None:
            status = Status.TIMEOUT if done.lost is Lost.TIMEOUT else Status.CRASHED
            evaluation = lost_evaluation(cell, status, origin)
        elif done.result.evaluation is None:
            assert done.result.stop is not None  # noqa: S101  one of the two
            raise done.result.stop
        else:
            evaluation, note = done.result.evaluation, done.result.note
        if not evaluation.status.has_error:
            log.warning("%s, configuration %d: %s: %s", cell.dataset, cell.index, evaluation.status.value, note)
        self.running.pop(cell.key, None)
        del self.todo[cell.key]
        self.measured[evaluation.status] += 1
        self.done.append(cell.index)
        self._learn(cell.index, evaluation)
        self.trusts = self.trusts or evaluation.status.has_error
        self.doubtful.append(evaluation)
        if not self.trusts:
            self.failure = f"{evaluation.status.value}: {note}" if note else evaluation.status.value
            if len(self.doubtful) >= MOST_FAILURES:
                self.check_some_succeeded()
            self._tell(None)
            return []
        written, self.doubtful = self.doubtful, []
        self.history.extend(written)
        self._tell(evaluation)
        return written

    def check_some_succeeded(self) -> None:
        """Check that not all runs failed of a program that has never succeeded.

        Raises:
            AllTrialsFailedError: when they did; nothing of them is written.
        """
        if self.doubtful:
            msg = f"collect: expected a run that gives an error, got {len(self.doubtful)} that failed and none that did; the last {self.failure.rstrip('.')}. Correct it and start again: nothing of these is in the history."
            raise AllTrialsFailedError(msg)

    def report(self, names: tuple[str, ...], elapsed_s: float) -> CollectReport:
        """Sum the run up."""
        complete = min(self.todo.values(), default=self.plan[-1][-1].index + 1)
        noise, settled = None, None
        if self.race is not None:
            noise = {name: (found.median, found.rms) for name in names if (found := self.race.noise(name)).contenders}
            settled = sum(map(self.race.is_settled, names))
        return CollectReport(
            datasets=names,
            total=self.total,
            known=self.known,
            measured=dict(self.measured),
            complete_configs=complete,
            stopped="complete" if not self.todo and settled in (None, len(names)) else "time budget",
            elapsed_s=elapsed_s,
            noise=noise,
            settled=settled,
        )

    def _learn(self, index: int, evaluation: Evaluation) -> None:
        if not math.isnan(evaluation.duration):
            self.durations.setdefault(index, []).append(evaluation.duration)
        if self.race is not None:
            self.race.add(evaluation.dataset, index, seed=evaluation.seed, error=evaluation.error)

    def _tell(self, latest: Evaluation | None) -> None:
        if self.progress is not None:
            to_come = [] if self.race is None else self.race.cells_left()
            left_s = wall_seconds_left(
                self.durations,
                [*self.todo.values(), *to_come],
                workers=self.workers,
                elapsed_s=time.monotonic() - self.started,
                done=self.done,
                under_way=self.begun - len(self.done),
                costs=self.costs,
            )
            total = self.total + len(to_come)
            done = self.total - len(self.todo) - len(self.doubtful)
            self.progress(CollectionProgress(done, total, left_s, latest, tuple(self.running.values())))
