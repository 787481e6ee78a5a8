"""Embeddings of a history's datasets: read a history with them, and compute those that it lacks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.errors import ImagesMissingError, UsageError
from warmstart.history_store.file.blocks import Matrix, in_order
from warmstart.history_store.file.content import decode_evaluation
from warmstart.history_store.file.dataset_list import is_rising
from warmstart.history_store.file.snapshot import Snapshot
from warmstart.history_store.wording import counted, in_shell, some_of
from warmstart.measured_with import measured_with
from warmstart.metafeat import index_file
from warmstart.metafeat.cache import EmbeddingCache, cache_folder
from warmstart.metafeat.index import DatasetIndex
from warmstart.metafeat.index_file import IndexFile
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, is_trained_on, read_header
from warmstart.metafeat.spec import EMBEDDING, WITHOUT_NETWORK
from warmstart.suggestions.embedded_history import EmbeddedHistory, HistoryRuns, file_state, read_calibration
from warmstart.suggestions.other_sizes import read_own_pixels, read_smaller_parts
from warmstart.suggestions.references import (
    FEATURES_KEY,
    References,
    join_references,
    read_features,
    read_references,
)


class Embeddings(Collection[str]):
    """Embeddings by dataset name.

    Args:
        names: `m`.
        vectors: `m x d`.
    """

    def __init__(self, names: Sequence[str], vectors: Matrix) -> None:
        self._names, self._vectors = list(names), vectors

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._names)}

    def __contains__(self, name: object) -> bool:
        return name in self._row

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the names without a vector."""
        return [] if list(names) == self._names else [name for name in names if name not in self._row]

    def with_added(self, added: Mapping[str, NDArray[np.float32]]) -> "Embeddings":
        """Return these embeddings and further ones."""
        new = np.stack(list(added.values()))
        return Embeddings([*self, *added], np.concatenate([self._vectors, new]) if len(self) else new)

    def of(self, names: Sequence[str]) -> Matrix:
        """Return the vectors of datasets by name, `n x d` float32."""
        if list(names) == self._names:
            return self._vectors
        return in_order(self._vectors, np.array([self._row[name] for name in names], np.int64))


def fits_model(vector_length: int, header: ModelHeader) -> bool:
    """Return whether stored embeddings may be those of a model, as far as their length tells."""
    return header.spec.extractor == WITHOUT_NETWORK or vector_length == EMBEDDING


def incomparable_names(history: Snapshot, names: Collection[str], header: ModelHeader) -> set[str]:
    """Return the datasets that cannot be embedded: the history has neither their images nor features of the model.

    Raises:
        ImagesMissingError: none can be embedded, though some were described with images.
    """
    from warmstart.metafeat.embed import is_handcrafted

    incomparable = {name for name in names if not history.has_images(name)}
    merged = bool(incomparable) and history.view_result(FEATURES_KEY) is not None
    if merged and is_handcrafted(header) and (features := read_features(history)) is not None:
        incomparable -= set(features.names)
    if len(incomparable) == len(history.names) and not merged:
        described = next((name for name in history.names if history.dataset(name).n_images), None)
        if described is not None:
            msg = f"{history.path}: expected embeddings of model {header.hash} or images to make them from, got neither, for {described!r} as for all others. Add the images under the same names (`warmstart history add`), use the model that the history was published with, or let `suggest` answer with `strategy` portfolio, which needs neither."
            raise ImagesMissingError(msg)
    return incomparable


