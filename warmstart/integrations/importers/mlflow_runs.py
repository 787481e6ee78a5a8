"""Import experiments of MLflow from files (`mlruns`) or an SQLite database, without MLflow."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.limits import ordinary_file
from warmstart.integrations.importers.registry import Importer, Runs
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    is_maximised,
    is_new_folder,
    rising_curve,
    take_dataset,
    to_number,
)
from warmstart.studies.state.sqlite_file import is_sqlite

META = "meta.yaml"
LIKELY = ("val_accuracy", "val_acc", "test_accuracy", "accuracy", "val_error", "error")
_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_OPEN = ("RUNNING", "SCHEDULED")
_MAX_FOLDERS = 100
"""Folders to check for an MLflow store, which has a folder an experiment."""
_TABLES = {"experiments", "runs", "params", "metrics"}


@dataclass(slots=True)
class _Run:
    """One run of a store, by its identifier."""

    name: str
    status: str
    start: float
    end: float
    params: dict[str, Any] = field(default_factory=dict)
    points: list[tuple[float, float]] = field(default_factory=list)
    last: float = math.nan


def read_mlflow(source: str, *, study: str | None = None, metric: str | None = None) -> ForeignRuns:
    """Read the runs of one experiment; failed and killed ones count as crashed, running ones are left out.

    Args:
        source: `mlruns`, a folder with it, an SQLite file or `sqlite:///` URL.
        study: name or number of the experiment; may be left out if only one has runs.
        metric: name of the metric.

    Raises:
        UsageError: no experiment or metric of that name, or several to choose from.
        DataError: no run.
        StorageError: a database that cannot be read.
    """
    path = Path(source.removeprefix("sqlite:///"))
    if not path.exists():
        msg = f"{source}: expected a store of MLflow, got nothing there. Check the path."
        raise MissingPathError(msg)
    name, chosen, runs = (
        _read_files(_root(path), study, metric) if path.is_dir() else _read_database(path, study, metric)
    )
    left_out = Counter(run.status.lower() for run in runs if run.status in _OPEN)
    folder_runs = [_folder_run(run) for run in runs if run.status not in _OPEN]
    kind = f"MLflow experiment {name!r}, {chosen}"
    return as_foreign_runs(
        kind, folder_runs, maximised=is_maximised(chosen), left_out=left_out, former_origin=f"import/mlflow/{name}"
    )


def _folder_run(run: _Run) -> FolderRun:
    params = {name: _scalar(value) for name, value in run.params.items()}
    dataset = take_dataset(params)
    status = end_status(run.last, complete=run.status == "FINISHED", reported=bool(run.points))
    return FolderRun(
        params,
        run.last,
        status,
        rising_curve(run.points),
        (run.end - run.start) / 1000.0,
        f"import/mlflow/{run.name}",
        dataset,
    )


def _choose(experiments: Mapping[str, str], study: str | None, source: str) -> str:
    """Return the number of the chosen experiment, among those with runs."""
    by_name = {name: number for number, name in experiments.items()}
    if study in by_name or study in experiments:
        return by_name.get(str(study), str(study))
    if study is None and len(experiments) == 1:
        return next(iter(experiments))
    if not experiments:
        msg = f"{source}: expected a store of MLflow with runs, got none. Check the path."
        raise DataError(msg)
    msg = f"expected one of the experiments {', '.join(sorted(by_name))} of {source}, got {study or 'none'}. Name the one to import."
    raise UsageError(msg, param="study")


def _root(path: Path) -> Path:
    return path / "mlruns" if (path / "mlruns").is_dir() else path


def _read_files(root: Path, study: str | None, metric: str | None) -> tuple[str, str, list[_Run]]:
    if (root / META).is_file() and not (root / "params").is_dir():  # one experiment of a store
        root, study = root.parent, study or root.name
    if (root / "params").is_dir():  # one run
        experiment, folders = root.parent, [root]
    else:
        names = {subfolder.name: _meta(subfolder / META).get("name", subfolder.name) for subfolder in _folders(root) if (subfolder / META).is_file()}  # fmt: skip
        non_empty = {number: name for number, name in names.items() if any(_run_folders(root / number))}
        experiment = root / _choose(non_empty, study, str(root))
        folders = list(_run_folders(experiment))
    metas = [(folder, _meta(folder / META)) for folder in folders]
    active = [(folder, meta) for folder, meta in metas if meta.get("lifecycle_stage", "active") == "active"]
    metrics = sorted({name for folder, _ in active for name in _names(folder / "metrics")})
    chosen = choose_metric(metrics, metric, LIKELY, str(root))
    runs = [_file_run(folder, meta, chosen) for folder, meta in active]
    return str(_meta(experiment / META).get("name", experiment.name)), chosen, runs


def _folders(root: Path) -> list[Path]:
    with os.scandir(root) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.name[0] != "." and entry.is_dir())


def _run_folders(experiment: Path) -> Iterable[Path]:
    return (folder for folder in _folders(experiment) if (folder / META).is_file())


def _names(folder: Path) -> list[str]:
    """Return the names of a folder's files; in subfolders with slashes, as MLflow names them.

    A folder behind links is looked through once, since links may be circular.
    """
    names: list[str] = []
    open_folders, followed = [""], set[tuple[int, int]]()
    while open_folders:
        prefix = open_folders.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        names += [prefix + entry.name for entry in inside if _is_file(entry)]
        open_folders += [f"{prefix}{entry.name}/" for entry in inside if is_new_folder(entry, followed)]
    return names


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _meta(path: Path) -> dict[str, str]:
    """Read the flat lines of a `meta.yaml` without a YAML parser: there may be ten thousand such files."""
    try:
        lines = ordinary_file(path).read_bytes().decode("utf-8", "replace").splitlines()
    except OSError as error:
        msg = f"{path}: expected what MLflow says of a run, got {error.strerror or error}. Check its permissions."
        raise DataError(msg) from error
    pairs = (line.partition(": ") for line in lines if ": " in line and line[0] not in " #-")
    return {name: value.strip().strip("'\"") for name, _, value in pairs}


def _file_run(folder: Path, meta: Mapping[str, str], metric: str) -> _Run:
    status = meta.get("status", "3")
    run = _Run(
        folder.name, _STATUS.get(status, status), to_number(meta.get("start_time")), to_number(meta.get("end_time"))
    )
    for name in _names(folder / "params"):
        run.params[name] = ordinary_file(folder / "params" / name).read_bytes().decode("utf-8", "replace").strip()
    path = folder / "metrics" / metric
    if path.is_file():
        for line in ordinary_file(path).read_bytes().decode("utf-8", "replace").splitlines():
            parts = line.split()  # time, value, step
            if len(parts) >= 2:
                run.points.append((to_number(parts[2]) if len(parts) > 2 else len(run.points), to_number(parts[1])))
        run.last = sorted(run.points, key=lambda point: point[0])[-1][1] if run.points else math.nan
    return run


def _read_database(path: Path, study: str | None, metric: str | None) -> tuple[str, str, list[_Run]]:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as base:
            return _read_tables(base, str(path), study, metric)
    except sqlite3.Error as error:
        msg = f"{path}: expected a database of MLflow that answers, got: {error}. Check the file; `mlflow db upgrade` brings an old one up to date."
        raise StorageError(msg) from error


def _read_tables(
    base: sqlite3.Connection, source: str, study: str | None, metric: str | None
) -> tuple[str, str, list[_Run]]:
    active = "lifecycle_stage = 'active'"
    ids = {str(key): str(name) for key, name in base.execute(
        f"SELECT experiment_id, name FROM experiments WHERE experiment_id IN (SELECT experiment_id FROM runs WHERE {active})"  # noqa: S608  no value of a person
    )}  # fmt: skip
    number = _choose(ids, study, source)
    run_ids = f"SELECT run_uuid FROM runs WHERE experiment_id = ? AND {active}"  # noqa: S608
    runs: dict[str, _Run] = {
        key: _Run(str(key), str(status), to_number(start), to_number(end))
        for key, status, start, end in base.execute(
            f"SELECT run_uuid, status, start_time, end_time FROM runs WHERE experiment_id = ? AND {active} ORDER BY start_time, run_uuid",  # noqa: S608
            (number,),
        )
    }
    for key, name, value in base.execute(f"SELECT run_uuid, key, value FROM params WHERE run_uuid IN ({run_ids})", (number,)):  # noqa: S608  # fmt: skip
        runs[key].params[name] = value
    metrics = [name for (name,) in base.execute(f"SELECT DISTINCT key FROM metrics WHERE run_uuid IN ({run_ids})", (number,))]  # noqa: S608  # fmt: skip
    chosen = choose_metric(metrics, metric, LIKELY, source)
    points = base.execute(f"SELECT run_uuid, value, step, is_nan FROM metrics WHERE key = ? AND run_uuid IN ({run_ids}) ORDER BY step, timestamp", (chosen, number))  # noqa: S608  # fmt: skip
    for key, value, step, is_nan in points:
        reading = to_number(value)  # MLflow stores infinity as the largest number
        runs[key].last = math.nan if is_nan or abs(reading) >= sys.float_info.max else reading
        runs[key].points.append((to_number(step), runs[key].last))
    return ids[number], chosen, list(runs.values())


def _scalar(text: Any) -> Any:
    """Parse a parameter, which MLflow stores as text."""
    if text in ("None", "null", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    number = to_number(text)
    if not math.isfinite(number):
        return text
    return int(text) if str(text).lstrip("+-").isdigit() else number


def _matches(source: str) -> bool:
    if "://" in source and not source.startswith("sqlite:///"):
        return False
    path = Path(source.removeprefix("sqlite:///"))
    if path.is_dir():
        root = _root(path)
        if (root / META).is_file():
            return (root / "params").is_dir() or any(_run_folders(root))
        return any((folder / META).is_file() for folder in islice(_folders(root), _MAX_FOLDERS))
    return path.is_file() and _tables(path) >= _TABLES


def _tables(path: Path) -> set[str]:
    if not is_sqlite(path):
        return set()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as base:
            return {str(name) for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return set()


def _read(source: str, *, study: str | None, metric: str | None) -> Runs:
    return read_mlflow(source, study=study, metric=metric), ()


IMPORTER = Importer(_matches, _read)
