"""Sums over the evaluations of each cell (dataset, configuration); a large file stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.layout import read_element, restore_hint, write_array, write_json

CELLS = "cells"
Columns = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_]]
"""Columns of evaluations: dataset, configuration, error, and whether there is an error."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums over the evaluations of each cell.

    Attributes:
        total: `m x c` float64, the sum of the errors in the order in which they were appended.
        count: `m x c` whole numbers of evaluations that have an error.
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
        """Return the sums with further evaluations, over m datasets and c configurations; known ones come first."""
        dataset, config, error, carries = columns
        total, count, runs = (_enlarge(array, m, c, len(dataset)) for array in (self.total, self.count, self.runs))
        np.add.at(runs, (dataset, config), 1)
        dataset, config, error = dataset[carries], config[carries], error[carries]
        np.add.at(total, (dataset, config), error)
        np.add.at(count, (dataset, config), 1)
        return type(self)(total, count, runs)

    def outcomes(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return mean errors, NaN = no evaluation has one, and which cells have evaluations: `m x c` each."""
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN
            return self.total / self.count, self.runs > 0


def _enlarge(array: NDArray[Any], m: int, c: int, n_more: int) -> NDArray[Any]:
    """Copy an array of cells to a larger shape, filled with zeros, in a type that can count `n_more` further runs."""
    # Files store counts in as few bytes as possible; further runs may need more.
    kind = array.dtype
    if kind.kind != "f" and int(array.max(initial=0)) + n_more > np.iinfo(kind).max:
        kind = np.dtype(np.int64)
    if array.shape == (m, c):
        return array.astype(kind)
    enlarged = np.zeros((m, c), kind)
    enlarged[: array.shape[0], : array.shape[1]] = array
    return enlarged


def write_cells(file: h5py.File, cells: Cells, origins: Mapping[str, int]) -> None:
    """Write the sums, the counts in as few bytes as possible, and the number of evaluations of each origin."""
    group = file.create_group(CELLS)
    most = int(cells.runs.max(initial=0))
    kind = next(kind for kind in ("|u1", "<u2", "<u4", "<u8") if most <= np.iinfo(kind).max)
    write_array(group, "total", cells.total.astype("<f8", copy=False))
    write_array(group, "count", cells.count.astype(kind))
    write_array(group, "runs", cells.runs.astype(kind))
    write_json(group, "origins", dict(origins))


def read_cells(file: h5py.File, location: str, m: int, c: int) -> Cells:
    """Read the sums of m datasets and c configurations.

    Raises:
        HistoryDamagedError: altered, of another size, or impossible sums.
    """
    group = file[CELLS]
    total, count, runs = (read_element(group, name, "array", location) for name in ("total", "count", "runs"))
    are_numbers = total.dtype == np.float64 and count.dtype.kind == runs.dtype.kind == "u"
    if not are_numbers or not total.shape == count.shape == runs.shape == (m, c):
        _refuse_sums(
            location, f"{total.dtype} of {total.shape}, {count.dtype} of {count.shape} and {runs.dtype} of {runs.shape}"
        )
    if not ((total >= 0) & (total <= count) & (count <= runs)).all():
        _refuse_sums(location, "sums that no evaluations have")
    return Cells(total, count, runs)


def read_origin_counts(file: h5py.File, location: str) -> dict[str, int]:
    """Read the number of evaluations of each origin.

    Raises:
        HistoryDamagedError: altered, or no counts.
    """
    counts = read_element(file[CELLS], "origins", "json", location)
    if not isinstance(counts, dict) or not all(type(count) is int and count > 0 for count in counts.values()):
        _refuse_sums(location, "origins without counts")
    return dict(counts)


def check_cells(file: h5py.File, location: str, expected: Cells, origins: Mapping[str, int]) -> None:
    """Check that the sums of a file are those of its evaluations.

    Raises:
        HistoryDamagedError: they are not.
    """
    stored = read_cells(file, location, *expected.total.shape)
    pairs = ((stored.total, expected.total), (stored.count, expected.count), (stored.runs, expected.runs))
    if read_origin_counts(file, location) != origins or not all(np.array_equal(mine, its) for mine, its in pairs):
        _refuse_sums(location, "other sums than those of its evaluations")


def _refuse_sums(location: str, got: str) -> None:
    msg = f"{location}:/{CELLS}: expected the sums of the evaluations of each cell, got {got}. {restore_hint(location)}"
    raise HistoryDamagedError(msg)
