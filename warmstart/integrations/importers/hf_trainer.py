"""Import runs of Hugging Face's `Trainer`: the last `trainer_state.json` of each output folder."""

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
from warmstart.history_store.limits import ordinary_file
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    flatten,
    has_files,
    is_maximised,
    rising_curve,
    take_dataset,
    to_number,
)

STATE = "trainer_state.json"
LIKELY = ("eval_accuracy", "eval_acc", "eval_error", "eval_f1", "eval_loss")
SETTINGS = ("training_args.json", "args.json", "hparams.json", "hyperparameters.json")
"""Files of settings beside a state; `training_args.bin` is a pickle, and is never opened."""
_CHECKPOINT = re.compile(r"^checkpoint-\d+$")
_CARD = re.compile(r"^- (\w+): (.+)$", re.MULTILINE)
_NOT_EVALUATED = ("_runtime", "_per_second", "_steps", "_model_preparation_time")
_BOOKKEEPING = frozenset({"output_dir", "logging_dir", "run_name", "logging_steps", "eval_steps", "save_steps"})


def read_trainer(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read the runs of one or several output folders.

    Settings are from a hyperparameter search (`trial_params`), a JSON beside the state, the model card, and the state
    itself. A run that ended before its last step without a stop signal counts as crashed.

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
    resolved = source.resolve()
    former = f"import/hf-trainer/{resolved.name if source.is_dir() else resolved.parent.name}"
    runs = [_run(folder, path, state, chosen) for folder, (path, state) in sorted(latest.items())]
    kind = f"runs of Trainer {resolved.name!r}, {chosen}"
    return as_foreign_runs(kind, runs, maximised=is_maximised(chosen), bookkeeping=_BOOKKEEPING, former_origin=former)


def _run(folder: Path, path: Path, state: Mapping[str, Any], metric: str) -> FolderRun:
    log = [row for row in state["log_history"] if isinstance(row, Mapping)]
    points = [(to_number(row.get("step")), to_number(row[metric])) for row in log if metric in row]
    last = points[-1][1] if points else math.nan
    params = _settings(folder, path, state, log)
    dataset = take_dataset(params)
    origin = f"import/hf-trainer/{folder.resolve().name}"
    seconds = next((to_number(row["train_runtime"]) for row in reversed(log) if "train_runtime" in row), math.nan)
    status = end_status(last, complete=_is_complete(state), reported=bool(points))
    return FolderRun(params, last, status, rising_curve(points), seconds, origin, dataset)


def _settings(folder: Path, path: Path, state: Mapping[str, Any], log: list[Any]) -> dict[str, Any]:
    rates = [to_number(row.get("learning_rate")) for row in log if "learning_rate" in row]
    from_state: dict[str, Any] = {
        "learning_rate": max((rate for rate in rates if math.isfinite(rate)), default=None),
        "train_batch_size": state.get("train_batch_size"),
        "num_train_epochs": state.get("num_train_epochs"),
    }
    settings: dict[str, Any] = {}
    for card in (folder / "README.md", path.parent / "README.md"):
        if card.is_file():
            text = ordinary_file(card).read_bytes().decode("utf-8", "replace").partition("hyperparameters were used during training:")[2]  # fmt: skip
            text = text.partition("\n#")[0]
            settings.update({name: _scalar(value) for name, value in _CARD.findall(text)})
    for name in SETTINGS:
        for path_beside in (folder / name, path.parent / name):
            if path_beside.is_file():
                document = read_json(path_beside, "settings of a run")
                settings.update(flatten(document) if isinstance(document, Mapping) else {})
    trial = state.get("trial_params")
    settings.update(flatten(trial) if isinstance(trial, Mapping) else {})
    meanings = {meaning_of(name) for name in settings}  # a setting of the state under another name would be a duplicate
    settings |= {name: value for name, value in from_state.items() if meaning_of(name) not in meanings}
    return {name: value for name, value in settings.items() if value is not None}


def _scalar(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        number = to_number(text)
        return text.strip() if math.isnan(number) else number


def _step(state: Mapping[str, Any]) -> float:
    step = to_number(state.get("global_step"))
    return step if math.isfinite(step) else -1.0


def _is_complete(state: Mapping[str, Any]) -> bool:
    """Tell whether a run reached its last step or stopped on a signal."""
    max_steps = to_number(state.get("max_steps"))
    callbacks = state.get("stateful_callbacks")
    control = callbacks.get("TrainerControl") if isinstance(callbacks, Mapping) else None
    args = control.get("args") if isinstance(control, Mapping) else None
    is_stopped = isinstance(args, Mapping) and args.get("should_training_stop") is True
    return is_stopped or not max_steps > 0 or _step(state) >= max_steps


def _is_evaluated(name: str) -> bool:
    return name.startswith("eval_") and not name.endswith(_NOT_EVALUATED)


IMPORTER = Importer(lambda source: has_files(source, STATE), by_metric(read_trainer), ("metric",))
