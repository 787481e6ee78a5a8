"""Bundles of a history: descriptions, features and runs, without images and paths."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from warmstart.histories.merged import copied_runs, dataset_of, read_merged
from warmstart.history_store.bundle.file import Bundle
from warmstart.history_store.bundle.records import (
    Embedding,
    Features,
    dataset_id,
    dataset_line,
    embedding_line,
    features_line,
    run_line,
    shared_origin,
    space_line,
    split_origin,
)
from warmstart.history_store.errors import UsageError
from warmstart.history_store.file.content import is_blank
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo
from warmstart.locations import shipped_model
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.history_refresh import Progress, compute_statistics
from warmstart.suggestions.references import References, stored_features


@dataclass(frozen=True, slots=True)
class HistoryBundle:
    """A bundle with a summary of its content.

    Attributes:
        bundle: the records.
        datasets: names in the history.
        without_features: names of those without features of their images.
        n_runs: runs.
    """

    bundle: Bundle
    datasets: tuple[str, ...]
    without_features: tuple[str, ...]
    n_runs: int


def bundle_history(
    history: "History", *, datasets: Collection[str] | None = None, own: bool = False, progress: Progress | None = None
) -> HistoryBundle:
    """Bundle the content of a history, which stays unchanged.

    Missing features are computed from the stored images, about 2 s per dataset.

    Args:
        history: to share.
        datasets: only these; all when left out.
        own: leave out merged records, and runs copied from the shipped history.
        progress: called with the numbers of datasets with computed features and of all.

    Raises:
        UsageError: a name that the history does not know, or nothing to share.
        DataError: the space holds a path of this machine.
    """
    for name in datasets or ():
        history.dataset(name)
    merged = read_merged(history)
    names = [name for name in history.names if datasets is None or name in datasets]
    ids = merged.ids(history)
    contributor_id, copied = history.id[:12], copied_runs(history)
    merged_lines = {
        line for line in merged.lines if datasets is None or dataset_of(line) in {ids[name] for name in names}
    }
    runs: set[str] = set() if own else {line for line in merged_lines if '"kind":"run"' in line}
    used: set[str] = set()
    for name in names:
        for run in history.evaluations(name):
            origin, contributor = split_origin(run.origin)
            plain = replace(run, origin=shared_origin(origin) if contributor is None else origin)
            copy = run_line(plain, ids[name], copied.by) if copied.lines and contributor is None else ""
            is_copy = copy in copied.lines
            if own and (contributor is not None or is_copy):
                continue
            runs.add(copy if is_copy else run_line(plain, ids[name], contributor or contributor_id))
            used.add(name)
    listed = [name for name in names if (not own or name in used) and name not in merged.datasets]
    if not listed and not runs:
        msg = f"{history.path}: expected something to share, got no dataset{' of your own' if own else ''}. Add one with `warmstart history add`, or a run with `warmstart history record`."
        raise UsageError(msg)
    features_by_name = _feature_records(history, listed, ids, progress)
    lines = {dataset_line(history.dataset(name)) for name in listed} | runs
    lines |= {features_line(features) for features in features_by_name.values()} | _embeddings(history, listed, ids)
    if not own:
        lines |= {line for line in merged_lines if '"kind":"run"' not in line}
    lines.add(space_line(history.space_json))
    shared = tuple(listed) if own else tuple(names)
    described = {*features_by_name, *(() if own else merged.datasets)}
    return HistoryBundle(Bundle(frozenset(lines)), shared, tuple(n for n in shared if n not in described), len(runs))


def described_lines(history: "History", infos: Iterable[DatasetInfo]) -> set[str]:
    """Return the records of datasets as lines, from stored data alone: descriptions and features."""
    stored, lines = stored_features(history), set()
    rows = {name: row for row, name in enumerate(stored.names)} if stored.features is not None else {}
    for info in infos:
        lines.add(dataset_line(info))
        if info.name in rows:
            lines.add(features_line(_feature_record(stored, rows[info.name], dataset_id(info), history.stored_size)))
    return lines


def _feature_record(references: References, row: int, key: str, size: int) -> Features:
    assert references.features is not None  # noqa: S101  checked by the callers
    return Features(key, size, references.features[row], float(references.effects[row]), references.pixels[row])


def _feature_records(
    history: "History", names: list[str], ids: dict[str, str], progress: Progress | None
) -> dict[str, Features]:
    """Return the features of datasets, stored or computed from their images."""
    stored, selection = stored_features(history), set(names)
    missing = [
        name
        for name in names
        if name not in stored.names and not is_blank(history.dataset(name)) and history.has_images(name)
    ]
    parts = [stored, compute_statistics(history, missing, progress=progress)] if missing else [stored]
    return {
        name: _feature_record(part, row, ids[name], history.stored_size)
        for part in parts
        if part.features is not None
        for row, name in enumerate(part.names)
        if name in selection
    }


def _embeddings(history: "History", names: list[str], ids: dict[str, str]) -> set[str]:
    """Return the embeddings of models other than the shipped one, whose can be computed from the features."""
    shipped_hash = read_header(shipped_model()).hash
    return {
        embedding_line(Embedding(ids[name], model, np.asarray(vector)))
        for model in history.model_hashes
        if model != shipped_hash
        for name, vector in history.embeddings(model).items()
        if name in names
    }
