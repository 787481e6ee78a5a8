"""Shards: a history as small text files without images, to be committed and extended over several sessions.

A folder holds `collection.json` (space, shared configurations, budget, seed, stored size) and one `<dataset>.jsonl` a
dataset: first a line that describes the dataset, then a line an evaluation, in the order of measurement.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store import system
from warmstart.history_store.errors import DataError, HistoryVersionError, MissingPathError
from warmstart.history_store.file import durable
from warmstart.history_store.file.codec import config_key, decode_info, decode_run, encode_info, encode_run, native
from warmstart.history_store.file.content import check_info, quoted, unit_rows
from warmstart.history_store.file.lock import is_at
from warmstart.history_store.history import History
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.made_history import removed_unless_filled
from warmstart.history_store.records import Config, DatasetInfo, Evaluation, Value
from warmstart.history_store.space import same_space, with_logarithms
from warmstart.history_store.wording import in_words

FORMAT = "warmstart-shards"
VERSION = 1
_COLLECTION = "collection.json"


@dataclass(frozen=True, slots=True)
class Shards:
    """Content of a folder of shards.

    Attributes:
        space_json: the search space as ConfigSpace JSON.
        configs: shared configurations; lines name them by index.
        datasets: in the order of their files' names.
        evaluations: by dataset name, in file order.
        budget: how long a run was trained, in the trainer's own words.
        seed: of the configurations.
        stored_size: side of the images in pixels.
    """

    space_json: str
    configs: tuple[dict[str, Value], ...]
    datasets: tuple[DatasetInfo, ...]
    evaluations: Mapping[str, tuple[Evaluation, ...]]
    budget: Mapping[str, Any]
    seed: int
    stored_size: int


def create_shards(
    folder: str | Path,
    space_json: str,
    *,
    configs: Sequence[Config],
    budget: Mapping[str, Any] | None = None,
    seed: int = 0,
    stored_size: int = 32,
) -> None:
    """Create a folder of shards without datasets, or check that an existing one is of the same collection.

    Configurations may be added at the end; the budgets must agree in their common keys; all else must be equal.

    Raises:
        DataError: the folder holds another collection, or a configuration does not fit the space.
    """
    folder = Path(folder)
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "space": json.loads(space_json),
        "configs": [native(config) for config in configs],
        "budget": dict(budget or {}),
        "seed": seed,
        "stored_size": stored_size,
    }
    unit_rows(space_json, fields["configs"], str(folder))
    target = folder / _COLLECTION
    if target.exists():
        stored = _read_collection(folder)
        shared = len(stored["configs"])
        differing = [key for key in fields if key not in ("configs", "budget") and stored.get(key) != fields[key]]
        if not _is_same_budget(fields["budget"], stored["budget"]):
            differing.append("budget")
        if fields["configs"][:shared] != stored["configs"][: len(fields["configs"])]:
            differing.append("configs")
        if differing:
            msg = f"{target}: expected the same collection, got another {', '.join(differing)}. Choose another folder."
            raise DataError(msg)
        if len(fields["configs"]) <= shared:
            return
        fields["budget"] = {**stored["budget"], **fields["budget"]}
    with durable.storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_file(target, (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode())


def add_shard(folder: str | Path, info: DatasetInfo) -> Path:
    """Start the file of a dataset, or check that an existing one describes the same; return its path.

    Raises:
        DataError: another description is there, or the description contradicts itself.
    """
    folder = Path(folder)
    _read_collection(folder)
    check_info(info, str(folder))
    path = folder / f"{quoted(info.name)}.jsonl"
    lines = _lines(path)
    if lines:
        stored = _read_info(lines[0], path)
        if stored != info:
            msg = f"{path}: expected the shard of {info.name!r} as described, got another description. Choose another folder, or another name."
            raise DataError(msg)
        return path
    _append_line(path, {"dataset": encode_info(info)})
    return path


def append_shard(folder: str | Path, config: int, evaluation: Evaluation) -> None:
    """Append one evaluation to its dataset's file, durably.

    Args:
        folder: of shards, where `add_shard` has started the dataset's file.
        config: index of its configuration in the collection.
        evaluation: what was measured.

    Raises:
        MissingPathError: the dataset has no file.
        StorageError: it could not be written.
    """
    path = Path(folder) / f"{quoted(evaluation.dataset)}.jsonl"
    if not path.exists():
        msg = f"{path}: expected the shard of {evaluation.dataset!r}, got nothing there. Start it with add_shard."
        raise MissingPathError(msg)
    _append_line(path, {"config": config} | encode_run(evaluation))


def read_shards(folder: str | Path) -> Shards:
    """Read a folder of shards; a last line that was cut off is passed over.

    Raises:
        MissingPathError: no such folder, or it holds no `collection.json`.
        DataError: a line is not what it should be; the message names file and line.
        HistoryVersionError: written by a newer version.
    """
    folder = Path(folder)
    collection = _read_collection(folder)
    configs = tuple(collection["configs"])
    datasets: list[DatasetInfo] = []
    evaluations: dict[str, tuple[Evaluation, ...]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = _lines(path)
        if not lines:
            continue
        info = _read_info(lines[0], path)
        if info.name in evaluations:
            msg = f"{path}: expected one file a dataset, got {info.name!r} a second time. Remove one of them."
            raise DataError(msg)
        datasets.append(info)
        evaluations[info.name] = tuple(
            _read_run(line, info.name, configs, f"{path}:{number}") for number, line in enumerate(lines[1:], start=2)
        )
    return Shards(
        space_json=json.dumps(collection["space"], sort_keys=True),
        configs=configs,
        datasets=tuple(datasets),
        evaluations=evaluations,
        budget=collection["budget"],
        seed=collection["seed"],
        stored_size=collection["stored_size"],
    )


def write_shards(
    history: History, folder: str | Path, *, budget: Mapping[str, Any] | None = None, seed: int = 0
) -> int:
    """Write a history's datasets and evaluations as shards, without those that the folder has already.

    Args:
        history: stays as it is.
        folder: new, or of the same collection; evaluations that it has are not written again.
        budget: how long a run was trained.
        seed: of the configurations.

    Returns: number of evaluations written.

    Raises:
        DataError: the folder holds another collection.
        StorageError: it could not be written.
    """
    folder = Path(folder)
    create_shards(
        folder, history.space_json, configs=history.configs, budget=budget, seed=seed, stored_size=history.stored_size
    )
    configs = read_shards(folder).configs
    index = {config_key(config): number for number, config in enumerate(configs)}
    written = 0
    for info in history.datasets:
        path, runs = folder / f"{quoted(info.name)}.jsonl", history.evaluations(info.name)
        # Read and append under one lock: a run that another process adds meanwhile must not be written twice.
        with durable.storage_errors(path), _open_locked(path) as fd:
            lines = _lines(path)
            if lines:
                add_shard(folder, info)
            stored = [_read_run(line, info.name, configs, f"{path}:{n}") for n, line in enumerate(lines[1:], start=2)]
            new_runs = _new_runs(stored, runs)
            values = [{"config": index[config_key(run.config)]} | encode_run(run) for run in new_runs]
            _append_lines(fd, path, values if lines else [{"dataset": encode_info(info)}, *values])
        written += len(new_runs)
    return written


def merge_shards(history: History, folder: str | Path) -> int:
    """Add the datasets and evaluations of shards that a history lacks; return the number of evaluations added.

    Raises:
        DataError: the space differs, or a dataset is described otherwise.
        StorageError: the history cannot be written.
    """
    shards = read_shards(folder)
    if not same_space(shards.space_json, history.space_json):
        msg = f"{folder}: expected shards in the space of {history.path}, got another space. Make a history of their own from them."
        raise DataError(msg)
    missing: list[Evaluation] = []
    fresh: list[DatasetInfo] = []
    for info in shards.datasets:
        runs: Sequence[Evaluation] = shards.evaluations[info.name]
        if info.name not in history.names:
            fresh.append(info)
        elif history.dataset(info.name) != info:
            msg = f"{folder}: expected {info.name!r} as {history.path} describes it, got another description. Rename one of the two."
            raise DataError(msg)
        else:
            runs = _new_runs(history.evaluations(info.name), runs)
        missing.extend(runs)
    history.extend(missing, datasets=fresh)
    return len(missing)


def history_from_shards(folder: str | Path, path: str | Path) -> History:
    """Create a history from shards, open for writing.

    Raises:
        UsageError: something is at `path` already.
        DataError: the shards cannot be used; nothing is left at `path` then.
    """
    shards = read_shards(folder)
    notes = {"budget": json.dumps(shards.budget, sort_keys=True), "seed": str(shards.seed)}
    history = History.create(
        path, shards.space_json, configs=shards.configs, stored_size=shards.stored_size, notes=notes
    )
    with removed_unless_filled(history):
        merge_shards(history, folder)
    return history


def _is_same_budget(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two budgets agree in the keys that both have; an empty one differs from any other."""
    return bool(first) == bool(second) and all(second[key] == value for key, value in first.items() if key in second)


