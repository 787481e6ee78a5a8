"""Embedding: from a labelled collection to its meta-feature, with the choice of images and the cache.

Torch is imported only where the model is a network and the cache has no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import SkipBroken, check_few_broken, read_images
from warmstart.history_store.images import BrokenImage, ImageSource
from warmstart.metafeat.broken_rows import reason_of_row
from warmstart.metafeat.cache import EmbeddingCache, cache_folder
from warmstart.metafeat.device import cpu_threads, resolve_device
from warmstart.metafeat.feature_names import FEATURES, LANDMARKS
from warmstart.metafeat.images import to_size
from warmstart.metafeat.labels import check_contrast
from warmstart.metafeat.model_file import ModelHeader
from warmstart.metafeat.sample_statistics import (
    SAMPLE,
    SHARP_SAMPLE,
    SHARP_SIDE,
    SHARP_SIZE,
    SampleStatistics,
    sample_rows,
    sample_statistics,
)

if TYPE_CHECKING:
    from warmstart.history_store.file.snapshot import Snapshot
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.plain_model import PlainModel
    from warmstart.metafeat.pretrained.landmark_model import LandmarkModel
    from warmstart.metafeat.spec import ModelSpec


class Embedder(Protocol):
    """A loaded model: `MetaFeatureModel`; `PlainModel`, without torch; or `LandmarkModel`, of landmark features."""

    @property
    def spec(self) -> ModelSpec:
        """Input of the model."""
        ...

    def embed(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        rng: np.random.Generator,
        features: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        """Embed a dataset from sampled images: `n x s x s x c` uint8 and `n` labels to `d` float32."""
        ...


_KEY = "look=1"
"""Begins the cache's key of what a look at a sample gave; another number when that changes."""


@dataclass(frozen=True, slots=True)
class SourceEmbedding:
    """Meta-feature `d` float32 of a collection, statistics and features of its sample, pictures that were left out.

    `sharp_error` is that of `LandmarkModel.sharp_error` for larger pictures, NaN for others.
    """

    vector: NDArray[np.float32]
    sample: SampleStatistics
    features: NDArray[np.float64]
    broken: tuple[BrokenImage, ...]
    sharp_error: float = float("nan")


