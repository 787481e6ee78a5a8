"""Import experiments of Syne Tune: `metadata.json` beside `results.csv.zip`, a line a report; no pickle is opened."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.csv_table import numbered_rows
from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.limits import UNPACKED, ordinary_file
from warmstart.history_store.wording import in_words
from warmstart.integrations.importers.external_json import read_json
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    is_maximised,
    rising_curve,
    to_number,
)

METADATA, RESULTS = "metadata.json", "results.csv.zip"
_CONFIG, _OWN = "config_", "st_"
Rows = Sequence[Mapping[str, str]]


def read_syne_tune(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read experiments: a trial's value is its last report.

    Syne Tune keeps reports, not how a trial ended: trials with fewer than the longest of their experiment are left out.

    Args:
        source: folder of the experiment, `~/syne-tune/NAME`, or a folder above.
        metric: reported name; that of the experiment when left out.

    Raises:
        UsageError: no such metric.
        DataError: no experiment, or a file that cannot be read.
    """
    tables = {path.parent: _read_table(path) for path in find_files(source, RESULTS)}
    if not tables:
        msg = f"{source}: expected experiments of Syne Tune with {RESULTS}, got none. Give the folder ~/syne-tune."
        raise DataError(msg)
    about = {folder: _metadata(folder) for folder in tables}
    names = sorted({name for rows in tables.values() for name in (rows[0] if rows else ()) if not name.startswith((_CONFIG, _OWN)) and name != "trial_id"})  # fmt: skip
    searched = [name for item in about.values() for name in item.get("metric_names", ())]
    chosen = choose_metric(names, metric, searched, str(source))
    modes = {mode for item in about.values() for name, mode in _modes(item) if name == chosen}
    runs, n_shorter = list[FolderRun](), 0
    for folder, rows in tables.items():
        trials: dict[str, list[Mapping[str, str]]] = {}
        for row in rows:
            trials.setdefault(row.get("trial_id", ""), []).append(row)
        longest = max(map(len, trials.values()), default=0)
        whole = {number: reports for number, reports in trials.items() if len(reports) == longest or _failed(reports)}
        n_shorter += len(trials) - len(whole)
        runs += [_run(folder, number, reports, chosen) for number, reports in whole.items()]
    return as_foreign_runs(
        f"Syne Tune experiments {source.resolve().name!r}, {chosen}",
        runs,
        maximised=True if modes == {"max"} else is_maximised(chosen),
        left_out={"ended before the longest: stopped or still running": n_shorter} if n_shorter else {},
    )


def _read_table(path: Path) -> Rows:
    try:
        with zipfile.ZipFile(ordinary_file(path)) as archive:
            (name,) = archive.namelist()
            UNPACKED.check(archive.getinfo(name).file_size, str(path))
            rows = [row for _, row in numbered_rows(archive.read(name).decode())]
    except DataError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        msg = f"{path}: expected the reports of Syne Tune, got {in_words(error)}. Copy the folder again."
        raise DataError(msg) from error
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:] if row]


def _metadata(folder: Path) -> Mapping[str, Any]:
    metadata = read_json(folder / METADATA, "the description of an experiment") if (folder / METADATA).is_file() else {}
    return metadata if isinstance(metadata, Mapping) else {}


def _modes(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the metrics of an experiment with their directions, `min` or `max`."""
    names, modes = metadata.get("metric_names", []), metadata.get("metric_mode", "min")
    return list(zip(names, modes if isinstance(modes, list) else [modes] * len(names), strict=False))


def _failed(reports: Rows) -> bool:
    return reports[-1].get("st_status") == "Failed"


def _run(folder: Path, number: str, reports: Rows, metric: str) -> FolderRun:
    points = [(step, to_number(row.get(metric))) for step, row in enumerate(reports, start=1)]
    value, last = points[-1][1], reports[-1]
    has_failed = _failed(reports)
    status = end_status(value, complete=not has_failed, reported=has_failed or bool(last.get(metric)))
    params = {name.removeprefix(_CONFIG): _value(text) for name, text in last.items() if name.startswith(_CONFIG)}
    origin = f"import/syne-tune/{folder.resolve().name}/{number}"
    return FolderRun(params, value, status, rising_curve(points), to_number(last.get("st_worker_time")), origin)


def _value(text: str) -> str | int | float | bool | None:
    """Return a cell as a value: a number, a truth value, a text; None where it is empty."""
    if text in ("", "True", "False"):
        return None if not text else text == "True"
    number = to_number(text)
    if math.isnan(number):
        return text
    return int(number) if number.is_integer() and not set(text) & set(".eE") else number


def _matches(source: str) -> bool:
    path = Path(source)
    return path.is_dir() and next(find_files(path, RESULTS), None) is not None


IMPORTER = Importer(_matches, by_metric(read_syne_tune), ("metric",))
