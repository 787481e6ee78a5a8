"""Sums over the evaluations of each cell (dataset, configuration); a large file stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.blocks import Matrix, open_rows, write_rows
from warmstart.history_store.file.layout import read_element, restore_hint, write_json

CELLS = "cells"
Floats = NDArray[np.float64]
Columns = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_]]
"""Columns of evaluations: dataset, configuration, error, and whether there is an error."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums over the evaluations of each cell, of `m` datasets and `c` configurations.

    Attributes:
        total: float64, the sum of the errors in the order in which they were appended.
        count: whole numbers of evaluations that have an error.
        runs: whole numbers of all evaluations. The three may have fewer rows and columns: of the others there is none.
        shape: `m` and `c`.
        later: the `3 x c` sums of rows that have changed since.
        location: of the file that stores the sums, for errors.
    """

    total: Matrix
    count: Matrix
    runs: Matrix
    shape: tuple[int, int]
    later: Mapping[int, Floats] = field(default_factory=dict)
    location: str = ""

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
        return cls(total.reshape(m, c), count.reshape(m, c), runs.reshape(m, c), (m, c))

    def plus(self, columns: Columns, m: int, c: int) -> Self:
        """Return the sums with further evaluations, over m datasets and c configurations; known ones come first."""
        dataset, config, error, carries = columns
        grown = replace(self, shape=(m, c))
        rows, at = np.unique(dataset.astype(np.int64), return_inverse=True)
        total, count, runs = (part.astype(np.float64) for part in grown.at(rows))
        np.add.at(runs, (at, config), 1)
        np.add.at(total, (at[carries], config[carries]), error[carries])
        np.add.at(count, (at[carries], config[carries]), 1)
        changed = dict(zip(rows.tolist(), np.stack([total, count, runs], axis=1), strict=True))
        return replace(grown, later={**self.later, **changed})

    def at(self, rows: NDArray[np.int64] | None = None) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the sums of `n` rows, of all by default: `n x c` each.

        Raises:
            HistoryDamagedError: sums of a file that no evaluations have.
        """
        (known_m, known_c), (m, c) = self.total.shape, self.shape
        is_known = (known_m, known_c) == (m, c) and not self.later
        if is_known:
            parts = [np.asarray(part) if rows is None else part[rows] for part in (self.total, self.count, self.runs)]
        else:
            rows = np.arange(m) if rows is None else rows
            inside = np.flatnonzero(rows < known_m)
            parts = [np.zeros((len(rows), c)) for _ in range(3)]
            for part, stored in zip(parts, (self.total, self.count, self.runs), strict=True):
                part[inside, :known_c] = stored[rows[inside]]
            for index in np.flatnonzero(np.isin(rows, list(self.later))).tolist():
                for part, sums in zip(parts, self.later[int(rows[index])], strict=True):
                    part[index, : len(sums)] = sums
        total, count, runs = parts
        if self.location and not ((total >= 0) & (total <= count) & (count <= runs)).all():
            _refuse_sums(self.location, "sums that no evaluations have")
        return total, count, runs

    def outcomes(self, rows: NDArray[np.int64] | None = None) -> tuple[Floats, NDArray[np.bool_]]:
        """Return mean errors, NaN = no evaluation has one, and which cells have evaluations: `n x c` each, as `at`."""
        total, count, runs = self.at(rows)
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN
            return total / count, runs > 0

    def n_runs(self) -> NDArray[np.int64]:
        """Count the evaluations of each dataset, `m`."""
        n_runs = np.zeros(self.shape[0], np.int64)
        n_runs[: len(self.runs)] = np.asarray(self.runs).sum(axis=1, dtype=np.int64)
        for row, (_, _, runs) in self.later.items():
            n_runs[row] = runs.sum()
        return n_runs


def write_cells(file: h5py.File, cells: Cells, origins: Mapping[str, int]) -> None:
    """Write the sums, the counts in as few bytes as possible, and the number of evaluations of each origin."""
    group = file.create_group(CELLS)
    total, count, runs = cells.at()
    most = int(runs.max(initial=0))
    kind = next(kind for kind in ("|u1", "<u2", "<u4", "<u8") if most <= np.iinfo(kind).max)
    write_rows(group, "total", total.astype("<f8", copy=False))
    write_rows(group, "count", count.astype(kind))
    write_rows(group, "runs", runs.astype(kind))
    write_json(group, "origins", dict(origins))


def read_cells(file: h5py.File, location: str, m: int, c: int) -> Cells:
    """Read the sums of m datasets and c configurations, those of a large file at their first use.

    Raises:
        HistoryDamagedError: altered, or of another size.
    """
    total, count, runs = (open_rows(file[CELLS], name, location) for name in ("total", "count", "runs"))
    are_numbers = total.dtype == np.float64 and count.dtype.kind == runs.dtype.kind == "u"
    if not are_numbers or not total.shape == count.shape == runs.shape == (m, c):
        _refuse_sums(
            location, f"{total.dtype} of {total.shape}, {count.dtype} of {count.shape} and {runs.dtype} of {runs.shape}"
        )
    return Cells(total, count, runs, (m, c), location=location)


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
    pairs = zip(read_cells(file, location, *expected.shape).at(), expected.at(), strict=True)
    if read_origin_counts(file, location) != origins or not all(np.array_equal(mine, its) for mine, its in pairs):
        _refuse_sums(location, "other sums than those of its evaluations")


def _refuse_sums(location: str, got: str) -> None:
    msg = f"{location}:/{CELLS}: expected the sums of the evaluations of each cell, got {got}. {restore_hint(location)}"
    raise HistoryDamagedError(msg)
