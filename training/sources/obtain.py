"""Opening of sources: images of manifests, and the datasets of torchvision."""

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
from warmstart.training.sources import torchvision_reader  # noqa: F401  registers its reader
from warmstart.training.sources.download import download as fetch
from warmstart.training.sources.download import hash_file, unpack
from warmstart.training.sources.torchvision_parts import JoinedParts, check_name


def data_folder() -> Path:
    """Return the folder of downloads: $WARMSTART_DATA, else `datasets` in the cache folder."""
    if folder := os.environ.get("WARMSTART_DATA"):
        return Path(folder)
    return cache_folder() / "datasets"


def open_manifest(manifest: Manifest, *, root: str | Path | None = None, download: bool = False) -> ImageSource:
    """Open the images of a manifest.

    Args:
        manifest: of the source.
        root: folder of its file or folder; None = `data_folder`, for downloads and torchvision.
        download: fetch missing files; otherwise there is no network access.

    Raises:
        UsageError: when a file or folder needs a root.
        MissingPathError: when the images are missing; the message says how to obtain them.
        DataError: when a file has another checksum.
    """
    obtain = manifest.obtain
    if obtain.kind == "torchvision":
        return open_torchvision(obtain.dataset, root=root, download=download)
    if root is None and obtain.kind != "download" and not Path(obtain.path).is_absolute():
        msg = f"manifest {manifest.name!r}: expected the folder that holds {obtain.path!r}, got none. Give `root`."
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
    if obtain.sha256 and images.is_file() and (actual := hash_file(images)) != obtain.sha256:
        msg = f"{path}: expected sha256 {obtain.sha256} as the manifest of {manifest.name!r} says, got {actual}. Obtain the same file."
        raise DataError(msg)
    return open_images(path)


def manifest_path(manifest: Manifest, *, root: str | Path | None = None) -> str:
    """Return the path of the images of a manifest, as `open_manifest` opens it, or ``torchvision:NAME``."""
    obtain = manifest.obtain
    if obtain.kind == "torchvision":
        return f"torchvision:{obtain.dataset}"
    return str(((data_folder() if root is None else Path(root)) / obtain.path).absolute())


def open_torchvision(name: str, *, root: str | Path | None = None, download: bool = False) -> ImageSource:
    """Open a dataset of torchvision with all its parts.

    An image with several true labels (VOC) gets one of them, drawn with seed 0.

    Args:
        name: class of torchvision.datasets, or ``VOC2007``, ``VOC2012``.
        root: folder for torchvision; None = `data_folder`.
        download: let torchvision fetch missing files.

    Raises:
        UsageError: when the name is unknown.
        MissingPathError: when files are missing, or cannot be fetched.
    """
    check_name(name)
    folder = data_folder() if root is None else Path(root)
    if download:
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():
        try:
            joined = JoinedParts(name, folder, download=download)
        # torchvision raises RuntimeError for missing or damaged files.
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
    """`ImageSource` of a dataset of torchvision with its splits."""

    def __init__(self, name: str, joined: JoinedParts) -> None:
        self.location = f"torchvision:{name}"
        self.layout = "torchvision"
        self.splits: Mapping[str, NDArray[np.int64]] = joined.splits
        self.inner = open_torch_dataset(joined)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Return the `n` int64 labels."""
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
        """Decode images by index; see `ImageSource`."""
        return self.inner.read(indices, size=size, skip_broken=skip_broken)

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Return the fingerprint of the content; see `ImageSource`."""
        return self.inner.fingerprint(kind)

    def signature(self) -> str:
        """Return the signature of the files; see `ImageSource`."""
        return self.inner.signature()
