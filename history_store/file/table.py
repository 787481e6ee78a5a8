"""Evaluations as columns, in the file and in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.cells import CELLS, Cells, Columns, read_cells, read_origin_counts
from warmstart.history_store.file.layout import (
    check_version,
    damage_errors,
    get_element,
    mark_element,
    read_element,
    register_reader,
    restore_hint,
    write_array,
    write_json,
)
from warmstart.history_store.records import Config, Evaluation, Status

STATUSES = tuple(Status)
"""Codes of the column `status`: 0 ok, 1 diverged, 2 crashed, 3 timeout, 4 oom."""
_HAS_ERROR = np.array([status.has_error for status in STATUSES])
_CODES = {status: code for code, status in enumerate(STATUSES)}
DTYPES = {
    "dataset": "<i4",
    "config": "<i4",
    "error": "<f8",
    "status": "|i1",
    "duration": "<f8",
    "seed": "<i8",
    "origin": "<i4",
    "curve_end": "<i8",
    "curve_step": "<i8",
    "curve_error": "<f8",
}
LAZY_ROWS = 200_000
"""From so many evaluations on, they are read at their first use."""
_CURVE = ("curve_end", "curve_step", "curve_error")


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationTable:
    """All evaluations of a history, one row each, in the order in which they were appended; arrays are read-only.

    Attributes:
        dataset: `n` index into the history's datasets.
        config: `n` index into its configurations.
        error: `n` float64 in [0, 1], NaN if the status has none.
        status: `n` index into `STATUSES`.
        duration: `n` seconds, NaN = unknown.
        seed: `n`, -1 = unknown.
        origin: `n` index into `origins`.
        curve_end: `n`; the curve of row i is `curve_end[i - 1]:curve_end[i]` of the next two.
        curve_step: updates, all curves one after the other.
        curve_error: validation errors, likewise.
        origins: the distinct origins.
    """

    dataset: NDArray[np.int32]
    config: NDArray[np.int32]
    error: NDArray[np.float64]
    status: NDArray[np.int8]
    duration: NDArray[np.float64]
    seed: NDArray[np.int64]
    origin: NDArray[np.int32]
    curve_end: NDArray[np.int64]
    curve_step: NDArray[np.int64]
    curve_error: NDArray[np.float64]
    origins: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.dataset)

    def curve(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the updates and the validation errors of one row's learning curve."""
        part = slice(int(self.curve_end[row - 1]) if row else 0, int(self.curve_end[row]))
        return self.curve_step[part], self.curve_error[part]

    def cells(self, m: int, c: int) -> Cells:
        """Sum up the evaluations of each cell."""
        return Cells.of((self.dataset, self.config, self.error, _HAS_ERROR[self.status]), m, c)

    def errors(self, m: int, c: int) -> NDArray[np.float64]:
        """Average the errors over seeds.

        Args:
            m: number of datasets.
            c: number of configurations.

        Returns: `m x c` float64; NaN = no evaluation has an error.
        """
        return self.cells(m, c).outcomes()[0]

    def measured(self, m: int, c: int) -> NDArray[np.bool_]:
        """Return which cells have evaluations, whatever their status: `m x c` bool."""
        return self.cells(m, c).outcomes()[1]

    def origin_counts(self) -> dict[str, int]:
        """Count the rows by origin."""
        counts = np.bincount(self.origin, minlength=len(self.origins)).tolist()
        return {name: count for name, count in zip(self.origins, counts, strict=True) if count}

    def has_run(self, dataset: int, config: int, seed: int, origin: str) -> bool:
        """Return whether there is a run of this dataset, configuration, seed and origin."""
        rows = np.flatnonzero(self.dataset == dataset)
        rows = rows[(self.config[rows] == config) & (self.seed[rows] == seed)]
        return any(self.origins[number] == origin for number in self.origin[rows].tolist())

    def without_dataset(self, index: int) -> "EvaluationTable":
        """Return the table without the rows of one dataset; later datasets move up by one number."""
        keep = self.dataset != index
        starts = np.concatenate([[0], self.curve_end[:-1]]).astype(np.int64) if len(self) else self.curve_end
        lengths = self.curve_end - starts
        points = np.repeat(keep, lengths)
        dataset = self.dataset[keep]
        return frozen_table(
            {name: getattr(self, name)[keep] for name in DTYPES if name not in (*_CURVE, "dataset")}
            | {
                "dataset": np.where(dataset > index, dataset - 1, dataset),
                "curve_end": np.cumsum(lengths[keep]),
                "curve_step": self.curve_step[points],
                "curve_error": self.curve_error[points],
            },
            self.origins,
        )

    def records(self, names: Sequence[str], configs: Sequence[Config], rows: NDArray[np.int64]) -> list[Evaluation]:
        """Build the records of some rows.

        Args:
            names: of the datasets, by index.
            configs: by index.
            rows: indices, in the order of the result.
        """
        dataset, config, status, seed = (a[rows].tolist() for a in (self.dataset, self.config, self.status, self.seed))
        error, duration, origin = (a[rows].tolist() for a in (self.error, self.duration, self.origin))
        first = np.where(rows > 0, self.curve_end[rows - 1], 0) if len(rows) else np.zeros(0, np.int64)
        lengths = self.curve_end[rows] - first
        end = np.cumsum(lengths)
        points = np.arange(int(lengths.sum())) + np.repeat(first - (end - lengths), lengths)
        steps, errors = self.curve_step[points].tolist(), self.curve_error[points].tolist()
        starts, ends = (end - lengths).tolist(), end.tolist()
        return [
            Evaluation(
                dataset=names[dataset[i]],
                config=configs[config[i]],
                error=error[i],
                status=STATUSES[status[i]],
                duration=duration[i],
                seed=None if seed[i] < 0 else seed[i],
                curve=tuple(zip(steps[starts[i] : ends[i]], errors[starts[i] : ends[i]], strict=True)),
                origin=self.origins[origin[i]],
            )
            for i in range(len(rows))
        ]


