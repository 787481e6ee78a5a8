"""Import logs of Lightning's `CSVLogger`: `metrics.csv` beside `hparams.yaml`, a folder a version."""

from __future__ import annotations

import math
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.integrations.importers import tensorboard_logs
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    has_files,
    is_maximised,
    read_flat_yaml,
    read_rows,
    rising_curve,
    take_dataset,
    to_number,
)

METRICS, HPARAMS = "metrics.csv", "hparams.yaml"
LIKELY = ("val_acc", "val_accuracy", "val/acc", "val/accuracy", "val_error", "val/error", "valid_acc", "val_loss", "val/loss")  # fmt: skip
_EPOCHS = ("max_epochs", "epochs", "trainer/max_epochs")


def read_lightning(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read the versions of a log folder; those with fewer epochs than `max_epochs` are crashed.

    Args:
        source: `lightning_logs`, one of its versions, or a folder above.
        metric: column of `metrics.csv`; `val_acc` and its spellings when left out.

    Raises:
        UsageError: no such column.
        DataError: no run, or a file that cannot be read.
    """
    files = find_files(source, METRICS, HPARAMS) if source.is_dir() else iter([source])
    folders = list(dict.fromkeys(path.parent for path in files))
    if not folders:
        msg = f"{source}: expected {METRICS} beside {HPARAMS}, got none. Give the folder of CSVLogger."
        raise DataError(msg)
    tables = [read_rows(folder / METRICS, "metrics of Lightning") for folder in folders]
    names = sorted({name for table in tables for name in (table[0] if table else ()) if name not in ("epoch", "step")})
    chosen = choose_metric(names, metric, LIKELY, str(source))
    former = f"import/lightning/{(source if source.is_dir() else source.parent).resolve().name}"
    runs = [_run(folder, table, chosen) for folder, table in zip(folders, tables, strict=True)]
    kind = f"Lightning logs {source.resolve().name!r}, {chosen}"
    return as_foreign_runs(kind, runs, maximised=is_maximised(chosen), former_origin=former)


def _run(folder: Path, table: list[dict[str, str]], metric: str) -> FolderRun:
    params = read_flat_yaml(folder / HPARAMS) if (folder / HPARAMS).is_file() else {}
    points = [
        (to_number(row.get("step") or row.get("epoch")), to_number(row[metric])) for row in table if row.get(metric)
    ]
    last = points[-1][1] if points else math.nan
    max_epochs = next((to_number(params[name]) for name in _EPOCHS if name in params), math.nan)
    epochs = [to_number(row.get("epoch")) for row in table if row.get("epoch")]
    # Epochs count from 0.
    complete = bool(epochs) and max(epochs) + 1 >= max_epochs if max_epochs > 0 else bool(table)
    params = {name: value for name, value in params.items() if name not in _EPOCHS or math.isfinite(max_epochs)}
    dataset = take_dataset(params)
    origin = f"import/lightning/{folder.resolve().name}"
    return FolderRun(
        params,
        last,
        end_status(last, complete=complete, reported=bool(points)),
        rising_curve(points),
        origin=origin,
        dataset=dataset,
    )


def _matches(source: str) -> bool:
    path = Path(source)
    if path.is_file():
        return path.name == METRICS and (path.parent / HPARAMS).is_file()
    # TensorBoardLogger writes the same settings, and events for the metrics.
    return has_files(source, HPARAMS) and (has_files(source, METRICS) or not tensorboard_logs.is_log(source))


IMPORTER = Importer(_matches, by_metric(read_lightning), ("metric",))
