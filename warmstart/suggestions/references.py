"""References: statistics of a history's own datasets, stored in it, against which a query is judged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.bundle.records import LARGEST
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.handcrafted import FEATURES
from warmstart.metafeat.index import DatasetIndex, distances_to
from warmstart.metafeat.model_file import ModelHeader
from warmstart.metafeat.pretrained.landmarks import LANDMARKS

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.metafeat.cache import EmbeddingCache

T = TypeVar("T")
Progress = Callable[[float, float], object]

VERSION = 1
SIZES = (50, 100, 200, 400)
"""Pictures per draw for which the movement of distances is measured."""
LEAST_DATASETS = 5
"""Least datasets to measure the movement of distances."""
NEAREST = 5
_WIDTHS = ((len(FEATURES),), (len(LANDMARKS),))
COVERED = 95.0
"""Percentage of the movements that an interval covers."""
_CACHE_KEY = "references=1"
"""Cache key of a dataset's class signal, pixel statistics and features, eight bytes a number; change it with their definition."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Statistics of a history's datasets, and the movement of its distances between draws.

    Attributes:
        names: `m` datasets.
        effects: `m` class signals for each unit of weight, see `warmstart.metafeat.class_signal`.
        pixels: `m x p` pixel statistics, see `warmstart.metafeat.sample_statistics`.
        sizes: pictures in a draw, ascending.
        movements: 95th percentiles of the change of distances to the nearest datasets between two draws of these sizes.
        features: `m x q` features that go with the model (`warmstart.metafeat.embed.feature_names`); None where the history does not hold them.
    """

    names: tuple[str, ...]
    effects: NDArray[np.float64]
    pixels: NDArray[np.float64]
    sizes: tuple[int, ...] = ()
    movements: tuple[float, ...] = ()
    features: NDArray[np.float64] | None = None

    def of(self, names: Sequence[str]) -> "References":
        """Return the statistics of some datasets, in this order; unknown names are left out."""
        row_of = {name: row for row, name in enumerate(self.names)}
        rows = [row_of[name] for name in names if name in row_of]
        present = tuple(self.names[row] for row in rows)
        features = None if self.features is None else self.features[rows]
        return References(present, self.effects[rows], self.pixels[rows], self.sizes, self.movements, features)

    def movement(self, n_images: int) -> float | None:
        """Return the movement of distances between two draws of `n_images` pictures; None if not measured."""
        if not self.sizes:
            return None
        return float(np.interp(np.log(n_images), np.log(self.sizes), self.movements))

    def slack(self, n_images: int) -> float:
        """Return the additional movement for `n_images` pictures against the largest draws."""
        return max(0.0, (self.movement(n_images) or 0.0) - self.movements[-1]) if self.sizes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "version": VERSION,
            "names": list(self.names),
            "effects": [round(effect, 4) for effect in self.effects.tolist()],
            "pixels": [[round(value, 4) for value in row] for row in self.pixels.tolist()],
            "sizes": list(self.sizes),
            "movements": list(self.movements),
            **({} if self.features is None else {"features": np.round(self.features, 5).tolist()}),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "References":
        """Build references from the fields of `to_dict`.

        Raises:
            ValueError: it is not what `to_dict` gives.
        """
        names = tuple(str(name) for name in fields["names"])
        effects = np.array(fields["effects"], dtype=np.float64)
        pixels = np.array(fields["pixels"], dtype=np.float64)
        sizes, movements = tuple(map(int, fields["sizes"])), tuple(map(float, fields["movements"]))
        features = np.array(fields["features"], dtype=np.float64) if "features" in fields else None
        fits = effects.shape == (len(names),) and pixels.ndim == 2 and len(pixels) == len(names)
        fits = fits and (features is None or (features.shape[:1] == (len(names),) and features.shape[1:] in _WIDTHS))
        parts = (
            (effects, pixels, np.array(movements))
            if features is None
            else (effects, pixels, np.array(movements), features)
        )
        fits = fits and len(sizes) == len(movements) and all((np.abs(part) < LARGEST).all() for part in parts)
        if not fits:
            msg = f"expected statistics of {len(names)} datasets below {LARGEST:g}, got {effects.shape} and {pixels.shape}"
            raise ValueError(msg)
        return cls(names, effects, pixels, sizes, movements, features)


def references_key(model_hash: str) -> str:
    """Return the key of a model's references in a history's results."""
    return f"references/{model_hash}"


def read_references(history: "History", model_hash: str) -> References | None:
    """Read the references of a model; None if there are none, or a later version stored them.

    Raises:
        HistoryDamagedError: they are no references.
    """
    stored = history.view_result(references_key(model_hash))
    if stored is None or stored.get("version") != VERSION or stored.get("names") == []:
        return None
    try:
        return References.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected references of model {model_hash} as `warmstart fit-similarity` writes them, got others. Train the model again, or restore the file."
        raise HistoryDamagedError(msg) from error


FEATURES_KEY = "features"
"""Key of the statistics of datasets merged without images, in a history's results."""


