"""A history with embeddings of its datasets."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import Calibration
from warmstart.history_store.errors import DataError, HistoryDamagedError, UsageError
from warmstart.history_store.file.blocks import Matrix
from warmstart.history_store.file.cells import Cells
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.file.snapshot import Snapshot
from warmstart.history_store.file.table import EvaluationTable, run_columns
from warmstart.history_store.records import Config, Evaluation
from warmstart.history_store.wording import suggest_names
from warmstart.measured_with import MeasuredWith, measured_with
from warmstart.metafeat.index import DatasetIndex, Distances, Rows, distances_to
from warmstart.metafeat.model_file import ModelHeader
from warmstart.metafeat.sample_statistics import SAMPLE
from warmstart.suggestions.other_sizes import OwnPixels, SmallerParts
from warmstart.suggestions.references import (
    Norms,
    References,
    spread_rows,
)

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ErrorForecaster


CAPACITY = 8
"""Row selections held by a cache."""
Computed = TypeVar("Computed")


class RowMemory(Generic[Computed]):
    """A cache of values computed from rows alone, for the last few row selections."""

    def __init__(self) -> None:
        self._values: dict[bytes, Computed] = {}

    def recall(self, rows: NDArray[np.int64] | None, compute: Callable[[], Computed]) -> Computed:
        """Return the value of a row selection, None = all rows; compute it if it is not cached."""
        key = b"" if rows is None else rows.tobytes()
        try:
            return self._values[key]
        except KeyError:
            # Without a lock: two threads may both compute, and the later value stays.
            value = compute()
        while len(self._values) >= CAPACITY:
            self._values.pop(next(iter(self._values)), None)
        self._values[key] = value
        return value


@dataclass(frozen=True, slots=True, eq=False)
class HistoryRuns:
    """All runs of a history.

    Attributes:
        table: its rows name datasets and configurations by number.
        names: of the datasets.
        configs: the configurations.
    """

    table: EvaluationTable
    names: tuple[str, ...]
    configs: tuple[Config, ...]

    @classmethod
    def of(cls, history: Snapshot) -> "HistoryRuns":
        """Return the runs of an open history."""
        return cls(history.table(), history.names, history.configs)


SPREAD = 2_000
"""Of a larger history the portfolio uses this many datasets, evenly spread; more choose the same (`scripts/bench/fewer_nearest.py`)."""


@dataclass(frozen=True, slots=True)
class EmbeddedHistory:
    """The arrays of a history and a model; rows are datasets in order of their names.

    Attributes:
        path: of the history, as found.
        model: header of the model; None where answers are drawn from runs alone, and no distance is known.
        names: `m` datasets that have an embedding; without a model those that have runs.
        groups: `m` sibling groups; `group_numbers`, the same as numbers.
        cells: sums over the runs of the history's datasets; see `outcomes`.
        order: `m`, the place of each row among these.
        about: `m` records of the datasets.
        configs: `c` configurations.
        space_json: ConfigSpace JSON.
        index: of the embeddings; of `m x 0` without a model.
        calibration: of the distances, where the history holds one for this model.
        notes: for people, shown once.
        references: statistics of the datasets for this model, where the history holds them.
        smaller_parts: errors on parts of the datasets, where the history holds such.
        own_pixels: errors of datasets at their pictures' own pixels, where the history holds such.
        all_groups: groups of all datasets of the history.
        measured_with: network, optimiser, image size and budget of its runs.
        runs: all runs; None where there are very many, which `read_runs` reads anew.
        measured: result of `has_runs`.
        norms: results of `norms_of`, by row selection.
        forecasters: results of `warmstart.suggestions.expectations.forecaster_of`, by row selection.
    """

    path: Path
    model: ModelHeader | None
    names: tuple[str, ...]
    groups: tuple[str, ...]
    group_numbers: NDArray[np.int64]
    cells: Cells
    order: NDArray[np.int64]
    about: DatasetList
    configs: tuple[Config, ...]
    space_json: str
    index: DatasetIndex
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()
    references: References | None = None
    smaller_parts: SmallerParts | None = None
    own_pixels: OwnPixels | None = None
    all_groups: tuple[str, ...] = ()
    measured_with: MeasuredWith | None = None
    runs: HistoryRuns | None = field(default=None, compare=False, repr=False)
    measured: RowMemory[NDArray[np.bool_]] = field(default_factory=RowMemory, compare=False, repr=False)
    norms: RowMemory[Norms] = field(default_factory=RowMemory, compare=False, repr=False)
    forecasters: "RowMemory[ErrorForecaster | None]" = field(
        default_factory=RowMemory, init=False, compare=False, repr=False
    )

    @property
    def vectors(self) -> Matrix:
        """Return the `m x d` embeddings."""
        return self.index.vectors

    def with_runs_added(self, runs: Sequence[Evaluation], *, stored_size: int) -> "EmbeddedHistory | None":
        """Return the history with further runs; None where one is of a dataset or configuration that it does not have.

        Args:
            runs: in the order in which they were added.
            stored_size: of the history.
        """
        rows = [bisect_left(self.names, run.dataset) for run in runs]
        column_of = {config_key(config): column for column, config in enumerate(self.configs)}
        columns = [column_of.get(config_key(run.config), -1) for run in runs]
        named = [self.names[row] if row < len(self.names) else None for row in rows]
        if named != [run.dataset for run in runs] or -1 in columns:
            return None
        cells = self.cells.plus(run_columns(runs, self.order[rows].tolist(), columns), *self.cells.shape)
        origins = Counter(self.measured_with.origins if self.measured_with else {})
        origins.update(run.origin for run in runs)
        return replace(
            self,
            cells=cells,
            measured_with=measured_with(origins, stored_size=stored_size),
            measured=self.measured if self.has_runs[rows].all() else RowMemory(),
        )

    def outcomes(self, rows: NDArray[np.int64] | None = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return errors of some rows, of all by default, NaN = missing, and whether all runs of a cell failed: `n x c` each."""
        errors, measured = self.cells.outcomes(self.order if rows is None else self.order[rows])
        return errors, measured & np.isnan(errors)

    def errors(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return the errors of `outcomes`."""
        return self.outcomes(rows)[0]

    @property
    def has_runs(self) -> NDArray[np.bool_]:
        """Tell which of the `m` datasets have any run, failed ones included."""
        return self.measured.recall(None, lambda: self.cells.n_runs()[self.order] > 0)

    @property
    def ignores_distances(self) -> bool:
        """Tell whether the history's calibration found that near datasets do no better than others."""
        return self.calibration is not None and all(np.isinf(reach) for reach, _ in self.calibration.reach)

    def read_runs(self) -> HistoryRuns:
        """Return all runs; those of a large history are read from its file, to which others may have added."""
        if self.runs is not None:
            return self.runs
        with Snapshot(self.path) as history:
            return HistoryRuns.of(history)

    def rows_without(self, groups: Collection[str], query_name: str | None) -> NDArray[np.int64]:
        """Return the rows of all datasets outside some groups, without the query itself.

        Raises:
            UsageError: a group that the history does not know, or nothing left.
        """
        unknown = sorted(group for group in set(groups) if group not in self.all_groups and group not in self.groups)
        if unknown:
            step = suggest_names(
                unknown, {*self.groups, *self.all_groups}, otherwise="`warmstart history list` shows them."
            )
            msg = f"expected groups of {self.path}, got {', '.join(unknown)}. {step}"
            raise UsageError(msg, param="exclude_group")
        if not groups and query_name is None:
            return np.arange(len(self.names))
        is_left = np.ones(len(self.names), np.bool_)
        for group in set(groups) & set(self.groups) if groups else ():
            is_left &= self.group_numbers != self.group_numbers[self.groups.index(group)]
        if query_name is not None and query_name in self.names:
            is_left[self.names.index(query_name)] = False
        rows = np.flatnonzero(is_left)
        if not len(rows):
            msg = f"{self.path}: expected at least one dataset to learn from, got none that is not left out. Exclude fewer groups or add datasets."
            raise UsageError(msg)
        return rows

    def with_runs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep the rows with runs; all rows if none has any."""
        if self.has_runs.all():
            return rows
        has_runs = self.has_runs[rows]
        return rows[has_runs] if has_runs.any() else rows

    def nearest(self, vector: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> tuple[Rows, Distances]:
        """Return the k nearest of some datasets, in order of rows, and their distances; all if there are no more."""
        near, distances = self.index.nearest(vector, k, among=rows)
        order = np.argsort(near)
        return near[order], distances[order]

    def distances_to(self, vector: NDArray[np.float32], rows: NDArray[np.int64]) -> Distances:
        """Compute the distances to some datasets; NaN without a model."""
        return np.full(len(rows), np.nan) if self.model is None else distances_to(vector, self.vectors[rows])

    def norms_of(self, rows: NDArray[np.int64]) -> Norms:
        """Return the norms of the datasets in some rows, computed once for the same rows.

        Those of more than `SPREAD` datasets are those of all: a few that are left out change none of them.
        """
        m = len(self.names)
        is_whole = SPREAD < len(rows) <= m or len(rows) == m
        return self.norms.recall(None if is_whole else rows, lambda: self._norms_of(np.arange(m) if is_whole else rows))

    def _norms_of(self, rows: NDArray[np.int64]) -> Norms:
        is_whole = len(rows) == len(self.names)
        index, groups = (self.index if is_whole else DatasetIndex(self.vectors[rows])), self.group_numbers[rows]
        sampled, references = spread_rows(len(rows)), self.references
        stored = self.index.stored if is_whole else None
        return Norms(
            len(rows),
            int(groups.max()) + 1 if is_whole else len(np.unique(groups)),
            index.nearest_of_another_group(sampled, groups) if stored is None else stored.norms,
            min(
                *(info.n_train for info in self.about.at(rows[sampled].tolist())),
                *(() if references is None else references.sizes),
                SAMPLE,
            ),
            None if references is None else references.of([self.names[row] for row in rows.tolist()]),
        )

    def store_index(self) -> None:
        """Store the index of a very large history in the cache folder, or extend the one that is there."""
        if self.index.file is not None:
            self.index.file.write(self.vectors, self._nearest_of_another_group)

    def _nearest_of_another_group(self, cells: Any) -> Distances:
        """Return the nearest distances that norms are made of, searched in cells."""
        index = DatasetIndex(self.vectors, cells=cells)
        return index.nearest_of_another_group(spread_rows(len(self.names)), self.group_numbers)


def file_state(path: Path) -> tuple[int, ...]:
    """Return modification times, sizes and inodes of a history file and its journal."""
    state: list[int] = []
    for part in (path, path.with_name(path.name + ".journal")):
        try:
            stat = part.stat()
        except OSError:
            continue
        state += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
    return tuple(state)


def spread_positions(m: int) -> NDArray[np.int64]:
    """Return `SPREAD` positions spread evenly over `m`; all if there are no more."""
    return np.arange(m) if m <= SPREAD else np.linspace(0, m - 1, SPREAD).astype(np.int64)


def calibration_key(model_hash: str) -> str:
    """Return the key of a model's calibration in a history's results."""
    return f"calibration/{model_hash}"


def read_calibration(history: Snapshot, model_hash: str) -> Calibration | None:
    """Read the calibration that `warmstart evaluate --calibrate` stored for a model; it stays valid for a grown history.

    Raises:
        HistoryDamagedError: it is no calibration.
    """
    stored = history.get_result(calibration_key(model_hash))
    try:
        return None if stored is None else Calibration.from_dict(stored)
    except DataError as error:
        msg = f"{history.path}: {error}"
        raise HistoryDamagedError(msg) from error