def _new_runs(stored: Iterable[Evaluation], runs: Iterable[Evaluation]) -> list[Evaluation]:
    """Return the runs that are not stored yet; runs of unknown seed may repeat and are counted."""
    counts = Counter(map(_identity, stored))
    new_runs = []
    for run in runs:
        if not counts[_identity(run)]:
            new_runs.append(run)
        elif run.seed is None:
            counts[_identity(run)] -= 1
    return new_runs


def _identity(run: Evaluation) -> object:
    """Return the identity of a run as in a history; for an unknown seed, all of its fields."""
    if run.seed is not None:
        return config_key(run.config), run.seed, run.origin
    return _dump(encode_run(run)), config_key(run.config)


def _read_collection(folder: Path) -> dict[str, Any]:
    path = folder / _COLLECTION
    try:
        values = parse_json(ordinary_file(path).read_bytes())
    except FileNotFoundError as error:
        msg = f"{path}: expected a folder of shards, got none there. Check the path."
        raise MissingPathError(msg) from error
    except ValueError as error:
        msg = f"{path}: expected JSON, got {in_words(error)}. Take the file back from version control."
        raise DataError(msg) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        msg = f"{path}: expected format {FORMAT!r}, got something else. Check the path."
        raise DataError(msg)
    if values.get("version") != VERSION:
        msg = f'{path}: expected version "{VERSION}", got "{values.get("version")}". Upgrade warmstart.'
        raise HistoryVersionError(msg)
    kinds = {"space": dict, "configs": list, "budget": dict, "seed": int, "stored_size": int}
    wrong = [key for key, kind in kinds.items() if not isinstance(values.get(key), kind)]
    if wrong:
        msg = f"{path}: expected {', '.join(kinds)}, got a wrong or no {', '.join(wrong)}. Correct the file."
        raise DataError(msg)
    # Otherwise the check of the configurations reports it.
    if all(isinstance(config, dict) for config in values["configs"]):
        names = [item["name"] for item in values["space"].get("hyperparameters", ())]
        values["configs"] = [with_logarithms(config, names, location=str(path)) for config in values["configs"]]
    return values


