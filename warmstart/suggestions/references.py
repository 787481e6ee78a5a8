"""What a history's own datasets are like, kept in it: the measure by which a new one is doubted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.handcrafted import FEATURES
from warmstart.metafeat.model_file import ModelHeader
from warmstart.metafeat.pretrained.landmarks import LANDMARKS

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.metafeat.cache import EmbeddingCache

T = TypeVar("T")
Progress = Callable[[float, float], object]

_LARGEST = 1e12
"""No statistic of pictures comes near it."""
VERSION = 1
SIZES = (50, 100, 200, 400)
"""Pictures in a draw, for each of which it is measured how far distances move."""
LEAST_DATASETS = 5
"""Movements of fewer datasets than this say nothing."""
NEAREST = 5
_WIDTHS = ((len(FEATURES),), (len(LANDMARKS),))
COVERED = 95.0
"""Per cent of the movements that an interval covers."""
_CACHED = "references=1"
"""The cache's key of a dataset's class signal, pixel statistics and features, eight bytes a number; another one where they change."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Statistics of a history's datasets, and how far its distances move from draw to draw.

    Attributes:
        names: `m` datasets.
        effects: `m` class signals for each unit of weight, see `warmstart.metafeat.class_signal`.
        pixels: `m x p` pixel statistics, see `warmstart.metafeat.sample_statistics`.
        sizes: pictures in a draw, ascending.
        movements: 95 % of distances to the nearest datasets move by no more between two draws of so many pictures.
        features: `m x q` features that go with the model (`warmstart.metafeat.embed.feature_names`); None where the history does not hold them.
    """

    names: tuple[str, ...]
    effects: NDArray[np.float64]
    pixels: NDArray[np.float64]
    sizes: tuple[int, ...] = ()
    movements: tuple[float, ...] = ()
    features: NDArray[np.float64] | None = None

    def of(self, names: Sequence[str]) -> "References":
        """Return those of the named datasets alone, in this order; datasets without statistics are left out."""
        place = {name: row for row, name in enumerate(self.names)}
        rows = [place[name] for name in names if name in place]
        kept = tuple(self.names[row] for row in rows)
        features = None if self.features is None else self.features[rows]
        return References(kept, self.effects[rows], self.pixels[rows], self.sizes, self.movements, features)

    def movement(self, n_images: int) -> float | None:
        """Return how far distances move between two draws of so many pictures; None where nobody measured it."""
        if not self.sizes:
            return None
        return float(np.interp(np.log(n_images), np.log(self.sizes), self.movements))

    def slack(self, n_images: int) -> float:
        """Return how much farther distances move for so few pictures than for as many as the history's own were embedded with."""
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
        """Build from what `to_dict` gave.

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
        fits = fits and len(sizes) == len(movements) and all((np.abs(part) < _LARGEST).all() for part in parts)
        if not fits:
            msg = f"expected statistics of {len(names)} datasets below {_LARGEST:g}, got {effects.shape} and {pixels.shape}"
            raise ValueError(msg)
        return cls(names, effects, pixels, sizes, movements, features)


def references_key(model_hash: str) -> str:
    """Name the result under which a history keeps the references of a model."""
    return f"references/{model_hash}"


def read_references(history: "History", model_hash: str) -> References | None:
    """Read what `store_references` stored for a model; None where nothing is left, or a later version stored it.

    Raises:
        HistoryDamagedError: they are no references.
    """
    stored = history.view_result(references_key(model_hash))
    if stored is None or stored.get("version") != VERSION or stored.get("names") == []:
        return None
    try:
        return References.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{history.path}: expected references of model {model_hash} as `warmstart train` writes them, got others. Train the model again, or restore the file."
        raise HistoryDamagedError(msg) from error


FEATURES_KEY = "features"
"""The result under which a history keeps what datasets are like of which it never had images."""


def read_features(history: "History") -> References | None:
    """Read what is known of datasets that came without images; None where nothing is.

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
    """Return what the history holds of its datasets' handcrafted features, whatever the model they were stored with."""
    models = [each for model in history.model_hashes if (each := read_references(history, model)) is not None]
    found = read_features(history)
    known = [each for each in models if each.features is not None and each.features.shape[1] == len(FEATURES)]
    known += [] if found is None else [found]
    start = References((), np.zeros(0), np.zeros((0, 0)), features=np.zeros((0, len(FEATURES))))
    return joined(known) if known else start


def joined(parts: Sequence[References]) -> References:
    """Put references together; what an earlier one says of a dataset counts, and its movements."""
    first = parts[0]
    for part in parts[1:]:
        fresh = part.of([name for name in part.names if name not in set(first.names)])
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
    """Keep references in a history that is open for writing."""
    history.set_result(references_key(model_hash), references.to_dict())


def drop_references(history: "History", name: str) -> None:
    """Forget what a dataset is like: others may come under its name.

    Args:
        history: open for writing.
        name: of the dataset.
    """
    kept = {references_key(model): read_references(history, model) for model in history.model_hashes}
    for key, known in {**kept, FEATURES_KEY: read_features(history)}.items():
        if known is not None and name in known.names:
            history.set_result(key, known.of([each for each in known.names if each != name]).to_dict())


