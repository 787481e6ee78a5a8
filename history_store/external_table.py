"""CSV and Parquet files of any space as runs: a column a hyperparameter, and the columns of `warmstart.history_store.exchange`."""

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
from warmstart.history_store.tracker_table import is_tracked, metric_column, untracked

PREFIXES = ("config.", "config/", "params_", "params.")
"""What data frames of warmstart, Ray Tune, Optuna and MLflow put before the name of a hyperparameter."""
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""What is a number and nothing else: `007` and `1_1` are names."""
_NUMBER_OR_NONE = re.compile(rf"{_NUMBER.pattern}|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
"""What may stand among numbers; alone it is a name."""


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
    about, rows = read_rows(path)
    columns, left_out, numbers_of = rows.columns, dict[str, int](), list(range(len(rows)))
    if is_tracked(columns):
        metric = metric_column(columns, metric)
        if (metric or "error") in columns:  # else what is missing is told below
            columns, left_out, numbers_of = untracked(columns, metric or "error")
            rows = replace(rows, columns=columns)
    where = [f"{path} {rows.word} {rows.first + row}" for row in numbers_of]
    _check_metric(path, columns, metric)
    error = metric or "error"
    if error not in columns and "status" not in columns:
        msg = f"{path}: expected a column 'error' or 'status', got the columns {', '.join(columns)}. Add one of them, or name the column with `metric`."
        raise DataError(msg)
    own = OWN_COLUMNS | {error}
    params = _parameters(path, {name: cells for name, cells in columns.items() if name not in own})
    values = _column(rows, where, error, "error")
    numbers = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    status = [
        _status(name, value, place)
        for place, name, value in zip(where, _column(rows, where, "status"), numbers.tolist(), strict=True)
    ]
    numbers[[not each.has_error for each in status]] = np.nan
    durations = _column(rows, where, "duration")
    runs = ForeignRuns(
        kind=str(path),
        params=params,
        values=numbers,
        status=status,
        datasets=[None if is_empty(name) else str(name) for name in columns.get("dataset", [None] * len(rows))],
        durations=np.array([math.nan if each is None else each for each in durations], dtype=np.float64),
        seeds=_column(rows, where, "seed"),
        origins=[each or f"import/{path.name}" for each in _column(rows, where, "origin")],
        curves=[tuple(run_curve(columns, row, place)) for row, place in enumerate(where)],
        left_out=left_out,
        space=describe_space(load_space(about["space"], str(path))) if about and "space" in about else {},
    )
    return runs, _described(about, columns, path)


def _check_metric(path: Path, columns: Mapping[str, Sequence[Any]], metric: str | None) -> None:
    if metric is not None and metric not in columns:
        msg = f"expected a column of {path} ({', '.join(columns)}), got {metric!r}. Correct it."
        raise UsageError(msg, param="metric")


def _parameters(path: Path, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Read the columns of hyperparameters, by their names without prefixes.

    Raises:
        DataError: two columns are of one hyperparameter.
    """
    found: dict[str, str] = {}
    for name in columns:
        if (same := found.setdefault(_plain(name), name)) != name:
            msg = f"{path}: expected one column of {_plain(name)!r}, got {same!r} and {name!r}. Remove one of them."
            raise DataError(msg)
    return {plain: _cells(columns[name]) for plain, name in found.items()}


def _plain(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix) and name != prefix), name)


def _cells(cells: Sequence[Any]) -> list[Any]:
    """Return the values of a column: None where empty, numbers where all are numbers."""
    values = [None if is_empty(cell) else cell for cell in cells]
    texts = [value.strip() for value in values if isinstance(value, str)]
    is_numeric = any(map(_NUMBER.fullmatch, texts)) and all(map(_NUMBER_OR_NONE.fullmatch, texts))
    return [_number(value) if isinstance(value, str) else value for value in values] if is_numeric else values


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _column(rows: Rows, where: Sequence[str], name: str, kind: str | None = None) -> list[Any]:
    """Read a column of runs, each in its place; all None where there is none."""
    if name not in rows.columns:
        return [None] * len(rows)
    return [run_cell(cell, kind or name, place) for cell, place in zip(rows.columns[name], where, strict=True)]


def _status(name: str | None, value: float, where: str) -> Status:
    try:
        status = Status.OK if name is None else Status(name)
    except ValueError as error:
        msg = f"{where}: expected a status among {', '.join(Status)}, got {name!r}. Correct it."
        raise DataError(msg) from error
    if status.has_error and math.isnan(value):
        msg = f"{where}: expected an error for status {status.value!r}, got none. Record a run without one under its status: crashed, timeout or oom."
        raise DataError(msg)
    return status


def _described(
    about: Mapping[str, Any] | None, columns: Mapping[str, Sequence[Any]], path: Path
) -> tuple[DatasetInfo, ...]:
    """Describe datasets: as the file does, else by the columns `dataset` and `group`."""
    listed = {info.name: info for info in (decode_info(each, str(path)) for each in (about or {}).get("datasets", ()))}
    pairs = zip(columns.get("dataset", ()), columns.get("group", ()), strict=False)
    for name, group in dict.fromkeys((name, group) for name, group in pairs if name and group):
        blank = DatasetInfo(str(name), str(group), n_train=0, n_val=0, n_test=0, n_classes=0, source=f"import of {path.name}")  # fmt: skip
        listed.setdefault(str(name), blank)
    return tuple(listed.values())


def space_of(path: str | Path) -> dict[str, Any] | None:
    """Return the space of a file that `export_history` wrote, as JSON values; None for any other."""
    about, _ = read_rows(Path(path))
    return None if about is None or "space" not in about else dict(json.loads(about["space"]))
