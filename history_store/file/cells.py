"""Sums over the evaluations of each cell, dataset times configuration, which a large file keeps beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.layout import hint, read, write_array, write_json

CELLS = "cells"
Columns = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_]]
"""Dataset, configuration and error of evaluations, and which of them carry an error."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What is known of each cell.

    Attributes:
        total: `m x c` float64, the sum of the errors in the order in which they were appended.
        count: `m x c` whole numbers of evaluations that carry an error.
        runs: `m x c` whole numbers of all evaluations.
    """

    total: NDArray[np.float64]
    count: NDArray[Any]
    runs: NDArray[Any]

    @classmethod
    def of(cls, columns: Columns, m: int, c: int) -> Self:
        """Sum up the evaluations of m datasets and c configurations."""
        dataset, config, error, carries = columns
        cell = dataset.astype(np.int64) * c + config
        runs = count = np.bincount(cell, minlength=m * c)
        if not carries.all():
            cell, error = cell[carries], error[carries]
            count = np.bincount(cell, minlength=m * c)
        total = np.bincount(cell, weights=error, minlength=m * c).astype(np.float64, copy=False)
        return cls(total.reshape(m, c), count.reshape(m, c), runs.reshape(m, c))

    def plus(self, columns: Columns, m: int, c: int) -> Self:
        """Add later evaluations, of m datasets and c configurations of which the first are those here."""
        dataset, config, error, carries = columns
        total, count, runs = (_enlarged(array, m, c, len(dataset)) for array in (self.total, self.count, self.runs))
        np.add.at(runs, (dataset, config), 1)
        dataset, config, error = dataset[carries], config[carries], error[carries]
        np.add.at(total, (dataset, config), error)
        np.add.at(count, (dataset, config), 1)
        return type(self)(total, count, runs)

    def outcomes(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return mean errors, NaN where no evaluation carries one, and which cells have evaluations: `m x c` each."""
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN
            return self.total / self.count, self.runs > 0


def _enlarged(array: NDArray[Any], m: int, c: int, later: int) -> NDArray[Any]:
    """Copy an array of cells, with zeros for further datasets and configurations, and room to count so many more."""
    kind = array.dtype
    if kind.kind != "f" and int(array.max(initial=0)) + later > np.iinfo(kind).max:
        kind = np.dtype(np.int64)
    if array.shape == (m, c):
        return array.astype(kind)
    found = np.zeros((m, c), kind)
    found[: array.shape[0], : array.shape[1]] = array
    return found


def write_cells(file: h5py.File, cells: Cells, origins: Mapping[str, int]) -> None:
    """Write the sums, counts in as few bytes as they need, and the number of evaluations of each origin."""
    group = file.create_group(CELLS)
    most = int(cells.runs.max(initial=0))
    kind = next(kind for kind in ("|u1", "<u2", "<u4", "<u8") if most <= np.iinfo(kind).max)
    write_array(group, "total", cells.total.astype("<f8", copy=False))
    write_array(group, "count", cells.count.astype(kind))
    write_array(group, "runs", cells.runs.astype(kind))
    write_json(group, "origins", dict(origins))


def read_cells(file: h5py.File, where: str, m: int, c: int) -> Cells:
    """Read the sums of m datasets and c configurations.

    Raises:
        HistoryDamagedError: altered, of another size, or sums that no evaluations have.
    """
    group = file[CELLS]
    total, count, runs = (read(group, name, "array", where) for name in ("total", "count", "runs"))
    are_numbers = total.dtype == np.float64 and count.dtype.kind == runs.dtype.kind == "u"
    if not are_numbers or not total.shape == count.shape == runs.shape == (m, c):
        _refuse(
            where, f"{total.dtype} of {total.shape}, {count.dtype} of {count.shape} and {runs.dtype} of {runs.shape}"
        )
    if not ((total >= 0) & (total <= count) & (count <= runs)).all():
        _refuse(where, "sums that no evaluations have")
    return Cells(total, count, runs)


def read_origin_counts(file: h5py.File, where: str) -> dict[str, int]:
    """Read the number of evaluations of each origin.

    Raises:
        HistoryDamagedError: altered, or no counts.
    """
    counts = read(file[CELLS], "origins", "json", where)
    if not isinstance(counts, dict) or not all(type(count) is int and count > 0 for count in counts.values()):
        _refuse(where, "origins without counts")
    return dict(counts)


def check_cells(file: h5py.File, where: str, expected: Cells, origins: Mapping[str, int]) -> None:
    """Check that the sums of a file are those of its evaluations.

    Raises:
        HistoryDamagedError: they are not.
    """
    found = read_cells(file, where, *expected.total.shape)
    pairs = ((found.total, expected.total), (found.count, expected.count), (found.runs, expected.runs))
    if read_origin_counts(file, where) != origins or not all(np.array_equal(mine, its) for mine, its in pairs):
        _refuse(where, "other sums than those of its evaluations")


def _refuse(where: str, got: str) -> None:
    msg = f"{where}:/{CELLS}: expected the sums of the evaluations of each cell, got {got}. {hint(where)}"
    raise HistoryDamagedError(msg)
