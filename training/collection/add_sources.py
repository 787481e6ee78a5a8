"""Add sources to a history, with images, splits and fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import read_all
from warmstart.history_store.bundle.records import describe_dataset
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.file.content import is_blank
from warmstart.history_store.history import History
from warmstart.history_store.images import BrokenImage, ImageSet, ImageSource
from warmstart.history_store.manifest import Manifest
from warmstart.history_store.picture import DECODING
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.shards import history_from_shards
from warmstart.history_store.splits import TEST, TRAIN, VAL, split_codes, stratified_subsample
from warmstart.training.sources.obtain import open_manifest

OnBroken = Callable[[BrokenImage], object] | None


def add_sources(
    history: History,
    manifests: Sequence[Manifest],
    *,
    root: str | Path | None = None,
    download: bool = False,
    fractions: Sequence[float] = (1.0,),
    on_broken: OnBroken = None,
) -> tuple[str, ...]:
    """Add the datasets of manifests that the history lacks, with their images.

    A dataset of the history without images (from shards, for example) gets them if the content fingerprints of source
    and history agree.

    Args:
        history: open for writing.
        manifests: sources; empty: return the datasets of the history with images.
        root: folder of the manifests' files and folders.
        download: fetch missing files of manifests with a URL.
        fractions: parts of the training split, one dataset each; 1.0 is the source itself, 0.3 is ``NAME@30``.
        on_broken: called with each picture that cannot be decoded and is left out; None = its source is refused.

    Returns: names of the datasets, grouped by source.

    Raises:
        UsageError: when a fraction is not a whole percentage above 0, or there is no dataset.
        DataError: when a source does not fit its manifest or the history.
        MissingPathError: when a source is missing.
    """
    percents = [_percent(fraction) for fraction in fractions]
    parts = {m.name: {part_name(m.name, percent): percent / 100 for percent in percents} for m in manifests}
    _add_parts(history, manifests, parts, root=root, download=download, on_broken=on_broken)
    names = [name for of_source in parts.values() for name in of_source]
    if not manifests:
        names = [name for name in history.names if history.has_images(name)]
    if not names:
        msg = f"{history.path}: expected datasets to measure, got no manifest and no dataset with images. Name manifests, or add datasets first."
        raise UsageError(msg)
    return tuple(names)


def restore_images(
    history: History, manifests: Sequence[Manifest], *, root: str | Path | None = None, download: bool = False
) -> tuple[str, ...]:
    """Add images to the datasets of a history that lack them, fractions included.

    Args:
        history: open for writing.
        manifests: sources; sources outside the history are skipped.
        root: folder of the manifests' files and folders.
        download: fetch missing files of manifests with a URL.

    Returns: names of the datasets that still have no images.

    Raises:
        DataError: when a source differs from the one that was measured.
        MissingPathError: when a source is missing.
    """
    parts = {
        manifest.name: {info.name: info.fraction for info in history.datasets if info.manifest == manifest.name}
        for manifest in manifests
    }
    _add_parts(history, manifests, parts, root=root, download=download)
    return tuple(name for name in history.names if not history.has_images(name))


def rebuild(
    shards: str | Path,
    path: str | Path,
    manifests: Sequence[Manifest],
    *,
    root: str | Path | None = None,
    download: bool = False,
) -> History:
    """Create a history from shards and their sources; other images are refused.

    Args:
        shards: folder of shards.
        path: of the new history.
        manifests: sources; datasets of other sources stay without images.
        root: folder of the manifests' files and folders.
        download: fetch missing files of manifests with a URL.

    Returns: the history, open for writing. When a source is missing or wrong, the history stays at the path, without
        images; `restore_images` continues from there.

    Raises:
        UsageError: when the path exists.
        DataError: when the shards cannot be used, or a source differs from the one that was measured.
        MissingPathError: when a source is missing.
    """
    history = history_from_shards(shards, path)
    # On failure the file stays for `restore_images`, but not its lock.
    try:
        restore_images(history, manifests, root=root, download=download)
    except BaseException:
        history.close()
        raise
    return history


def _add_parts(
    history: History,
    manifests: Sequence[Manifest],
    parts: Mapping[str, Mapping[str, float]],
    *,
    root: str | Path | None,
    download: bool,
    on_broken: OnBroken = None,
) -> None:
    """Add the datasets of each manifest (name to fraction) that lack images; all sources are checked first."""
    infos = {info.name: info for info in history.datasets}
    lacking: list[_MissingParts] = []
    for manifest in manifests:
        missing = {
            name: fraction
            for name, fraction in parts[manifest.name].items()
            if name not in infos or not history.has_images(name)
        }
        if missing:
            source = open_manifest(manifest, root=root, download=download)
            fingerprint = _check(source, manifest, [infos[name] for name in missing if name in infos])
            lacking.append(_MissingParts(manifest, source, fingerprint, missing))
    if lacking:
        history.add_datasets(
            addition
            for source_parts in lacking
            for addition in source_parts.additions(infos, size=history.stored_size, on_broken=on_broken)
        )


@dataclass(frozen=True, slots=True)
class _MissingParts:
    """Source with parts that a history lacks.

    Attributes:
        parts: fraction of the training split by name of the dataset.
    """

    manifest: Manifest
    source: ImageSource
    fingerprint: str
    parts: Mapping[str, float]

    def additions(
        self, infos: Mapping[str, DatasetInfo], *, size: int, on_broken: OnBroken
    ) -> Iterator[tuple[DatasetInfo, ImageSet, NDArray[np.int8]]]:
        """Decode the source once, and yield each part."""
        rules = self.manifest.splits
        images, source_splits = read_all(self.source, size, skip_broken=on_broken is not None)
        for picture in images.broken:
            assert on_broken is not None  # noqa: S101  without it, broken pictures raise
            on_broken(picture)
        split, split_seed = split_codes(
            images.labels,
            source_splits if rules.kind == "own" else None,
            fractions=rules.fractions,
            seed=rules.seed,
            location=self.source.location,
        )
        for name, fraction in self.parts.items():
            rows = _part(images.labels, split, fraction, seed=rules.seed)
            part = ImageSet(images.images[rows], images.labels[rows], images.class_names)
            info = replace(
                _info(self.manifest, part, split[rows]),
                name=name,
                fingerprint=self.fingerprint,
                split_seed=split_seed,
                decoding=f"{DECODING}, {size}",
                fraction=fraction,
                parent=None if fraction == 1 else self.manifest.name,
            )
            yield _same(infos[name], info) if name in infos else info, part, split[rows]


def part_name(name: str, percent: int) -> str:
    """Return the name of a part of a dataset; 100 percent has the name of the dataset."""
    return name if percent == 100 else f"{name}@{percent}"


def _percent(fraction: float) -> int:
    percent = round(fraction * 100)
    if not (1 <= percent <= 100 and abs(percent - fraction * 100) < 1e-6):
        msg = f"expected whole percentages in (0, 1], got {fraction}. Use 0.1 for a tenth."
        raise UsageError(msg, param="fraction")
    return percent


def _check(source: ImageSource, manifest: Manifest, infos: Sequence[DatasetInfo]) -> str:
    """Check a source against its manifest and the history, and return its content fingerprint."""
    fingerprint = source.fingerprint("content")
    claims = {manifest.fingerprint: "its manifest", **{info.fingerprint: "the history" for info in infos}}
    for expected, claimant in claims.items():
        if expected not in ("", fingerprint):
            msg = (
                f"{source.location}: expected the images of {manifest.name!r}, {expected} as {claimant} says, got {fingerprint}. "
                "Obtain the same images, or give these another name."
            )
            raise DataError(msg)
    counts = {"n_images": (manifest.n_images, len(source)), "n_classes": (manifest.n_classes, len(source.class_names))}
    for key, (expected_count, count) in counts.items():
        if expected_count not in (None, count):
            msg = f"{source.location}: expected {key}={expected_count} as the manifest of {manifest.name!r} says, got {count}. Obtain the source that it means, or correct the number there."
            raise DataError(msg)
    return fingerprint


def _part(labels: NDArray[np.int64], split: NDArray[np.int8], fraction: float, *, seed: int) -> NDArray[np.int64]:
    """Return the rows of a stratified part of the training images, and of all other images."""
    train = np.flatnonzero(split == TRAIN)
    chosen = train[stratified_subsample(labels[train], fraction, seed=seed)]
    return np.sort(np.concatenate([chosen, np.flatnonzero(split != TRAIN)]))


def _info(manifest: Manifest, images: ImageSet, codes: NDArray[np.int8]) -> DatasetInfo:
    n_classes = len(images.class_names)
    return DatasetInfo(
        name=manifest.name,
        group=manifest.group,
        n_train=int((codes == TRAIN).sum()),
        n_val=int((codes == VAL).sum()),
        n_test=int((codes == TEST).sum()),
        n_classes=n_classes,
        channels=images.images.shape[3],
        class_counts=tuple(np.bincount(images.labels[codes == TRAIN], minlength=n_classes).tolist()),
        source=manifest.source,
        licence=manifest.licence,
        what=manifest.what,
        manifest=manifest.name,
    )


def _same(stored: DatasetInfo, new: DatasetInfo) -> DatasetInfo:
    """Check images against a dataset of the history, and return the description to store, the known one.

    A dataset with runs alone gets the description of its images; its known group replaces a default one.
    """
    if is_blank(stored):
        group = stored.group if new.group == new.manifest else new.group
        return describe_dataset(stored, replace(new, group=group))
    for key in ("n_train", "n_val", "n_test", "n_classes", "channels", "split_seed"):
        if getattr(stored, key) != getattr(new, key):
            msg = (
                f"dataset {stored.name!r}: expected images with {key}={getattr(stored, key)}, got {getattr(new, key)}. "
                "Split the source as it was split, or collect under another name."
            )
            raise DataError(msg)
    return stored
