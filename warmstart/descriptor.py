"""What is told of a dataset instead of its images: enough for an answer, and no pixel, path or class name."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError
from warmstart.metafeat.class_signal import ClassSignal
from warmstart.metafeat.sample_statistics import SampleStatistics
from warmstart.suggestions.answer import DatasetSummary

SCHEMA_VERSION = 1
MOST_BYTES = 50_000
"""Bytes of a descriptor as compact JSON, at most."""
MOST_COUNTS = 4096
"""Class counts that are told, the largest; `n_classes` counts all."""
_DIGITS = 9
"""Significant digits that give every float32 back exactly."""


class UnknownExtractorError(DataError):
    """A descriptor that another model computed.

    Attributes:
        accepted: hashes of the models whose descriptors can be compared.
    """

    def __init__(self, message: str, accepted: tuple[str, ...]) -> None:
        super().__init__(message, param=("descriptor/extractor",))
        self.accepted = accepted


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """A dataset as a server sees it.

    Attributes:
        extractor: hash of the model that computed the vector.
        vector: `d` float32, the meta-feature.
        n_images: of all splits.
        n_classes: classes that have images.
        class_counts: images of each class, the largest first, without their names.
        sample: statistics of the images looked at; None in a reduced descriptor: fewer doubts can be raised then.
        features: `q` handcrafted features of these images, `warmstart.metafeat.handcrafted.FEATURES`, from which the error to expect is
            forecast; None likewise.
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
        """Return what tells it from others: a digest of its JSON."""
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
        """Write compact JSON of at most `MOST_BYTES`."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Build from what `to_dict` gave.

        Raises:
            DataError: it is no descriptor, or one of a later version.
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
        """Return one that tells less: a rounded vector, sizes to two digits, no statistics of the pictures."""
        vector = np.array([_rounded(value, digits) for value in self.vector.tolist()], dtype=np.float32)
        rough = tuple(sorted((int(_rounded(count, 2)) for count in self.class_counts), reverse=True))
        return type(self)(self.extractor, vector, int(_rounded(self.n_images, 2)), self.n_classes, rough)


@dataclass(frozen=True, slots=True)
class Description:
    """A descriptor, and what stays with the client.

    Attributes:
        descriptor: that may be sent.
        summary: of the dataset, its path among it.
        class_names: of the dataset.
        notes: what a person should hear, e.g. pictures left out.
    """

    descriptor: Descriptor
    summary: DatasetSummary
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """Return all that is known where the dataset itself is elsewhere."""
        name = f"descriptor:{descriptor.id}"
        return cls(descriptor, DatasetSummary(name, descriptor.n_images, descriptor.n_classes, name), ())


def count_classes(labels: NDArray[np.int64]) -> tuple[int, ...]:
    """Count the images of each class that has any, the largest first, at most `MOST_COUNTS` of them."""
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
    """Read finite numbers, each of which a float32 holds."""
    found = np.array([float(value) for value in values], dtype=np.float64)
    if not (np.abs(found) <= np.finfo(np.float32).max).all():
        msg = "numbers that are not finite, or too large"
        raise ValueError(msg)
    return found


def _rounded(value: float, digits: int = _DIGITS) -> float:
    """Round to significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