def _lines(path: Path) -> list[bytes]:
    """Return the whole lines of a shard."""
    try:
        return ordinary_file(path).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _parse_object(line: bytes, location: str) -> dict[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        msg = f"{location}: expected a line of JSON, got {line[:60]!r} ({in_words(error)}). Correct the line."
        raise DataError(msg) from error
    if not isinstance(values, dict):
        msg = f"{location}: expected a JSON object, got {line[:60]!r}. Correct the line."
        raise DataError(msg)
    return values


def _read_info(line: bytes, path: Path) -> DatasetInfo:
    info = decode_info(_parse_object(line, f"{path}:1").get("dataset"), f"{path}:1")
    check_info(info, f"{path}:1")
    return info


def _read_run(line: bytes, dataset: str, configs: Sequence[Config], location: str) -> Evaluation:
    values = _parse_object(line, location)
    index = values.pop("config", None)
    if type(index) is not int or not 0 <= index < len(configs):
        msg = (
            f"{location}: expected the index of one of {len(configs)} configurations, got config={index!r}. Correct it."
        )
        raise DataError(msg)
    return decode_run(values, dataset, configs[index], location)


def _dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, allow_nan=False, ensure_ascii=False).encode()


def _append_line(path: Path, values: Mapping[str, Any]) -> None:
    """Append one line durably."""
    with durable.storage_errors(path), _open_locked(path) as fd:
        _append_lines(fd, path, [values])


@contextlib.contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Open or create a shard under an exclusive lock; try again if it was replaced meanwhile."""
    new, is_right = not path.exists(), False
    while not is_right:
        fd = durable.open_append(path)
        try:
            system.wait_for_lock(fd)
            is_right = is_at(fd, path)
            if is_right:
                yield fd
        finally:
            os.close(fd)
    if new:
        durable.sync_folder(path.parent)


def _append_lines(fd: int, path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines durably, after cutting off the remains of a stopped write."""
    if not lines:
        return
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    if size != len(content):
        durable.truncate(fd, size, path)
    try:
        durable.write(fd, b"".join(_dump(values) + b"\n" for values in lines), path)
        durable.sync(fd, path)
    except BaseException:
        durable.truncate(fd, size, path)
        raise
