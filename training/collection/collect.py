"""Collect a history: measure the same configurations on every dataset; an interrupted collection resumes."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from history_store.errors import AllTrialsFailedError, UsageError
from history_store.file.codec import config_key
from history_store.file.content import unit_rows
from history_store.manifest import Manifest
from history_store.records import Config, Evaluation, Status
from history_store.shards import append_shard, create_shards, merge_shards, read_shards, write_shards
from history_store.space import load_space, sobol_configs, space_names, with_logarithms
from training.collection.add_sources import enrol
from training.collection.measure import Measure, Measured, limit_of, lost_evaluation
from training.collection.plan import Cell, blocks, evaluation_key, parse_time, plan_block, wall_seconds_left
from training.collection.race import Race
from training.processes.executor import Done, Executor, LocalExecutor, Lost
from training.workloads import Budget, Workload, get_workload

if TYPE_CHECKING:
    from history_store.history import History

log = logging.getLogger(__name__)

ORIGIN = "collect/"
MOST_FAILURES = 6
"""So many runs of a person's own program may fail before the first one succeeds."""


@dataclass(frozen=True, slots=True)
class RunningCell:
    """A cell that is under way on this machine.

    Attributes:
        dataset: its name.
        index: of its configuration.
        since: `time.monotonic` when it began.
        share: part of the run that is done; None where the workload does not tell.
        error: validation error that was told last; NaN before the first.
    """

    dataset: str
    index: int
    since: float
    share: float | None
    error: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a collection stands.

    Attributes:
        done: cells that are in the history.
        total: cells of the whole collection; while it races, those begun and an estimate of those to come.
        left_s: estimated wall seconds to its end; NaN while unknown.
        latest: the evaluation just written; None at the start, and while cells run.
        running: the cells that are under way.
    """

    done: int
    total: int
    left_s: float
    latest: Evaluation | None = None
    running: tuple[RunningCell, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectReport:
    """What a collection did.

    Attributes:
        datasets: their names, in the order of work.
        total: cells of the whole collection.
        known: cells that the history held before.
        measured: cells of this run by how they ended.
        complete_configs: configurations that every dataset has.
        stopped: whether all is measured or the time was up.
        elapsed_s: wall seconds.
        noise: of a race: by dataset, median and root mean square of the standard errors of its best configurations ÷
            the range of its errors; None without a race.
        settled: datasets that reached the race's target, or cannot; None without a race.
    """

    datasets: tuple[str, ...]
    total: int
    known: int
    measured: Mapping[Status, int]
    complete_configs: int
    stopped: Literal["complete", "time budget"]
    elapsed_s: float
    noise: Mapping[str, tuple[float, float]] | None = None
    settled: int | None = None


def collect(
    history: History,
    manifests: Sequence[Manifest] = (),
    *,
    root: str | Path | None = None,
    download: bool = False,
    fractions: Sequence[float] = (1.0,),
    configs: int = 64,
    first: Sequence[Config] = (),
    replicates: int = 1,
    race: float | None = None,
    seed: int = 0,
    workload: Workload | None = None,
    budget: Budget | None = None,
    workers: int = 2,
    device: str | None = None,
    executor: Executor | None = None,
    time_budget: str | float | None = None,
    cell_timeout: float = math.inf,
    shards: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CollectReport:
    """Measure shared Sobol configurations on datasets and write every result to the history as it comes.

    A cell is (dataset, configuration, seed); the seed follows from the other two, so a collection that was stopped,
    or killed, goes on with the cells that the history lacks. All datasets get the first 16 configurations, then
    32, then 64; of a person's own program one configuration after the other. Only this process writes the history; what a run does (diverge, crash, run out of memory or
    time, take its process down twice) is recorded as its status. Ctrl-C raises KeyboardInterrupt; what was measured is
    in the history and the shards.

    Args:
        history: open for writing, over a space of the workload.
        manifests: sources to add where the history lacks them, and to measure; none: all datasets that have images.
        root: folder below which the manifests' files and folders lie.
        download: fetch what is missing where a manifest says how.
        fractions: parts of the training split to measure, each a dataset of its own, e.g. (0.1, 0.5, 1.0).
        configs: how many configurations of the Sobol sequence; 0 is allowed where some are given.
        first: configurations to measure on every dataset before any of those.
        replicates: seeds a configuration.
        race: after that, repeat the best quarter of the configurations of each dataset until the standard error of a
            mean over seeds ÷ the range of the dataset's errors has a median of so much; see `training.collection.race`.
        seed: of the configurations and of all cells.
        workload: what is trained; None = the target network of the paper.
        budget: length of one training run; None = the workload's usual one.
        workers: processes; on a GPU they share it.
        device: of torch; None = the first GPU if there is one, else the CPU.
        executor: where cells run; None = processes of this machine.
        time_budget: no cell is begun after so long; seconds or a text like ``3h``, ``90m``.
        cell_timeout: seconds after which a run is given up.
        shards: folder of text shards: what it holds is taken into the history first, and every cell is written there as
            it comes.
        progress: called at the start and after every cell; on this machine also when one begins and along its run.

    Returns: what was done.

    Raises:
        UsageError: when an option is out of range, or the history was collected under another budget.
        DataError: when a source does not fit its manifest, or the space is not the workload's.
        MissingPathError: when a source is not there.
        StorageError: when the history cannot be written.
        AllTrialsFailedError: when no worker starts, or the first runs of a person's own program all fail.
    """
    started = time.monotonic()
    limit_s = parse_time(time_budget)
    workload = workload or get_workload()
    budget = budget or workload.budget()
    origin = workload.origin(budget)
    if replicates < 1:
        msg = f"collect: expected at least one replicate, got replicates={replicates}. Use replicates=1."
        raise UsageError(msg)
    shared = shared_configs(history.space_json, configs, seed=seed, first=first, workload=workload)
    n_first = len({config_key(config) for config in _in_names(history.space_json, first)})
    block_ranges = blocks(len(shared) - n_first, first=n_first, one_by_one=workload.is_own)
    _check_budget(history, origin)
    if shards is not None:
        _take_shards(history, Path(shards), budget, seed)
    names = enrol(history, manifests, root=root, download=download, fractions=fractions)
    plan = [plan_block(names, shared, block, seed=seed, replicates=replicates) for block in block_ranges]
    costs = _costs(history, names, shared, workload, budget)
    racing = None if race is None else Race(names, shared, race, seed=seed)
    written = None if shards is None else _ShardFolder(history, Path(shards), budget, seed)
    ledger = _Ledger(history, plan, workers=workers, costs=costs, progress=progress, race=racing)
    ledger.trusts = not workload.is_own or any(e.origin == origin and e.status.has_error for e in history.evaluations())
    if executor is None:
        news = None if progress is None else ledger.hear
        executor = LocalExecutor(workers, limit_s=limit_of(cell_timeout), news=news)
    measure = Measure(history.path.absolute(), budget, device, cell_timeout, origin, workload)

    def tasks() -> Iterator[Cell]:
        for block, cells in zip(block_ranges, ledger.missing(), strict=True):
            for cell in cells:
                if time.monotonic() - started >= limit_s:
                    return
                # In their own order, whichever ends first, and no sooner: columns without a number help nobody.
                history.add_configs(shared[: block.stop])
                ledger.begun += 1
                yield cell
        while time.monotonic() - started < limit_s and (again := ledger.next_of_race()) is not None:
            ledger.begun += 1
            yield again

    with contextlib.closing(executor.run(measure, tasks())) as results:
        _write(results, ledger, written, origin)
    ledger.check_some_succeeded()
    return ledger.report(names, time.monotonic() - started)


def shared_configs(
    space_json: str, n: int, *, seed: int = 0, first: Sequence[Config] = (), workload: Workload | None = None
) -> list[Config]:
    """List the configurations that all datasets of a collection share: those given, then n of one Sobol sequence, none twice.

    Raises:
        UsageError: when there is none.
        DataError: when the space is not the workload's, or a configuration given does not fit it.
    """
    if n < 0 or not (n or first):
        msg = f"collect: expected at least one configuration, got configs={n}. Ask for 16, 32 or 64."
        raise UsageError(msg)
    workload = workload or get_workload()
    given = {config_key(config): config for config in _in_names(space_json, first)}
    drawn: list[Config] = list(sobol_configs(load_space(space_json), n, seed=seed)) if n else []
    for config in (*given.values(), *drawn):
        workload.check(config)
    return [*given.values(), *(config for config in drawn if config_key(config) not in given)]


def _in_names(space_json: str, configs: Sequence[Config]) -> list[Config]:
    """Return configurations to measure first in the names of a space, checked against it."""
    where, names = "collect: configurations to measure first", space_names(space_json)
    found: list[Config] = [with_logarithms(config, names, where=where) for config in configs]
    unit_rows(space_json, found, where)
    return found


def _costs(
    history: History, names: Sequence[str], configs: Sequence[Config], workload: Workload, budget: Budget
) -> dict[int, float]:
    """Estimate what configurations cost on a dataset of the usual size, by their number."""
    n_train = sorted(history.dataset(name).n_train for name in names)[len(names) // 2]
    return {index: workload.cost(config, budget, n_train=n_train) for index, config in enumerate(configs)}


class _Ledger:
    """Cells that are in the history, and the cells that are left."""

    def __init__(
        self,
        history: History,
        plan: Sequence[Sequence[Cell]],
        *,
        workers: int,
        costs: Mapping[int, float],
        progress: Callable[[Progress], None] | None,
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
            log.warning("%s, configuration %d: %s. %s", cell.dataset, cell.index, evaluation.status.value, note)
        self.running.pop(cell.key, None)
        del self.todo[cell.key]
        self.measured[evaluation.status] += 1
        self.done.append(cell.index)
        self._learn(cell.index, evaluation)
        self.trusts = self.trusts or evaluation.status.has_error
        self.doubtful.append(evaluation)
        if not self.trusts:
            self.failure = f"{evaluation.status.value}. {note}".strip()
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
            self.progress(Progress(done, total, left_s, latest, tuple(self.running.values())))


class _ShardFolder:
    """Folder of shards that receives every cell as it ends."""

    def __init__(self, history: History, folder: Path, budget: Budget, seed: int) -> None:
        """Begin with what the history holds and the folder lacks."""
        self.history, self.folder, self.budget, self.seed = history, folder, budget, seed
        self.complete()
        self._number()

    def complete(self) -> None:
        """Write what the history holds and the folder lacks."""
        write_shards(self.history, self.folder, budget=self.budget.to_dict(), seed=self.seed)

    def append(self, evaluation: Evaluation) -> None:
        """Write one cell, durably."""
        key = config_key(evaluation.config)
        if key not in self.index:
            create_shards(
                self.folder,
                self.history.space_json,
                configs=self.history.configs,
                budget=self.budget.to_dict(),
                seed=self.seed,
                stored_size=self.history.stored_size,
            )
            self._number()
        append_shard(self.folder, self.index[key], evaluation)

    def _number(self) -> None:
        self.index = {config_key(config): number for number, config in enumerate(read_shards(self.folder).configs)}


def _write(results: Iterable[Done[Cell, Measured]], ledger: _Ledger, written: _ShardFolder | None, origin: str) -> None:
    """Write cells into the history and the shards as they come."""
    with contextlib.ExitStack() as interrupted:
        if written is not None:
            interrupted.callback(written.complete)  # Ctrl-C may come between the two writes of a cell
        for done in results:
            for evaluation in ledger.write(done, origin):
                if written is not None:
                    written.append(evaluation)
        interrupted.pop_all()


def _take_shards(history: History, folder: Path, budget: Budget, seed: int) -> None:
    """Start a folder of shards, or take what an earlier sitting left in it; another collection's is refused."""
    create_shards(
        folder, history.space_json, configs=(), budget=budget.to_dict(), seed=seed, stored_size=history.stored_size
    )
    history.add_configs(read_shards(folder).configs)
    merge_shards(history, folder)


def _check_budget(history: History, origin: str) -> None:
    """Refuse to mix runs of two lengths in one table of errors."""
    others = {e.origin for e in history.evaluations() if e.origin.startswith(ORIGIN) and e.origin != origin}
    if others:
        msg = (
            f"{history.path}: expected evaluations of budget {origin.removeprefix(ORIGIN)!r} alone, got some of "
            f"{', '.join(repr(other.removeprefix(ORIGIN)) for other in sorted(others))}. Collect into a history of its own."
        )
        raise UsageError(msg)
