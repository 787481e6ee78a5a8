"""Read runs from a file of JSON lines: `{"dataset": "cats", "config": {"lr": 0.1}, "error": 0.2}`."""

import json
from pathlib import Path

import numpy as np

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns, as_columns
from warmstart.history_store.records import Status
from warmstart.integrations.importers.registry import Importer, Runs


def read(source: str, *, study: str | None, metric: str | None) -> Runs:  # noqa: ARG001  no options
    """Read the runs; datasets are not described.

    Raises:
        DataError: when a line is something else.
    """
    try:
        rows = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines() if line.strip()]
        params, errors = as_columns([row["config"] for row in rows]), [float(row["error"]) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{source}: expected a JSON object with config and error a line, got {type(error).__name__}: {error}. Correct the line."
        raise DataError(msg) from error
    n = len(rows)
    runs = ForeignRuns(
        kind=f"{n} lines of {Path(source).name}",
        params=params,
        values=np.array(errors),
        status=[Status.OK] * n,
        datasets=[row.get("dataset") for row in rows],
        durations=np.full(n, np.nan),
        seeds=list(range(n)),
        origins=[f"import/lines/{Path(source).stem}"] * n,
        curves=[()] * n,
    )
    return runs, ()


IMPORTER = Importer(matches=lambda source: source.endswith(".jsonl"), read=read, options=())
