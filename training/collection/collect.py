"""Collect a history: measure the same configurations on every dataset; an interrupted collection resumes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from warmstart.history_store.bundle.records import split_origin
from warmstart.history_store.errors import UsageError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.manifest import Manifest
from warmstart.history_store.records import Config, Evaluation
from warmstart.history_store.shards import append_shard, create_shards, merge_shards, read_shards, write_shards
from warmstart.training.collection.add_sources import add_sources
from warmstart.training.collection.cell_queue import CellQueue
from warmstart.training.collection.measure import Measure, Measured, limit_of
from warmstart.training.collection.plan import Cell, blocks, in_names, parse_time, plan_block, shared_configs
from warmstart.training.collection.progress import CollectionProgress, CollectReport
from warmstart.training.collection.race import Race
from warmstart.training.collection.settings import CollectionSettings
from warmstart.training.processes.executor import Done, Executor, LocalExecutor
from warmstart.training.workloads import Budget, Workload, get_workload

ORIGIN = "collect/"


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
    progress: Callable[[CollectionProgress], None] | None = None,
) -> CollectReport:
    """Measure shared Sobol configurations on datasets, with the fields of `CollectionSettings` as arguments."""
    settings = CollectionSettings(
        manifests=manifests,
        root=root,
        download=download,
        fractions=fractions,
        configs=configs,
        first=first,
        replicates=replicates,
        race=race,
        seed=seed,
        workload=workload,
        budget=budget,
        workers=workers,
        device=device,
        executor=executor,
        time_budget=time_budget,
        cell_timeout=cell_timeout,
        shards=shards,
    )
    return collect_cells(history, settings, progress=progress)


def collect_cells(
    history: History, settings: CollectionSettings, *, progress: Callable[[CollectionProgress], None] | None = None
) -> CollectReport:
    """Measure shared Sobol configurations on datasets and write every result to the history as it comes.

    A cell is (dataset, configuration, seed). The seed follows from dataset and configuration, so a collection that was
    stopped or killed continues with the missing cells. All datasets get the first 16 configurations, then 32, then 64;
    with a user's program one configuration after the other. Only this process writes the history. The status of a run
    records its end (diverged, crashed, out of memory or time, killed its process twice). Ctrl-C raises
    KeyboardInterrupt; measured cells are in the history and the shards.

    Args:
        history: open for writing, over a space of the workload.
        settings: of the collection.
        progress: called at the start and after every cell; with local workers also at the start of a cell and during
            it.

    Returns: the report.

    Raises:
        UsageError: when an option is out of range, or the history was collected under another budget.
        DataError: when a source does not fit its manifest, or the space is not the workload's.
        MissingPathError: when a source is missing.
        StorageError: when the history cannot be written.
        AllTrialsFailedError: when no worker starts, or the first runs of a user's program all fail.
    """
    return _Collection(history, settings, progress).run()


class _Collection:
    """One run of a collection, which continues earlier runs."""

    def __init__(
        self, history: History, settings: CollectionSettings, progress: Callable[[CollectionProgress], None] | None
    ) -> None:
        """Read earlier results, add the datasets, and plan the cells."""
        self.history, self.settings, self.started = history, settings, time.monotonic()
        self.limit_s = parse_time(settings.time_budget, param="time_budget")
        workload, seed, first = settings.workload or get_workload(), settings.seed, settings.first
        budget = settings.budget or workload.budget()
        self.origin = workload.origin(budget)
        self.shared = shared_configs(history.space_json, settings.configs, seed=seed, first=first, workload=workload)
        n_first = len({config_key(config) for config in in_names(history.space_json, first)})
        self.blocks = blocks(len(self.shared) - n_first, first=n_first, single=workload.is_own)
        _check_budget(history, self.origin)
        folder = None if settings.shards is None else Path(settings.shards)
        if folder is not None:
            take_shards(history, folder, budget, seed)
        self.names = add_sources(
            history,
            settings.manifests,
            root=settings.root,
            download=settings.download,
            fractions=settings.fractions,
            on_broken=settings.on_broken,
        )
        costs = _costs(history, self.names, self.shared, workload, budget)
        self.shards = None if folder is None else ShardFolder(history, folder, budget, seed)
        self.queue = CellQueue(
            history,
            [
                plan_block(self.names, self.shared, item, seed=seed, replicates=settings.replicates)
                for item in self.blocks
            ],
            workers=settings.workers,
            costs=costs,
            progress=progress,
            race=None if settings.race is None else Race(self.names, self.shared, settings.race, seed=seed),
        )
        self.queue.is_trusted = not workload.is_own or any(
            item.origin == self.origin and item.status.has_error for item in history.evaluations()
        )
        self.measure = Measure(
            history.path.absolute(), budget, settings.device, settings.cell_timeout, self.origin, workload
        )

    def run(self) -> CollectReport:
        """Measure missing cells until all are measured or the time is up."""
        executor = self.settings.executor or self._local_executor()
        with contextlib.closing(executor.run(self.measure, self._cells())) as results:
            self._write(results)
        self.queue.check_some_succeeded()
        return self.queue.report(self.names, time.monotonic() - self.started)

    def _local_executor(self) -> Executor:
        """Return an executor with processes of this machine."""
        news = None if self.queue.progress is None else self.queue.record_news
        limit_s = limit_of(self.settings.cell_timeout)
        return LocalExecutor(self.settings.workers, limit_s=limit_s, news=news)

    def _is_time_up(self) -> bool:
        return time.monotonic() - self.started >= self.limit_s

    def _cells(self) -> Iterator[Cell]:
        """Yield the next cell when a worker is free."""
        for block, cells in zip(self.blocks, self.queue.missing(), strict=True):
            for cell in cells:
                if self._is_time_up():
                    return
                # In the order of the sequence, whichever cell ends first, and not too early: no empty columns.
                self.history.add_configs(self.shared[: block.stop])
                self.queue.n_started += 1
                yield cell
        while not self._is_time_up() and (again := self.queue.next_of_race()) is not None:
            self.queue.n_started += 1
            yield again

    def _write(self, results: Iterable[Done[Cell, Measured]]) -> None:
        """Write results to the history and the shards as they arrive."""
        with contextlib.ExitStack() as interrupted:
            if self.shards is not None:
                interrupted.callback(self.shards.complete)  # Ctrl-C may fall between the two writes of a cell,
                interrupted.callback(self.history.refresh)  # or after its line is on disk and before it is in memory
            for ended in results:
                for evaluation in self.queue.write(ended, self.origin):
                    if self.shards is not None:
                        self.shards.append(evaluation)
            interrupted.pop_all()


def _costs(
    history: History, names: Sequence[str], configs: Sequence[Config], workload: Workload, budget: Budget
) -> dict[int, float]:
    """Estimate the cost of each configuration, by index, on a dataset of median size."""
    n_train = sorted(history.dataset(name).n_train for name in names)[len(names) // 2]
    return {index: workload.cost(config, budget, n_train=n_train) for index, config in enumerate(configs)}


def _check_budget(history: History, origin: str) -> None:
    """Check that the history has no runs of another budget."""
    origins = {split_origin(e.origin)[0] for e in history.evaluations()}  # a merged run counts as its contributor's
    foreign = {name for name in origins if name.startswith(ORIGIN) and name != origin}
    if foreign:
        msg = (
            f"{history.path}: expected evaluations of budget {origin.removeprefix(ORIGIN)!r} alone, got some of "
            f"{', '.join(repr(origin_name.removeprefix(ORIGIN)) for origin_name in sorted(foreign))}. Collect into a new history."
        )
        raise UsageError(msg)


class ShardFolder:
    """Folder of shards that receives every finished cell."""

    def __init__(self, history: History, folder: Path, budget: Budget, seed: int) -> None:
        """Open the folder, and write the cells of the history that it lacks."""
        self.history, self.folder, self.budget, self.seed = history, folder, budget, seed
        self.complete()
        self._number()

    def complete(self) -> None:
        """Write the cells of the history that the folder lacks."""
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


def take_shards(history: History, folder: Path, budget: Budget, seed: int) -> None:
    """Create a folder of shards, or add its cells to the history; a folder of another collection is refused."""
    create_shards(
        folder, history.space_json, configs=(), budget=budget.to_dict(), seed=seed, stored_size=history.stored_size
    )
    history.add_configs(read_shards(folder).configs)
    merge_shards(history, folder)
