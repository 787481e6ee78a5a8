"""The query: a dataset opened and fingerprinted, once for each state of its files; and what its pictures are like."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import warmstart.training.sources  # noqa: F401  adds the reader of torchvision:NAME
from warmstart.arguments import check_path
from warmstart.history_store.errors import UsageError
from warmstart.history_store.images import FingerprintKind, ImageSource
from warmstart.history_store.readers import open_arrays, open_images, open_torch_dataset
from warmstart.history_store.readers.base import Source
from warmstart.history_store.splits import count_parts, lacking_classes
from warmstart.suggestions.embedded_history import file_state
from warmstart.suggestions.records import DatasetSummary

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.training.workloads import Workload

_fingerprints: dict[tuple[FingerprintKind, str, str, str], str] = {}
_SAMPLED = 9


@dataclass(frozen=True, slots=True)
class Query:
    """An opened dataset.

    Attributes:
        source: the collection.
        fingerprint: ``listing:...``, of the present state of its files.
    """

    source: ImageSource
    fingerprint: str

    @property
    def class_notes(self) -> tuple[str, ...]:
        """Return a sentence for every class without training or validation pictures."""
        return lacking_classes(self.source.labels, self.source.splits, self.source.class_names)

    @property
    def summary(self) -> DatasetSummary:
        """Return the dataset's path, sizes and fingerprint."""
        source = self.source
        n, n_classes = len(source), len(np.unique(source.labels))
        parts, side = count_parts(n, source.splits), typical_picture_side(source)
        return DatasetSummary(source.location, n, n_classes, self.fingerprint, parts, side)


Dataset = str | os.PathLike[str] | tuple[Any, Any] | Query | Any
"""A path in any layout, ``(images, labels)``, a torch Dataset, or a query."""


def dataset_of(path: str | os.PathLike[str] | None, images: Any, labels: Any) -> Dataset:
    """Return the dataset given by a path, by images and labels, or by a torch Dataset.

    Raises:
        UsageError: neither or both of path and images, or labels with a path.
    """
    if (path is None) == (images is None):
        msg = (
            f"suggest: expected either a path or images, got {'neither' if path is None else 'both'}. Give one of them."
        )
        raise UsageError(msg)
    if path is None:
        is_dataset = labels is None and not hasattr(images, "shape") and hasattr(images, "__getitem__")
        return images if is_dataset else (images, labels)
    if labels is not None:
        msg = "suggest: labels cannot be used with a path, which has its own."
        raise UsageError(msg)
    check_path("path", path)
    return path


def open_query(dataset: Dataset, *, download: bool = False) -> Query:
    """Open a dataset; `download` lets torchvision fetch what is missing.

    Raises:
        MissingPathError: a path that is not there.
        DataError: what is there cannot be used.
    """
    if isinstance(dataset, Query):
        return dataset
    if not isinstance(dataset, str | os.PathLike):
        source = open_source(dataset)
        return Query(source, source.fingerprint("listing"))
    text = os.fspath(dataset)
    file, separator, _ = text.rpartition("::")
    # The file of a table of labels can stay the same while its pictures change.
    is_labelled = "::labels=" in text or "::column=" in text
    if (separator and not is_labelled) or text.startswith("sklearn:"):
        return _open_cached(text, file_state(Path(file)) if separator else ())
    source = open_path(text, download=download)
    return Query(source, cached_fingerprint(source, "listing"))


def open_source(dataset: Dataset, *, download: bool = False) -> ImageSource:
    """Open the pictures of a dataset, without their fingerprint; raises as `open_query`."""
    if isinstance(dataset, Query):
        return dataset.source
    if isinstance(dataset, str | os.PathLike):
        return open_path(os.fspath(dataset), download=download)
    if not isinstance(dataset, tuple):
        return open_torch_dataset(dataset)
    if len(dataset) != 2:
        msg = f"dataset: expected (images, labels), got a tuple of {len(dataset)}. Give both."
        raise UsageError(msg)
    return open_arrays(*dataset)


def open_path(path: str, *, download: bool = False) -> ImageSource:
    """Open a path in any layout, sources of `training` included; raises as `open_images`."""
    return open_images(path, download=download)


@lru_cache(maxsize=4)
def _open_cached(text: str, state: tuple[int, ...]) -> Query:  # noqa: ARG001  the key of the cache
    source = open_images(text)
    return Query(source, source.fingerprint("listing"))


def cached_fingerprint(source: ImageSource, kind: FingerprintKind) -> str:
    """Return the fingerprint of a source, from memory while its files are unchanged."""
    key = (kind, source.layout, str(Path(source.location).absolute()), source.signature())
    if key not in _fingerprints:
        if len(_fingerprints) >= 1000:
            _fingerprints.clear()
        _fingerprints[key] = source.fingerprint(kind)
    return _fingerprints[key]


def larger_pictures_note(
    source: ImageSource,
    configs: Sequence[Mapping[str, object]],
    workload: "Workload",
    space: "ConfigurationSpace | None" = None,
) -> str | None:
    """Recommend a space with larger images for large pictures; None where the history's is large enough.

    Args:
        source: the pictures.
        configs: of the history.
        workload: of the history.
        space: of the suggestions, if not the history's.
    """
    measured = max((size for config in configs if isinstance(size := config.get("image_size"), int)), default=None)
    side = None if measured is None else typical_picture_side(source)
    if side is None or measured is None or (larger := workload.space_for_larger(side, measured)) is None:
        return None
    _, largest = larger
    step = f"`warmstart classify` and `warmstart tune` try {largest}."
    if space is not None:
        here = workload.largest_image(space)
        if here is None or here <= measured:
            return None
        step = f"try the first of these at image_size {here} too, as `tune` does."
    return (
        f"Your pictures have about {side} pixels a side, and the history measured {measured} at most. Photographs can gain "
        f"much from more: {step}"
    )


def typical_picture_side(source: ImageSource) -> int | None:
    """Return the median of the shorter side of a few pictures, in pixels; None where unknown."""
    # A plugin's reader may have no `side`.
    if not isinstance(source, Source):
        return None
    rows = np.unique(np.linspace(0, len(source) - 1, _SAMPLED).astype(int)).tolist()
    sides = [side for row in rows if (side := source.side(row)) is not None]
    return int(np.median(sides)) if sides else None