class StoredTable:
    """The evaluations of an open file, read at their first use.

    Args:
        file: of the history; it must stay open as long as this object.
        location: its name, for errors.

    Attributes:
        limits: numbers of datasets and of configurations, which rows must point to.
    """

    def __init__(self, file: h5py.File, location: str) -> None:
        self._file, self._location = file, location
        self._group = _evaluations_group(file, location)
        self._n = len(get_element(self._group, "dataset", f"{location}:/evaluations/dataset"))
        self._loaded: EvaluationTable | None = None
        self.limits = 0, 0

    def __len__(self) -> int:
        return self._n

    def load(self) -> EvaluationTable:
        """Read the whole table.

        Raises:
            HistoryDamagedError: altered, or rows that point nowhere.
        """
        if self._loaded is None:
            with damage_errors(Path(self._location)):
                table: EvaluationTable = read_element(self._file, "evaluations", "evaluations", self._location)
            _refuse_faults(table_faults(table, *self.limits), self._location)
            self._loaded = table
        return self._loaded

    def origin_counts(self) -> dict[str, int]:
        """Count the rows by origin, reading only that column; raises as `load`."""
        if self._loaded is not None:
            return self._loaded.origin_counts()
        with damage_errors(Path(self._location)):
            if CELLS in self._file:
                return read_origin_counts(self._file, self._location)
            origin, names = read_element(self._group, "origin", "array", self._location), self._origins()
        if origin.shape != (self._n,) or origin.dtype != DTYPES["origin"] or not _in_range(origin, len(names)):
            _refuse_faults(["evaluations with an origin that is not there"], self._location)
        counts = np.bincount(origin, minlength=len(names)).tolist()
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def _origins(self) -> list[str]:
        names = read_element(self._group, "origins", "json", self._location)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            _refuse_faults(["origins that are no names"], self._location)
        return list(names)

    def cells(self, m: int, c: int) -> Cells:
        """Sum up the evaluations of each cell, or read the sums if the file has them; raises as `load`."""
        if self._loaded is not None:
            return self._loaded.cells(m, c)
        with damage_errors(Path(self._location)):
            if CELLS in self._file:
                return replace(read_cells(self._file, self._location, *self.limits), shape=(m, c))
            names = ("dataset", "config", "error", "status")
            dataset, config, error, status = (
                read_element(self._group, name, "array", self._location) for name in names
            )
        bounds = (
            (dataset, "dataset", self.limits[0]),
            (config, "config", self.limits[1]),
            (status, "status", len(STATUSES)),
        )
        faults = [
            f"evaluations with a {name} that is not there"
            for column, name, limit in bounds
            if column.shape != (self._n,) or column.dtype != DTYPES[name] or not _in_range(column, limit)
        ]
        if error.shape != (self._n,) or error.dtype != DTYPES["error"]:
            faults.append("errors of another number or kind")
        elif not faults:
            carries = _HAS_ERROR[status]
            with np.errstate(invalid="ignore"):
                if not np.where(carries, (error >= 0) & (error <= 1), np.isnan(error)).all():
                    faults.append("errors that do not fit their status")
        _refuse_faults(faults, self._location)
        return Cells.of((dataset, config, error, _HAS_ERROR[status]), m, c)