def embed_missing(
    history: Snapshot,
    names: list[str],
    header: ModelHeader,
    *,
    device: str,
    threads: int | None,
    cache: bool,
    progress: Callable[[float, float], object] | None = None,
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Return missing embeddings, computed or from the cache, and the number of those computed.

    `progress` is called with the numbers of datasets embedded and of all, whenever one is computed.
    """
    from warmstart.metafeat.embed import embed_history, stored_sample

    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    vectors, n_computed = _embed_from_features(history, names, header), 0
    for name in names:
        if name in vectors:
            continue
        mark = "" if store is None else sample_mark(*stored_sample(history, name))
        vector = None if store is None else store.get(mark, header.hash, "stored")
        if vector is None:
            vector = embed_history(history, [name], header, device=device, threads=threads)[name]
            n_computed += 1
            if progress is not None:
                progress(len(vectors) + 1, len(names))
            if store is not None:
                store.put(mark, header.hash, "stored", vector)
        vectors[name] = vector
    return vectors, n_computed


def _embed_from_features(
    history: Snapshot, names: Sequence[str], header: ModelHeader
) -> dict[str, NDArray[np.float32]]:
    """Embed merged datasets from their features, if the model needs no images."""
    from warmstart.metafeat.embed import embed_features, is_handcrafted

    references = read_features(history) if is_handcrafted(header) else None
    if references is None or references.features is None:
        return {}
    imageless = {name for name in names if not history.has_images(name)}
    rows = [row for row, name in enumerate(references.names) if name in imageless]
    return {references.names[row]: embed_features(references.features[row], header) for row in rows}


def sample_mark(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """Return a digest of a dataset's stored images and labels."""
    digest = sha256(np.ascontiguousarray(images).tobytes())
    digest.update(np.ascontiguousarray(labels).tobytes())
    return f"sample:{digest.hexdigest()}"


CACHE_SIZE = 4
"""Histories kept in memory."""


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
    key = (history, model, None if model is None else file_state(model), device, threads, cache)
    state, loaded = file_state(history), _cache.get(key)
    if loaded is None or loaded.state != state:
        loaded = None if loaded is None else loaded.followed(state)
        if loaded is None:
            loaded = _load(history, model, state, device=device, threads=threads, cache=cache, progress=progress)
        # With a default, as another thread may have evicted it.
        _cache.pop(key, None)
        _cache[key] = loaded
        for old in list(_cache)[:-CACHE_SIZE]:
            _cache.pop(old, None)
    new_notes = tuple(loaded.notes_once)
    loaded.notes_once.clear()
    embedded = loaded.embedded
    return replace(embedded, notes=(*embedded.notes, *new_notes)) if new_notes else embedded


def keep_index(history: Path, model: Path) -> None:
    """Store the index of a very large history for a model in the cache folder, or extend the one that is there."""
    load_embedded_history(history, model).store_index()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A history in memory.

    Attributes:
        embedded: what was read.
        notes_once: to be shown by the next call.
        state: of the files, when they were read.
        history: the closed history, if it is so large that it is followed.
        serial: number of the last operation that is in `embedded`.
    """

    embedded: EmbeddedHistory
    notes_once: list[str]
    state: tuple[int, ...]
    history: Snapshot | None
    serial: int

    def followed(self, state: tuple[int, ...]) -> "_Loaded | None":
        """Return a large history with the runs that were added since; None where it must be read anew."""
        if self.history is None or state[:3] != self.state[:3]:
            return None
        operations = self.history.operations_after(self.serial)
        if operations is None or any(op["op"] != "extend" or op["configs"] for op in operations):
            return None
        runs = [decode_evaluation(item, "journal") for op in operations for item in op["evaluations"]]
        embedded = self.embedded.with_runs_added(runs, stored_size=self.history.stored_size)
        serial = self.serial + len(operations)
        return None if embedded is None else replace(self, embedded=embedded, serial=serial, state=state)


_cache: dict[tuple[object, ...], _Loaded] = {}
"""Histories read last; not an `lru_cache`, which would keep the first caller's progress."""


def _load(
    path: Path,
    model_path: Path | None,
    state: tuple[int, ...],
    *,
    device: str,
    threads: int | None,
    cache: bool,
    progress: Callable[[float, float], object] | None,
) -> _Loaded:
    """Read a history, whose files had a state before, and a model."""
    header = None if model_path is None else read_header(model_path)
    with Snapshot(path) as history:
        names = list(history.names)
        if not names:
            msg = f"{path}: expected a history with datasets, got an empty one. Add some with `warmstart history add` or `collect`."
            raise UsageError(msg)
        if header is None:
            return _Loaded(_load_runs_only(history), [], state, _followable(history), history.serial)
        stored_names, vectors = history.vectors(header.hash)
        stored_names = names if stored_names == names else stored_names  # texts that are the same are compared faster
        embeddings = Embeddings(stored_names if fits_model(vectors.shape[1], header) else [], vectors)
        without = embeddings.missing(names)
        incomparable = incomparable_names(history, without, header)
        if len(incomparable) == len(names):
            return _Loaded(_load_runs_only(history), [], state, _followable(history), history.serial)
        if history.holds_images:
            check_stored_size(header, stored_size=history.stored_size, location=str(path))
        to_embed = [name for name in without if name not in incomparable]
        notes, notes_once = [], []
        if not is_trained_on(header, history_id=history.id, space_json=history.space_json, names=names):
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
                notes_once.append(
                    f"{path}: embedded {counted(n_computed, 'dataset')} with this model. `warmstart history embed {in_shell(path)}` stores that."
                )
        embedded = _assemble(
            history, header, embeddings, are_computed=bool(to_embed), incomparable=incomparable, notes=notes
        )
        return _Loaded(embedded, notes_once, state, _followable(history), history.serial)


def _followable(history: Snapshot) -> Snapshot | None:
    """Return a history that is large, and whose file may stay open while others replace it."""
    return history if history.is_large and system.CAN_REPLACE_OPEN_FILES else None


def _assemble(
    history: Snapshot,
    header: ModelHeader,
    embeddings: Embeddings,
    *,
    are_computed: bool,
    incomparable: Collection[str],
    notes: Sequence[str],
) -> EmbeddedHistory:
    """Build the record of a history's embedded datasets; some embeddings may be computed, not stored."""
    order = _sorted_rows(history, incomparable)
    about = history.records().part(order)
    vectors, groups = embeddings.of(about.names), about.group_numbers()
    return EmbeddedHistory(
        history.path,
        header,
        tuple(about.names),
        tuple(about.groups),
        groups,
        history.cells(),
        order,
        about,
        tuple(history.configs),
        history.space_json,
        DatasetIndex(vectors) if are_computed else _index_of(history, header, vectors, groups),
        read_calibration(history, header.hash),
        tuple(notes),
        _read_references(history, header),
        read_smaller_parts(history, header.hash),
        read_own_pixels(history),
        history.groups,
        measured_with(history.origins, stored_size=history.stored_size),
        None if history.is_large else HistoryRuns.of(history),
    )


def _index_of(history: Snapshot, header: ModelHeader, vectors: Matrix, groups: NDArray[np.int64]) -> DatasetIndex:
    """Return the index of a history's stored embeddings, with its file where there are very many."""
    if len(vectors) <= index_file.LEAST:
        return DatasetIndex(vectors)
    mark = f"{history.embeddings_mark(header.hash)}-{crc32(groups.tobytes()):08x}"
    return DatasetIndex(vectors, file=IndexFile.of(history.id, header.hash, (vectors.shape[0], vectors.shape[1]), mark))


def _read_references(history: Snapshot, header: ModelHeader) -> References | None:
    """Return the statistics of all datasets, those from bundles included, with the model's features."""
    from warmstart.metafeat.embed import feature_names

    of_model, merged = read_references(history, header.hash), read_features(history)
    if merged is not None and merged.features is not None and merged.features.shape[1] != len(feature_names(header)):
        # All datasets have features or none: merged ones of another width must not remove the model's, which forecast errors.
        merged = None if of_model is not None else replace(merged, features=None)
    parts = [part for part in (of_model, merged) if part is not None]
    return join_references(parts) if parts and any(part.names for part in parts) else None


def _load_runs_only(history: Snapshot) -> EmbeddedHistory:
    """Build the record of a history without embeddings: its runs alone."""
    order = _sorted_rows(history, ())
    about = history.records().part(order)
    return EmbeddedHistory(
        history.path,
        None,
        tuple(about.names),
        tuple(about.groups),
        about.group_numbers(),
        history.cells(),
        order,
        about,
        tuple(history.configs),
        history.space_json,
        DatasetIndex(np.zeros((len(order), 0), dtype=np.float32)),
        measured_with=measured_with(history.origins, stored_size=history.stored_size),
        runs=None if history.is_large else HistoryRuns.of(history),
    )


def _sorted_rows(history: Snapshot, left_out: Collection[str]) -> NDArray[np.int64]:
    """Return the rows of a history's datasets in order of names, without some names."""
    names = history.names
    rows = range(len(names)) if is_rising(names) else sorted(range(len(names)), key=names.__getitem__)
    return np.array([row for row in rows if names[row] not in left_out] if left_out else rows, np.int64)