def read_features(history: "History") -> References | None:
    """Read the statistics of datasets merged without images; None if there are none.

    Raises:
        HistoryDamagedError: they are no references.
    """
    stored = history.view_result(FEATURES_KEY)
    if stored is None or stored.get("version") != VERSION or not stored.get("names"):
        return None
    try:
        return References.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected features as `warmstart history merge` writes them, got others. Restore the file: `warmstart history verify {in_shell(history.path)} --restore`."
        raise HistoryDamagedError(msg) from error


def stored_features(history: "History") -> References:
    """Return the handcrafted features of a history's datasets, stored for any model."""
    models = [
        references for model in history.model_hashes if (references := read_references(history, model)) is not None
    ]
    merged = read_features(history)
    parts = [
        references
        for references in models
        if references.features is not None and references.features.shape[1] == len(FEATURES)
    ]
    parts += [] if merged is None else [merged]
    start = References((), np.zeros(0), np.zeros((0, 0)), features=np.zeros((0, len(FEATURES))))
    return join_references(parts) if parts else start


def join_references(parts: Sequence[References]) -> References:
    """Join references; for repeated datasets, and for movements, the first one counts."""
    first = parts[0]
    for part in parts[1:]:
        joined = set(first.names)
        fresh = part.of([name for name in part.names if name not in joined])
        if not fresh.names or fresh.pixels.shape[1] != first.pixels.shape[1]:
            continue
        lacks = first.features is None or fresh.features is None or first.features.shape[1] != fresh.features.shape[1]
        first = replace(
            first,
            names=(*first.names, *fresh.names),
            effects=np.concatenate([first.effects, fresh.effects]),
            pixels=np.concatenate([first.pixels, fresh.pixels]),
            features=None if lacks else np.concatenate([first.features, fresh.features]),
        )
    return first


def store_references(history: "History", references: References, model_hash: str) -> None:
    """Store references in a history that is open for writing."""
    history.set_result(references_key(model_hash), references.to_dict())


def drop_references(history: "History", name: str) -> None:
    """Delete the references of a dataset, as another one may get its name.

    Args:
        history: open for writing.
        name: of the dataset.
    """
    by_key = {references_key(model): read_references(history, model) for model in history.model_hashes}
    for key, references in {**by_key, FEATURES_KEY: read_features(history)}.items():
        if references is not None and name in references.names:
            history.set_result(
                key, references.of([remaining for remaining in references.names if remaining != name]).to_dict()
            )


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
    from warmstart.metafeat.cache import EmbeddingCache, cache_folder

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
    from warmstart.metafeat.sample_statistics import sample_statistics

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


def sample_mark(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """Return a digest of a dataset's stored images and labels."""
    from hashlib import sha256

    digest = sha256(np.ascontiguousarray(images).tobytes())
    digest.update(np.ascontiguousarray(labels).tobytes())
    return f"sample:{digest.hexdigest()}"


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
