"""Shards: a history as small text files without images, to be committed and extended over several sessions.

A folder holds `collection.json` (space, shared configurations, budget, seed, stored size) and one `<dataset>.jsonl` a
dataset: first a line that describes the dataset, then a line an evaluation, in the order of measurement.
"""

import contextlib
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, HistoryVersionError, MissingPathError
from warmstart.history_store.file import durable
from warmstart.history_store.file.codec import config_key, decode_info, decode_run, encode_info, encode_run, native
from warmstart.history_store.file.content import check_info, quoted, unit_rows
from warmstart.history_store.file.lock import is_at
from warmstart.history_store.history import History
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.made_history import removed_unless_filled
from warmstart.history_store.records import Config, DatasetInfo, Evaluation, Value
from warmstart.history_store.space import same_space, with_logarithms
from warmstart.history_store.wording import in_words

FORMAT = "warmstart-shards"
VERSION = 1
_COLLECTION = "collection.json"


@dataclass(frozen=True, slots=True)
class Shards:
    """What a folder of shards holds.

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
    """Make a folder of shards without datasets, or check that the one there is of the same collection.

    Configurations may be added at the end; of the budget, what both name must agree; all else must be as it is.

    Raises:
        DataError: the folder holds another collection, or a configuration does not fit the space.
    """
    folder = Path(folder)
    wanted = {
        "format": FORMAT,
        "version": VERSION,
        "space": json.loads(space_json),
        "configs": [native(config) for config in configs],
        "budget": dict(budget or {}),
        "seed": seed,
        "stored_size": stored_size,
    }
    unit_rows(space_json, wanted["configs"], str(folder))
    target = folder / _COLLECTION
    if target.exists():
        there = _read_collection(folder)
        shared = len(there["configs"])
        differing = [key for key in wanted if key not in ("configs", "budget") and there.get(key) != wanted[key]]
        if not _is_same_budget(wanted["budget"], there["budget"]):
            differing.append("budget")
        if wanted["configs"][:shared] != there["configs"][: len(wanted["configs"])]:
            differing.append("configs")
        if differing:
            msg = f"{target}: expected the same collection, got another {', '.join(differing)}. Choose another folder."
            raise DataError(msg)
        if len(wanted["configs"]) <= shared:
            return
        wanted["budget"] = {**there["budget"], **wanted["budget"]}
    with durable.storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_file(target, (json.dumps(wanted, indent=1, ensure_ascii=False) + "\n").encode())


def add_shard(folder: str | Path, info: DatasetInfo) -> Path:
    """Start the file of a dataset, or check that the one there describes the same; returns its path.

    Raises:
        DataError: another description is there, or the description contradicts itself.
    """
    folder = Path(folder)
    _read_collection(folder)
    check_info(info, str(folder))
    path = folder / f"{quoted(info.name)}.jsonl"
    lines = _lines(path)
    if lines:
        there = _read_info(lines[0], path)
        if there != info:
            msg = f"{path}: expected the shard of {info.name!r} as described, got another description. Choose another folder, or another name."
            raise DataError(msg)
        return path
    _append(path, {"dataset": encode_info(info)})
    return path


def append_shard(folder: str | Path, config: int, evaluation: Evaluation) -> None:
    """Add one evaluation to its dataset's file; it is on the disk when this returns.

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
    _append(path, {"config": config} | encode_run(evaluation))


def read_shards(folder: str | Path) -> Shards:
    """Read a folder of shards; a last line that a stop has cut off is passed over.

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
    """Write a history's datasets and evaluations as shards, beside what the folder holds already.

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
        with durable.storage_errors(path), _opened(path) as fd:  # what others add is there before, or comes after
            lines = _lines(path)
            if lines:
                add_shard(folder, info)
            there = [_read_run(line, info.name, configs, f"{path}:{n}") for n, line in enumerate(lines[1:], start=2)]
            fresh = _lacking(there, runs)
            values = [{"config": index[config_key(run.config)]} | encode_run(run) for run in fresh]
            _add(fd, path, values if lines else [{"dataset": encode_info(info)}, *values])
        written += len(fresh)
    return written


