"""What importers of run folders share: finding files, flat YAML read fast, which value is meant, runs as columns."""

from __future__ import annotations

import csv
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

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.external_runs import Curve, ForeignRuns, as_columns
from warmstart.history_store.records import Status
from warmstart.studies.objectives.metric import LARGER, SMALLER

DEPTH = 4
"""Folders below the one that was named in which run folders are looked for."""
DATASETS = ("dataset", "dataset_name", "data_name", "data_dir", "data", "data_path", "data_root", "dataset_path")
"""Settings that say what a run was on, by name or by path."""
_NO_NAMES = frozenset({"train", "training", "val", "valid", "validation", "test", "images", "imagefolder"})
"""Parts of paths, and loaders, that say nothing of what the images show."""
_ERRORS = frozenset({"err", "error", "wer"})
"""Metrics that are errors in [0, 1]."""
_DEEPEST, _MOST_VALUES = 100, 100_000
"""Levels and values that the settings of one run may have."""
_PLAIN = re.compile(r"^([A-Za-z_][\w./-]*): ?(.*)$")
_NUMBER = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_WORDS = {"": None, "null": None, "~": None, "true": True, "false": False, "True": True, "False": False, "None": None}


@dataclass(slots=True)
class FoundRun:
    """One run as its folder tells it.

    Attributes:
        params: its settings.
        value: of the metric; NaN where it gave none.
        status: how it ended.
        curve: (step, value), rising steps.
        seconds: NaN = unknown.
        origin: the same each time.
    """

    params: dict[str, Any]
    value: float
    status: Status
    curve: Curve = ()
    seconds: float = math.nan
    origin: str = ""
    dataset: str | None = field(default=None)


def find_files(root: Path, *names: str, depth: int = DEPTH) -> Iterator[Path]:
    """Find files of some names in a folder and in those below it, in order; hidden folders are passed over.

    A link to a folder is followed once, whatever leads to it: links may run in circles. A file that is there without a link too is
    found once; those behind links come last.
    """
    level, followed = [(str(root), False)], set[tuple[int, int]]()
    found, behind = set[tuple[int, int]](), list[Path]()
    for _ in range(depth + 1):
        below: list[tuple[str, bool]] = []
        for folder, is_behind in level:
            try:
                with os.scandir(folder) as entries:
                    inside = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            hits = [Path(entry.path) for entry in inside if entry.name in names]
            if is_behind:
                behind += hits
            else:
                found |= {_identity(path) for path in hits}
                yield from hits
            below += [
                (entry.path, is_behind or entry.is_symlink())
                for entry in inside
                if entry.name[0] != "." and _leads_on(entry, followed)
            ]
        level = below
    yield from (path for path in behind if _identity(path) not in found)


def _identity(path: Path) -> tuple[int, int]:
    """Name a file, whatever path leads to it; one that is gone like no other."""
    try:
        status = path.stat()
    except OSError:
        return -1, hash(path)
    return status.st_dev, status.st_ino


def _leads_on(entry: os.DirEntry[str], followed: set[tuple[int, int]]) -> bool:
    """Tell whether an entry is a folder, or a link to one that no link led to before."""
    try:
        if not entry.is_dir() or not entry.is_symlink():
            return entry.is_dir()
        target = entry.stat()
    except OSError:  # a link to itself
        return False
    known = (target.st_dev, target.st_ino) in followed
    followed.add((target.st_dev, target.st_ino))
    return not known


def has_files(source: str, *names: str) -> bool:
    """Tell whether a folder, or one below it, holds a file of one of the names, or the source is such a file."""
    path = Path(source)
    if path.is_file():
        return path.name in names
    return path.is_dir() and next(find_files(path, *names), None) is not None


def read_rows(path: Path, what: str) -> list[dict[str, str]]:
    """Read the whole lines of a CSV file; none where there is no file.

    Raises:
        DataError: it cannot be read; `what` says what was expected.
    """
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: expected {what}, got a file that cannot be read ({error}). Take the folder out."
        raise DataError(msg) from error


def read_flat_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, nested names joined by `/`; plain lines quickly, anything else by PyYAML without objects.

    Raises:
        DataError: it is no mapping.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        msg = f"{path}: expected settings of a run as YAML, got {error.strerror or error}. Check its permissions."
        raise DataError(msg) from error
    found: dict[str, Any] = {}
    block: list[str] = []
    before: tuple[str, str] | None = None  # the pair of the line before, and that line
    for line in [*(line.rstrip("\r") for line in lines), ""]:
        pair = _pair(line)
        if before is not None and line[:1] in (" ", "\t") and line.strip():  # its text goes on
            del found[before[0]]
            block = [before[1]]
        before = None
        if block and (not line or line[0] not in " -#\t") and line:
            found.update(_parsed("\n".join(block), path))
            block = []
        if pair is None:
            if line.strip() and not line.startswith("#") and line != "---":
                block.append(line)
            continue
        key, value = pair
        if value is _DEEP:
            block = [line]
        else:
            found[key], before = value, (key, line)
    if block:
        found.update(_parsed("\n".join(block), path))
    return {name: value for name, value in found.items() if not (isinstance(value, dict) and not value)}


_DEEP = object()


@lru_cache(maxsize=65_536)
def _pair(line: str) -> tuple[str, Any] | None:
    """Read `name: scalar`; `_DEEP` where more lines may belong to it; None for any other line."""
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
    """Reads tagged objects as what they are made of, and makes none."""


