"""Import projects of Keras Tuner: `oracle.json` and a `trial.json` a trial."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignParameter, ForeignRuns
from warmstart.history_store.records import Status
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    find_files,
    has_files,
    is_maximised,
    rising_curve,
    to_number,
)

TRIAL, ORACLE = "trial.json", "oracle.json"
LIKELY = ("val_accuracy", "val_acc", "val_sparse_categorical_accuracy", "val_error", "val_loss", "default_objective")
_FAILED = ("FAILED", "INVALID")
_EPOCHS = "tuner/epochs"


def read_keras_tuner(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read the trials of one or several projects; failed ones are crashed.

    Args:
        source: folder of the project, or a folder above.
        metric: of the trials; `val_accuracy` and its spellings when left out.

    Raises:
        UsageError: no such metric.
        DataError: no trial, or a file that cannot be read.
    """
    trials = {path: _trial(path) for path in find_files(source, TRIAL)}
    if not trials:
        msg = f"{source}: expected a project of Keras Tuner with a {TRIAL} a trial, got none. Give its folder."
        raise DataError(msg)
    chosen = choose_metric(sorted({name for trial in trials.values() for name in _metrics(trial)}), metric, LIKELY, str(source))  # fmt: skip
    states = Counter(str(trial.get("status")).lower() for trial in trials.values())
    ended = {path: trial for path, trial in trials.items() if trial.get("status") in ("COMPLETED", *_FAILED)}
    longest = max((_epochs(trial) for trial in ended.values()), default=0.0)
    whole = {path: trial for path, trial in ended.items() if _epochs(trial) >= longest}
    left_out = {state: n for state, n in states.items() if state.upper() not in ("COMPLETED", *_FAILED)}
    if shorter := len(ended) - len(whole):
        left_out[f"trained for fewer than {longest:g} epochs"] = shorter
    runs = [_run(path, trial, chosen) for path, trial in whole.items()]
    directions = {_metrics(trial)[chosen].get("direction") for trial in whole.values() if chosen in _metrics(trial)}
    found = as_foreign_runs(
        f"Keras Tuner project {source.resolve().name!r}, {chosen}",
        runs,
        maximised=True if directions == {"max"} else is_maximised(chosen),
        left_out=left_out,
    )
    return _with_space(found, list(trials.values()))


def _trial(path: Path) -> Mapping[str, Any]:
    trial = read_json(path, "a trial of Keras Tuner")
    if not isinstance(trial, Mapping) or not isinstance(trial.get("hyperparameters"), Mapping):
        msg = f"{path}: expected a trial of Keras Tuner, got JSON without hyperparameters. Take the file out."
        raise DataError(msg)
    return trial


def _run(path: Path, trial: Mapping[str, Any], metric: str) -> FolderRun:
    observations = _metrics(trial).get(metric, {}).get("observations", [])
    points = [(to_number(item.get("step")), _mean(item.get("value"))) for item in observations]
    value = points[-1][1] if points else math.nan
    # A trial that ended without the metric is left out; one that failed, or whose value is no number, is crashed.
    failed = trial["status"] in _FAILED
    status = None if not points and not failed else Status.OK if math.isfinite(value) and not failed else Status.CRASHED
    values = trial["hyperparameters"].get("values", {})
    params = {name: value for name, value in values.items() if not name.startswith("tuner/")}
    if _EPOCHS in values:
        params["epochs"] = values[_EPOCHS]
    project = path.resolve().parent.parent.name
    return FolderRun(params, value, status, rising_curve(points), origin=f"import/keras-tuner/{project}/{trial.get('trial_id')}")  # fmt: skip


def _metrics(trial: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = (trial.get("metrics") or {}).get("metrics", {})
    return metrics if isinstance(metrics, Mapping) else {}


def _mean(values: object) -> float:
    """Return the mean over the executions of a trial."""
    numbers = [to_number(value) for value in values] if isinstance(values, list) else [to_number(values)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _epochs(trial: Mapping[str, Any]) -> float:
    """Return the epochs of a trial of Hyperband, which trains some for fewer; infinite for other tuners' trials."""
    epochs = to_number(trial["hyperparameters"].get("values", {}).get(_EPOCHS))
    return epochs if math.isfinite(epochs) else math.inf


def _with_space(runs: ForeignRuns, trials: Sequence[Mapping[str, Any]]) -> ForeignRuns:
    space: dict[str, ForeignParameter] = {}
    for trial in trials:
        for item in trial["hyperparameters"].get("space", []):
            config = item.get("config", {})
            if config.get("name") in runs.params:
                space[config["name"]] = _parameter(config)
    return replace(runs, space=space)


def _parameter(config: Mapping[str, Any]) -> ForeignParameter:
    if isinstance(config.get("values"), list):
        return ForeignParameter(choices=tuple(config["values"]))
    low, high = to_number(config.get("min_value")), to_number(config.get("max_value"))
    if not math.isfinite(low) or not math.isfinite(high):
        return ForeignParameter()
    return ForeignParameter(low, high, log=config.get("sampling") == "log")


def _matches(source: str) -> bool:
    path = Path(source)
    return path.is_dir() and has_files(source, TRIAL) and has_files(source, ORACLE)


IMPORTER = Importer(_matches, by_metric(read_keras_tuner), ("metric",))
