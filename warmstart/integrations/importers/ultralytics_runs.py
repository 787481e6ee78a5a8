"""Import runs of Ultralytics: `args.yaml` with the settings beside `results.csv` with a line an epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.limits import first_bytes
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    is_maximised,
    read_flat_yaml,
    read_rows,
    rising_curve,
    take_dataset,
    to_number,
)

ARGS, RESULTS = "args.yaml", "results.csv"
LIKELY = ("metrics/accuracy_top1", "metrics/mAP50-95(M)", "metrics/mAP50-95(P)", "metrics/mAP50-95(B)")
_FITNESS = (
    ("metrics/accuracy_top1", 0.5),
    ("metrics/accuracy_top5", 0.5),
    ("metrics/mAP50(B)", 0.1),
    ("metrics/mAP50-95(B)", 0.9),
)
"""Weights of what tells Ultralytics that a run no longer gets better."""
_HEAD = re.compile(rb"^(task|mode):", re.MULTILINE)
_BOOKKEEPING = frozenset(
    {
        *("task", "mode", "device", "workers", "project", "name", "exist_ok", "verbose", "deterministic", "resume"),
        *("save", "save_period", "save_dir", "save_json", "save_txt", "save_conf", "save_crop", "save_frames", "cache"),
        *("plots", "profile", "val", "split", "source", "tracker", "cfg", "format", "visualize", "embed", "time"),
        *("conf", "iou", "max_det", "vid_stride", "line_width", "opset", "workspace", "patience"),
    }
)


def read_ultralytics(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read run folders; a run with fewer epochs that neither lost patience nor ran out of time counts as crashed.

    Args:
        source: folder of one run or of many.
        metric: column of `results.csv`; `metrics/accuracy_top1` when left out.

    Raises:
        UsageError: no such column.
        DataError: no run, or a file that cannot be read.
    """
    args_files = list(find_files(source, ARGS)) if source.is_dir() else [source]
    if not args_files:
        msg = f"{source}: expected run folders of Ultralytics with {ARGS}, got none. Give the folder `runs`."
        raise DataError(msg)
    tables = [_rows(args_file.with_name(RESULTS)) for args_file in args_files]
    names = sorted(
        {name for table in tables for name in (table[0] if table else ()) if name.startswith(("metrics/", "val/"))}
    )
    chosen = choose_metric(names, metric, LIKELY, str(source))
    runs = [_run(args_file, table, chosen) for args_file, table in zip(args_files, tables, strict=True)]
    kind = f"Ultralytics runs {source.resolve().name!r}, {chosen}"
    return as_foreign_runs(kind, runs, maximised=is_maximised(chosen), bookkeeping=_BOOKKEEPING)


def _rows(path: Path) -> list[dict[str, str]]:
    """Read the epochs; older releases pad the names of columns with spaces."""
    return [{name.strip(): cell.strip() for name, cell in row.items()} for row in read_rows(path, "epochs of a run")]


def _run(args_file: Path, table: Sequence[dict[str, str]], metric: str) -> FolderRun:
    params: dict[str, Any] = read_flat_yaml(args_file)
    points = [(to_number(row.get("epoch")), to_number(row.get(metric))) for row in table]
    last = points[-1][1] if points else math.nan
    status = end_status(last, complete=_is_complete(params, table), reported=any(row.get(metric) for row in table))
    seconds = to_number(table[-1].get("time")) if table else math.nan
    if params.get("optimizer") == "auto":  # then it takes others than these, and does not write them down
        params |= {"optimizer": None, "lr0": None, "momentum": None}
    if isinstance(params.get("data"), str):
        params["data"] = re.sub(r"\.ya?ml$", "", params["data"])
    dataset, origin = take_dataset(params), f"import/ultralytics/{args_file.resolve().parent.name}"
    return FolderRun(params, last, status, rising_curve(points), seconds, origin, dataset)


def _is_complete(params: dict[str, Any], table: Sequence[dict[str, str]]) -> bool:
    """Tell whether a run had all its epochs, its time, or no better epoch for as many as its patience."""
    if not table:
        return False
    n_planned, patience = to_number(params.get("epochs")), to_number(params.get("patience"))
    limit_s, spent_s = 3600 * to_number(params.get("time")), to_number(table[-1].get("time"))
    fitness = [sum(w * to_number(row[name]) for name, w in _FITNESS if name in row) for row in table]
    since_best = len(fitness) - 1 - max(range(len(fitness)), key=lambda i: (fitness[i], i))
    is_out_of_time = limit_s > 0 and spent_s >= limit_s * (1 - 1 / len(table))  # the last epoch may end before it
    return not len(table) < n_planned or (patience > 0 and since_best >= patience) or is_out_of_time


def _matches(source: str) -> bool:
    """Tell by its first `args.yaml`, which timm has too, whether a source is of Ultralytics."""
    path = Path(source)
    first = next(find_files(path, ARGS), None) if path.is_dir() else path if path.name == ARGS else None
    if first is None or not first.is_file():
        return False
    return first.with_name(RESULTS).is_file() or len(set(_HEAD.findall(first_bytes(first, 4096)))) == 2


IMPORTER = Importer(_matches, by_metric(read_ultralytics), ("metric",))
