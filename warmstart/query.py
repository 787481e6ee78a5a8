"""The dataset that is asked about: opened and fingerprinted, once for each state of its files."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from history_store.errors import UsageError
from history_store.images import ImageSource
from history_store.readers import open_arrays, open_images, open_torch_dataset
from training import torchvision_reader  # noqa: F401  adds its names
from warmstart.session import file_state

_fingerprints: dict[tuple[str, str, str], str] = {}


def open_query(
    path: str | os.PathLike[str] | None, images: Any, labels: Any, *, download: bool = False
) -> tuple[ImageSource, str]:
    """Open what a caller gave: a path, arrays, or a torch Dataset; `download` lets torchvision fetch what is missing.

    Returns: the collection and its ``listing:`` fingerprint.

    Raises:
        UsageError: neither or both of path and images.
        MissingPathError: a path that is not there.
        DataError: what is there cannot be used.
    """
    if (path is None) == (images is None):
        msg = (
            f"suggest: expected either a path or images, got {'neither' if path is None else 'both'}. Give one of them."
        )
        raise UsageError(msg)
    if path is None:
        is_dataset = labels is None and not hasattr(images, "shape") and hasattr(images, "__getitem__")
        source = open_torch_dataset(images) if is_dataset else open_arrays(images, labels)
        return source, source.fingerprint("listing")
    if labels is not None:
        msg = "suggest: expected labels with images only, got labels beside a path. The path has its own."
        raise UsageError(msg)
    text = os.fspath(path)
    file, separator, _ = text.rpartition("::")
    if separator or text.startswith("sklearn:"):  # one file whose state tells all, or none that could change
        return _opened(text, file_state(Path(file)) if separator else ())
    source = open_path(text, download=download)
    return source, _fingerprint(source)


def open_path(path: str, *, download: bool = False) -> ImageSource:
    """Open a path in any layout, those that `training` knows how to obtain among them; raises as `open_images`."""
    return open_images(path, download=download)


@lru_cache(maxsize=4)
def _opened(text: str, state: tuple[int, ...]) -> tuple[ImageSource, str]:  # noqa: ARG001  the key of the memory
    source = open_images(text)
    return source, source.fingerprint("listing")


def _fingerprint(source: ImageSource) -> str:
    """Fingerprint a source, or give what was computed while its files were as they are now."""
    key = (source.layout, str(Path(source.location).absolute()), source.signature())
    if key not in _fingerprints:
        if len(_fingerprints) >= 1000:
            _fingerprints.clear()
        _fingerprints[key] = source.fingerprint("listing")
    return _fingerprints[key]