def embed_source(
    source: ImageSource,
    model: ModelHeader,
    *,
    fingerprint: str,
    side: int | None = None,
    seed: int = 0,
    skip_broken: SkipBroken = False,
    cache: bool = True,
    device: str = "cpu",
    threads: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> SourceEmbedding:
    """Embed a collection and compute the statistics of its sample, or read both from the cache.

    Args:
        source: the collection; at most `SAMPLE` images of its training part are read.
        model: the model's header; its weights are read only where the cache does not know the collection.
        fingerprint: of the source, ``listing:...``.
        side: pixels of its pictures' shorter side; from `SHARP_SIDE` on, the sharp error is computed for a pretrained network.
        seed: of the images chosen and of the draws.
        skip_broken: go on without pictures that cannot be decoded: all, none (False), or a few (None).
        cache: read and write the cache.
        device: where the network runs.
        threads: CPU threads of the network.
        progress: called with the number of images that a pretrained network has processed, and their total.

    Returns: the meta-feature, the statistics of the sample, and the pictures left out.

    Raises:
        LabelError: when fewer than two images or two classes can be looked at.
        DataError: when a picture cannot be decoded.
        ModelError: when the model's weights are damaged.
    """
    check_contrast(source.labels, source.location)
    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    is_sharp = is_landmarks(model) and (side or 0) >= SHARP_SIDE
    key = f"{_KEY} sample={SAMPLE} seed={seed} sharp={is_sharp:d}"
    if store is not None and (look := store.get(fingerprint, model.hash, key)) is not None:
        vector, statistics, cached_features, (sharp_error, n_read), lost = _separate(look)
        broken = tuple(reason_of_row(source, row) for row in lost.astype(np.int64).tolist())
        check_few_broken(broken, int(n_read), source.location, skip_broken=skip_broken)
        about = SampleStatistics.from_vector(statistics)
        return SourceEmbedding(vector, about, cached_features.astype(np.float64), broken, float(sharp_error))
    rows = sample_rows(source.labels, np.asarray(source.splits.get("train", np.arange(len(source)))), seed=seed)
    pictures = read_images(source, rows, size=model.spec.image_size, skip_broken=skip_broken)
    check_contrast(pictures.labels, source.location)
    features = describe_images(pictures.images, pictures.labels, model, seed=seed, progress=progress)
    vector = embed_images(
        pictures.images, pictures.labels, model, seed=seed, features=features, device=device, threads=threads
    )
    sample = sample_statistics(pictures.images, pictures.labels)
    sharp_error = _sharp_error(source, rows, model, seed=seed, skip_broken=skip_broken) if is_sharp else np.nan
    if store is not None:
        left_out = rows[~np.isin(rows, pictures.whole(source, rows))] if pictures.broken else rows[:0]
        look = _join(vector, sample.to_vector(), features, np.array([sharp_error, len(rows)]), left_out)
        store.put(fingerprint, model.hash, key, look)
    rounded = features.astype(np.float32).astype(np.float64)  # as from the cache
    return SourceEmbedding(vector, sample, rounded, pictures.broken, float(np.float32(sharp_error)))


def _join(*vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Join vectors to one, which begins with their number and lengths."""
    lengths = np.array([len(vectors), *map(len, vectors)])
    return np.concatenate([lengths, *vectors]).astype(np.float32)


def _separate(joined: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return the vectors that `_join` has joined."""
    n = int(joined[0])
    ends = np.cumsum(joined[1 : n + 1].astype(np.int64))
    return np.split(joined[n + 1 :], ends[:-1])


def _sharp_error(
    source: ImageSource, rows: NDArray[np.int64], model: ModelHeader, *, seed: int, skip_broken: SkipBroken
) -> float:
    """Compute the sharp error of some of the sampled rows."""
    chosen = sample_rows(np.asarray(source.labels), rows, seed=seed, most=SHARP_SAMPLE)
    pictures = read_images(source, chosen, size=SHARP_SIZE, skip_broken=skip_broken)
    return _landmark_model(*_file_state(model)).sharp_error(pictures.images, pictures.labels)


def describe_images(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    model: ModelHeader | None,
    *,
    seed: int = 0,
    progress: Callable[[float, float], object] | None = None,
) -> NDArray[np.float64]:
    """Compute the features of sampled images that go with a model, in the order of `feature_names`.

    Without a model, the handcrafted ones. Arguments as in `embed_source`.
    """
    from warmstart.metafeat.handcrafted import query_features

    if model is None or not is_landmarks(model):
        return query_features(images, labels, rng=np.random.default_rng(seed))
    return _landmark_model(*_file_state(model)).features(images, labels, progress=progress)


def embed_images(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    model: ModelHeader,
    *,
    seed: int = 0,
    features: NDArray[np.float64] | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Embed sampled images `n x s x s x c` and `n` labels to `d` float32; arguments and errors as in `embed_source`.

    `features` are those of `describe_images` with this seed; None = computed if the model needs them.
    """
    with cpu_threads(threads if needs_torch(model) else None):
        embedder = load_embedder(model, device=device)
        return embedder.embed(images, labels, rng=np.random.default_rng(seed), features=features)


def embed_history(
    history: Snapshot,
    names: Sequence[str],
    model: ModelHeader | Embedder,
    *,
    features: Mapping[str, NDArray[np.float64]] | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Embed datasets of a history from their stored training images, as a query is embedded with seed 0.

    Args:
        history: open, with images.
        names: of the datasets.
        model: a header, or a model that is loaded already, on its own device.
        features: of `describe_images` by name, if models share them; None = computed.
        device: where the network of a header runs.
        threads: CPU threads of the network; None = as they are.

    Returns: `d` float32 by name, in the order of `names`.

    Raises:
        ImagesMissingError: when a dataset's images are not in the history.
    """
    is_network = not isinstance(model, ModelHeader) or needs_torch(model)
    embedder = load_embedder(model, device=device) if isinstance(model, ModelHeader) else model
    vectors = {}
    with cpu_threads(threads if is_network else None):
        for name in names:
            images, labels = stored_sample(history, name, model.spec)
            shared = None if features is None else features[name]
            vectors[name] = embedder.embed(images, labels, rng=np.random.default_rng(0), features=shared)
    return vectors


def stored_sample(
    history: Snapshot, name: str, spec: ModelSpec | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the images `n x s x s x c` and labels `n` that a stored dataset is embedded from, at the model's size.

    Raises:
        ImagesMissingError: when the dataset's images are not in the history.
    """
    stored = history.images(name)
    labels = np.asarray(stored.labels)
    rows = sample_rows(labels, stored.rows("train"), seed=0)
    return to_size(stored.take(rows), spec), labels[rows]


def embed_features(features: NDArray[np.float64], model: ModelHeader) -> NDArray[np.float32]:
    """Embed a dataset by its handcrafted features, with a model for which `is_handcrafted` is true."""
    return _plain_model(*_file_state(model)).embed_features(features)


def load_embedder(model: ModelHeader, *, device: str = "cpu") -> Embedder:
    """Load the model of a header, once a process, device and state of its file.

    Raises:
        UsageError: when there is no such device.
        ModelError: when the model's weights are damaged.
    """
    state = _file_state(model)
    if needs_torch(model):
        return _network(*state, device)
    if device not in ("cpu", "auto"):
        # Only for its error: the model needs no device, but a wrong name is a mistake.
        resolve_device(device)
    return _landmark_model(*state) if is_landmarks(model) else _plain_model(*state)


def is_landmarks(model: ModelHeader) -> bool:
    """Return whether a model compares datasets by landmark features of a pretrained network."""
    return model.spec.extractor == "landmarks"


def feature_names(model: ModelHeader) -> tuple[str, ...]:
    """Return the names of a sample's features for a model: landmark features, else handcrafted ones."""
    if is_landmarks(model):
        return LANDMARKS
    return FEATURES


def needs_torch(model: ModelHeader) -> bool:
    """Return whether a model is a network of torch; if not, a query takes half of the time."""
    return not is_landmarks(model) and not is_handcrafted(model)


def is_handcrafted(model: ModelHeader) -> bool:
    """Return whether a model compares datasets by handcrafted features alone."""
    return model.spec.extractor == "handcrafted"


@lru_cache(maxsize=4)
def _network(path: str, mtime_ns: int, size: int, device: str) -> MetaFeatureModel:  # noqa: ARG001  the cache's key
    """Load a model once for each state of its file."""
    torch_device = resolve_device(device)
    from warmstart.metafeat.model import MetaFeatureModel

    model = MetaFeatureModel.load(path)
    model.network.to(torch_device)
    return model


@lru_cache(maxsize=4)
def _plain_model(path: str, mtime_ns: int, size: int) -> PlainModel:  # noqa: ARG001  the cache's key
    """Load a model of handcrafted features once for each state of its file."""
    from warmstart.metafeat.plain_model import PlainModel

    return PlainModel.load(path)


@lru_cache(maxsize=4)
def _landmark_model(path: str, mtime_ns: int, size: int) -> LandmarkModel:  # noqa: ARG001  the cache's key
    """Load a model of landmark features once for each state of its file."""
    from warmstart.metafeat.pretrained.landmark_model import LandmarkModel

    return LandmarkModel.load(path)


def _file_state(model: ModelHeader) -> tuple[str, int, int]:
    """Return path, time of change and size of a model file: they identify its content."""
    stat = model.path.stat()
    return str(model.path), stat.st_mtime_ns, stat.st_size
