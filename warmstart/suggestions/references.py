"""References: statistics of a history's own datasets, stored in it, against which a query is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.bundle.records import LARGEST
from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.wording import in_shell
from warmstart.metafeat.feature_names import FEATURES, LANDMARKS

if TYPE_CHECKING:
    from warmstart.history_store.file.snapshot import Snapshot
    from warmstart.history_store.history import History


VERSION = 1
_WIDTHS = ((len(FEATURES),), (len(LANDMARKS),))


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Statistics of a history's datasets, and the movement of its distances between draws.

    Attributes:
        names: `m` datasets.
        effects: `m` class signals for each unit of weight, see `warmstart.metafeat.sample_statistics`.
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


def read_references(history: "Snapshot", model_hash: str) -> References | None:
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


def read_features(history: "Snapshot") -> References | None:
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


def stored_features(history: "Snapshot") -> References:
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


MANY = 2000
"""Datasets above which some computations take a part of them."""
MOST_SAMPLED, LEAST_SAMPLED, MOST_PAIRS = 1000, 500, 10_000_000
"""Of a history larger than `MANY`, the nearest distances of some datasets are computed, evenly spread over it: of the most, or
of fewer, so that they are compared with all others in so many pairs, but never of fewer than the least."""


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """Reference statistics of the history's datasets.

    Attributes:
        n_datasets: how many.
        n_groups: of siblings among them.
        nearest: distances of datasets (of a sample of a large history) to the nearest one of another group.
        fewest_images: fewest pictures of any dataset (of a sample of a large history), or of the draws that measured the movement of distances.
        references: their statistics, where the history holds them.
    """

    n_datasets: int
    n_groups: int
    nearest: NDArray[np.float64]
    fewest_images: int
    references: References | None


def spread_rows(m: int) -> NDArray[np.int64]:
    """Return the positions sampled of `m` datasets: all of up to `MANY`, else some, evenly spread."""
    if m <= MANY:
        return np.arange(m)
    return np.linspace(0, m - 1, min(MOST_SAMPLED, max(LEAST_SAMPLED, MOST_PAIRS // m))).astype(np.int64)
