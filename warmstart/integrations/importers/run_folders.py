"""Shared functions of importers of run folders: find files, read flat YAML fast, choose the metric, make columns."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml

from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import Curve, ForeignRuns, as_columns
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.records import Status
from warmstart.history_store.wording import FaultError
from warmstart.studies.objectives.metric import LARGER, SMALLER

DEPTH = 4
"""Levels of subfolders that are searched for run folders."""
DATASETS = ("dataset", "dataset_name", "data_name", "data_dir", "data", "data_path", "data_root", "dataset_path")
"""Settings that name the dataset of a run, or its path."""
_NO_NAMES = frozenset({"train", "training", "val", "valid", "validation", "test", "images", "imagefolder"})
"""Parts of paths, and loaders, that name no dataset."""
_ERRORS = frozenset({"err", "error", "wer"})
"""Metrics that are errors in [0, 1]."""
NO_VALUE = "finished without a value of the metric"
"""Reason to leave a run out."""
_DEEPEST, _MOST_VALUES = 100, 100_000
"""Limits of levels and values in the settings of one run."""
_PLAIN = re.compile(r"^([A-Za-z_][\w./-]*): ?(.*)$")
_NUMBER = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_WORDS = {"": None, "null": None, "~": None, "true": True, "false": False, "True": True, "False": False, "None": None}


@dataclass(slots=True)
class FolderRun:
    """A run that was read from its folder.

    Attributes:
        params: its settings.
        value: of the metric; NaN without one.
        status: how it ended; None if it finished without a value of the metric.
        curve: (step, value), rising steps.
        seconds: NaN = unknown.
        origin: with its own name, the same at every import.
    """

    params: dict[str, Any]
    value: float
    status: Status | None
    curve: Curve = ()
    seconds: float = math.nan
    origin: str = ""
    dataset: str | None = field(default=None)


def find_files(root: Path, *names: str, prefix: str | None = None, depth: int = DEPTH) -> Iterator[Path]:
    """Yield files with some names, or with a prefix, in a folder and its subfolders, in order; hidden folders are skipped.

    A folder is followed by one link only, since links may be circular. A file that is also found without a link is
    yielded once; files behind links come last.
    """
    level, followed = [(str(root), False)], set[tuple[int, int]]()
    direct, behind_links = set[tuple[int, int]](), list[Path]()
    for _ in range(depth + 1):
        below: list[tuple[str, bool]] = []
        for folder, is_behind_link in level:
            try:
                with os.scandir(folder) as entries:
                    inside = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            hits = [Path(e.path) for e in inside if e.name in names or (prefix and e.name.startswith(prefix))]
            if is_behind_link:
                behind_links += hits
            else:
                direct |= {_identity(path) for path in hits}
                yield from hits
            below += [
                (entry.path, is_behind_link or entry.is_symlink())
                for entry in inside
                if entry.name[0] != "." and is_new_folder(entry, followed)
            ]
        level = below
    yield from (path for path in behind_links if _identity(path) not in direct)


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file; unique values for one that is gone."""
    try:
        status = path.stat()
    except OSError:
        return -1, hash(path)
    return status.st_dev, status.st_ino


def is_new_folder(entry: os.DirEntry[str], followed: set[tuple[int, int]]) -> bool:
    """Tell whether an entry is a folder, or a link to one that no earlier link led to."""
    try:
        if not entry.is_dir() or not entry.is_symlink():
            return entry.is_dir()
        target = entry.stat()
    except OSError:  # a link to itself
        return False
    is_followed = (target.st_dev, target.st_ino) in followed
    followed.add((target.st_dev, target.st_ino))
    return not is_followed


def has_files(source: str, *names: str) -> bool:
    """Tell whether a source is a file with one of the names, or a folder with such a file in it or below."""
    path = Path(source)
    if path.is_file():
        return path.name in names
    return path.is_dir() and next(find_files(path, *names), None) is not None


def read_rows(path: Path, content: str) -> list[dict[str, str]]:
    """Read the complete lines of a CSV file; empty if it does not exist, or nothing stands in it yet.

    Raises:
        DataError: it cannot be read; the message names `content`.
    """
    if not path.is_file() or not path.stat().st_size:
        return []
    table = read_csv(path, content)
    return [dict(zip(table.names, row, strict=True)) for row in table.rows if len(row) == len(table.names)]


