"""Tables of the experiment trackers Weights & Biases and MLflow, converted to tables of runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from warmstart.history_store.exchange import is_empty
from warmstart.history_store.records import Status

ENDED = ("finished", "complete", "completed")
FAILED = ("failed", "fail", "crashed", "killed", "cancelled", "canceled")
OPEN = ("running", "pending", "scheduled", "waiting", "queued", "preempting", "preempted", "pruned")
STATES = ("status", "Status", "state", "State")
"""Trackers' names of the column with the outcome of a run; the first one that exists counts."""
BOOKKEEPING = frozenset(
    {
        *("Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "ID", "Hostname", "GitHub"),
        *("Start Time", "Duration", "Run ID", "Source Type", "Source Name", "Status", "Source", "Version", "Models"),
        *("run_id", "experiment_id", "artifact_uri", "start_time", "end_time", "run_name", "Experiment ID", "state"),
    }
)
METRICS = "metrics."
"""Prefix of a metric's name in MLflow's data frames."""
_TIME = re.compile(r"\s*([\d.]+)\s*(ms|s|min|h|d)\s*")
_CLOCK = re.compile(r"\s*(?:(\d+) days? )?(\d+):(\d\d):(\d\d(?:\.\d+)?)\s*")
"""Duration as data frames write it."""
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}

Columns = Mapping[str, Sequence[Any]]


def is_tracked(columns: Columns) -> bool:
    """Return whether a tracker wrote a table: its runs are in states that trackers know and histories do not."""
    state = _state_column(columns)
    if state is None:
        return False
    words = {str(word).lower() for word in columns[state] if not is_empty(word)}
    return bool(words) and words <= {*ENDED, *FAILED, *OPEN} and not words <= set(Status)


def metric_column(columns: Columns, metric: str | None) -> str | None:
    """Return the column of a metric by its name, with or without MLflow's prefix."""
    name = metric or "error"
    column = METRICS + name
    return column if column in columns and name not in columns else metric


def translate_tracker_table(columns: Columns, metric: str) -> tuple[dict[str, list[Any]], dict[str, int], list[int]]:
    """Convert a tracker's table to a table of runs.

    A run that failed, and one that finished with a metric that is not finite, counts as crashed; one that has not ended, or
    finished without the metric, is left out.

    Args:
        columns: of the table.
        metric: column of the objective value.

    Returns: the columns of a table of runs, the number of runs left out by reason, and the remaining rows.
    """
    state = _state_column(columns)
    assert state is not None  # noqa: S101  the caller asked `is_tracked`
    words = [str(word).lower() for word in columns[state]]
    values = columns.get(metric, [None] * len(words))
    without = {row for row, word in enumerate(words) if word in ENDED and is_empty(values[row])}
    rows = [row for row, word in enumerate(words) if word not in OPEN and row not in without]
    left_out = Counter(word for word in words if word in OPEN)
    if without:
        left_out[f"finished without {metric}"] = len(without)
    translated: dict[str, list[Any]] = {
        name: [cells[row] for row in rows]
        for name, cells in columns.items()
        if name != state and name not in BOOKKEEPING and not name.startswith(("tags.", METRICS))
    }
    good = [words[row] in ENDED and _may_be_finite(values[row]) for row in rows]
    translated[metric] = [values[row] if is_good else None for row, is_good in zip(rows, good, strict=True)]
    translated["status"] = [Status.OK.value if is_good else Status.CRASHED.value for is_good in good]
    duration_column = next((name for name in ("duration", "Runtime", "Duration") if name in columns), None)
    if duration_column is not None:
        translated["duration"] = [_seconds(columns[duration_column][row]) for row in rows]
    return translated, dict(left_out), rows


def _state_column(columns: Columns) -> str | None:
    return next((name for name in STATES if name in columns), None)


def _may_be_finite(cell: Any) -> bool:
    """Return whether a metric is neither NaN nor infinite; text that is no number is checked later."""
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError, OverflowError):
        return True


def _seconds(cell: Any) -> Any:
    """Parse a duration: seconds, a number with its unit, or days and a clock; other cells are checked later."""
    if is_empty(cell):
        return None
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    try:
        return float(cell)
    except (TypeError, ValueError):
        if match := _CLOCK.fullmatch(str(cell)):
            days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
            return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        match = _TIME.fullmatch(str(cell))
        return float(match[1]) * _SECONDS[match[2]] if match else cell
