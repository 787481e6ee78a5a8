"""Import experiments of Ax, as its JSON storage writes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignParameter, ForeignRuns
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.records import Status
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    is_maximised,
    rising_curve,
    to_number,
)

_KIND = "__type"
_EXPERIMENTS = ("Experiment", "MultiTypeExperiment")
_HEAD = 4096
_LEFT_OUT = {
    "EARLY_STOPPED": "stopped early",
    "RUNNING": "still running",
    "CANDIDATE": "not begun",
    "STAGED": "not begun",
    "ABANDONED": "abandoned",
    "STALE": "abandoned",
}


def read_ax(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read the trials of an experiment; failed ones are crashed.

    Args:
        source: JSON file of `save_experiment`, or of a client of Ax.
        metric: of the data; the objective when left out.

    Raises:
        UsageError: no such metric, or several objectives.
        DataError: no experiment, or one without data.
    """
    experiment = next(_of_kind(read_json(source, "an experiment of Ax"), *_EXPERIMENTS), None)
    if experiment is None or not isinstance(experiment.get("trials"), Mapping):
        msg = f"{source}: expected an experiment of Ax, got JSON without one. Give the file of save_experiment."
        raise DataError(msg)
    rows = list(_data(experiment))
    goals = dict(map(_goal, _of_kind(experiment.get("optimization_config"), "Objective")))
    chosen = choose_metric(sorted({str(row["metric_name"]) for row in rows}), metric, list(goals), str(source))
    runs: list[FolderRun] = []
    left_out: Counter[str] = Counter()
    for trial in experiment["trials"].values():
        state = str(_name(trial.get("status")))
        if state in _LEFT_OUT:
            left_out[_LEFT_OUT[state]] += 1
        else:
            runs += _runs(experiment, trial, [row for row in rows if row["metric_name"] == chosen], state=state)
    found = as_foreign_runs(
        f"Ax experiment {experiment.get('name')!r}, {chosen}",
        runs,
        maximised=True if goals.get(chosen) else is_maximised(chosen),
        left_out=left_out,
    )
    parameters = experiment.get("search_space", {}).get("parameters", [])
    items = parameters if isinstance(parameters, list) else parameters.values()
    return replace(found, space={item["name"]: _parameter(item) for item in items if item["name"] in found.params})


def _runs(experiment: Mapping[str, Any], trial: Mapping[str, Any], rows: list[Mapping[str, Any]], *, state: str) -> Iterator[FolderRun]:  # fmt: skip
    """Yield a run for each arm of a trial."""
    arms = {str(arm["name"]): arm["parameters"] for arm in _of_kind(trial, "Arm")}
    for name, parameters in arms.items():
        measured = [row for row in rows if row["trial_index"] == trial["index"] and str(row["arm_name"]) == name]
        points = [(to_number(row.get("step", 0)), to_number(row.get("mean"))) for row in measured]
        value = points[-1][1] if points else math.nan
        fine = state == "COMPLETED" and math.isfinite(value)
        # A trial that was completed without the metric is left out.
        status = None if state == "COMPLETED" and not points else Status.OK if fine else Status.CRASHED
        origin = f"import/ax/{experiment.get('name')}/{name}"
        curve = rising_curve(points) if len(points) > 1 else ()
        yield FolderRun(dict(parameters), value, status, curve, _seconds(trial), origin)


def _goal(objective: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the metric of an objective, and whether more of it is better; newer releases write `-loss`."""
    expression = objective.get("expression")
    if expression is None:
        return str(objective["metric"]["name"]), objective.get("minimize") is not True
    return str(expression).lstrip("- "), not str(expression).startswith("-")


def _of_kind(value: Any, *kinds: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of some kinds, wherever they are."""
    if isinstance(value, Mapping):
        if value.get(_KIND) in kinds:
            yield value
            return
        for item in value.values():
            yield from _of_kind(item, *kinds)
    elif isinstance(value, list):
        for item in value:
            yield from _of_kind(item, *kinds)


def _data(experiment: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the last data of each trial: arm, metric, mean, trial, perhaps a step."""
    for frame in _of_kind(experiment.get("data_by_trial"), "DataFrame"):
        table = parse_json(str(frame["value"]))
        columns = {name: list(column.values()) for name, column in table.items()}
        yield from (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, Mapping) else value


def _seconds(trial: Mapping[str, Any]) -> float:
    times = [_name_of_time(trial.get(f"time_{name}")) for name in ("run_started", "completed")]
    if None in times:
        return math.nan
    began, ended = (datetime.fromisoformat(str(text)) for text in times)
    return (ended - began).total_seconds()


def _name_of_time(value: Any) -> str | None:
    return value.get("value") if isinstance(value, Mapping) else value


def _parameter(item: Mapping[str, Any]) -> ForeignParameter:
    if "values" in item or "value" in item:
        return ForeignParameter(choices=tuple(item.get("values") or (item.get("value"),)))
    return ForeignParameter(
        to_number(item.get("lower")), to_number(item.get("upper")), log=item.get("log_scale") is True
    )


def _matches(source: str) -> bool:
    path = Path(source)
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with ordinary_file(path).open("rb") as file:
        head = file.read(_HEAD)
    return (b'"__type"' in head and b"xperiment" in head) or b'"AxClient"' in head


IMPORTER = Importer(_matches, by_metric(read_ax), ("metric",))
