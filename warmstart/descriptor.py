"""Descriptors of datasets: enough for an answer, without pixels, paths and class names."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError
from warmstart.metafeat.sample_statistics import ClassSignal, SampleStatistics
from warmstart.suggestions.records import DatasetSummary

SCHEMA_VERSION = 1
MOST_BYTES = 50_000
"""Most bytes of a descriptor as compact JSON."""
MOST_COUNTS = 4096
"""Most class counts in a descriptor, the largest ones; `n_classes` counts all."""
_DIGITS = 9
"""Significant digits that represent every float32 exactly."""


class UnknownExtractorError(DataError):
    """A descriptor computed by another model.

    Attributes:
        accepted: hashes of the models whose descriptors can be compared.
    """

    def __init__(self, message: str, accepted: tuple[str, ...]) -> None:
        super().__init__(message, param=("descriptor/extractor",))
        self.accepted = accepted


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """A dataset as sent to a server.

    Attributes:
        extractor: hash of the model that computed the vector.
        vector: `d` float32, the meta-feature.
        n_images: of all splits.
        n_classes: number of classes with images.
        class_counts: images per class, largest first, without class names.
        sample: statistics of the sampled images; None in a reduced descriptor, which allows fewer doubts.
        features: `q` handcrafted features of these images, `warmstart.metafeat.handcrafted.FEATURES`, to forecast errors; None
            in a reduced descriptor.
    """

    extractor: str
    vector: NDArray[np.float32]
    n_images: int
    n_classes: int
    class_counts: tuple[int, ...]
    sample: SampleStatistics | None = None
    features: NDArray[np.float64] | None = None

    @property
    def id(self) -> str:
        """Return its id: a digest of its JSON."""
        return sha256(self.to_json().encode()).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        sample = self.sample
        return {
            "schema_version": SCHEMA_VERSION,
            "extractor": self.extractor,
            "vector": [_rounded(value) for value in self.vector.tolist()],
            "n_images": self.n_images,
            "n_classes": self.n_classes,
            "class_counts": list(self.class_counts),
            "sample": None
            if sample is None
            else {
                "n_images": sample.n_images,
                "distinct": _rounded(sample.distinct),
                "paired": _rounded(sample.paired),
                "signal": {"score": _rounded(sample.signal.score), "weight": _rounded(sample.signal.weight)},
                "pixels": [_rounded(value) for value in sample.pixels.tolist()],
            },
            "features": None if self.features is None else [_rounded(value) for value in self.features.tolist()],
        }

    def to_json(self) -> str:
        """Format the descriptor as compact JSON of at most `MOST_BYTES`."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Build a descriptor from the object of `to_dict`.

        Raises:
            DataError: not a descriptor, or a later version.
        """
        try:
            version = record["schema_version"]
            if version == SCHEMA_VERSION:
                return cls(
                    str(record["extractor"]),
                    _numbers(record["vector"]).astype(np.float32),
                    int(record["n_images"]),
                    int(record["n_classes"]),
                    tuple(int(count) for count in record["class_counts"]),
                    _sample(record.get("sample")),
                    None if record.get("features") is None else _numbers(record["features"]),
                )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            msg = f"expected a descriptor as `Advisor.describe` gives it, got another ({type(error).__name__}: {error}). Compute it again."
            raise DataError(msg, param="descriptor") from error
        msg = f"expected schema version {SCHEMA_VERSION}, got {version!r}. Upgrade the older side."
        raise DataError(msg, param="descriptor/schema_version")

    def reduced(self, digits: int = 2) -> Self:
        """Return a reduced descriptor: rounded vector, sizes to two digits, no picture statistics."""
        vector = np.array([_rounded(value, digits) for value in self.vector.tolist()], dtype=np.float32)
        rough = tuple(sorted((int(_rounded(count, 2)) for count in self.class_counts), reverse=True))
        return type(self)(self.extractor, vector, int(_rounded(self.n_images, 2)), self.n_classes, rough)


@dataclass(frozen=True, slots=True)
class Description:
    """A descriptor with data that stay with the client.

    Attributes:
        descriptor: to be sent.
        summary: of the dataset, with its path.
        class_names: of the dataset.
        notes: for people, e.g. pictures left out.
    """

    descriptor: Descriptor
    summary: DatasetSummary
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """Return a description of a descriptor alone, without the dataset."""
        name = f"descriptor:{descriptor.id}"
        return cls(descriptor, DatasetSummary(name, descriptor.n_images, descriptor.n_classes, name), ())


def count_classes(labels: NDArray[np.int64]) -> tuple[int, ...]:
    """Count the images per class, largest first, at most `MOST_COUNTS` classes."""
    counts = np.unique(labels, return_counts=True)[1]
    return tuple(int(count) for count in np.sort(counts)[::-1][:MOST_COUNTS])


def _sample(record: Mapping[str, Any] | None) -> SampleStatistics | None:
    if record is None:
        return None
    signal = record["signal"]
    score, weight = _numbers([signal["score"], signal["weight"]]).tolist()
    distinct, paired = _numbers([record["distinct"], record["paired"]]).tolist()
    n, pixels = int(record["n_images"]), _numbers(record["pixels"])
    return SampleStatistics(n, distinct, paired, ClassSignal(score, weight), pixels)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Convert finite numbers within float32 to an array."""
    array = np.array([float(value) for value in values], dtype=np.float64)
    if not (np.abs(array) <= np.finfo(np.float32).max).all():
        msg = "numbers that are not finite, or too large"
        raise ValueError(msg)
    return array


def _rounded(value: float, digits: int = _DIGITS) -> float:
    """Round to significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
