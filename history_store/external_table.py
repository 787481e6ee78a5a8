"""CSV and Parquet files of any space as runs: a column a hyperparameter, and the run columns of `exchange`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.exchange import OWN_COLUMNS, Rows, is_empty, read_rows, run_cell, run_curve
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.file.codec import decode_info
from warmstart.history_store.mapping import describe_space
from warmstart.history_store.records import DatasetInfo, Status
from warmstart.history_store.space import load_space
from warmstart.history_store.tracker_table import is_tracked, metric_column, translate_tracker_table

PREFIXES = ("config.", "config/", "params_", "params.")
"""Prefixes of a hyperparameter's name in data frames of warmstart, Ray Tune, Optuna and MLflow."""
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""A number and nothing else: `007` and `1_1` are names."""
_NUMBER_OR_NONE = re.compile(rf"{_NUMBER.pattern}|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
"""A number, or a word that counts as one among numbers; alone such a word is a name."""


def read_table(path: str | Path, *, metric: str | None = None) -> tuple[ForeignRuns, tuple[DatasetInfo, ...]]:
    """Read a table of runs: columns `error` or `status`, perhaps `dataset`, `duration`, `seed`, `origin`, `curve`.

    Every other column is a hyperparameter. A cell that is empty is a value that was not set.

    Args:
        path: ends in `.csv` or `.parquet`.
        metric: name of the column with the objective value; `error` when left out.

    Returns: the runs, and the datasets that the file describes where `export_history` wrote it.

    Raises:
        MissingPathError: nothing there.
        UsageError: another ending, or no column of the name `metric`.
        DataError: a cell is not what it should be; the message names the row.
    """
    path = Path(path)
    metadata, rows = read_rows(path)
    columns, left_out, numbers_of = rows.columns, dict[str, int](), list(range(len(rows)))
    if is_tracked(columns):
        metric = metric_column(columns, metric)
        # Otherwise the missing column is reported below.
        if (metric or "error") in columns:
            columns, left_out, numbers_of = translate_tracker_table(columns, metric or "error")
            rows = replace(rows, columns=columns)
    locations = [f"{path} {rows.word} {rows.numbers[row]}" for row in numbers_of]
    _check_metric(path, columns, metric)
    error = metric or "error"
    if error not in columns and "status" not in columns:
        msg = f"{path}: expected a column 'error' or 'status', got the columns {', '.join(columns)}. Add one of them, or name the column with `metric`."
        raise DataError(msg)
    run_columns = OWN_COLUMNS | {error}
    params = _parameters(path, {name: cells for name, cells in columns.items() if name not in run_columns})
    values = _run_column(rows, locations, error, "error")
    numbers = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    status = [
        _status(name, value, row_location)
        for row_location, name, value in zip(
            locations, _run_column(rows, locations, "status"), numbers.tolist(), strict=True
        )
    ]
    numbers[[not item.has_error for item in status]] = np.nan
    durations = _run_column(rows, locations, "duration")
    runs = ForeignRuns(
        kind=str(path),
        params=params,
        values=numbers,
        status=status,
        datasets=[None if is_empty(name) else str(name) for name in columns.get("dataset", [None] * len(rows))],
        durations=np.array([math.nan if item is None else item for item in durations], dtype=np.float64),
        seeds=_run_column(rows, locations, "seed"),
        origins=[item or f"import/{path.name}" for item in _run_column(rows, locations, "origin")],
        curves=[tuple(run_curve(columns, row, row_location)) for row, row_location in enumerate(locations)],
        left_out=left_out,
        are_fractions=error in rows.percentages,
        space=describe_space(load_space(metadata["space"], str(path))) if metadata and "space" in metadata else {},
    )
    return runs, _describe_datasets(metadata, columns, path)


def _check_metric(path: Path, columns: Mapping[str, Sequence[Any]], metric: str | None) -> None:
    if metric is not None and metric not in columns:
        msg = f"expected a column of {path} ({', '.join(columns)}), got {metric!r}. Correct it."
        raise UsageError(msg, param="metric")


def _parameters(path: Path, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Read the columns of hyperparameters by their names without prefixes.

    Raises:
        DataError: two columns are of one hyperparameter.
    """
    column_by_name: dict[str, str] = {}
    for name in columns:
        if (same := column_by_name.setdefault(_without_prefix(name), name)) != name:
            msg = f"{path}: expected one column of {_without_prefix(name)!r}, got {same!r} and {name!r}. Remove one of them."
            raise DataError(msg)
    return {plain: _column_values(columns[name]) for plain, name in column_by_name.items()}


def _without_prefix(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix) and name != prefix), name)


def _column_values(cells: Sequence[Any]) -> list[Any]:
    """Return the values of a column: None = empty, numbers if all are numbers."""
    values = [None if is_empty(cell) else cell for cell in cells]
    texts = [value.strip() for value in values if isinstance(value, str)]
    is_numeric = any(map(_NUMBER.fullmatch, texts)) and all(map(_NUMBER_OR_NONE.fullmatch, texts))
    return [_number(value) if isinstance(value, str) else value for value in values] if is_numeric else values


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _run_column(rows: Rows, locations: Sequence[str], name: str, kind: str | None = None) -> list[Any]:
    """Parse a column of runs; all None if there is none."""
    if name not in rows.columns:
        return [None] * len(rows)
    return [
        run_cell(cell, kind or name, row_location)
        for cell, row_location in zip(rows.columns[name], locations, strict=True)
    ]


def _status(name: str | None, value: float, location: str) -> Status:
    try:
        status = Status.OK if name is None else Status(name)
    except ValueError as error:
        msg = f"{location}: expected a status among {', '.join(Status)}, got {name!r}. Correct it."
        raise DataError(msg) from error
    if status.has_error and math.isnan(value):
        msg = f"{location}: expected an error for status {status.value!r}, got none. Record a run without one under its status: crashed, timeout or oom."
        raise DataError(msg)
    return status


def _describe_datasets(
    metadata: Mapping[str, Any] | None, columns: Mapping[str, Sequence[Any]], path: Path
) -> tuple[DatasetInfo, ...]:
    """Describe datasets, as the file does or by the columns `dataset` and `group`."""
    listed = {
        info.name: info for info in (decode_info(fields, str(path)) for fields in (metadata or {}).get("datasets", ()))
    }
    pairs = zip(columns.get("dataset", ()), columns.get("group", ()), strict=False)
    for name, group in dict.fromkeys((name, group) for name, group in pairs if name and group):
        blank = DatasetInfo(str(name), str(group), n_train=0, n_val=0, n_test=0, n_classes=0, source=f"import of {path.name}")  # fmt: skip
        listed.setdefault(str(name), blank)
    return tuple(listed.values())


def space_of(path: str | Path) -> dict[str, Any] | None:
    """Return the space of a file that `export_history` wrote as JSON values; None for other files."""
    metadata, _ = read_rows(Path(path))
    return None if metadata is None or "space" not in metadata else dict(json.loads(metadata["space"]))
