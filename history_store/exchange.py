"""Evaluations as CSV and Parquet, for spreadsheets and data frames, and back.

One row an evaluation: `dataset`, a column `config.<name>` a hyperparameter (empty = inactive), `error`, `status`,
`duration`, `seed`, `origin` and the learning curve (CSV: `curve` as JSON pairs; Parquet: the lists `curve_step` and
`curve_error`). What rows cannot say (space, datasets, order of the configurations) stands in the metadata of a
Parquet file, and in a JSON file beside a CSV file. Files made by people need `dataset`, `error` or `status`, and
the hyperparameters, whose names may go without the prefix.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import DataError, HistoryVersionError, MissingPathError, UsageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.codec import decode_info, decode_run, encode_info
from warmstart.history_store.file.table import STATUSES
from warmstart.history_store.history import History
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.made_history import removed_unless_filled
from warmstart.history_store.parquet_file import arrow_errors, parquet_batches
from warmstart.history_store.quoting import from_csv, in_csv
from warmstart.history_store.records import DatasetInfo, Evaluation, Value
from warmstart.history_store.space import same_space, space_names, with_logarithms
from warmstart.history_store.wording import in_words

FORMAT = "warmstart-evaluations"
VERSION = 1
PREFIX = "config."
RUN_COLUMNS = ("error", "status", "duration", "seed", "origin")
OWN_COLUMNS = frozenset({"dataset", "group", "curve", "curve_step", "curve_error", *RUN_COLUMNS})


@dataclass(frozen=True, slots=True)
class Imported:
    """Counts of what an import has added.

    Attributes:
        n_evaluations: number of evaluations.
        n_configs: number of configurations that were new.
        datasets: names of the datasets that were new.
    """

    n_evaluations: int
    n_configs: int
    datasets: tuple[str, ...]


def export_history(history: History, path: str | Path, *, raw: bool = False) -> None:
    """Write all evaluations, and everything else needed to rebuild the history except images and embeddings.

    Args:
        history: stays as it is.
        path: ends in `.csv` (a `.json` file is written beside it) or `.parquet`; replaced where it exists, a link's target where it is one.
        raw: leave texts that a spreadsheet takes for formulas as they are, as `in_csv` says.

    Raises:
        UsageError: another ending.
        StorageError: it cannot be written.
    """
    path = Path(path)
    form = _form(path)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "space": history.space_json,
        "stored_size": history.stored_size,
        "notes": history.notes,
        "datasets": [encode_info(info) for info in history.datasets],
        "configs": list(history.configs),
    }
    with durable.storage_errors(path):
        if form == "csv":
            _write(path, _csv(history, raw=raw))
            _write(path.with_suffix(".json"), (json.dumps(metadata, ensure_ascii=False) + "\n").encode())
        else:
            _write(path, _parquet(history, json.dumps(metadata, ensure_ascii=False)))


def import_history(source: str | Path, path: str | Path) -> History:
    """Create a history from an exported file, open for writing, with an id of its own.

    Raises:
        MissingPathError: nothing at `source`.
        DataError: `source` was not written by `export_history`, or does not hold together; nothing is left at `path` then.
        UsageError: something is at `path` already.
    """
    source = Path(source)
    metadata, rows = read_rows(source)
    if metadata is None:
        msg = f"{source}: expected a file written by `warmstart history export`, got one that names no search space. Create a history with a space first, `warmstart history create FILE --space SPACE`, then import into it."
        raise DataError(msg)
    try:
        settings = {"configs": metadata["configs"], "stored_size": metadata["stored_size"], "notes": metadata["notes"]}
        space = metadata["space"]
    except KeyError as error:
        msg = f"{source}: expected what `warmstart history export` writes, got {in_words(error)}. Export it anew."
        raise DataError(msg) from error
    evaluations = list(_evaluations(rows, space, source))
    datasets = _new_datasets((), metadata, rows, source)
    history = History.create(path, space, **settings)
    with removed_unless_filled(history):
        history.extend(evaluations, datasets=datasets)
    return history


def import_evaluations(
    history: History, source: str | Path, *, new_datasets: Literal["add", "refuse"] = "add"
) -> Imported:
    """Add the evaluations of a CSV or Parquet file to a history, all or none.

    Args:
        history: open for writing.
        source: written by `export_history`, or by hand.
        new_datasets: what to do with datasets that the history does not have: add them, as the file describes them
            or else by name (and column `group`) alone, or refuse the file.

    Raises:
        MissingPathError: nothing at `source`.
        UsageError: it ends in neither `.csv` nor `.parquet`.
        DataError: a column or a cell is not what it should be (the message names the row), a run is there already, or
            runs are on other images than those that the history has under the name.
    """
    source = Path(source)
    metadata, rows = read_rows(source)
    if metadata is not None and not same_space(metadata["space"], history.space_json):
        msg = f"{source}: expected evaluations in the space of {history.path}, got another space. Import the file into a history of its own."
        raise DataError(msg)
    evaluations = list(_evaluations(rows, history.space_json, source))
    described = [decode_info(info, str(source)) for info in (metadata or {}).get("datasets", ())]
    check_same_images(history, described, evaluations, str(source))
    datasets = _new_datasets(history.names, metadata, rows, source)
    if datasets and new_datasets == "refuse":
        msg = f"{source}: expected datasets of {history.path}, got {', '.join(info.name for info in datasets)}. Add them first, or correct their names."
        raise DataError(msg)
    n_configs = len(history.configs)
    history.extend(evaluations, datasets=datasets)
    return Imported(len(evaluations), len(history.configs) - n_configs, tuple(info.name for info in datasets))


def check_same_images(
    history: History, described: Iterable[DatasetInfo], evaluations: Iterable[Evaluation], location: str
) -> None:
    """Check that runs are on the images that a history has under the same dataset names, as far as known.

    Args:
        history: that gets the runs.
        described: datasets as the source of the runs describes them.
        evaluations: the runs.
        location: the source, which an error names.

    Raises:
        DataError: a name is of other images here than there.
    """
    measured = {evaluation.dataset for evaluation in evaluations}.intersection(history.names)
    for info in described:
        here = history.dataset(info.name).fingerprint if info.name in measured else ""
        if here and info.fingerprint not in ("", here):
            msg = f"{location}: expected runs on {info.name!r} as {history.path} has it ({here}), got runs on other images of that name ({info.fingerprint}). Put the two histories together by their images: `warmstart history bundle` the other one, then `merge` it."
            raise DataError(msg)


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of a file, the numbers of its rows for messages, and the columns that were per cent and are fractions."""

    columns: Mapping[str, Sequence[Any]]
    numbers: Sequence[int]
    word: str
    percentages: Collection[str] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def _form(path: Path) -> Literal["csv", "parquet"]:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return "csv"
    if suffix in (".parquet", ".pq"):
        return "parquet"
    msg = f"{path}: expected a name that ends in .csv or .parquet, got {path.suffix or 'no ending'!r}. Rename it."
    raise UsageError(msg)


