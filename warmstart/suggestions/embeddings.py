"""Embeddings of a history's datasets: those that it holds, those computed, those stored."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import ImagesMissingError
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, read_header
from warmstart.suggestions.references import (
    FEATURES_KEY,
    References,
    complete_references,
    joined,
    read_features,
    read_references,
    sample_mark,
    store_references,
)

if TYPE_CHECKING:
    from warmstart.history_store.history import History


class Embeddings(Collection[str]):
    """Embeddings by name of dataset.

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

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Return those of the names that have no vector."""
        return [] if list(names) == self._names else [name for name in names if name not in self._row]

    def plus(self, added: Mapping[str, NDArray[np.float32]]) -> "Embeddings":
        """Return these and others."""
        new = np.stack(list(added.values()))
        return Embeddings([*self, *added], np.concatenate([self._vectors, new]) if len(self) else new)

    def of(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of some datasets, `n x d` float32."""
        return self._vectors if list(names) == self._names else self._vectors[[self._row[name] for name in names]]


def store_embeddings(
    history: Path,
    model: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> tuple[str, ...]:
    """Compute the embeddings and references that a history lacks and store them in it; others may write it until they are stored.

    `progress` is called with the datasets that were looked at, and how many there are; more than once from the beginning.

    Returns: the datasets embedded.

    Raises:
        StorageError: a history or model that cannot be used, or a history that cannot be written.
        ModelMismatchError: the model is for images of another size.
        ImagesMissingError: no dataset has images to compute embeddings from.
    """
    from warmstart.history_store.history import History

    header = read_header(model)
    with History.open(history, write=True):  # refused before anything is computed
        pass
    with History.open(history) as seen:
        check_stored_size(header, stored_size=seen.stored_size, location=str(history))
        known, about = seen.embeddings(header.hash), {info.name: info for info in seen.datasets}
        without = [name for name in seen.names if name not in known]
        unseen = cannot_compare(seen, without, header)
        lacking, added = [name for name in without if name not in unseen], dict[str, NDArray[np.float32]]()
        if lacking:
            added, _ = embed_lacking(
                seen, lacking, header, device=device, threads=threads, cache=True, progress=progress
            )
        vectors = {**known, **added}
        found = complete_references(seen, header, vectors, device=device, threads=threads, progress=progress)
    if lacking or found is not None:
        with History.open(history, write=True) as opened:
            same = [info.name for info in opened.datasets if about.get(info.name) == info]
            _store(opened, header, {name: added[name] for name in same if name in added}, found, same)
    return tuple(lacking)


def _store(
    history: "History",
    header: ModelHeader,
    added: Mapping[str, NDArray[np.float32]],
    found: References | None,
    same: Sequence[str],
) -> None:
    """Store what was computed of the datasets that are the same still, beside what is there."""
    if added:
        known = {name: vector for name, vector in history.embeddings(header.hash).items() if name in history.names}
        history.set_embeddings(header.hash, {**known, **added})
    if found is not None:
        there = read_references(history, header.hash)
        kept = [] if there is None or there.features is None else [there]
        store_references(history, joined([found.of(same), *kept]), header.hash)


def cannot_compare(history: "History", names: Collection[str], header: ModelHeader) -> set[str]:
    """Return those of the datasets that cannot be compared: the history holds neither their images nor features that serve the model.

    Raises:
        ImagesMissingError: nothing is left to compare, of datasets that had images where they were measured.
    """
    from warmstart.metafeat.embed import needs_torch

    unseen = {name for name in names if not history.has_images(name)}
    merged = bool(unseen) and history.view_result(FEATURES_KEY) is not None
    if merged and not needs_torch(header) and (features := read_features(history)) is not None:
        unseen -= set(features.names)
    if len(unseen) == len(history.names) and not merged:
        described = next((name for name in history.names if history.dataset(name).n_images), None)
        if described is not None:
            msg = f"{history.path}: expected embeddings of model {header.hash} or images to make them from, got neither, for {described!r} as for all others. Add the images under the same names (`warmstart history add`), use the model that the history was published with, or let `suggest` answer with `strategy` portfolio, which needs neither."
            raise ImagesMissingError(msg)
    return unseen


def embed_lacking(
    history: "History",
    names: list[str],
    header: ModelHeader,
    *,
    device: str,
    threads: int | None,
    cache: bool,
    progress: Callable[[float, float], object] | None = None,
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Compute the embeddings that a history lacks, or take them from the cache; count those computed.

    `progress` is called with the datasets that are done, and how many there are, once one is computed.
    """
    from warmstart.metafeat.cache import EmbeddingCache, cache_folder
    from warmstart.metafeat.embed import embed_history, stored_sample

    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    found, n_computed = _from_features(history, names, header), 0
    for name in names:
        if name in found:
            continue
        mark = "" if store is None else sample_mark(*stored_sample(history, name))
        vector = None if store is None else store.get(mark, header.hash, "stored")
        if vector is None:
            vector = embed_history(history, [name], header, device=device, threads=threads)[name]
            n_computed += 1
            if progress is not None:
                progress(len(found) + 1, len(names))
            if store is not None:
                store.put(mark, header.hash, "stored", vector)
        found[name] = vector
    return found, n_computed


def _from_features(history: "History", names: Sequence[str], header: ModelHeader) -> dict[str, NDArray[np.float32]]:
    """Embed datasets that came in bundles from their features, where the model needs no more."""
    from warmstart.metafeat.embed import embed_features, needs_torch

    known = None if needs_torch(header) else read_features(history)
    if known is None or known.features is None:
        return {}
    wanted = {name for name in names if not history.has_images(name)}
    rows = [row for row, name in enumerate(known.names) if name in wanted]
    return {known.names[row]: embed_features(known.features[row], header) for row in rows}
