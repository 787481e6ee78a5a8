"""Runs of tools that are not read: known by their files, so that none is taken for another tool's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.json_text import parse_json

READ = "tables of runs (.csv, .parquet), studies of Optuna, experiments of MLflow and Ray Tune, runs of Weights & Biases, SMAC3, timm, Ultralytics, Lightning, Hugging Face's Trainer, Keras Tuner, Ax, Syne Tune and TensorBoard, tables of HPO-B"
_STEP = "Save its runs as a table: a column a hyperparameter, and one of the error."
_MOST_FILES = 2000
_MOST_BYTES = 1 << 26
_IN_FOLDERS: Mapping[str, str] = {
    r"oracle\.json|tuner\d+\.json|build_config\.json": "Keras Tuner without a trial",
    r"tuner\.dill|.*\.syne_tune.*": "Syne Tune without results.csv.zip",
    r"learner\.pkl|predictor\.pkl": "AutoGluon",
    r"configs\.json": "HpBandSter",
    r"clearml\.conf|task_session\.json": "ClearML",
}
"""Names of files by which a tool's folder is known."""
_FILES: Mapping[str, str] = {
    r".*\.ipynb": "a notebook",
    r".*\.(pkl|pickle|joblib|dill)": "a pickle, which is never opened, as it can run programs",
    r".*\.(xlsx?|ods)": "a spreadsheet: save it as CSV",
    r"events\.out\.tfevents\..*": "a log of TensorBoard: give its folder",
    r"wandb-summary\.json": "the summary of a run of Weights & Biases without its settings: give the folder `wandb`",
    r".*\.(txt|log|md)": "a text",
}


def refuse_other(source: str, **_: object) -> Any:
    """Raise the error of runs that are none of a tool that is read; it names the tool if its files tell.

    Raises:
        DataError: always.
    """
    path = Path(source)
    raise _other(source, _folder_kind(path) if path.is_dir() else _file_kind(path))


def is_other_json(source: str) -> bool:
    """Return whether a JSON file is none of HPO-B: no mapping of spaces, datasets, and `X` and `y`."""
    path = Path(source)
    if path.suffix.lower() != ".json" or not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return False
    try:
        content = parse_json(path.read_bytes())
    except ValueError:
        return True
    if not isinstance(content, Mapping):
        return True
    if {"study", "storage", "trials"} <= content.keys():
        return False  # a report of warmstart, of which the reader tells how to import the study
    tables = [table for space in content.values() if isinstance(space, Mapping) for table in space.values()]
    return not any(isinstance(table, Mapping) and table.keys() & {"X", "y"} for table in tables)


def is_foreign_file(source: str) -> bool:
    """Return whether a file is named like none of Optuna's: a database or a journal may have any other name."""
    name = Path(source).name.lower()
    return any(re.fullmatch(pattern, name) for pattern in _FILES)


def _other(source: str, kind: str) -> DataError:
    return DataError(f"{source}: expected runs of a tool that is read ({READ}), got {kind}. {_STEP}")


def _folder_kind(path: Path) -> str:
    names = [file.name for file in islice(path.rglob("*"), _MOST_FILES)]
    for pattern, tool in _IN_FOLDERS.items():
        if name := next((name for name in names if re.fullmatch(pattern, name)), None):
            return f"a folder of {tool} ({name})"
    if "metadata.json" in names and b"metric_names" in (path / "metadata.json").read_bytes()[:_MOST_BYTES]:
        return "a folder of Syne Tune without results.csv.zip (metadata.json)"
    return "a folder without their files" if names else "an empty folder"


def _file_kind(path: Path) -> str:
    if kind := next((kind for pattern, kind in _FILES.items() if re.fullmatch(pattern, path.name.lower())), None):
        return kind
    if path.suffix.lower() != ".json":
        return f"a file {path.suffix}" if path.suffix else "another file"
    head = path.read_bytes()[:4096]
    if b'"Experiment"' in head or b'"__type"' in head:
        return "an object of Ax that is no experiment"
    if b'"oracle"' in head or b'"hyperparameters"' in head:
        return "a file of Keras Tuner"
    if head.startswith(b"[[") and b'"submitted"' in head:
        return "results of HpBandSter"
    return "another JSON file"