def merge_shards(history: History, folder: str | Path) -> int:
    """Add the datasets and evaluations of shards that a history lacks; returns the number of evaluations added.

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
            runs = _lacking(history.evaluations(info.name), runs)
        missing.extend(runs)
    history.extend(missing, datasets=fresh)
    return len(missing)


def history_from_shards(folder: str | Path, path: str | Path) -> History:
    """Make a new history from shards, open for writing.

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


def _is_same_budget(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two budgets agree in all that both name; none at all is another than any."""
    return bool(one) == bool(other) and all(other[key] == value for key, value in one.items() if key in other)


def _lacking(there: Iterable[Evaluation], runs: Iterable[Evaluation]) -> list[Evaluation]:
    """Return the runs that are not there; those of unknown seed may repeat, and each that is there stands for one."""
    left = Counter(map(_identity, there))
    fresh = []
    for run in runs:
        if not left[_identity(run)]:
            fresh.append(run)
        elif run.seed is None:
            left[_identity(run)] -= 1
    return fresh


def _identity(run: Evaluation) -> object:
    """Tell runs apart as the history does; runs of unknown seed by all they say."""
    if run.seed is not None:
        return config_key(run.config), run.seed, run.origin
    return _dump(encode_run(run)), config_key(run.config)


def _read_collection(folder: Path) -> dict[str, Any]:
    path = folder / _COLLECTION
    try:
        values = parse_json(path.read_bytes())
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
    if all(isinstance(config, dict) for config in values["configs"]):  # else told where they are checked
        names = [item["name"] for item in values["space"].get("hyperparameters", ())]
        values["configs"] = [with_logarithms(config, names, where=str(path)) for config in values["configs"]]
    return values


def _lines(path: Path) -> list[bytes]:
    """Read the whole lines of a shard."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        msg = f"{where}: expected a line of JSON, got {line[:60]!r} ({in_words(error)}). Correct the line."
        raise DataError(msg) from error
    if not isinstance(values, dict):
        msg = f"{where}: expected a JSON object, got {line[:60]!r}. Correct the line."
        raise DataError(msg)
    return values


def _read_info(line: bytes, path: Path) -> DatasetInfo:
    info = decode_info(_object(line, f"{path}:1").get("dataset"), f"{path}:1")
    check_info(info, f"{path}:1")
    return info


def _read_run(line: bytes, dataset: str, configs: Sequence[Config], where: str) -> Evaluation:
    values = _object(line, where)
    index = values.pop("config", None)
    if type(index) is not int or not 0 <= index < len(configs):
        msg = f"{where}: expected the index of one of {len(configs)} configurations, got config={index!r}. Correct it."
        raise DataError(msg)
    return decode_run(values, dataset, configs[index], where)


def _dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, allow_nan=False, ensure_ascii=False).encode()


def _append(path: Path, values: Mapping[str, Any]) -> None:
    """Append one line durably."""
    with durable.storage_errors(path), _opened(path) as fd:
        _add(fd, path, [values])


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a shard, made where it is missing, while nobody else adds to it; again where it was replaced meanwhile."""
    new, is_right = not path.exists(), False
    while not is_right:
        fd = durable.open_append(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            is_right = is_at(fd, path)
            if is_right:
                yield fd
        finally:
            os.close(fd)
    if new:
        durable.sync_folder(path.parent)


def _add(fd: int, path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append lines durably, after cutting off what a stop has left of an earlier one."""
    if not lines:
        return
    there = path.read_bytes()
    size = there.rfind(b"\n") + 1
    if size != len(there):
        durable.truncate(fd, size, path)
    try:
        durable.write(fd, b"".join(_dump(values) + b"\n" for values in lines), path)
        durable.sync(fd, path)
    except BaseException:
        durable.truncate(fd, size, path)
        raise