def _write(path: Path, data: bytes) -> None:
    """Replace the target of a path; a link stays a link."""
    durable.write_file(Path(os.path.realpath(path)), data)


def _plain_columns(history: History) -> dict[str, list[Any]]:
    """Return all columns except the curve; None = empty cell."""
    table, configs = history.table(), history.configs
    config = table.config.tolist()
    names = sorted({name for values in configs for name in values})
    return {
        "dataset": [history.names[i] for i in table.dataset.tolist()],
        **{PREFIX + name: [configs[i].get(name) for i in config] for name in names},
        "error": [None if math.isnan(error) else error for error in table.error.tolist()],
        "status": [STATUSES[code].value for code in table.status.tolist()],
        "duration": [None if math.isnan(seconds) else seconds for seconds in table.duration.tolist()],
        "seed": [None if seed < 0 else seed for seed in table.seed.tolist()],
        "origin": [table.origins[i] for i in table.origin.tolist()],
    }


def _csv(history: History, *, raw: bool) -> bytes:
    table = history.table()
    points = list(zip(table.curve_step.tolist(), table.curve_error.tolist(), strict=True))
    starts, ends = np.concatenate([[0], table.curve_end[:-1]]).astype(int).tolist(), table.curve_end.tolist()
    columns = _plain_columns(history)
    columns["curve"] = [json.dumps(points[start:end]) for start, end in zip(starts, ends, strict=False)]
    return in_csv(columns, zip(*columns.values(), strict=True), raw=raw).encode()


