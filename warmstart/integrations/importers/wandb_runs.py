"""Import runs of Weights & Biases: local run folders, and JSON of its API; CSV exports are tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import first_bytes, ordinary_file
from warmstart.history_store.tracker_table import ENDED, OPEN
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    flatten,
    is_maximised,
    read_flat_yaml,
    rising_curve,
    take_dataset,
    to_number,
)

CONFIG, SUMMARY = "config.yaml", "wandb-summary.json"
LIKELY = ("val_accuracy", "val_acc", "val/accuracy", "val/acc", "accuracy", "val_error", "val/error", "error")
_EXPECTED = "runs of Weights & Biases, each with config and summary"


def read_wandb(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read runs; failed, crashed and killed ones, and those without a summary, count as crashed.

    Args:
        source: the folder `wandb`, one of its runs, or a `.json` or `.jsonl` file with a run an entry: `config`, `summary`,
            `state` and perhaps `history`, as of `wandb.Api().runs(...)`.
        metric: of the summary.

    Raises:
        UsageError: no such value.
        DataError: no run, or a file that cannot be read.
    """
    entries = list(_folder_entries(source) if source.is_dir() else _file_entries(source))
    if not entries and _is_offline(source):
        msg = f"{source}: expected {_EXPECTED}, got runs kept offline, in a log that only wandb reads. Send them with `wandb sync`, then export: `json.dump([{{'config': dict(r.config), 'summary': dict(r.summary._json_dict), 'state': r.state}} for r in wandb.Api().runs('TEAM/PROJECT')], open('runs.json', 'w'))`."
        raise DataError(msg)
    if not entries:
        msg = f"{source}: expected {_EXPECTED}, got none. Give the folder `wandb`, or an export."
        raise DataError(msg)
    names = sorted({name for entry in entries for name, value in entry.summary.items() if _is_value(name, value)})
    chosen = choose_metric(names, metric, LIKELY, str(source))
    name = source.resolve().stem
    name = source.resolve().parent.name if name == "wandb" else name
    left_out = Counter(entry.state for entry in entries if entry.state in OPEN)
    former = f"import/wandb/{name}"
    runs = [_run(entry, chosen, former) for entry in entries if entry.state not in OPEN]
    kind = f"Weights & Biases runs {name!r}, {chosen}"
    return as_foreign_runs(kind, runs, maximised=is_maximised(chosen), left_out=left_out, former_origin=former)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One run: settings, last values, state, rows of the history, and its own name if it has one."""

    config: dict[str, Any]
    summary: dict[str, Any]
    state: str
    history: list[Any]
    name: str


def _run(entry: _Entry, metric: str, former_origin: str) -> FolderRun:
    value = to_number(entry.summary.get(metric))
    rows = [flatten(row) for row in entry.history if isinstance(row, Mapping)]
    points = [(to_number(row.get("_step", index)), to_number(row[metric])) for index, row in enumerate(rows) if row.get(metric) is not None]  # fmt: skip
    seconds = next((to_number(entry.summary[name]) for name in ("_wandb/runtime", "_runtime") if name in entry.summary), math.nan)  # fmt: skip
    is_finished = entry.state in ENDED or (not entry.state and bool(entry.summary))
    status = end_status(value, complete=is_finished, reported=entry.summary.get(metric) is not None)
    origin = f"import/wandb/{entry.name}" if entry.name else former_origin
    dataset = take_dataset(entry.config)
    return FolderRun(entry.config, value, status, rising_curve(points), seconds, origin, dataset)


def _folder_entries(root: Path) -> Iterator[_Entry]:
    """Yield the runs of the folders `run-*/files`; one without a summary has no value."""
    folders: set[Path] = set()
    for path in find_files(root, CONFIG, SUMMARY):
        folder = path.parent
        # `latest-run` is a link to a run folder that is found anyway.
        if folder in folders or folder.name != "files" or folder.parent.name == "latest-run":
            continue
        folders.add(folder)
        config = read_flat_yaml(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        summary = read_json(folder / SUMMARY, "the summary of a run") if (folder / SUMMARY).is_file() else {}
        last_values = flatten(summary) if isinstance(summary, Mapping) else {}
        yield _Entry(_settings(config), last_values, "", [], folder.resolve().parent.name)


def _is_offline(root: Path) -> bool:
    """Tell whether a folder has offline runs, of which W&B wrote only the log."""
    return root.is_dir() and any(True for pattern in ("run-*.wandb", "*run-*/run-*.wandb") for _ in root.glob(pattern))


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings from `name: {desc, value}`, without those of W&B itself."""
    settings = {}
    for name, value in flatten(config).items():
        if name.startswith(("_wandb", "wandb_version")) or name.endswith("/desc"):
            continue
        settings[name.removesuffix("/value").replace("/value/", "/")] = value
    return settings


def _file_entries(path: Path) -> Iterator[_Entry]:
    if path.suffix.lower() == ".jsonl":
        try:
            lines = ordinary_file(path).read_bytes().decode("utf-8-sig").split("\n")
            document: Any = [parse_json(line) for line in lines if line.strip()]
        except (OSError, ValueError) as error:
            msg = f"{path}: expected {_EXPECTED}, a line each, got something else ({error}). Export again."
            raise DataError(msg) from error
    else:
        document = read_json(path, _EXPECTED)
    entries = document.get("runs", [document]) if isinstance(document, Mapping) else document
    for number, entry in enumerate(entries, start=1):
        if not _is_entry(entry):
            msg = f"{path}: expected {_EXPECTED}, got {str(entry)[:60]!r} as entry {number}. Export again."
            raise DataError(msg)
        summary = entry.get("summary", entry.get("summary_metrics")) or {}
        history = entry.get("history")
        yield _Entry(
            _settings(_mapping(entry["config"], path)),
            flatten(_mapping(summary, path)),
            str(entry.get("state") or "").lower(),
            history if isinstance(history, list) else [],
            str(entry.get("id") or ""),
        )


def _mapping(value: Any, path: Path) -> dict[str, Any]:
    """Return a value as a mapping; the API has some as JSON text."""
    try:
        with_json = parse_json(value) if isinstance(value, str) else value
    except ValueError as error:
        msg = f"{path}: expected {_EXPECTED}, got {value[:60]!r} in place of a mapping. Export again."
        raise DataError(msg) from error
    return dict(with_json) if isinstance(with_json, Mapping) else {}


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "config" in entry and bool({"summary", "summary_metrics", "state"} & entry.keys())  # fmt: skip


def _is_value(name: str, value: Any) -> bool:
    return not name.startswith("_") and isinstance(value, int | float) and not isinstance(value, bool)


def _matches(source: str) -> bool:
    path = Path(source)
    if path.is_dir():
        return _is_offline(path) or any(
            config_file.parent.name == "files" for config_file in find_files(path, CONFIG, SUMMARY)
        )
    if path.suffix.lower() not in (".json", ".jsonl") or not path.is_file():
        return False
    head = first_bytes(path, 65_536)
    return b'"config"' in head and (b'"summary' in head or b'"state"' in head)


IMPORTER = Importer(_matches, by_metric(read_wandb), ("metric",))