def _in_range(column: NDArray[Any], limit: int) -> bool:
    return not len(column) or (int(column.min()) >= 0 and int(column.max()) < limit)


def _refuse_faults(faults: Sequence[str], location: str) -> None:
    if faults:
        msg = (
            f"{location}: expected a history without contradictions, got: {'; '.join(faults)}. {restore_hint(location)}"
        )
        raise HistoryDamagedError(msg)


def _evaluations_group(file: h5py.File, location: str) -> h5py.Group:
    """Return the element that holds the columns; raises as `read`."""
    at = f"{location}:/evaluations"
    if "evaluations" not in file:
        msg = f"{at}: expected an element of type 'evaluations', got nothing. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    group = get_element(file, "evaluations", at)
    check_version(group, "evaluations", at)
    return group


def is_large(table: "EvaluationTable | StoredTable") -> bool:
    """Return whether a table is so large that it is read at its first use and stored with its sums."""
    return len(table) >= LAZY_ROWS


def read_evaluations(file: h5py.File, location: str, *, lazy: bool) -> "EvaluationTable | StoredTable":
    """Read the evaluations of a file; with `lazy`, a large table at its first use."""
    if lazy:
        table = StoredTable(file, location)
        if is_large(table):
            return table
    evaluations: EvaluationTable = read_element(file, "evaluations", "evaluations", location)
    return evaluations


def frozen_table(columns: dict[str, Any], origins: tuple[str, ...]) -> EvaluationTable:
    """Build a table of columns, cast to their types and read-only."""
    arrays = {name: np.ascontiguousarray(columns[name], dtype=np.dtype(DTYPES[name])) for name in DTYPES}
    for array in arrays.values():
        array.setflags(write=False)
    return EvaluationTable(**arrays, origins=origins)


def empty_table() -> EvaluationTable:
    """Return a table without rows."""
    return frozen_table({name: np.zeros(0) for name in DTYPES}, ())


def run_columns(evaluations: Sequence[Evaluation], datasets: Sequence[int], configs: Sequence[int]) -> Columns:
    """Return the columns of some evaluations that `Cells` needs."""
    return (
        np.asarray(datasets, np.int32),
        np.asarray(configs, np.int32),
        np.array([e.error for e in evaluations], np.float64),
        np.array([e.status.has_error for e in evaluations], np.bool_),
    )