def _parquet(history: History, metadata: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = history.table()
    columns: dict[str, Any] = {}
    for name, values in _plain_columns(history).items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            values = [None if value is None else _text(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        columns[name] = pa.array(values) if kinds else pa.array(values, pa.string())
    offsets = np.concatenate([[0], table.curve_end]).astype(np.int32)
    columns["curve_step"] = pa.ListArray.from_arrays(offsets, pa.array(table.curve_step))
    columns["curve_error"] = pa.ListArray.from_arrays(offsets, pa.array(table.curve_error))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns).replace_schema_metadata({"warmstart": metadata}), sink)
    return bytes(sink.getvalue().to_pybytes())


def read_rows(path: Path) -> tuple[dict[str, Any] | None, Rows]:
    """Read a file: the metadata of its history, if any, and its columns."""
    form = _form(path)
    if not path.is_file():
        msg = f"{path}: expected a file of evaluations, got {'a folder' if path.is_dir() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    metadata, rows = (_read_csv if form == "csv" else _read_parquet)(path)
    if metadata is None:
        return None, rows
    try:
        values = parse_json(metadata)
    except ValueError as error:
        # Some other JSON file that happens to have the name.
        if FORMAT.encode() not in metadata:
            return None, rows
        msg = f"{path}: expected JSON about the history it came from, got {in_words(error)}. Export it anew."
        raise DataError(msg) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        return None, rows
    if values.get("version") != VERSION:
        msg = f'{path}: expected version "{VERSION}", got "{values.get("version")}". Upgrade warmstart.'
        raise HistoryVersionError(msg)
    return values, rows


def _read_csv(path: Path) -> tuple[bytes | None, Rows]:
    table = read_csv(path)
    try:
        metadata: bytes | None = ordinary_file(path.with_suffix(".json")).read_bytes()
    except OSError:  # nothing there, or no ordinary file
        metadata = None
    columns = {from_csv(name): [*map(from_csv, cells)] for name, cells in table.numeric_columns().items()}
    return metadata, Rows(columns, table.lines, "line", table.percentages)


def _read_parquet(path: Path) -> tuple[bytes | None, Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with arrow_errors(path, "a Parquet file"):
        schema = pq.read_schema(path)
        table = pa.Table.from_batches(parquet_batches(path), schema)
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    metadata = (schema.metadata or {}).get(b"warmstart")
    return metadata, Rows(columns, range(1, len(table) + 1), "row")


def _new_datasets(names: Sequence[str], about: Mapping[str, Any] | None, rows: Rows, source: Path) -> list[DatasetInfo]:
    """Describe the datasets that are not known, first those that the file describes."""
    existing = set(names)
    described = [decode_info(info, str(source)) for info in (about or {}).get("datasets", ())]
    listed = {info.name for info in described}
    groups = rows.columns.get("group", rows.columns["dataset"] if len(rows) else ())
    named = {name: str(group or name) for name, group in zip(rows.columns.get("dataset", ()), groups, strict=True)}
    blank = [
        DatasetInfo(name, group, n_train=0, n_val=0, n_test=0, n_classes=0, source=f"import of {source.name}")
        for name, group in named.items()
        if name not in listed
    ]
    return [info for info in (*described, *blank) if info.name not in existing]


def _evaluations(rows: Rows, space_json: str, source: Path) -> Iterator[Evaluation]:
    """Build the evaluations of all rows."""
    columns = rows.columns
    parsers, names = _parsers(space_json), space_names(space_json)
    values = _config_columns(columns, parsers, source)
    if "dataset" not in columns:
        msg = f"{source}: expected a column 'dataset', got the columns {', '.join(columns)}. Add it."
        raise DataError(msg)
    if "error" not in columns and "status" not in columns:
        msg = f"{source}: expected a column 'error' or 'status', got the columns {', '.join(columns)}. Add one of them."
        raise DataError(msg)
    configs: dict[tuple[Any, ...], dict[str, Value]] = {}
    keys = list(zip(*values.values(), strict=True)) if values else [()] * len(rows)
    for i, dataset in enumerate(columns["dataset"]):
        location = f"{source} {rows.word} {rows.numbers[i]}"
        if not dataset or not isinstance(dataset, str):
            msg = f"{location}: expected the name of a dataset, got {dataset!r}. Fill the cell."
            raise DataError(msg)
        if keys[i] not in configs:
            cells = zip(values, keys[i], strict=True)
            config = {n: parsers[n](cell, f"{location}: {n}") for n, cell in cells if not is_empty(cell)}
            configs[keys[i]] = with_logarithms(config, names, location=location)
        run = {name: run_cell(columns[name][i], name, location) for name in RUN_COLUMNS if name in columns}
        run = {name: cell for name, cell in run.items() if cell is not None}
        run.setdefault("origin", f"import/{source.name}")
        run["curve"] = run_curve(columns, i, location)
        yield decode_run(run, dataset, configs[keys[i]], location)


def _config_columns(
    columns: Mapping[str, Sequence[Any]], names: Mapping[str, Any], source: Path
) -> dict[str, Sequence[Any]]:
    """Find the column of each hyperparameter, with or without prefix."""
    cells_by_name: dict[str, Sequence[Any]] = {}
    for column, cells in columns.items():
        name = column.removeprefix(PREFIX)
        if name in names and (column.startswith(PREFIX) or column not in OWN_COLUMNS):
            if name in cells_by_name:
                msg = f"{source}: expected one column for {name!r}, got two. Remove {name!r} or {PREFIX + name!r}."
                raise DataError(msg)
            cells_by_name[name] = cells
        elif column not in OWN_COLUMNS:
            msg = f"{source}: expected columns of evaluations and the hyperparameters {', '.join(names)}, got {column!r}. Rename or remove it."
            raise DataError(msg)
    return cells_by_name


def _parsers(space_json: str) -> dict[str, Callable[[Any, str], Value]]:
    """Return the parser of cells by hyperparameter or its natural name; ConfigSpace checks the result later."""
    items = json.loads(space_json)["hyperparameters"]
    natural = {item["name"].removeprefix("log10_"): _parser(item) for item in items if "choices" not in item}
    return natural | {item["name"]: _parser(item) for item in items}


def _parser(item: Mapping[str, Any]) -> Callable[[Any, str], Value]:
    choices = item.get("choices") or item.get("sequence") or ([item["value"]] if "value" in item else None)

    def parse(cell: Any, location: str) -> Value:
        if choices is not None:
            for choice in choices:
                if (cell == choice and type(cell) is type(choice)) or str(cell) in (_text(choice), str(choice)):
                    value: Value = choice
                    return value
            msg = f"{location}: expected one of {', '.join(map(_text, choices))}, got {cell!r}. Correct the cell."
            raise DataError(msg)
        if item["type"].endswith("_int"):
            return _whole(cell, location)
        return _real(cell, location)

    return parse


def run_cell(cell: Any, name: str, location: str) -> Any:
    """Parse a cell of one of the plain columns; None if it is empty."""
    if is_empty(cell):
        return None
    if name in ("error", "duration"):
        return _real(cell, f"{location}: {name}")
    return _whole(cell, f"{location}: {name}") if name == "seed" else str(cell)


def run_curve(columns: Mapping[str, Sequence[Any]], i: int, location: str) -> list[tuple[int, float]]:
    """Read the learning curve of row i, in either form."""
    if "curve_step" in columns and "curve_error" in columns:
        steps, errors = columns["curve_step"][i] or [], columns["curve_error"][i] or []
    else:
        cell: Any = columns["curve"][i] if "curve" in columns else None
        if is_empty(cell):
            return []
        try:
            steps, errors = zip(*parse_json(cell), strict=True) if cell != "[]" else ((), ())
            if not all(map(_is_number, (*steps, *errors))):
                raise TypeError  # noqa: TRY301  one message for all that is no curve
        except (ValueError, TypeError) as error:
            msg = f"{location}: curve: expected JSON pairs [[update, error], ...], got {str(cell)[:60]!r}. Correct the cell."
            raise DataError(msg) from error
    if len(steps) != len(errors):
        msg = f"{location}: expected a curve with an error for every update, got {len(steps)} and {len(errors)}. Correct the cells."
        raise DataError(msg)
    return list(zip(steps, errors, strict=True))


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return is_numeric and abs(value) <= sys.float_info.max


def is_empty(cell: Any) -> bool:
    """Return whether a cell holds nothing."""
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _real(cell: Any, location: str) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        msg = f"{location}: expected a number, got {cell!r}. Correct the cell."
        raise DataError(msg) from None


def _whole(cell: Any, location: str) -> int:
    if isinstance(cell, int) or (isinstance(cell, str) and cell.strip().removeprefix("-").isdecimal()):
        return int(cell)  # exact at any length
    number = _real(cell, location)
    if not number.is_integer():
        msg = f"{location}: expected a whole number, got {cell!r}. Correct the cell."
        raise DataError(msg)
    return int(number)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
