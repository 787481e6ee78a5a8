"""From a history to a bundle: what it knows, without images and without places of this machine."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from warmstart.history_store.records import DatasetInfo
from warmstart.suggestions.references import Progress, References, compute_statistics, stored_features

if TYPE_CHECKING:
    from warmstart.history_store.history import History


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundle and what is in it.

    Attributes:
        bundle: the records.
        datasets: names, with which they are in the history.
        without_features: those among them of which nobody knows what their images are like.
        n_runs: runs.
    """

    bundle: Bundle
    datasets: tuple[str, ...]
    without_features: tuple[str, ...]
    n_runs: int


def bundle_history(
    history: "History", *, datasets: Collection[str] | None = None, own: bool = False, progress: Progress | None = None
) -> Bundled:
    """Write what a history knows as a bundle; the history stays as it is.

    Meta-features that the history does not hold are computed from its images, some 2 s a dataset.

    Args:
        history: that is shared.
        datasets: only these; all when left out.
        own: leave out what was merged into it, and what it began with as a copy of the shipped history.
        progress: called with the datasets whose meta-features were computed, and how many there are.

    Raises:
        UsageError: a name that the history does not know, or nothing to share.
        DataError: the space holds a path of this machine.
    """
    for name in datasets or ():
        history.dataset(name)
    merged = read_merged(history)
    names = [name for name in history.names if datasets is None or name in datasets]
    ids = merged.ids(history)
    by, copied = history.id[:12], copied_runs(history)
    foreign = {line for line in merged.lines if datasets is None or dataset_of(line) in {ids[name] for name in names}}
    runs: set[str] = set() if own else {line for line in foreign if '"kind":"run"' in line}
    used: set[str] = set()
    for name in names:
        for run in history.evaluations(name):
            origin, contributor = split_origin(run.origin)
            plain = replace(run, origin=shared_origin(origin) if contributor is None else origin)
            copy = run_line(plain, ids[name], copied.by) if copied.lines and contributor is None else ""
            is_copy = copy in copied.lines
            if own and (contributor is not None or is_copy):
                continue
            runs.add(copy if is_copy else run_line(plain, ids[name], contributor or by))
            used.add(name)
    listed = [name for name in names if (not own or name in used) and name not in merged.datasets]
    if not listed and not runs:
        msg = f"{history.path}: expected something to share, got no dataset{' of your own' if own else ''}. Add one with `warmstart history add`, or a run with `warmstart history record`."
        raise UsageError(msg)
    likenesses = _likenesses(history, listed, ids, progress)
    lines = {dataset_line(history.dataset(name)) for name in listed} | runs
    lines |= {features_line(found) for found in likenesses.values()} | _embeddings(history, listed, ids)
    if not own:
        lines |= {line for line in foreign if '"kind":"run"' not in line}
    lines.add(space_line(history.space_json))
    shared = tuple(listed) if own else tuple(names)
    known = {*likenesses, *(() if own else merged.datasets)}
    return Bundled(Bundle(frozenset(lines)), shared, tuple(n for n in shared if n not in known), len(runs))


def described_lines(history: "History", infos: Iterable[DatasetInfo]) -> set[str]:
    """Write what a history holds of datasets, computing nothing: descriptions and stored features."""
    stored, lines = stored_features(history), set()
    rows = {name: row for row, name in enumerate(stored.names)} if stored.features is not None else {}
    for info in infos:
        lines.add(dataset_line(info))
        if info.name in rows:
            lines.add(features_line(_like(stored, rows[info.name], dataset_id(info), history.stored_size)))
    return lines


def _like(found: References, row: int, key: str, size: int) -> Features:
    assert found.features is not None  # noqa: S101  whoever asks has looked
    return Features(key, size, found.features[row], float(found.effects[row]), found.pixels[row])


def _likenesses(
    history: "History", names: list[str], ids: dict[str, str], progress: Progress | None
) -> dict[str, Features]:
    """Find what datasets are like: stored, or computed from their images."""
    stored, wanted = stored_features(history), set(names)
    lacking = [
        name
        for name in names
        if name not in stored.names and not is_blank(history.dataset(name)) and history.has_images(name)
    ]
    parts = [stored, compute_statistics(history, lacking, progress=progress)] if lacking else [stored]
    return {
        name: _like(part, row, ids[name], history.stored_size)
        for part in parts
        if part.features is not None
        for row, name in enumerate(part.names)
        if name in wanted
    }


def _embeddings(history: "History", names: list[str], ids: dict[str, str]) -> set[str]:
    """Write the stored meta-features of models other than the shipped one, whose are made of the features again."""
    from warmstart.locations import shipped_model
    from warmstart.metafeat.model_file import read_header

    usual = read_header(shipped_model()).hash
    return {
        embedding_line(Embedding(ids[name], model, np.asarray(vector)))
        for model in history.model_hashes
        if model != usual
        for name, vector in history.embeddings(model).items()
        if name in names
    }
