"""Import result folders of Ray Tune: a folder a trial with `params.json` and `result.json`; no pickle is opened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.external_runs import Curve, ForeignRuns, as_columns
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.records import Status
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.run_folders import NO_VALUE, flatten, is_maximised

PARAMS, RESULTS, FAILURE = "params.json", "result.json", "error.txt"
ITERATION, SECONDS = "training_iteration", "time_total_s"


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial in its folder.

    Attributes:
        name: of its folder.
        params: flat, nested names joined by `/`.
        results: reports in order, flat too.
        failed: whether it ended with an error.
    """

    name: str
    params: Mapping[str, object]
    results: Sequence[Mapping[str, Any]]
    failed: bool

    @property
    def length(self) -> int:
        """Return the number of iterations."""
        return int(self.results[-1].get(ITERATION, len(self.results))) if self.results else 0


def read_results(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read an experiment: a trial's value is its last report.

    Ray does not record which trials a scheduler stopped: trials with fewer iterations than the longest are left out.

    Args:
        source: folder of the experiment, `~/ray_results/NAME`.
        metric: name of the reported value; nested names are joined by `/`.

    Raises:
        MissingPathError: the folder does not exist.
        UsageError: no metric, or one that was never reported.
        DataError: no trial, or a file that cannot be read.
    """
    if not source.is_dir():
        msg = f"{source}: expected a result folder of Ray Tune, got {'a file' if source.exists() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    trials = [_read(path.parent) for path in sorted(source.glob(f"*/{PARAMS}"))]
    if not trials:
        msg = f"{source}: expected a folder a trial with {PARAMS} in it, got none. Give the folder of the experiment, ~/ray_results/NAME."
        raise DataError(msg)
    reported = sorted(
        {name for trial in trials for row in trial.results for name, value in row.items() if _is_real(value)}
    )
    if metric is None or metric not in reported:
        msg = f"expected one of {', '.join(name for name in reported if not name.startswith('config/'))}, which the trials of {source} reported, got {metric or 'none'}. Name the one that is the error."
        raise UsageError(msg, param="metric")
    longest = max((trial.length for trial in trials if not trial.failed), default=0)
    complete = [trial for trial in trials if trial.failed or (trial.length == longest and trial.results)]
    stopped = len(trials) - len(complete)
    without = sum(not trial.failed and metric not in trial.results[-1] for trial in complete)
    complete = [trial for trial in complete if trial.failed or metric in trial.results[-1]]
    values = np.array([_value(trial, metric) for trial in complete], dtype=np.float64)
    name = source.resolve().name
    return ForeignRuns(
        kind=f"Ray Tune experiment {name!r}",
        params=as_columns([trial.params for trial in complete]),
        values=values,
        status=[Status.OK if fine else Status.CRASHED for fine in np.isfinite(values).tolist()],
        datasets=[None] * len(complete),
        durations=np.array([_seconds(trial) for trial in complete], dtype=np.float64),
        seeds=[None] * len(complete),
        origins=[f"import/ray/{trial.name}" for trial in complete],
        former_origin=f"import/ray/{name}",
        curves=[_curve(trial, metric) for trial in complete],
        maximised=is_maximised(metric),
        left_out={
            reason: count
            for reason, count in (
                (f"ended before iteration {longest}: stopped or still running", stopped),
                (NO_VALUE, without),
            )
            if count
        },
    )


def _read(folder: Path) -> _Trial:
    params = read_json(folder / PARAMS, "the configuration of a trial")
    if not isinstance(params, Mapping):
        msg = f"{folder / PARAMS}: expected a JSON object, got {type(params).__name__}. Write it anew."
        raise DataError(msg)
    results: list[Mapping[str, Any]] = []
    path = folder / RESULTS
    lines = ordinary_file(path).read_bytes().rstrip(b"\n").split(b"\n") if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(flatten(parse_json(line.decode())))
        except (ValueError, AttributeError) as error:
            if number == len(lines):
                break  # the trial was killed while it wrote
            msg = f"{path} line {number}: expected a JSON object, got {line[:60].decode(errors='backslashreplace')!r}. Take the line out."
            raise DataError(msg) from error
    return _Trial(folder.name, flatten(params), results, (folder / FAILURE).is_file())


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(trial: _Trial, metric: str) -> float:
    if trial.failed:
        return math.nan
    value = trial.results[-1].get(metric)
    return float(value) if _is_real(value) and math.isfinite(value) else math.nan  # type: ignore[arg-type]


def _seconds(trial: _Trial) -> float:
    value = trial.results[-1].get(SECONDS) if trial.results else None
    return float(value) if _is_real(value) else math.nan  # type: ignore[arg-type]


def _curve(trial: _Trial, metric: str) -> Curve:
    return tuple((int(row[ITERATION]), float(row[metric])) for row in trial.results if ITERATION in row and _is_real(row.get(metric)))  # fmt: skip
