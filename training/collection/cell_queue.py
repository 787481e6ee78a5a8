"""Queue of the cells of a collection: missing, running and measured ones."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from warmstart.history_store.errors import AllTrialsFailedError
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation, Status
from warmstart.training.collection.measure import Measured, lost_evaluation
from warmstart.training.collection.plan import Cell, evaluation_key, wall_seconds_left
from warmstart.training.collection.progress import CollectionProgress, CollectReport, RunningCell
from warmstart.training.collection.race import Race
from warmstart.training.processes.executor import Done, Lost

log = logging.getLogger("warmstart.training.collection.collect")

MOST_FAILURES = 6
"""Failed runs of a user's program before the first success that stop a collection."""


class CellQueue:
    """Missing, running and measured cells of one collection."""

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
        measured_keys = set()
        index_of_config = {(dataset, config): index for (dataset, config, _), index in index_of.items()}
        for evaluation in history.evaluations():
            key = evaluation_key(evaluation)
            if key in index_of:
                measured_keys.add(key)
            if key[:2] in index_of_config and (key in index_of or race is not None):
                self._learn(index_of_config[key[:2]], evaluation)
        self.todo = {key: index for key, index in index_of.items() if key not in measured_keys}
        self.total, self.known = len(index_of), len(measured_keys)
        self.measured: Counter[Status] = Counter()
        self.running: dict[Hashable, RunningCell] = {}
        self.started = time.monotonic()
        self.n_started, self.done = 0, list[int]()
        self.is_trusted, self.doubtful, self.failure = True, list[Evaluation](), ""
        self._tell(None)

    def missing(self) -> list[list[Cell]]:
        """Return the missing cells by block, in order."""
        return [[cell for cell in block if cell.key in self.todo] for block in self.plan]

    def record_news(self, cell: Cell, news: tuple[float | None, float]) -> None:
        """Record news of a running cell: finished share of its run, and error."""
        share, error = news
        began = self.running[cell.key].since if share != 0 and cell.key in self.running else time.monotonic()
        self.running[cell.key] = RunningCell(cell.dataset, cell.index, began, share, error)
        self._tell(None)

    def next_of_race(self) -> Cell | None:
        """Return the next cell to repeat; None without a race, or after its end."""
        cell = None if self.race is None else self.race.next_cell()
        if cell is not None:
            self.todo[cell.key] = cell.index
            self.total += 1
        return cell

    def write(self, ended: Done[Cell, Measured], origin: str) -> list[Evaluation]:
        """Write a result to the history, durably; failures wait for the first success.

        Returns: the written evaluations.

        Raises:
            WarmstartError: when the worker reported that the collection cannot go on.
            AllTrialsFailedError: when too many failed and none succeeded.
        """
        cell, note = ended.task, ended.note
        if ended.result is None:
            status = Status.TIMEOUT if ended.lost is Lost.TIMEOUT else Status.CRASHED
            evaluation = lost_evaluation(cell, status, origin)
        elif ended.result.evaluation is None:
            assert ended.result.stop is not None  # noqa: S101  an outcome has an evaluation or a stop
            raise ended.result.stop
        else:
            evaluation, note = ended.result.evaluation, ended.result.note
        if not evaluation.status.has_error:
            log.warning("%s, configuration %d: %s: %s", cell.dataset, cell.index, evaluation.status.value, note)
        self.running.pop(cell.key, None)
        del self.todo[cell.key]
        self.measured[evaluation.status] += 1
        self.done.append(cell.index)
        self._learn(cell.index, evaluation)
        self.is_trusted = self.is_trusted or evaluation.status.has_error
        self.doubtful.append(evaluation)
        if not self.is_trusted:
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
        """Check that a new program has succeeded at least once.

        Raises:
            AllTrialsFailedError: when all runs failed; none of them is written.
        """
        if self.doubtful:
            msg = f"collect: expected a run that gives an error, got {len(self.doubtful)} that failed and none that did; the last {self.failure.rstrip('.')}. Correct it and start again: the history holds none of these runs."
            raise AllTrialsFailedError(msg)

    def report(self, names: tuple[str, ...], elapsed_s: float) -> CollectReport:
        """Return the report of the run."""
        complete = min(self.todo.values(), default=self.plan[-1][-1].index + 1)
        noise, settled = None, None
        if self.race is not None:
            noise = {
                name: (estimate.median, estimate.rms)
                for name in names
                if (estimate := self.race.noise(name)).contenders
            }
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
                measured=self.done,
                under_way=self.n_started - len(self.done),
                costs=self.costs,
            )
            total = self.total + len(to_come)
            n_written = self.total - len(self.todo) - len(self.doubtful)
            self.progress(CollectionProgress(n_written, total, left_s, latest, tuple(self.running.values())))