def _counted(things: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Give things, and tell after each how many were given."""
    for done, each in enumerate(things, start=1):
        yield each
        if progress is not None:
            progress(done, len(things))


def compute_references(
    history: "History", model: ModelHeader, *, device: str = "cpu", threads: int | None = None
) -> References | None:
    """Compute the references of all datasets whose images the history holds; some 2 s a dataset.

    Args:
        history: with its embeddings of this model.
        model: header of the model.
        device: where the network runs.
        threads: CPU threads of the network.

    Returns: the references; None where the history holds no images.
    """
    names = [name for name in history.names if history.has_images(name)]
    if not names:
        return None
    found = compute_statistics(history, names, model, device=device, threads=threads)
    return replace(found, **_movements(history, model, history.embeddings(model.hash), device=device, threads=threads))


def complete_references(
    history: "History",
    model: ModelHeader,
    vectors: Mapping[str, NDArray[np.float32]],
    *,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress | None = None,
) -> References | None:
    """Compute the references that a history lacks; those that it has stay. What is computed of a dataset is cached at once.

    Args:
        history: may be open for reading.
        model: header of the model.
        vectors: embeddings of its datasets by this model.
        device: where the network runs.
        threads: CPU threads of the network.
        progress: called with the datasets that were looked at, and how many there are; more than once from the beginning.

    Returns: all references; None where nothing is lacking.
    """
    known = read_references(history, model.hash)
    if known is not None and known.features is None and all(map(history.has_images, known.names)):
        known = None  # of an earlier version: computed anew, with their features
    there = set() if known is None else set(known.names)
    names = [name for name in history.names if name not in there and history.has_images(name)]
    if not names:
        return None
    found = compute_statistics(history, names, model, device=device, threads=threads, cache=True, progress=progress)
    if known is not None:
        found = joined([known, found])
    if not found.sizes:
        found = replace(found, **_movements(history, model, vectors, device=device, threads=threads, progress=progress))
    return found


def compute_statistics(
    history: "History",
    names: Sequence[str],
    model: ModelHeader | None = None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = False,
    progress: Progress | None = None,
) -> References:
    """Compute what datasets are like from their stored images, with the features that go with a model (None = handcrafted); some 2 s a dataset.

    `cache` keeps each in the cache folder, by its images and the model.
    """
    from warmstart.metafeat.cache import EmbeddingCache, cache_folder

    store = EmbeddingCache(cache_folder() / "embeddings") if cache else None
    found = [
        _statistics(history, name, model, device=device, threads=threads, store=store)
        for name in _counted(names, progress)
    ]
    effects, pixels, features = zip(*found, strict=True)
    return References(tuple(names), np.array(effects), np.stack(pixels), features=np.stack(features))


def _statistics(
    history: "History",
    name: str,
    model: ModelHeader | None,
    *,
    device: str,
    threads: int | None,
    store: "EmbeddingCache | None",
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return class signal, pixel statistics and features of a dataset; from the cache where it has them."""
    from warmstart.metafeat.embed import describe_images, feature_names, stored_sample
    from warmstart.metafeat.sample_statistics import sample_statistics

    images, labels = stored_sample(history, name, None if model is None else model.spec)
    asked = (sample_mark(images, labels), "" if model is None else model.hash, _CACHED)
    kept = None if store is None else store.get(*asked)
    if kept is None:
        about = sample_statistics(images, labels)
        features = describe_images(images, labels, model, device=device, threads=threads)
        numbers = np.concatenate([[about.signal.effect], about.pixels, features])
        if store is not None:
            store.put(*asked, numbers.view(np.float32))
    else:
        numbers = kept.view(np.float64)
    width = len(FEATURES) if model is None else len(feature_names(model))
    return float(numbers[0]), numbers[1:-width], numbers[-width:]


def sample_mark(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """Digest the stored images that a dataset is known by."""
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
    """Measure how far distances move, by the fields of `References`."""
    movements = {
        size: _movement(history, model, vectors, size, device=device, threads=threads, progress=progress)
        for size in SIZES
    }
    known = {size: movement for size, movement in movements.items() if movement is not None}
    return {"sizes": tuple(known), "movements": tuple(known.values())}


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
    """Measure how far the distances to the nearest datasets of other groups move between two draws of so many pictures."""
    from warmstart.metafeat.embed import embed_images
    from warmstart.metafeat.images import to_size

    moved: list[NDArray[np.float64]] = []
    large = [
        info
        for info in history.datasets
        if info.parent is None and info.n_train >= 1.5 * size and history.has_images(info.name)
    ]
    if len(large) < LEAST_DATASETS:
        return None
    for info in _counted(large, progress):
        others = [
            vectors[other.name] for other in history.datasets if other.group != info.group and other.name in vectors
        ]
        if not others:
            continue
        stored = history.images(info.name)
        rows, labels = stored.rows("train"), np.asarray(stored.labels)
        points = []
        for seed in (0, 1):
            drawn = np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
            images = to_size(stored.take(drawn), model.spec)
            points.append(embed_images(images, labels[drawn], model, seed=seed, device=device, threads=threads))
        first, second = (np.linalg.norm(np.stack(others) - point, axis=1) for point in points)
        near = np.argsort(first, kind="stable")[:NEAREST]
        moved.append(np.abs(first - second)[near])
    return float(np.percentile(np.concatenate(moved), COVERED)) if len(moved) >= LEAST_DATASETS else None
