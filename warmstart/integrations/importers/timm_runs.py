"""Import run folders of timm's `train.py`: `args.yaml` with the settings, `summary.csv` with a line an epoch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
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

ARGS, SUMMARY = "args.yaml", "summary.csv"
LIKELY = ("eval_top1", "eval_loss")
_PERCENT = ("top1", "top5")
_BOOKKEEPING = frozenset(
    {
        *(
            "output",
            "experiment",
            "workers",
            "log_interval",
            "recovery_interval",
            "checkpoint_hist",
            "resume",
            "device",
        ),
        *("local_rank", "rank", "world_size", "start_epoch", "eval_metric", "log_wandb", "save_images", "pin_mem"),
        *("initial_checkpoint", "train_split", "val_split", "class_map", "dist_bn", "wandb_project", "epochs_total"),
    }
)


def read_timm(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read run folders; a run with fewer epochs than in its settings counts as crashed.

    Args:
        source: folder of one run or of many.
        metric: column of `summary.csv`; `eval_top1`, in per cent, when left out.

    Raises:
        UsageError: no such column.
        DataError: no run, or a file that cannot be read.
    """
    args_files = list(find_files(source, ARGS)) if source.is_dir() else [source]
    if not args_files:
        msg = f"{source}: expected run folders of timm with {ARGS}, got none. Give the folder that timm wrote its runs to."
        raise DataError(msg)
    tables = [read_rows(args_file.with_name(SUMMARY), "the summary of a run") for args_file in args_files]
    names = sorted({name for table in tables for name in (table[0] if table else ()) if name not in ("epoch", "lr")})
    chosen = choose_metric(names, metric, LIKELY, str(source))
    former = f"import/timm/{source.resolve().name if source.is_dir() else source.resolve().parent.name}"
    runs = [_run(args_file, table, chosen) for args_file, table in zip(args_files, tables, strict=True)]
    kind, is_percent = f"timm runs {source.resolve().name!r}, {chosen}", chosen.rpartition("_")[2] in _PERCENT
    return as_foreign_runs(
        kind,
        runs,
        maximised=is_maximised(chosen),
        bookkeeping=_BOOKKEEPING,
        are_fractions=is_percent,
        former_origin=former,
    )


def _run(args_file: Path, table: list[dict[str, str]], metric: str) -> FolderRun:
    params: dict[str, Any] = read_flat_yaml(args_file)
    if params.get("lr") is None and (rate := _derived_rate(params, table)) is not None:
        params["lr"] = rate
    scale = 0.01 if metric.rpartition("_")[2] in _PERCENT else 1.0
    points = [(to_number(row.get("epoch")), scale * to_number(row.get(metric))) for row in table]
    last = points[-1][1] if points else math.nan
    reported = any(row.get(metric) for row in table)
    origin = f"import/timm/{args_file.resolve().parent.name}"
    n_planned = to_number(params.get("epochs")) + max(to_number(params.get("cooldown_epochs") or 0), 0.0)
    n_epochs = points[-1][0] + 1 if points else 0.0
    # With epochs counted by updates (`--sched-on-updates`) or a cooldown that was turned off, `epochs` alone suffices.
    complete = math.isnan(n_planned) or n_epochs >= min(n_planned, to_number(params.get("epochs")))
    dataset = take_dataset(params)
    return FolderRun(
        params,
        last,
        end_status(last, complete=complete, reported=reported),
        rising_curve(points),
        origin=origin,
        dataset=dataset,
    )


def _derived_rate(params: dict[str, Any], table: list[dict[str, str]]) -> float | None:
    """Return the learning rate that timm derives from `lr_base` and the batch of all processes where `lr` is not set.

    The settings are written before it is, and the number of processes is not among them: where an epoch had a larger rate
    than a single process gives, it is not known.
    """
    base, size, batch = (to_number(params.get(name)) for name in ("lr_base", "lr_base_size", "batch_size"))
    steps = to_number(params.get("grad_accum_steps") or 1) * to_number(params.get("world_size") or 1)
    ratio = batch * steps / size if size > 0 else math.nan
    is_adaptive = any(part in str(params.get("opt", "")).lower() for part in ("ada", "lamb"))
    if (params.get("lr_base_scale") or ("sqrt" if is_adaptive else "linear")) == "sqrt" and ratio > 0:
        ratio = math.sqrt(ratio)
    rate = base * ratio
    used = max((epoch for row in table if math.isfinite(epoch := to_number(row.get("lr")))), default=0.0)
    return rate if math.isfinite(rate) and rate > 0 and used <= rate * 1.001 else None


IMPORTER = Importer(lambda source: has_files(source, ARGS), by_metric(read_timm), ("metric",))