def _untagged(loader: Any, _suffix: str, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("", _untagged)
_Loader.add_multi_constructor("tag:", _untagged)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        _check_depth(text)
        found = yaml.load(text, _Loader)  # noqa: S506  a safe loader
        _check_size(found)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        msg = f"{path}: expected settings of a run as YAML, got something else ({' '.join(str(error).split())[:120]}). Correct the file."
        raise DataError(msg) from error
    if not isinstance(found, Mapping):
        msg = f"{path}: expected settings of a run as YAML, got {type(found).__name__}. Correct the file."
        raise DataError(msg)
    return flat(found)


def _check_depth(text: str) -> None:
    """Refuse what is nested so deep that libyaml would overflow its stack.

    Raises:
        ValueError: it is.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            msg = f"more than {_DEEPEST} levels"
            raise ValueError(msg)


def _check_size(found: Any) -> None:
    """Refuse what its aliases make huge, or endless.

    Raises:
        ValueError: it is.
    """
    left, count = [(found, 0)], 0
    while left:
        value, depth = left.pop()
        count += 1
        if count > _MOST_VALUES or depth > _DEEPEST:
            msg = f"aliases that stand for more than {_MOST_VALUES:,} values or {_DEEPEST} levels"
            raise ValueError(msg)
        below = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        left += [(each, depth + 1) for each in below]


def flat(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Join nested names by `/`; lists become text."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}/"))
        else:
            found[f"{prefix}{name}"] = value if value is None or isinstance(value, str | int | float) else json.dumps(value, default=str)  # fmt: skip
    return found


def real(text: Any) -> float:
    """Read a number; NaN where it is none."""
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def choose_metric(names: Sequence[str], wanted: str | None, likely: Sequence[str], where: str) -> str:
    """Return the name of the value that is meant: the one asked for, else the likeliest that is there.

    Raises:
        DataError: no run reported any value.
        UsageError: none of that name, or none that is told from the others.
    """
    if not names:
        msg = f"{where}: expected runs that reported a value, such as {likely[0]}, got none that did. Give the folder that holds their results too."
        raise DataError(msg)
    if wanted is not None:
        if wanted in names:
            return wanted
        msg = f"expected one of {', '.join(sorted(names))}, which the runs of {where} reported, got {wanted!r}. Correct it."
        raise UsageError(msg, param="metric")
    found = next((name for name in likely if name in names), None)
    if found is None and len(names) == 1:
        found = names[0]
    if found is None:
        msg = f"expected one of {', '.join(sorted(names))}, which the runs of {where} reported, got none. Name the one that is the error or the accuracy."
        raise UsageError(msg, param="metric")
    return found


def is_maximised(name: str) -> bool | None:
    """Tell by its name whether more of a value is better: of an error, or a share of right answers; None where the name does not tell, as for a loss."""
    words = set(re.split(r"[\W_]+", name.lower()))
    words |= {re.sub(r"\d+$", "", word) for word in words}
    if words & SMALLER:
        return False if words & _ERRORS else None
    return True if words & {*LARGER, "top", "acc"} else None


def take_dataset(params: dict[str, Any]) -> str | None:
    """Take out of the settings what says on which data a run was; return a name: the last part of a path that is no split's or loader's."""
    taken = [params.pop(name) for name in DATASETS if name in params]
    for value in taken:
        parts = PurePosixPath(value.strip()).parts if isinstance(value, str) else ()
        named = [part for part in parts if part.strip("/ .") and part.lower() not in _NO_NAMES]
        if named:
            return named[-1]
    return None


def take_seed(params: Mapping[str, Any]) -> int | None:
    """Return the seed of a run where its settings name one."""
    for name in ("seed", "random_seed", "random_state"):
        value = params.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None


def rising(points: Sequence[tuple[float, float]]) -> Curve:
    """Return a curve whose steps rise; the last value of a step counts."""
    found = {int(step): value for step, value in points if math.isfinite(step) and math.isfinite(value)}
    return tuple(sorted(found.items()))


def as_foreign(
    kind: str,
    runs: Sequence[FoundRun],
    *,
    maximised: bool | None,
    left_out: Mapping[str, int] | None = None,
    passed_over: frozenset[str] = frozenset(),
    are_fractions: bool = False,
) -> ForeignRuns:
    """Return runs as columns; settings that are empty in all of them are left out, and those that never vary are marked.

    Args:
        kind: what they are, for people.
        runs: of the source.
        maximised: whether more of the metric is better.
        left_out: number of runs that are no result, by reason.
        passed_over: settings that say where and how, not what.
        are_fractions: whether values that the source has in per cent are fractions here.
    """
    params = as_columns([run.params for run in runs])
    seeds = [take_seed(run.params) for run in runs]
    kept = {
        name: values
        for name, values in params.items()
        if name not in passed_over
        and name not in ("seed", "random_seed", "random_state")
        and any(value not in (None, "") for value in values)
    }
    return ForeignRuns(
        kind=kind,
        params=kept,
        values=np.array([run.value if run.status is Status.OK else math.nan for run in runs], dtype=np.float64),
        status=[run.status for run in runs],
        datasets=[run.dataset for run in runs],
        durations=np.array([run.seconds for run in runs], dtype=np.float64),
        seeds=seeds,
        origins=[run.origin for run in runs],
        curves=[run.curve for run in runs],
        maximised=maximised,
        left_out=dict(left_out or {}),
        are_hints=True,
        are_fractions=are_fractions,
        switches=frozenset(name for name, values in kept.items() if _is_switch(values)),
    )


def _is_switch(values: Sequence[object]) -> bool:
    """Tell whether values are one and the same truth: programs have dozens of such settings."""
    return isinstance(values[0], bool) and all(value is values[0] for value in values)


def ended(value: float, *, complete: bool) -> Status:
    """Tell how a run ended: ok with a finite value at its end, else crashed."""
    return Status.OK if complete and math.isfinite(value) else Status.CRASHED
