"""Import run histories of SMAC3 2.x: `runhistory.json`, with `configspace.json` and `scenario.json` if beside it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import ForeignRuns, as_columns, objective_number
from warmstart.history_store.mapping import describe_space
from warmstart.history_store.records import Status
from warmstart.history_store.space import load_space
from warmstart.history_store.wording import in_words
from warmstart.integrations.importers.external_json import read_json

RUNHISTORY = "runhistory.json"
STATUS = {1: Status.OK, 2: Status.CRASHED, 3: Status.TIMEOUT, 4: Status.OOM}
_EXPECTED = "a run history of SMAC3"
_FIELDS = (
    "config_id",
    "instance",
    "seed",
    "budget",
    "cost",
    "time",
    "status",
    "starttime",
    "endtime",
    "additional_info",
)
"""Fields of a row that is a list, as in SMAC3 before 2.3; 2.1 has `cpu_time` after `time`."""


def read_runhistory(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read a run history; with several budgets, the runs of the largest.

    Args:
        source: `runhistory.json`, or the folder with it.
        metric: name or number of the objective, if there are several.

    Raises:
        MissingPathError: no file there.
        UsageError: no such objective, or several to choose from.
        DataError: it is no run history.
    """
    path = source / RUNHISTORY if source.is_dir() else source
    content = read_json(path, _EXPECTED)
    name, objectives = _scenario(path.parent)
    try:
        configs, rows = content["configs"], [_row(row) for row in content["data"]]
        ended = [row for row in rows if int(row["status"]) in STATUS]
        largest = max((_budget(row) for row in ended), default=0.0)
        largest_runs = [row for row in ended if _budget(row) == largest]
        index = objective_number(_objectives(largest_runs, objectives), metric, str(path))
        values = np.array([_cost(row, index) for row in largest_runs], dtype=np.float64)
        left_out = {"still running": len(rows) - len(ended), "of a smaller budget": len(ended) - len(largest_runs)}
        return ForeignRuns(
            kind=f"SMAC3 run {name!r}",
            params=as_columns([configs[str(row["config_id"])] for row in largest_runs]),
            values=values,
            status=[_status(row, value) for row, value in zip(largest_runs, values.tolist(), strict=True)],
            datasets=[row["instance"] for row in largest_runs],
            durations=np.array([float(row["time"]) for row in largest_runs], dtype=np.float64),
            seeds=[None if row["seed"] is None else int(row["seed"]) for row in largest_runs],
            origins=[f"import/smac/{name}"] * len(largest_runs),
            curves=[()] * len(largest_runs),
            space=_space(path.parent / "configspace.json"),
            left_out={reason: count for reason, count in left_out.items() if count},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UsageError | DataError):
            raise
        msg = f"{path}: expected {_EXPECTED} 2.x, got {in_words(error)}. Runs of SMAC 1 need its own tools."
        raise DataError(msg) from error


def _row(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    fields = list(_FIELDS)
    if len(row) == len(fields) + 1:
        fields.insert(6, "cpu_time")
    return dict(zip(fields, row, strict=True))


def _budget(row: Mapping[str, Any]) -> float:
    return 0.0 if row.get("budget") is None else float(row["budget"])


def _objectives(rows: Sequence[Mapping[str, Any]], named: Sequence[str]) -> Sequence[str]:
    """Return the names of the objectives; numbers if the names are unknown."""
    sizes = Counter(len(row["cost"]) if isinstance(row["cost"], list) else 1 for row in rows)
    count = max(sizes, default=1)
    return named if len(named) == count else [str(index) for index in range(count)]


def _cost(row: Mapping[str, Any], index: int) -> float:
    """Return the cost of a successful run; NaN for others, whose cost SMAC invents."""
    if int(row["status"]) != 1:
        return math.nan
    cost = float(row["cost"][index] if isinstance(row["cost"], list) else row["cost"])
    return cost if math.isfinite(cost) else math.nan


def _status(row: Mapping[str, Any], value: float) -> Status:
    status = STATUS[int(row["status"])]
    return Status.CRASHED if status is Status.OK and math.isnan(value) else status


def _scenario(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the names of the run and of its objectives, from `scenario.json` if it exists."""
    path = folder / "scenario.json"
    if not path.is_file():
        return folder.resolve().name, ()
    about = read_json(path, "a scenario of SMAC3")
    if not isinstance(about, Mapping):
        msg = f"{path}: expected a scenario of SMAC3, a JSON object, got {type(about).__name__}. Write it anew."
        raise DataError(msg)
    objectives = about.get("objectives", ())
    return str(about.get("name") or folder.resolve().name), (
        (objectives,) if isinstance(objectives, str) else tuple(objectives)
    )


def _space(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return dict(describe_space(load_space(json.dumps(read_json(path, "a ConfigSpace")), str(path))))