def extended_table(
    table: EvaluationTable, evaluations: Sequence[Evaluation], datasets: Sequence[int], configs: Sequence[int]
) -> EvaluationTable:
    """Return a table with further rows.

    Args:
        table: not changed.
        evaluations: `k` records.
        datasets: `k` indices of their datasets.
        configs: `k` indices of their configurations.
    """
    if not evaluations:
        return table
    origins = {name: index for index, name in enumerate(table.origins)}
    origin = [origins.setdefault(e.origin, len(origins)) for e in evaluations]
    first = int(table.curve_end[-1]) if len(table) else 0
    lengths = np.fromiter((len(e.curve) for e in evaluations), np.int64, len(evaluations))
    points = [point for e in evaluations for point in e.curve]
    added: dict[str, Any] = {
        "dataset": datasets,
        "config": configs,
        "error": [e.error for e in evaluations],
        "status": [_CODES[e.status] for e in evaluations],
        "duration": [e.duration for e in evaluations],
        "seed": [-1 if e.seed is None else e.seed for e in evaluations],
        "origin": origin,
        "curve_end": first + np.cumsum(lengths),
        "curve_step": [step for step, _ in points],
        "curve_error": [error for _, error in points],
    }
    columns = {name: np.concatenate([getattr(table, name), np.asarray(added[name], DTYPES[name])]) for name in DTYPES}
    return frozen_table(columns, tuple(origins))


def write_table(parent: h5py.Group, key: str, table: EvaluationTable) -> None:
    """Write a table as one element with an array a column."""
    group = parent.create_group(key)
    mark_element(group, "evaluations")
    for name in DTYPES:
        write_array(group, name, getattr(table, name))
    write_json(group, "origins", list(table.origins))


@register_reader("evaluations", "1")
def read_table(group: h5py.Group, at: str) -> EvaluationTable:
    """Read a table and check lengths and types of its columns; `table_faults` checks the rest."""
    location = at.split(":/")[0]
    columns = {name: read_element(group, name, "array", location) for name in DTYPES}
    origins = tuple(read_element(group, "origins", "json", location))
    lengths = {len(columns[name]) for name in DTYPES if name not in ("curve_step", "curve_error")}
    points = {len(columns["curve_step"]), len(columns["curve_error"])}
    kinds = all(columns[name].ndim == 1 and columns[name].dtype == np.dtype(DTYPES[name]) for name in DTYPES)
    last = int(columns["curve_end"][-1]) if len(columns["curve_end"]) else 0
    if len(lengths) != 1 or points != {last} or not kinds:
        msg = f"{at}: expected columns of one length and of the types of the format, got lengths {sorted(lengths)} and {sorted(points)} curve points. {restore_hint(at)}"
        raise HistoryDamagedError(msg)
    return frozen_table(columns, origins)


def table_faults(table: EvaluationTable, m: int, c: int) -> list[str]:
    """Find rows that point nowhere or carry impossible values.

    Args:
        table: of any content.
        m: number of datasets.
        c: number of configurations.

    Returns: one line a kind of fault.
    """
    lengths = np.diff(table.curve_end, prepend=0)
    has_known_status = (table.status >= 0) & (table.status < len(STATUSES))
    carries = _HAS_ERROR[np.where(has_known_status, table.status, 0)]
    with np.errstate(invalid="ignore"):
        in_range = (table.error >= 0) & (table.error <= 1)
    faulty = {
        "point to no dataset": (table.dataset < 0) | (table.dataset >= m),
        "point to no configuration": (table.config < 0) | (table.config >= c),
        "point to no origin": (table.origin < 0) | (table.origin >= len(table.origins)),
        "have an unknown status": ~has_known_status,
        "have an error that does not fit their status": has_known_status
        & np.where(carries, ~in_range, ~np.isnan(table.error)),
        "have a negative duration": table.duration < 0,
        "have a seed below -1": table.seed < -1,
        "have a curve that ends before it starts": lengths < 0,
    }
    names = [] if all(isinstance(name, str) for name in table.origins) else ["origins that are no names"]
    return names + [f"{int(rows.sum())} evaluations {fault}" for fault, rows in faulty.items() if rows.any()]


assert {f.name for f in fields(EvaluationTable)} == {*DTYPES, "origins"}  # noqa: S101 - the format in two places
