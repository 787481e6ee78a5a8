"""The datasets of torchvision as sources of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import MissingPathError
from warmstart.history_store.images import FingerprintKind, ImageSet, ImageSource
from warmstart.history_store.readers import open_torch_dataset
from warmstart.training.sources.download import data_folder
from warmstart.training.sources.torchvision_parts import JoinedParts, check_name


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
