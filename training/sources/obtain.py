"""Obtain sources: what a manifest names, and the datasets of torchvision."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.images import FingerprintKind, ImageSet, ImageSource
from warmstart.history_store.manifest import Manifest
from warmstart.history_store.readers import open_images, open_torch_dataset
from warmstart.history_store.readers.csv_labels import images_of
from warmstart.metafeat.cache import cache_folder
from warmstart.training.sources import torchvision_reader  # noqa: F401  adds its names
from warmstart.training.sources.download import download as fetch
from warmstart.training.sources.download import hash_file, unpack
from warmstart.training.sources.torchvision_parts import JoinedParts, check_name


def data_folder() -> Path:
    """Name the folder of downloads: $WARMSTART_DATA, else `datasets` in the cache folder."""
    if folder := os.environ.get("WARMSTART_DATA"):
        return Path(folder)
    return cache_folder() / "datasets"


def open_manifest(manifest: Manifest, *, root: str | Path | None = None, download: bool = False) -> ImageSource:
    """Open the images that a manifest names.

    Args:
        manifest: what and how.
        root: folder below which its file or folder lies; None: for downloads and torchvision, `data_folder`.
        download: fetch what is missing; without it nothing touches the network.

    Raises:
        UsageError: when a file or folder needs a root and none is given.
        MissingPathError: when the images are not there; the message says how to obtain them.
        DataError: when a file has another checksum.
    """
    obtain = manifest.obtain
    if obtain.kind == "torchvision":
        return open_torchvision(obtain.dataset, root=root, download=download)
    if root is None and obtain.kind != "download" and not Path(obtain.path).is_absolute():
        msg = f"manifest {manifest.name!r}: expected the folder that holds {obtain.path!r}, got none. Name it with `root`."
        raise UsageError(msg)
    folder = data_folder() if root is None else Path(root)
    path = folder / obtain.path
    images = images_of(str(path))
    if obtain.kind == "download" and not path.exists() and download:
        if obtain.unpack:
            archive = folder / obtain.url.rsplit("/", 1)[-1]
            unpack(fetch(obtain.url, archive, sha256=obtain.sha256, max_bytes=obtain.max_bytes), path)
        else:
            fetch(obtain.url, path, sha256=obtain.sha256, max_bytes=obtain.max_bytes)
    if not images.exists():
        hints = ["Pass `download`." if obtain.kind == "download" else "", obtain.note]
        hints.append(f"Obtain them from {obtain.url or manifest.source}.")
        msg = f"{path}: expected the images of {manifest.name!r}, got nothing there. {' '.join(filter(None, hints))}"
        raise MissingPathError(msg)
    if obtain.sha256 and images.is_file() and (found := hash_file(images)) != obtain.sha256:
        msg = f"{path}: expected sha256 {obtain.sha256} as the manifest of {manifest.name!r} says, got {found}. Obtain the same file."
        raise DataError(msg)
    return open_images(path)


def manifest_path(manifest: Manifest, *, root: str | Path | None = None) -> str:
    """Return the path of the images that a manifest names, as `open_manifest` opens it, or ``torchvision:NAME``."""
    obtain = manifest.obtain
    if obtain.kind == "torchvision":
        return f"torchvision:{obtain.dataset}"
    return str(((data_folder() if root is None else Path(root)) / obtain.path).absolute())


def open_torchvision(name: str, *, root: str | Path | None = None, download: bool = False) -> ImageSource:
    """Open a dataset of torchvision with all its parts.

    Images with several true labels (VOC) keep one of them, drawn with seed 0.

    Args:
        name: class of torchvision.datasets, or ``VOC2007``, ``VOC2012``.
        root: folder that torchvision is given; None = `data_folder`.
        download: let torchvision fetch what is missing.

    Raises:
        UsageError: when the name is not known.
        MissingPathError: when its files are not there, or cannot be fetched.
    """
    check_name(name)
    folder = data_folder() if root is None else Path(root)
    if download:
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        try:
            joined = JoinedParts(name, folder, download=download)
        except (RuntimeError, OSError):
            reason = "none that torchvision can read"
        else:
            return TorchvisionSource(name, joined)
    else:
        reason = "no such folder"
    advice = "Check the network" if download else "Pass `download` to let torchvision fetch them"
    msg = f"torchvision:{name}: expected its files below {folder}, got: {reason}. {advice}, or name the folder that has them."
    raise MissingPathError(msg)


class TorchvisionSource:
    """A dataset of torchvision as an `ImageSource` with its own splits."""

    def __init__(self, name: str, joined: JoinedParts) -> None:
        self.location = f"torchvision:{name}"
        self.layout = "torchvision"
        self.splits: Mapping[str, NDArray[np.int64]] = joined.splits
        self.inner = open_torch_dataset(joined)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Return `n` int64 labels."""
        return self.inner.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes by label."""
        return self.inner.class_names

    def __len__(self) -> int:
        return len(self.inner)

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode these images; see `ImageSource`."""
        return self.inner.read(indices, size=size, skip_broken=skip_broken)

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Name the collection by its content; see `ImageSource`."""
        return self.inner.fingerprint(kind)

    def signature(self) -> str:
        """Name the files as they lie there; see `ImageSource`."""
        return self.inner.signature()
