"""Opening of the images of manifests."""

from __future__ import annotations

from pathlib import Path

import warmstart.training.sources  # noqa: F401  adds the reader of torchvision:NAME
from warmstart.history_store.canonical import images_of
from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.manifest import Manifest
from warmstart.history_store.readers import open_images
from warmstart.training.sources.download import data_folder, hash_file, unpack
from warmstart.training.sources.download import download as fetch
from warmstart.training.sources.torchvision_source import open_torchvision


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
