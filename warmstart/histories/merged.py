"""What was merged into a history: kept in the history itself, beside the runs that answer.

The runs that answer are rows of the history, and their origin names who contributed them. All else that came in bundles
(descriptions, meta-features, runs set aside and why) is the result `merged`. Together they are the set of records that
came, and nothing of that set is ever lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

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
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.history_store.wording import in_shell
from warmstart.locations import shipped_history

if TYPE_CHECKING:
    from warmstart.history_store.history import History

KEY = "merged"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Merged:
    """What is stored under `KEY`.

    Attributes:
        lines: records that are no rows of the history: descriptions, meta-features, runs set aside.
        datasets: ids by name, of the datasets that came in bundles.
        aside: why a run does not answer, by the id of its record.
        released: ids of records that answer though they are odd, as somebody decided.
        own_configs: how many configurations the history had when something was merged first; None = nothing was.
    """

    lines: frozenset[str] = frozenset()
    datasets: Mapping[str, str] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    own_configs: int | None = None

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
            "own_configs": self.own_configs,
        }


def read_merged(history: "History") -> Merged:
    """Read what was merged into a history; datasets removed since, or made its own by images or runs, are its own.

    Raises:
        HistoryDamagedError: it is not what `Merged.to_dict` gives.
    """
    stored = history.view_result(KEY)
    if stored is None:
        return Merged()
    try:
        if stored["version"] != VERSION:
            msg = f"{history.path}: expected merged records of version {VERSION}, got version {stored['version']!r}. Upgrade warmstart."
            raise HistoryDamagedError(msg)
        found = Merged(
            frozenset(map(str, stored["records"])),
            {str(name): str(key) for name, key in stored["datasets"].items()},
            {str(key): str(why) for key, why in stored["aside"].items()},
            frozenset(map(str, stored["released"])),
            None if stored["own_configs"] is None else int(stored["own_configs"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"{history.path}: expected merged records as `warmstart history merge` writes them, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
        raise HistoryDamagedError(msg) from error
    names, measured = set(history.names), _with_own_runs(history)
    foreign = {
        name: key
        for name, key in found.datasets.items()
        if name in names and not history.has_images(name) and name not in measured
    }
    return replace(found, datasets=foreign)


def drop_merged(history: "History", name: str) -> None:
    """Forget what bundles said of a dataset besides the runs that answer, so that no later merge brings it back.

    Args:
        history: open for writing, still with the dataset.
        name: of the dataset.
    """
    merged = read_merged(history)
    ids = merged.ids(history)
    gone = {ids.pop(name), former_id(history.dataset(name))} - {None, *ids.values()}
    lines = {line for line in merged.lines if dataset_of(line) in gone}
    if lines:
        gone_ids = set(map(record_id, lines))
        aside = {key: why for key, why in merged.aside.items() if key not in gone_ids}
        history.set_result(KEY, replace(merged, lines=merged.lines - lines, aside=aside).to_dict())


def dataset_of(line: str) -> str | None:
    """Return the id of the dataset that a record is of; None for a space."""
    match parse(line, "record"):
        case Described(id=found):
            return found
        case SharedRun(run=run):
            return run.dataset
        case SharedSpace():
            return None
        case other:
            return other.dataset


def _with_own_runs(history: "History") -> set[str]:
    """Name the datasets of which any run was measured in the history itself."""
    table, names = history.table(), history.names
    is_own = np.array([split_origin(origin)[1] is None for origin in table.origins], dtype=bool)
    rows = is_own[table.origin] if len(table) else np.zeros(0, dtype=bool)
    return {names[row] for row in np.unique(table.dataset[rows]).tolist()}


def foreign_line(run: Evaluation, dataset: str) -> str | None:
    """Write the record that a row of a history was made of; None for one that was measured in the history itself."""
    origin, by = split_origin(run.origin)
    return None if by is None else run_line(replace(run, origin=origin), dataset, by)


def ids_now(own: Iterable[DatasetInfo], lines: Iterable[str]) -> dict[str, str]:
    """Return the present ids of datasets that were known by their names alone, by the former ones.

    One's own count first. Where contributors gave images of their own each to one name, its runs stay what they are: runs
    of that name.

    Args:
        own: datasets of the history itself.
        lines: records of all that came.
    """
    found = {before: dataset_id(info) for info in own if (before := former_id(info)) is not None}
    said: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines:
        if '"kind":"dataset"' in line and f'"{FORMERLY}"' in line:
            record = parse(line, "record")
            if isinstance(record, Described) and (before := former_id(record.info)) is not None:
                said[before].add(record.id)
    return {before: min(ids) for before, ids in said.items() if len(ids) == 1} | found


def with_ids(line: str, now: Mapping[str, str]) -> str:
    """Write a record with the present id of its dataset; a description keeps the id of what it describes."""
    if not now or '"kind":"dataset"' in line:
        return line
    record = parse(line, "record")
    match record:
        case SharedRun(by=by, run=run) if run.dataset in now:
            return run_line(run, now[run.dataset], by)
        case Features() | Embedding() if record.dataset in now:
            return to_line(replace(record, dataset=now[record.dataset]))
    return line


@dataclass(frozen=True, slots=True)
class CopiedRuns:
    """Runs that a history has from the shipped one, as records of that."""

    by: str
    lines: frozenset[str]


def copied_runs(history: "History") -> CopiedRuns:
    """Find the runs that a copy of the shipped history began with: they were measured there, and count once for all."""
    from warmstart.history_store.history import History

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
