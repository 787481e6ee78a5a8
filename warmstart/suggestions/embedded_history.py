"""A history with embeddings of its datasets, read once for each state of its files."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.calibration import Calibration
from warmstart.bo.transfer.strategies.sources import number_groups
from warmstart.history_store.errors import DataError, HistoryDamagedError, UsageError
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.records import Config
from warmstart.history_store.wording import counted, in_shell, some_of, suggest_names
from warmstart.measured_with import MeasuredWith, measured_with
from warmstart.metafeat import index_file
from warmstart.metafeat.index import DatasetIndex, Distances, Rows, distances_to
from warmstart.metafeat.index_file import IndexFile
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, is_trained_on, read_header
from warmstart.metafeat.sample import SAMPLE
from warmstart.suggestions.embeddings import Embeddings, embed_missing, fits_model, incomparable_names
from warmstart.suggestions.norms import Norms, spread_rows
from warmstart.suggestions.other_sizes import OwnPixels, SmallerParts, read_own_pixels, read_smaller_parts
from warmstart.suggestions.references import (
    References,
    join_references,
    read_features,
    read_references,
)
from warmstart.suggestions.row_memory import RowMemory

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ErrorForecaster
    from warmstart.history_store.history import History

CACHE_SIZE = 4
"""Histories kept in memory."""
SPREAD = 10_000
"""Of a larger history the portfolio uses this many datasets, evenly spread."""


@dataclass(frozen=True, slots=True)
class EmbeddedHistory:
    """The arrays of a history and a model; rows are datasets in order of their names.

    Attributes:
        path: of the history, as found.
        model: header of the model; None where answers are drawn from runs alone, and no distance is known.
        names: `m` datasets that have an embedding; without a model those that have runs.
        groups: `m` sibling groups; `group_numbers`, the same as numbers.
        errors: `m x c` float64, NaN = missing.
        failed: `m x c`, whether runs failed.
        has_runs: `m`, whether the dataset has any run, failed ones included.
        about: `m` records of the datasets.
        configs: `c` configurations.
        space_json: ConfigSpace JSON.
        index: of the embeddings; of `m x 0` without a model.
        calibration: of the distances, where the history holds one for this model.
        notes: for people, shown once.
        references: statistics of the datasets for this model, where the history holds them.
        smaller_parts: errors on parts of the datasets, where the history holds such.
        own_pixels: errors of datasets at their pictures' own pixels, where the history holds such.
        all_groups: groups of all datasets of the history.
        measured_with: network, optimiser, image size and budget of its runs.
        norms: results of `norms_of`, by row selection.
        forecasters: results of `warmstart.suggestions.expectations.forecaster_of`, by row selection.
    """

    path: Path
    model: ModelHeader | None
    names: tuple[str, ...]
    groups: tuple[str, ...]
    group_numbers: NDArray[np.int64]
    errors: NDArray[np.float64]
    failed: NDArray[np.bool_]
    has_runs: NDArray[np.bool_]
    about: DatasetList
    configs: tuple[Config, ...]
    space_json: str
    index: DatasetIndex
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()
    references: References | None = None
    smaller_parts: SmallerParts | None = None
    own_pixels: OwnPixels | None = None
    all_groups: frozenset[str] = frozenset()
    measured_with: MeasuredWith | None = None
    norms: RowMemory[Norms] = field(default_factory=RowMemory, init=False, compare=False, repr=False)
    forecasters: "RowMemory[ErrorForecaster | None]" = field(
        default_factory=RowMemory, init=False, compare=False, repr=False
    )

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Return the `m x d` embeddings."""
        return self.index.vectors

    @property
    def ignores_distances(self) -> bool:
        """Tell whether the history's calibration found that near datasets do no better than others."""
        return self.calibration is not None and all(np.isinf(reach) for reach, _ in self.calibration.reach)

    def rows_without(self, groups: Collection[str], query_name: str | None) -> NDArray[np.int64]:
        """Return the rows of all datasets outside some groups, without the query itself.

        Raises:
            UsageError: a group that the history does not know, or nothing left.
        """
        unknown = sorted(group for group in set(groups) if group not in self.all_groups and group not in self.groups)
        if unknown:
            step = suggest_names(
                unknown, {*self.groups, *self.all_groups}, otherwise="`warmstart history list` shows them."
            )
            msg = f"expected groups of {self.path}, got {', '.join(unknown)}. {step}"
            raise UsageError(msg, param="exclude_group")
        if not groups and query_name is None:
            return np.arange(len(self.names))
        is_left = np.ones(len(self.names), np.bool_)
        for group in set(groups) & set(self.groups) if groups else ():
            is_left &= self.group_numbers != self.group_numbers[self.groups.index(group)]
        if query_name is not None and query_name in self.names:
            is_left[self.names.index(query_name)] = False
        rows = np.flatnonzero(is_left)
        if not len(rows):
            msg = f"{self.path}: expected at least one dataset to learn from, got none that is not left out. Exclude fewer groups or add datasets."
            raise UsageError(msg)
        return rows

    def with_runs(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep the rows with runs; all rows if none has any."""
        if self.has_runs.all():
            return rows
        has_runs = self.has_runs[rows]
        return rows[has_runs] if has_runs.any() else rows

    def nearest(self, vector: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> tuple[Rows, Distances]:
        """Return the k nearest of some datasets, in order of rows, and their distances; all if there are no more."""
        near, distances = self.index.nearest(vector, k, among=rows)
        order = np.argsort(near)
        return near[order], distances[order]

    def distances_to(self, vector: NDArray[np.float32], rows: NDArray[np.int64]) -> Distances:
        """Compute the distances to some datasets; NaN without a model."""
        return np.full(len(rows), np.nan) if self.model is None else distances_to(vector, self.vectors[rows])

    def norms_of(self, rows: NDArray[np.int64]) -> Norms:
        """Return the norms of the datasets in some rows, computed once for the same rows.

        Those of more than `SPREAD` datasets are those of all: a few that are left out change none of them.
        """
        m = len(self.names)
        is_whole = SPREAD < len(rows) <= m or len(rows) == m
        selection = np.arange(m) if is_whole else rows
        return self.norms.recall(None if is_whole else rows, lambda: self._norms_of(selection))

    def _norms_of(self, rows: NDArray[np.int64]) -> Norms:
        is_whole = len(rows) == len(self.names)
        index, groups = (self.index if is_whole else DatasetIndex(self.vectors[rows])), self.group_numbers[rows]
        sampled, references = spread_rows(len(rows)), self.references
        stored = self.index.stored if is_whole else None
        return Norms(
            len(rows),
            len(np.unique(groups)),
            index.nearest_of_another_group(sampled, groups) if stored is None else stored.norms,
            min(
                *(info.n_train for info in self.about.at(rows[sampled].tolist())),
                *(() if references is None else references.sizes),
                SAMPLE,
            ),
            None if references is None else references.of([self.names[row] for row in rows.tolist()]),
        )

    def store_index(self) -> None:
        """Store the index of a very large history in the cache folder, or extend the one that is there."""
        if self.index.file is not None:
            self.index.file.write(self.vectors, self._nearest_of_another_group)

    def _nearest_of_another_group(self, cells: Any) -> Distances:
        """Return the nearest distances that norms are made of, searched in cells."""
        index = DatasetIndex(self.vectors, cells=cells)
        return index.nearest_of_another_group(spread_rows(len(self.names)), self.group_numbers)


def load_embedded_history(
    history: Path,
    model: Path | None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    progress: Callable[[float, float], object] | None = None,
) -> EmbeddedHistory:
    """Read a history and a model, from memory while neither file has changed.

    Missing embeddings are computed from the stored images and kept in the cache folder; the history is not written, see
    `store_embeddings`. Datasets without stored images (imported ones) are left out. If none remains, or without a model,
    only runs are loaded. `progress` is called with the numbers of embeddings computed and of missing ones.

    Raises:
        StorageError: one of the two is damaged or of another version.
        ModelMismatchError: the model is for images of another size.
        ImagesMissingError: no dataset has an embedding, nor the images to compute one from.
        UsageError: the history has no datasets.
    """
    key = (history, file_state(history), model, None if model is None else file_state(model), device, threads, cache)
    entry = _cache.get(key)
    if entry is None:
        entry = _load(history, model, device=device, threads=threads, cache=cache, progress=progress)
        _cache[key] = entry
        for old in list(_cache)[:-CACHE_SIZE]:
            # With a default, as another thread may have evicted it.
            _cache.pop(old, None)
    embedded, pending_notes = entry
    new_notes = tuple(pending_notes)
    pending_notes.clear()
    return replace(embedded, notes=(*embedded.notes, *new_notes)) if new_notes else embedded


def keep_index(history: Path, model: Path) -> None:
    """Store the index of a very large history for a model in the cache folder, or extend the one that is there."""
    load_embedded_history(history, model).store_index()


def file_state(path: Path) -> tuple[int, ...]:
    """Return modification times, sizes and inodes of a history file and its journal."""
    state: list[int] = []
    for part in (path, path.with_name(path.name + ".journal")):
        try:
            stat = part.stat()
        except OSError:
            continue
        state += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
    return tuple(state)


_cache: dict[tuple[object, ...], tuple[EmbeddedHistory, list[str]]] = {}
"""Histories read last, by the state of their files; not an `lru_cache`, which would keep the first caller's progress."""


def _load(
    path: Path,
    model_path: Path | None,
    *,
    device: str,
    threads: int | None,
    cache: bool,
    progress: Callable[[float, float], object] | None,
) -> tuple[EmbeddedHistory, list[str]]:
    """Read a history and a model; return them with notes to be shown once."""
    from warmstart.history_store.history import History

    header = None if model_path is None else read_header(model_path)
    with History.open(path) as history:
        if not history.names:
            msg = f"{path}: expected a history with datasets, got an empty one. Add some with `warmstart history add` or `collect`."
            raise UsageError(msg)
        if header is None:
            return _load_runs_only(history), []
        stored_names, vectors = history.vectors(header.hash)
        embeddings = (
            Embeddings(stored_names, vectors) if fits_model(vectors.shape[1], header) else Embeddings([], vectors)
        )
        without = embeddings.missing(history.names)
        incomparable = incomparable_names(history, without, header)
        if len(incomparable) == len(history.names):
            return _load_runs_only(history), []
        if history.holds_images:
            check_stored_size(header, stored_size=history.stored_size, location=str(path))
        to_embed = [name for name in without if name not in incomparable]
        notes, pending_notes = [], []
        if not is_trained_on(header, history_id=history.id, space_json=history.space_json, names=history.names):
            notes.append(
                f"The model was trained on another history: near means alike in how the configurations of that one fare. "
                f"`warmstart fit-similarity {in_shell(path)} --out MODEL` fits one to this history, once it has runs on a few dozen datasets."
            )
        if incomparable:
            notes.append(
                f"{path}: datasets whose images it does not hold cannot be compared with yours: {some_of(sorted(incomparable))}. "
                "`warmstart history add` gives them their images."
            )
        if to_embed:
            added, n_computed = embed_missing(
                history, to_embed, header, device=device, threads=threads, cache=cache, progress=progress
            )
            embeddings = embeddings.with_added(added)
            if n_computed:
                pending_notes.append(
                    f"{path}: embedded {counted(n_computed, 'dataset')} with this model. `warmstart history embed {in_shell(path)}` stores that."
                )
        embedded = _assemble(
            history, header, embeddings, are_computed=bool(to_embed), incomparable=incomparable, notes=notes
        )
        return embedded, pending_notes


def _assemble(
    history: "History",
    header: ModelHeader,
    embeddings: Embeddings,
    *,
    are_computed: bool,
    incomparable: Collection[str],
    notes: Sequence[str],
) -> EmbeddedHistory:
    """Build the record of a history's embedded datasets; some embeddings may be computed, not stored."""
    order = _sorted_rows(history, incomparable)
    all_names, groups = history.names, history.groups
    names, siblings = [all_names[row] for row in order], tuple(groups[row] for row in order)
    numbers, vectors = number_groups(siblings), embeddings.of(names)
    return EmbeddedHistory(
        history.path,
        header,
        tuple(names),
        siblings,
        numbers,
        *_runs_of(history, order),
        history.records().part(order),
        tuple(history.configs),
        history.space_json,
        DatasetIndex(vectors) if are_computed else _index_of(history, header, vectors, numbers),
        read_calibration(history, header.hash),
        tuple(notes),
        _read_references(history, header),
        read_smaller_parts(history, header.hash),
        read_own_pixels(history),
        frozenset(history.groups),
        measured_with(history.origins, stored_size=history.stored_size),
    )


def _index_of(
    history: "History", header: ModelHeader, vectors: NDArray[np.float32], groups: NDArray[np.int64]
) -> DatasetIndex:
    """Return the index of a history's stored embeddings, with its file where there are very many."""
    if len(vectors) <= index_file.LEAST:
        return DatasetIndex(vectors)
    mark = f"{history.embeddings_mark(header.hash)}-{crc32(groups.tobytes()):08x}"
    return DatasetIndex(vectors, file=IndexFile.of(history.id, header.hash, (vectors.shape[0], vectors.shape[1]), mark))


def _read_references(history: "History", header: ModelHeader) -> References | None:
    """Return the statistics of all datasets, those from bundles included, with the model's features."""
    from warmstart.metafeat.embed import feature_names

    of_model, merged = read_references(history, header.hash), read_features(history)
    if merged is not None and merged.features is not None and merged.features.shape[1] != len(feature_names(header)):
        # All datasets have features or none: merged ones of another width must not remove the model's, which forecast errors.
        merged = None if of_model is not None else replace(merged, features=None)
    parts = [part for part in (of_model, merged) if part is not None]
    return join_references(parts) if parts and any(part.names for part in parts) else None


def _runs_of(history: "History", order: list[int]) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return errors, failed cells and whether rows have runs, for the rows in `order`."""
    errors, failed = history.outcomes
    if order != list(range(len(errors))):
        errors, failed = errors[order], failed[order]
    return errors, failed, np.any(~np.isnan(errors) | failed, axis=1)


def _load_runs_only(history: "History") -> EmbeddedHistory:
    """Build the record of a history without embeddings: its runs alone."""
    order = _sorted_rows(history, ())
    names, groups = history.names, history.groups
    siblings = tuple(groups[row] for row in order)
    return EmbeddedHistory(
        history.path,
        None,
        tuple(names[row] for row in order),
        siblings,
        number_groups(siblings),
        *_runs_of(history, order),
        history.records().part(order),
        tuple(history.configs),
        history.space_json,
        DatasetIndex(np.zeros((len(order), 0), dtype=np.float32)),
        measured_with=measured_with(history.origins, stored_size=history.stored_size),
    )


def _sorted_rows(history: "History", left_out: Collection[str]) -> list[int]:
    """Return the rows of a history's datasets in order of names, without some names."""
    names = history.names
    return [row for row in sorted(range(len(names)), key=names.__getitem__) if names[row] not in left_out]


def spread_positions(m: int) -> NDArray[np.int64]:
    """Return `SPREAD` positions spread evenly over `m`; all if there are no more."""
    return np.arange(m) if m <= SPREAD else np.linspace(0, m - 1, SPREAD).astype(np.int64)


def calibration_key(model_hash: str) -> str:
    """Return the key of a model's calibration in a history's results."""
    return f"calibration/{model_hash}"


def read_calibration(history: "History", model_hash: str) -> Calibration | None:
    """Read the calibration that `warmstart evaluate --calibrate` stored for a model; it stays valid for a grown history.

    Raises:
        HistoryDamagedError: it is no calibration.
    """
    stored = history.get_result(calibration_key(model_hash))
    try:
        return None if stored is None else Calibration.from_dict(stored)
    except DataError as error:
        msg = f"{history.path}: {error}"
        raise HistoryDamagedError(msg) from error