def read_flat_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, nested names joined by `/`: plain lines quickly, others by PyYAML without objects.

    Raises:
        DataError: it is no mapping.
    """
    try:
        lines = ordinary_file(path).read_bytes().decode("utf-8", "replace").split("\n")
    except OSError as error:
        msg = f"{path}: expected settings of a run as YAML, got {error.strerror or error}. Check its permissions."
        raise DataError(msg) from error
    settings: dict[str, Any] = {}
    block: list[str] = []
    before: tuple[str, str] | None = None  # the pair of the line before, and that line
    for line in [*(line.rstrip("\r") for line in lines), ""]:
        pair = _pair(line)
        if before is not None and line[:1] in (" ", "\t") and line.strip():  # a continued text: leave it to PyYAML
            del settings[before[0]]
            block = [before[1]]
        before = None
        if block and (not line or line[0] not in " -#\t") and line:
            settings.update(_parse_yaml("\n".join(block), path))
            block = []
        if pair is None:
            if line.strip() and not line.startswith("#") and line != "---":
                block.append(line)
            continue
        key, value = pair
        if value is _DEEP:
            block = [line]
        else:
            settings[key], before = value, (key, line)
    if block:
        settings.update(_parse_yaml("\n".join(block), path))
    return {name: value for name, value in settings.items() if not (isinstance(value, dict) and not value)}


_DEEP = object()


@lru_cache(maxsize=65_536)
def _pair(line: str) -> tuple[str, Any] | None:
    """Parse a line `name: scalar`; the value is `_DEEP` if PyYAML must read it; None for any other line."""
    match = _PLAIN.match(line)
    if match is None:
        return None
    key, text = match[1], match[2].strip()
    if text in _WORDS:
        return (key, _WORDS[text]) if text else (key, _DEEP)
    if _NUMBER.match(text):
        return key, float(text) if set(text) & set(".eE") else int(text)
    if text[0] in "\"'[{&*!|>%@`" or " #" in text or ": " in text:
        return key, _DEEP
    return key, text


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML loader that reads tagged objects as plain values."""


