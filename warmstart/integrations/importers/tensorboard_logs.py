"""Import logs of TensorBoard: scalars, and the settings of its HParams plugin; no package of it is needed."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.limits import UNPACKED, ordinary_file
from warmstart.integrations.importers.registry import Importer, by_metric
from warmstart.integrations.importers.run_folders import (
    FolderRun,
    as_foreign_runs,
    choose_metric,
    end_status,
    find_files,
    is_maximised,
    read_flat_yaml,
    rising_curve,
    take_dataset,
)

PREFIX = "events.out.tfevents."
HPARAMS = "hparams.yaml"
LIKELY = ("val_acc", "val_accuracy", "val/acc", "val/accuracy", "validation/epoch_accuracy", "hparam/accuracy", "hparam/acc", "accuracy", "val_loss")  # fmt: skip
_START, _END = "_hparams_/session_start_info", "_hparams_/session_end_info"
_SUCCESS = 1
Series = list[tuple[int, float, float]]
"""Step, seconds since 1970 and value of each event of a scalar."""
Message = dict[int, list[Any]]
"""Values of a protocol buffer by the number of their field: integers, or bytes."""


@dataclass(slots=True)
class _Log:
    """What the event files of a folder say: settings, end, scalars by name."""

    settings: dict[str, Any] | None = None
    status: int | None = None
    scalars: dict[str, Series] = field(default_factory=dict)


def read_tensorboard(source: Path, *, metric: str | None = None) -> ForeignRuns:
    """Read runs: folders with settings. Their scalars are in them, in folders below, or in the one above.

    Args:
        source: folder of the logs.
        metric: name of the scalar; `val_acc` and its spellings when left out.

    Raises:
        UsageError: no such scalar.
        DataError: no run with settings, or a file that cannot be read.
    """
    logs: dict[Path, _Log] = {}
    for path in find_files(source, prefix=PREFIX):
        _read(path, logs.setdefault(path.parent, _Log()))
    for folder, log in logs.items():
        if log.settings is None and (folder / HPARAMS).is_file():
            log.settings, log.status = read_flat_yaml(folder / HPARAMS), _SUCCESS
    sessions = [folder for folder, log in logs.items() if log.settings is not None]
    if not sessions:
        msg = f"{source}: expected logs of TensorBoard with the settings of the runs (add_hparams), got none with settings. Save the runs as a table: a column a hyperparameter, and one of the error."
        raise DataError(msg)
    series = {folder: _series_of(folder, logs) for folder in sessions}
    names = sorted({name for found in series.values() for name in found} - {"hp_metric"})
    chosen = choose_metric(names, metric, LIKELY, str(source))
    runs = [_run(folder, logs[folder], series[folder].get(chosen, [])) for folder in sessions]
    return as_foreign_runs(
        f"TensorBoard logs {source.resolve().name!r}, {chosen}", runs, maximised=is_maximised(chosen)
    )


def _series_of(folder: Path, logs: Mapping[Path, _Log]) -> dict[str, Series]:
    """Return the scalars of a session by name.

    torch's `add_hparams` makes a folder of its own for the settings: then the scalars are in the folder above, unless
    another session shares it.
    """
    above, below = logs.get(folder.parent), {path: log for path, log in logs.items() if path.parent == folder}
    siblings = [path for path, log in logs.items() if path.parent == folder.parent and log.settings is not None]
    found: dict[str, Series] = {}
    if above is not None and above.settings is None and siblings == [folder]:
        found |= above.scalars
    for path, log in below.items():
        if log.settings is None:
            found |= {f"{path.name}/{name}": series for name, series in log.scalars.items()}
    return found | logs[folder].scalars


def _run(folder: Path, session: _Log, series: Series) -> FolderRun:
    value = series[-1][2] if series else math.nan
    status = end_status(value, complete=session.status == _SUCCESS, reported=bool(series))
    params = dict(session.settings or {})
    place = folder.resolve()
    dataset, origin = take_dataset(params), f"import/tensorboard/{place.parent.name}/{place.name}"
    curve = rising_curve([(step, number) for step, _, number in series])
    seconds = series[-1][1] - series[0][1] if len(series) > 1 else math.nan
    return FolderRun(params, value, status, curve if len(series) > 1 else (), seconds, origin, dataset)


def _read(path: Path, log: _Log) -> None:
    """Add the events of a file to a log; a record that a kill tore ends it.

    Raises:
        DataError: it is no event file.
    """
    UNPACKED.check(path.stat().st_size, str(path))
    data, start = ordinary_file(path).read_bytes(), 0
    try:
        while start + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, start)
            if start + 16 + length > len(data):
                return
            _add_event(_fields(data[start + 12 : start + 12 + length]), log)
            start += 16 + length
    except (ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        msg = f"{path}: expected events of TensorBoard, got other bytes. Copy the file again."
        raise DataError(msg) from error


def _add_event(event: Message, log: _Log) -> None:
    (raw_time,), (step,) = event.get(1, [b""]), event.get(2, [0])
    for summary in event.get(5, []):
        for value in (_fields(raw) for raw in _fields(summary).get(1, [])):
            tag = value.get(1, [b""])[0].decode()
            content = _plugin_content(value)
            if tag == _START and 3 in content:
                log.settings = dict(_settings(_fields(content[3][0])))
            elif tag == _END and 4 in content:
                log.status = _fields(content[4][0]).get(1, [0])[0]
            elif (number := _number(value)) is not None:
                log.scalars.setdefault(tag, []).append((step, struct.unpack("<d", raw_time)[0], number))


def _plugin_content(value: Message) -> Message:
    """Return the data of the HParams plugin in a value of a summary."""
    for metadata in value.get(9, []):
        for plugin in (_fields(raw) for raw in _fields(metadata).get(1, [])):
            if plugin.get(1) == [b"hparams"]:
                return _fields(plugin.get(2, [b""])[0])
    return {}


def _settings(start: Message) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a session: texts, numbers and truth values."""
    for entry in (_fields(raw) for raw in start.get(1, [])):
        value = _fields(entry.get(2, [b""])[0])
        name = entry[1][0].decode()
        if 2 in value:
            yield name, struct.unpack("<d", value[2][0])[0]
        elif 3 in value:
            yield name, value[3][0].decode()
        elif 4 in value:
            yield name, bool(value[4][0])


