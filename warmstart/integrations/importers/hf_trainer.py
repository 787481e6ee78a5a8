"""Runs of Hugging Face's `Trainer`: the last `trainer_state.json` of each output folder, with its curve."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.hyperparameter_names import meaning_of
from warmstart.history_store.json_text import parse_json
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FoundRun,
    as_foreign,
    choose_metric,
    ended,
    find_files,
    flat,
    has_files,
    is_maximised,
    real,
    rising,
    take_dataset,
)

STATE = "trainer_state.json"
LIKELY = ("eval_accuracy", "eval_acc", "eval_error", "eval_f1", "eval_loss")
SETTINGS = ("training_args.json", "args.json", "hparams.json", "hyperparameters.json")
"""Files beside a state that people write their settings to; `training_args.bin` is a pickle, and stays shut."""
_CHECKPOINT = re.compile(r"^checkpoint-\d+$")
_CARD = re.compile(r"^- (\w+): (.+)$", re.MULTILINE)
_NOT_EVALUATED = ("_runtime", "_per_second", "_steps", "_model_preparation_time")
_BOOKKEEPING = frozenset({"output_dir", "logging_dir", "run_name", "logging_steps", "eval_steps", "save_steps"})


def read_trainer(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read the runs of an output folder, or of a folder of them.

    Settings are those of a hyperparameter search (`trial_params`), of a JSON beside the state, of the model card, and what the state
    says itself. A run that ended before its last step, without having been told to stop, has crashed.

    Args:
        source: the folder, or one `trainer_state.json`.
        metric: of the evaluations; `eval_accuracy` when left out.

    Raises:
        UsageError: no such metric.
        DataError: no run, or a file that cannot be read.
    """
    states = list(find_files(source, STATE)) if source.is_dir() else [source]
    latest: dict[Path, tuple[Path, dict[str, Any]]] = {}
    for path in states:
        folder = path.parent.parent if _CHECKPOINT.match(path.parent.name) else path.parent
        state = read_json(path, "the state of a Trainer")
        if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
            msg = f"{path}: expected the state of a Trainer, got JSON without log_history. Take the file out."
            raise DataError(msg)
        if folder not in latest or _step(state) > _step(latest[folder][1]):
            latest[folder] = (path, state)
    if not latest:
        msg = f"{source}: expected {STATE}, got none. Give the output folder of the Trainer."
        raise DataError(msg)
    names = sorted({name for _, state in latest.values() for row in state["log_history"] if isinstance(row, Mapping) for name in row if _is_evaluated(name)})  # fmt: skip
    chosen = choose_metric(names, metric, LIKELY, str(source))
    place = source.resolve()
    origin = f"import/hf-trainer/{place.name if source.is_dir() else place.parent.name}"
    runs = [_run(folder, path, state, chosen, origin) for folder, (path, state) in sorted(latest.items())]
    kind = f"runs of Trainer {place.name!r}, {chosen}"
    return as_foreign(kind, runs, maximised=is_maximised(chosen), passed_over=_BOOKKEEPING)


def _run(folder: Path, path: Path, state: Mapping[str, Any], metric: str, origin: str) -> FoundRun:
    log = [row for row in state["log_history"] if isinstance(row, Mapping)]
    points = [(real(row.get("step")), real(row[metric])) for row in log if metric in row]
    last = points[-1][1] if points else math.nan
    params = _settings(folder, path, state, log)
    dataset = take_dataset(params)
    seconds = next((real(row["train_runtime"]) for row in reversed(log) if "train_runtime" in row), math.nan)
    status = ended(last, complete=_is_complete(state))
    return FoundRun(params, last, status, rising(points), seconds, origin, dataset)


def _settings(folder: Path, path: Path, state: Mapping[str, Any], log: list[Any]) -> dict[str, Any]:
    rates = [real(row.get("learning_rate")) for row in log if "learning_rate" in row]
    own: dict[str, Any] = {
        "learning_rate": max((rate for rate in rates if math.isfinite(rate)), default=None),
        "train_batch_size": state.get("train_batch_size"),
        "num_train_epochs": state.get("num_train_epochs"),
    }
    found: dict[str, Any] = {}
    for card in (folder / "README.md", path.parent / "README.md"):
        if card.is_file():
            text = card.read_text(encoding="utf-8", errors="replace").partition("hyperparameters were used during training:")[2]  # fmt: skip
            text = text.partition("\n#")[0]
            found.update({name: _scalar(value) for name, value in _CARD.findall(text)})
    for name in SETTINGS:
        for beside in (folder / name, path.parent / name):
            if beside.is_file():
                said = read_json(beside, "settings of a run")
                found.update(flat(said) if isinstance(said, Mapping) else {})
    trial = state.get("trial_params")
    found.update(flat(trial) if isinstance(trial, Mapping) else {})
    stated = {meaning_of(name) for name in found}  # what the state says besides, under another name, would be a rival
    found |= {name: value for name, value in own.items() if meaning_of(name) not in stated}
    return {name: value for name, value in found.items() if value is not None}


def _scalar(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        number = real(text)
        return text.strip() if math.isnan(number) else number


def _step(state: Mapping[str, Any]) -> float:
    step = real(state.get("global_step"))
    return step if math.isfinite(step) else -1.0


def _is_complete(state: Mapping[str, Any]) -> bool:
    """Tell whether a run came to its last step, or was told to stop before."""
    most = real(state.get("max_steps"))
    callbacks = state.get("stateful_callbacks")
    control = callbacks.get("TrainerControl") if isinstance(callbacks, Mapping) else None
    args = control.get("args") if isinstance(control, Mapping) else None
    told = isinstance(args, Mapping) and args.get("should_training_stop") is True
    return told or not most > 0 or _step(state) >= most


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval_") and not name.endswith(_NOT_EVALUATED)


IMPORTER = Importer(lambda source: has_files(source, STATE), by_metric(read_trainer), ("metric",))
