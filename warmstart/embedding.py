"""From a labelled collection to its meta-feature: which images are looked at, and where the result is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from history_store.errors import LabelError
from history_store.images import BrokenImage, ImageSource
from metafeat.cache import EmbeddingCache, cache_folder
from metafeat.sample import SAMPLE, sample_rows
from warmstart.device import cpu_threads, resolve_device
from warmstart.model_file import ModelHeader

if TYPE_CHECKING:
    from history_store.history import History
    from metafeat.model import MetaFeatureModel
    from metafeat.plain_model import PlainModel
    from metafeat.sample_statistics import SampleStatistics

_STATISTICS = "statistics=1 "
"""Begins the cache's key of a sample's statistics; another number where they change."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a collection: its meta-feature `256` float32, statistics of the sample, pictures left out."""

    vector: NDArray[np.float32]
    sample: "SampleStatistics"
    broken: tuple[BrokenImage, ...]


def embed_source(
    source: ImageSource,
    model: ModelHeader,
    *,
    fingerprint: str,
    seed: int = 0,
    skip_broken: bool = False,
    cache: bool = True,
    device: str = "cpu",
    threads: int | None = None,
) -> tuple[NDArray[np.float32], tuple[BrokenImage, ...]]:
    """Embed a collection: `look_at` without the statistics; arguments and refusals as there."""
    seen = look_at(
        source,
        model,
        fingerprint=fingerprint,
        seed=seed,
        skip_broken=skip_broken,
        cache=cache,
        device=device,
        threads=threads,
    )
    return seen.vector, seen.broken


def look_at(
    source: ImageSource,
    model: ModelHeader,
    *,
    fingerprint: str,
    seed: int = 0,
    skip_broken: bool = False,
    cache: bool = True,
    device: str = "cpu",
    threads: int | None = None,
) -> Look:
    """Embed a collection and describe the pictures looked at, from the cache where that was done before.

    Args:
        source: the collection; at most `SAMPLE` images of its training part are read.
        model: the model's header; its weights are read only where the cache does not know the collection.
        fingerprint: of the source, ``listing:...``.
        seed: of the images chosen and of the draws.
        skip_broken: go on without pictures that cannot be decoded.
        cache: read and write the cache.
        device: where the network runs.
        threads: CPU threads of the network.

    Returns: the meta-feature, the statistics of the sample, and the pictures left out.

    Raises:
        LabelError: when fewer than two images or two classes can be looked at.
        DataError: when a picture cannot be decoded.
        ModelError: when the model's weights are damaged.
    """
    from metafeat.sample_statistics import SampleStatistics, sample_statistics

    check_contrast(source.labels, source.location)
    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    key = f"sample={SAMPLE} seed={seed}"
    if store is not None:
        known, about = store.get(fingerprint, model.hash, key), store.get(fingerprint, model.hash, _STATISTICS + key)
        if known is not None and about is not None:
            return Look(known, SampleStatistics.from_vector(about), ())
    rows = sample_rows(source.labels, np.asarray(source.splits.get("train", np.arange(len(source)))), seed=seed)
    read = source.read(rows, size=model.spec.image_size, skip_broken=skip_broken)
    check_contrast(read.labels, source.location)
    vector = embed_images(read.images, read.labels, model, seed=seed, device=device, threads=threads)
    sample = sample_statistics(read.images, read.labels)
    if store is not None and not read.broken:
        store.put(fingerprint, model.hash, key, vector)
        store.put(fingerprint, model.hash, _STATISTICS + key, sample.to_vector().astype(np.float32))
    return Look(vector, sample, read.broken)


def embed_images(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    model: ModelHeader,
    *,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Embed sampled images `n x s x s x c` with a model, loaded once a process and device."""
    stat = model.path.stat()
    state = (str(model.path), stat.st_mtime_ns, stat.st_size)
    rng = np.random.default_rng(seed)
    if model.spec.extractor == "handcrafted":  # no network to run: torch, half of the time, stays out
        if device not in ("cpu", "auto"):
            resolve_device(device)  # a device that does not exist is refused all the same
        return _plain_model(*state).embed(images, labels, rng=rng)
    loaded = _model(*state, device)
    with cpu_threads(threads):
        return loaded.embed(images, labels, rng=rng)


def embed_history(
    history: "History",
    names: Sequence[str],
    model: ModelHeader,
    *,
    device: str = "cpu",
    threads: int | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Embed datasets of a history from their stored training images, as a query is embedded with seed 0.

    Raises:
        ImagesMissingError: when a dataset's images are not in the history.
    """
    vectors = {}
    for name in names:
        stored = history.images(name)
        labels = np.asarray(stored.labels)
        rows = sample_rows(labels, stored.rows("train"), seed=0)
        vectors[name] = embed_images(stored.take(rows), labels[rows], model, device=device, threads=threads)
    return vectors


def check_contrast(labels: NDArray[np.int64], where: str) -> None:
    """Refuse a collection that shows a classifier nothing to tell apart.

    Raises:
        LabelError: fewer than two images or one class only.
    """
    if len(labels) < 2:
        msg = f"{where}: expected at least two images, got {len(labels)}. Check the path; the layout is folder/class/picture."
        raise LabelError(msg)
    if np.all(labels == labels[0]):
        msg = f"{where}: expected at least two classes, got one. Check the labels; the layout is folder/class/picture."
        raise LabelError(msg)


@lru_cache(maxsize=4)
def _model(path: str, mtime_ns: int, size: int, device: str) -> "MetaFeatureModel":  # noqa: ARG001  the key of the memory
    """Load a model once for each state of its file."""
    from metafeat.model import MetaFeatureModel

    where = resolve_device(device)
    model = MetaFeatureModel.load(path)
    model.wing.to(where)
    return model


@lru_cache(maxsize=4)
def _plain_model(path: str, mtime_ns: int, size: int) -> "PlainModel":  # noqa: ARG001  the key of the memory
    """Load a model of handcrafted features once for each state of its file."""
    from metafeat.plain_model import PlainModel

    return PlainModel.load(path)
