"""Embeddings and references that a history lacks: compute them from its images and store them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.history import History
from warmstart.metafeat.cache import EmbeddingCache, cache_folder
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.index import DatasetIndex, distances_to
from warmstart.metafeat.model_file import ModelHeader, check_stored_size, read_header
from warmstart.metafeat.sample_statistics import sample_statistics
from warmstart.suggestions.embeddings import embed_missing, fits_model, incomparable_names, sample_mark
from warmstart.suggestions.references import (
    References,
    join_references,
    read_references,
    store_references,
)

LEAST_DATASETS = 5
"""Least datasets to measure the movement of distances."""
NEAREST = 5
SIZES = (50, 100, 200, 400)
"""Pictures per draw for which the movement of distances is measured."""
COVERED = 95.0
"""Percentage of the movements that an interval covers."""
_CACHE_KEY = "references=1"
"""Cache key of a dataset's class signal, pixel statistics and features, eight bytes a number; change it with their definition."""
Progress = Callable[[float, float], object]
T = TypeVar("T")


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


def _with_progress(items: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Iterate over items and report progress after each."""
    for completed, item in enumerate(items, start=1):
        yield item
        if progress is not None:
            progress(completed, len(items))


def compute_references(
    history: "History", model: ModelHeader, *, device: str = "cpu", threads: int | None = None
) -> References | None:
    """Compute the references of all datasets with stored images; about 2 s per dataset.

    Args:
        history: with its embeddings of this model.
        model: header of the model.
        device: where the network runs.
        threads: CPU threads of the network.

    Returns: the references; None without images.
    """
    names = [name for name in history.names if history.has_images(name)]
    if not names:
        return None
    statistics = compute_statistics(history, names, model)
    return replace(
        statistics, **_movements(history, model, history.embeddings(model.hash), device=device, threads=threads)
    )


def complete_references(
    history: "History",
    model: ModelHeader,
    vectors: Mapping[str, NDArray[np.float32]],
    *,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress | None = None,
) -> References | None:
    """Compute the references that a history lacks and add them to those that it has. Every dataset is cached at once.

    Args:
        history: may be open for reading.
        model: header of the model.
        vectors: embeddings of its datasets by this model.
        device: where the network runs.
        threads: CPU threads of the network.
        progress: called with the numbers of datasets computed and of all; it starts over several times.

    Returns: all references; None if none is missing.
    """
    stored = read_references(history, model.hash)
    if stored is not None and stored.features is None and all(map(history.has_images, stored.names)):
        # Of an earlier version: computed anew, with their features.
        stored = None
    stored_names = set() if stored is None else set(stored.names)
    names = [name for name in history.names if name not in stored_names and history.has_images(name)]
    if not names:
        return None
    references = compute_statistics(history, names, model, cache=True, progress=progress)
    if stored is not None:
        references = join_references([stored, references])
    if not references.sizes:
        references = replace(
            references, **_movements(history, model, vectors, device=device, threads=threads, progress=progress)
        )
    return references


def compute_statistics(
    history: "History",
    names: Sequence[str],
    model: ModelHeader | None = None,
    *,
    cache: bool = False,
    progress: Progress | None = None,
) -> References:
    """Compute statistics of datasets from their stored images, with the features of a model (None = handcrafted); about 2 s per dataset.

    `cache` keeps them in the cache folder, by images and model.
    """
    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    rows = [_statistics(history, name, model, store) for name in _with_progress(names, progress)]
    effects, pixels, features = zip(*rows, strict=True)
    return References(tuple(names), np.array(effects), np.stack(pixels), features=np.stack(features))


def _statistics(
    history: "History",
    name: str,
    model: ModelHeader | None,
    store: "EmbeddingCache | None",
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return class signal, pixel statistics and features of a dataset, from the cache if possible."""
    from warmstart.metafeat.embed import describe_images, feature_names, stored_sample

    images, labels = stored_sample(history, name, None if model is None else model.spec)
    key = (sample_mark(images, labels), "" if model is None else model.hash, _CACHE_KEY)
    cached = None if store is None else store.get(*key)
    if cached is None:
        about = sample_statistics(images, labels)
        features = describe_images(images, labels, model)
        numbers = np.concatenate([[about.signal.effect], about.pixels, features])
        if store is not None:
            # The cache stores float32: the bytes of a float64 travel as two of them.
            store.put(*key, numbers.view(np.float32))
    else:
        numbers = cached.view(np.float64)
    width = len(FEATURES) if model is None else len(feature_names(model))
    return float(numbers[0]), numbers[1:-width], numbers[-width:]


def _movements(
    history: "History",
    model: ModelHeader,
    vectors: Mapping[str, NDArray[np.float32]],
    *,
    device: str,
    threads: int | None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure the movement of distances; return fields of `References`."""
    movements = {
        size: _movement(history, model, vectors, size, device=device, threads=threads, progress=progress)
        for size in SIZES
    }
    measured = {size: movement for size, movement in movements.items() if movement is not None}
    return {"sizes": tuple(measured), "movements": tuple(measured.values())}


def _movement(
    history: "History",
    model: ModelHeader,
    vectors: Mapping[str, NDArray[np.float32]],
    size: int,
    *,
    device: str,
    threads: int | None,
    progress: Progress | None,
) -> float | None:
    """Measure the movement of the distances to the nearest datasets of other groups between two draws of `size` pictures."""
    from warmstart.metafeat.embed import embed_images
    from warmstart.metafeat.images import to_size

    moved: list[NDArray[np.float64]] = []
    large = [
        info
        for info in history.datasets
        # Two draws of `size` pictures must differ enough.
        if info.parent is None and info.n_train >= 1.5 * size and history.has_images(info.name)
    ]
    if len(large) < LEAST_DATASETS:
        return None
    placed = [info for info in history.datasets if info.name in vectors]
    if not placed:
        return None
    index, groups = DatasetIndex(np.stack([vectors[info.name] for info in placed])), [info.group for info in placed]
    for info in _with_progress(large, progress):
        distant = np.flatnonzero([group != info.group for group in groups])
        if not len(distant):
            continue
        stored = history.images(info.name)
        rows, labels = stored.rows("train"), np.asarray(stored.labels)
        points = []
        for seed in (0, 1):
            drawn = np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
            images = to_size(stored.take(drawn), model.spec)
            points.append(embed_images(images, labels[drawn], model, seed=seed, device=device, threads=threads))
        near, first = index.nearest(points[0], NEAREST, among=distant)
        moved.append(np.abs(first - distances_to(points[1], index.vectors[near])))
    return float(np.percentile(np.concatenate(moved), COVERED)) if len(moved) >= LEAST_DATASETS else None