def _number(value: Message) -> float | None:
    """Return the scalar of a value of a summary: a float, or a tensor of one; None for another."""
    if 2 in value:
        return float(struct.unpack("<f", value[2][0])[0])
    tensor = _fields(value[8][0]) if 8 in value else {}
    if tensor.get(2, [b""]) != [b""]:  # it has a shape
        return None
    code = {1: "<f", 2: "<d"}.get(tensor.get(1, [0])[0])
    raw = next((tensor[number][0] for number in (4, 5, 6) if number in tensor), b"")
    return None if code is None or len(raw) != struct.calcsize(code) else float(struct.unpack(code, raw)[0])


def _fields(data: bytes) -> Message:
    """Read a message of protocol buffers."""
    fields: Message = {}
    start = 0
    while start < len(data):
        key, start = _varint(data, start)
        value: Any
        match key & 7:
            case 0:
                value, start = _varint(data, start)
            case 2:
                length, start = _varint(data, start)
                value, start = data[start : start + length], start + length
            case 1 | 5 as kind:
                length = 8 if kind == 1 else 4
                value, start = data[start : start + length], start + length
            case _:
                msg = "another kind of field"
                raise ValueError(msg)
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[start]
        start += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, start
        if shift > 63:
            msg = "a number of more than 64 bits"
            raise ValueError(msg)


def is_log(source: str) -> bool:
    """Tell whether a folder has logs of TensorBoard; Ray Tune writes such logs too, beside its own files."""
    path = Path(source)
    return path.is_dir() and not any(path.glob("*/params.json")) and next(find_files(path, prefix=PREFIX), None) is not None  # fmt: skip


IMPORTER = Importer(is_log, by_metric(read_tensorboard), ("metric",))