def _untagged(loader: Any, _suffix: str, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("", _untagged)
_Loader.add_multi_constructor("tag:", _untagged)


def _parse_yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        _check_depth(text)
        document = yaml.load(text, _Loader)  # noqa: S506  a safe loader
        _check_size(document)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        msg = f"{path}: expected settings of a run as YAML, got something else ({' '.join(str(error).split())[:120]}). Correct the file."
        raise DataError(msg) from error
    if not isinstance(document, Mapping):
        msg = f"{path}: expected settings of a run as YAML, got {type(document).__name__}. Correct the file."
        raise DataError(msg)
    return flatten(document)


def _check_depth(text: str) -> None:
    """Check the nesting of YAML: libyaml would overflow its stack.

    Raises:
        ValueError: it is deeper than `_DEEPEST`.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            msg = f"more than {_DEEPEST} levels"
            raise ValueError(msg)


def _check_size(document: Any) -> None:
    """Check the size of a value, which aliases can make huge or endless.

    Raises:
        ValueError: more than `_MOST_VALUES` values or `_DEEPEST` levels.
    """
    stack, count = [(document, 0)], 0
    while stack:
        value, depth = stack.pop()
        count += 1
        if count > _MOST_VALUES or depth > _DEEPEST:
            msg = f"aliases that stand for more than {_MOST_VALUES:,} values or {_DEEPEST} levels"
            raise ValueError(msg)
        below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        stack += [(item, depth + 1) for item in below]


def flatten(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return a flat mapping with nested names joined by `/`; lists become text.

    Raises:
        FaultError: two values have one name, as of ``{"a/b": 1, "a": {"b": 2}}``.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inside = flatten(value, f"{prefix}{name}/")
        else:
            inside = {f"{prefix}{name}": value if value is None or isinstance(value, str | int | float) else json.dumps(value, default=str)}  # fmt: skip
        if twice := next((key for key in inside if str(flat.get(key, inside[key])) != str(inside[key])), None):
            msg = f"two values of {twice!r}"
            raise FaultError(msg)
        flat |= inside
    return flat


def to_number(text: Any) -> float:
    """Convert a value to a number; NaN if that is impossible, as of a truth value."""
    try:
        return math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def choose_metric(names: Sequence[str], metric: str | None, likely: Sequence[str], source: str) -> str:
    """Return the name of the metric: as named, else the first likely one among the names.

    Raises:
        DataError: no run reported any value.
        UsageError: no metric of that name, or several and no likely one.
    """
    if not names:
        msg = f"{source}: expected runs that reported a value, such as {likely[0]}, got none that did. Give the folder that holds their results too."
        raise DataError(msg)
    if metric is not None:
        if metric in names:
            return metric
        msg = f"expected one of {', '.join(sorted(names))}, which the runs of {source} reported, got {metric!r}. Correct it."
        raise UsageError(msg, param="metric")
    choice = next((name for name in likely if name in names), None)
    if choice is None and len(names) == 1:
        choice = names[0]
    if choice is None:
        msg = f"expected one of {', '.join(sorted(names))}, which the runs of {source} reported, got none. Name the one that is the error or the accuracy."
        raise UsageError(msg, param="metric")
    return choice


def is_maximised(name: str) -> bool | None:
    """Tell by its name whether a metric is maximised: True for an accuracy, False for an error, else None."""
    words = set(re.split(r"[\W_]+", name.lower()))
    words |= {re.sub(r"\d+$", "", word) for word in words}
    if words & SMALLER:
        return False if words & _ERRORS else None
    return True if words & {*LARGER, "top", "acc"} else None


def take_dataset(params: dict[str, Any]) -> str | None:
    """Remove the dataset from the settings; return its name: the last part of a path that is no split's or loader's."""
    values = [params.pop(name) for name in DATASETS if name in params]
    for value in values:
        parts = PurePosixPath(value.strip()).parts if isinstance(value, str) else ()
        name_parts = [part for part in parts if part.strip("/ .") and part.lower() not in _NO_NAMES]
        if name_parts:
            return name_parts[-1]
    return None


def take_seed(params: Mapping[str, Any]) -> int | None:
    """Return the seed in the settings of a run, or None."""
    for name in ("seed", "random_seed", "random_state"):
        value = params.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None


def rising_curve(points: Sequence[tuple[float, float]]) -> Curve:
    """Return a curve in the order of steps; of several values of a step the last counts."""
    value_by_step = {int(step): value for step, value in points if math.isfinite(step) and math.isfinite(value)}
    return tuple(sorted(value_by_step.items()))


def as_foreign_runs(
    kind: str,
    runs: Sequence[FolderRun],
    *,
    maximised: bool | None,
    left_out: Mapping[str, int] | None = None,
    bookkeeping: frozenset[str] = frozenset(),
    are_fractions: bool = False,
    former_origin: str = "",
) -> ForeignRuns:
    """Return runs as columns; settings that are empty in all runs are left out, and constant switches are marked.

    Runs that finished without a value are left out: that is no failure of their configuration.

    Args:
        kind: of the runs, for people.
        runs: of the source.
        maximised: whether more of the metric is better.
        left_out: number of runs without a result, by reason.
        bookkeeping: settings that are no hyperparameters, such as paths.
        are_fractions: whether percentages of the source were converted to fractions.
        former_origin: see `ForeignRuns`.
    """
    status = {index: run.status for index, run in enumerate(runs) if run.status is not None}
    without = len(runs) - len(status)
    runs = [runs[index] for index in status]
    params = as_columns([run.params for run in runs], kind)
    seeds = [take_seed(run.params) for run in runs]
    settings = {
        name: values
        for name, values in params.items()
        if name not in bookkeeping
        and name not in ("seed", "random_seed", "random_state")
        and any(value not in (None, "") for value in values)
    }
    return ForeignRuns(
        kind=kind,
        params=settings,
        values=np.array([run.value if run.status is Status.OK else math.nan for run in runs], dtype=np.float64),
        status=list(status.values()),
        datasets=[run.dataset for run in runs],
        durations=np.array([run.seconds for run in runs], dtype=np.float64),
        seeds=seeds,
        origins=[run.origin for run in runs],
        curves=[run.curve for run in runs],
        maximised=maximised,
        left_out={**(left_out or {}), **({NO_VALUE: without} if without else {})},
        former_origin=former_origin,
        are_hints=True,
        are_fractions=are_fractions,
        switches=frozenset(name for name, values in settings.items() if _is_switch(values)),
    )


def _is_switch(values: Sequence[object]) -> bool:
    """Tell whether a setting is a constant truth value: programs have dozens of them."""
    return bool(values) and isinstance(values[0], bool) and all(value is values[0] for value in values)


def end_status(value: float, *, complete: bool, reported: bool) -> Status | None:
    """Return the status of a run: ok if complete with a finite value, None if it never reported one, else crashed."""
    if complete and not reported:
        return None
    return Status.OK if complete and math.isfinite(value) else Status.CRASHED
