"""The record of what was merged into a history, stored in the history.

Contributed runs in use are rows of the history, and their origin names the contributor. All other contributed records
(descriptions, features, runs set aside and why) are the result `merged`. Together they are the set of all records, and
nothing of that set is ever lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from warmstart.history_store.bundle.records import (
    FORMERLY,
    Described,
    Embedding,
    Features,
    SharedRun,
    SharedSpace,
    dataset_id,
    former_id,
    parse,
    record_id,
    run_line,
    split_origin,
    to_line,
)
from warmstart.history_store.errors import HistoryDamagedError, StorageError
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.history_store.wording import in_shell
from warmstart.locations import shipped_history

KEY = "merged"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged records stored under `KEY`.

    Attributes:
        lines: records that are not rows of the history: descriptions, features, runs set aside.
        datasets: ids of contributed datasets by name.
        aside: reasons for runs set aside, by the id of their record.
        released: ids of records released from quarantine.
        n_local_configs: number of configurations before the first merge; None = nothing was merged.
    """

    lines: frozenset[str] = frozenset()
    datasets: Mapping[str, str] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    n_local_configs: int | None = None

    def ids(self, history: "History") -> dict[str, str]:
        """Return the ids of all datasets of a history, by name."""
        return {info.name: self.datasets.get(info.name) or dataset_id(info) for info in history.datasets}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "version": VERSION,
            "records": sorted(self.lines),
            "datasets": dict(sorted(self.datasets.items())),
            "aside": dict(sorted(self.aside.items())),
            "released": sorted(self.released),
            "own_configs": self.n_local_configs,
        }


def read_merged(history: "History") -> Merged:
    """Read the merged records of a history, without datasets that were removed or got local images or runs.

    Raises:
        HistoryDamagedError: not a record of `Merged.to_dict`.
    """
    stored = history.view_result(KEY)
    if stored is None:
        return Merged()
    try:
        if stored["version"] != VERSION:
            msg = f"{history.path}: expected merged records of version {VERSION}, got version {stored['version']!r}. Upgrade warmstart."
            raise HistoryDamagedError(msg)
        merged = Merged(
            frozenset(map(str, stored["records"])),
            {str(name): str(key) for name, key in stored["datasets"].items()},
            {str(key): str(why) for key, why in stored["aside"].items()},
            frozenset(map(str, stored["released"])),
            None if stored["own_configs"] is None else int(stored["own_configs"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"{history.path}: expected merged records as `warmstart history merge` writes them, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
        raise HistoryDamagedError(msg) from error
    names, measured = set(history.names), _names_with_local_runs(history)
    contributed = {
        name: key
        for name, key in merged.datasets.items()
        if name in names and not history.has_images(name) and name not in measured
    }
    return replace(merged, datasets=contributed)


def drop_merged(history: "History", name: str) -> None:
    """Delete the merged records of a dataset, so that no later merge restores them.

    Args:
        history: open for writing, still with the dataset.
        name: of the dataset.
    """
    merged = read_merged(history)
    ids = merged.ids(history)
    dropped = {ids.pop(name), former_id(history.dataset(name))} - {None, *ids.values()}
    lines = {line for line in merged.lines if dataset_of(line) in dropped}
    if lines:
        dropped_ids = set(map(record_id, lines))
        aside = {key: why for key, why in merged.aside.items() if key not in dropped_ids}
        history.set_result(KEY, replace(merged, lines=merged.lines - lines, aside=aside).to_dict())


def dataset_of(line: str) -> str | None:
    """Return the id of a record's dataset; None for a space."""
    match parse(line, "record"):
        case Described(id=identifier):
            return identifier
        case SharedRun(run=run):
            return run.dataset
        case SharedSpace():
            return None
        case record:
            return record.dataset


def _names_with_local_runs(history: "History") -> set[str]:
    """Return the names of datasets with runs measured in the history itself."""
    table, names = history.table(), history.names
    is_local = np.array([split_origin(origin)[1] is None for origin in table.origins], dtype=bool)
    rows = is_local[table.origin] if len(table) else np.zeros(0, dtype=bool)
    return {names[row] for row in np.unique(table.dataset[rows]).tolist()}


def contributed_line(run: Evaluation, dataset: str) -> str | None:
    """Return the record line of a contributed evaluation; None for a local one."""
    origin, by = split_origin(run.origin)
    return None if by is None else run_line(replace(run, origin=origin), dataset, by)


def current_ids(local: Iterable[DatasetInfo], lines: Iterable[str]) -> dict[str, str]:
    """Return the present ids, by the former ones, of datasets that were first known by name alone.

    Local datasets count first. If several contributors gave different images to one name, its former id stays.

    Args:
        local: local datasets.
        lines: all records.
    """
    of_local = {before: dataset_id(info) for info in local if (before := former_id(info)) is not None}
    contributed: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        # A text test first, as parsing every record is slow.
        if '"kind":"dataset"' in line and f'"{FORMERLY}"' in line:
            record = parse(line, "record")
            if isinstance(record, Described) and (before := former_id(record.info)) is not None:
                contributed[before].add(record.id)
    return {before: min(ids) for before, ids in contributed.items() if len(ids) == 1} | of_local


def with_ids(line: str, new_ids: Mapping[str, str]) -> str:
    """Replace a record's dataset id by the present one; descriptions stay unchanged."""
    if not new_ids or '"kind":"dataset"' in line:
        return line
    record = parse(line, "record")
    match record:
        case SharedRun(by=by, run=run) if run.dataset in new_ids:
            return run_line(run, new_ids[run.dataset], by)
        case Features() | Embedding() if record.dataset in new_ids:
            return to_line(replace(record, dataset=new_ids[record.dataset]))
    return line


@dataclass(frozen=True, slots=True)
class CopiedRuns:
    """Runs copied from the shipped history, as its records."""

    by: str
    lines: frozenset[str]


def copied_runs(history: "History") -> CopiedRuns:
    """Return the runs that a copy of the shipped history started with; their contributor is the shipped history."""
    origin = history.notes.get("copied_from", "").partition(",")[0]
    try:
        path = shipped_history()
    except StorageError:
        return CopiedRuns("", frozenset())
    if not origin:
        return CopiedRuns("", frozenset())
    with History.open(path) as shipped:
        if origin != shipped.id:
            return CopiedRuns("", frozenset())
        by, ids = shipped.id[:12], {info.name: dataset_id(info) for info in shipped.datasets}
        return CopiedRuns(by, frozenset(run_line(run, ids[run.dataset], by) for run in shipped.evaluations()))
