"""Export of a study's trials: a table with a row a trial, or JSON."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.exports import check_exportable
from warmstart.history_store.errors import UsageError
from warmstart.history_store.quoting import in_json, to_csv
from warmstart.metafeat.files import replace_file

if TYPE_CHECKING:
    from warmstart.studies.results.study_record import StudyRecord

HEADS = ("study", "dataset", "trial", "status", "error", "duration", "seed")
"""Columns of a table without trials: they mark the file as an export."""
SUFFIXES = (".csv", ".parquet", ".json", ".html")


def check_export(path: Path) -> None:
    """Check that an export can be written to a path, before the study is read.

    Raises:
        UsageError: an unknown ending, a folder that does not exist, or a file that is no export.
    """
    if path.suffix.lower() not in SUFFIXES:
        msg = f"expected a file that ends in {', '.join(SUFFIXES)}, got {str(path)!r}. The ending says what is written."
        raise UsageError(msg, param="out")
    if not path.parent.is_dir():
        msg = f"expected a file in a folder that exists, got {str(path)!r}. Make the folder first."
        raise UsageError(msg, param="out")
    check_exportable(path)


def write_trials(path: Path, record: StudyRecord, *, raw: bool = False) -> None:
    """Write the trials in the format of the file's ending, atomically; `raw` as in `in_csv`.

    Raises:
        UsageError: Parquet without pyarrow.
        StorageError: it cannot be written.
    """
    kind = path.suffix.lower()
    if kind == ".json":
        document = {
            "schema_version": 1,
            **record.row(),
            "storage": record.storage,
            "settings": record.settings,
            "all": record.rows(),
        }
        replace_file(path, (in_json(document) + "\n").encode(), durable=False)
        return
    rows = trial_rows(record)
    if kind == ".csv":
        text = to_csv(rows, raw=raw) if rows else ",".join(HEADS) + "\n"
        replace_file(path, text.encode("utf-8", "backslashreplace"), durable=False)
        return
    replace_file(path, _parquet(rows), durable=False)


def trial_rows(record: StudyRecord) -> list[dict[str, Any]]:
    """Return a flat row a trial; hyperparameters as `config.NAME`, curves as JSON, as `history import` reads them.

    Other values of the objective are in `metric.NAME` and `constraint.NAME`.
    """
    lines = []
    for row in record.rows():
        curve = json.dumps(row.pop("curve"))
        parts = {"metric": row.pop("metrics"), "constraint": row.pop("constraints"), "config": row.pop("config")}
        values_by_column = {f"{kind}.{name}": value for kind, values in parts.items() for name, value in values.items()}
        lines.append({"study": record.name, "dataset": record.dataset, **row, "curve": curve, **values_by_column})
    names = list(dict.fromkeys(name for line in lines for name in line))
    return [{name: line.get(name) for name in names} for line in lines]


def _parquet(rows: list[dict[str, Any]]) -> bytes:

    import pyarrow as pa
    from pyarrow import parquet

    names = list(rows[0]) if rows else HEADS
    columns = {name: _column([row[name] for row in rows]) for name in names}
    buffer = BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _column(values: list[Any]) -> list[Any]:
    """Return values of one type; mixed types become text."""
    kinds = {float if isinstance(value, int | float) and not isinstance(value, bool) else type(value) for value in values if value is not None}  # fmt: skip
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    if kinds == {float} and any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    if kinds == {str}:  # names of files may be no text
        return [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return values
