"""Embeddings of a history's datasets: read, compute the missing ones, store."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import ImagesMissingError
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, read_header
from warmstart.metafeat.spec import EMBEDDING, WITHOUT_NETWORK
from warmstart.suggestions.references import (
    FEATURES_KEY,
    References,
    complete_references,
    join_references,
    read_features,
    read_references,
    sample_mark,
    store_references,
)

if TYPE_CHECKING:
    from warmstart.history_store.history import History


class Embeddings(Collection[str]):
    """Embeddings by dataset name.

    Args:
        names: `m`.
        vectors: `m x d`.
    """

    def __init__(self, names: Sequence[str], vectors: NDArray[np.float32]) -> None:
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

    def of(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of datasets by name, `n x d` float32."""
        return self._vectors if list(names) == self._names else self._vectors[[self._row[name] for name in names]]


def fits_model(vector_length: int, header: ModelHeader) -> bool:
    """Return whether stored embeddings may be those of a model, as far as their length tells."""
    return header.spec.extractor == WITHOUT_NETWORK or vector_length == EMBEDDING


def stored_embeddings(history: "History", header: ModelHeader) -> dict[str, NDArray[np.float32]]:
    """Return the embeddings of a model that a history holds, without those of another length, as a foreign bundle may have."""
    vectors = history.embeddings(header.hash)
    return {name: vector for name, vector in vectors.items() if fits_model(len(vector), header)}


def store_embeddings(
    history: Path,
    model: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> tuple[str, ...]:
    """Compute missing embeddings and references and store them in a history, which is locked only while they are stored.

    `progress` is called with the numbers of datasets computed and of all; it starts over several times.

    Returns: the datasets embedded.

    Raises:
        StorageError: a history or model that cannot be used, or a history that cannot be written.
        ModelMismatchError: the model is for images of another size.
        ImagesMissingError: no dataset has images to compute embeddings from.
    """
    from warmstart.history_store.history import History

    header = read_header(model)
    # Check that the history can be written before anything is computed.
    with History.open(history, write=True):
        pass
    with History.open(history) as source:
        check_stored_size(header, stored_size=source.stored_size, location=str(history))
        stored, about = stored_embeddings(source, header), {info.name: info for info in source.datasets}
        without = [name for name in source.names if name not in stored]
        incomparable = incomparable_names(source, without, header)
        to_embed, added = [name for name in without if name not in incomparable], dict[str, NDArray[np.float32]]()
        if to_embed:
            added, _ = embed_missing(
                source, to_embed, header, device=device, threads=threads, cache=True, progress=progress
            )
        vectors = {**stored, **added}
        references = complete_references(source, header, vectors, device=device, threads=threads, progress=progress)
    if to_embed or references is not None:
        with History.open(history, write=True) as opened:
            # The computation held no lock: keep only datasets that are the same now.
            same = [info.name for info in opened.datasets if about.get(info.name) == info]
            _store(opened, header, {name: added[name] for name in same if name in added}, references, same)
    return tuple(to_embed)


def _store(
    history: "History",
    header: ModelHeader,
    added: Mapping[str, NDArray[np.float32]],
    references: References | None,
    unchanged: Sequence[str],
) -> None:
    """Add computed embeddings and references to a history, for datasets that have not changed meanwhile."""
    if added:
        names = set(history.names)
        stored = {name: vector for name, vector in stored_embeddings(history, header).items() if name in names}
        history.set_embeddings(header.hash, {**stored, **added})
    if references is not None:
        earlier = read_references(history, header.hash)
        earlier_parts = [] if earlier is None or earlier.features is None else [earlier]
        store_references(history, join_references([references.of(unchanged), *earlier_parts]), header.hash)


def incomparable_names(history: "History", names: Collection[str], header: ModelHeader) -> set[str]:
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
    history: "History",
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
    from warmstart.metafeat.cache import EmbeddingCache, cache_folder
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
    history: "History", names: Sequence[str], header: ModelHeader
) -> dict[str, NDArray[np.float32]]:
    """Embed merged datasets from their features, if the model needs no images."""
    from warmstart.metafeat.embed import embed_features, is_handcrafted

    references = read_features(history) if is_handcrafted(header) else None
    if references is None or references.features is None:
        return {}
    imageless = {name for name in names if not history.has_images(name)}
    rows = [row for row, name in enumerate(references.names) if name in imageless]
    return {references.names[row]: embed_features(references.features[row], header) for row in rows}
