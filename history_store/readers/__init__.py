"""Readers of image datasets, one layout a file, and the functions that open them.

A reader is imported when a dataset needs it: opening a folder does not import npz or HDF5. To add one, write a `Reader`
in one file, and one line in your package's metadata: `[project.entry-points."warmstart.readers"]`,
`coco = "package.module:READER"`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.registry import READERS, Place, Reader, open_location, register, scheme_reader


def open_images(path: str | Path, *, download: bool = False) -> ImageSource:
    """Open a labelled collection.

    Args:
        path: a folder, an idx, CIFAR, npz or npy file, ``FILE.h5::name``, or ``scheme:name`` such as
            ``sklearn:digits``.
        download: let a reader fetch what is missing; that of ``torchvision:NAME`` can.

    Raises:
        MissingPathError: when the path does not exist.
        UsageError: when a scheme or a name behind it is not known.
        LabelError: when labels are missing, of a wrong kind, or of one class only.
        DataError: when it is no layout that can be read.
    """
    return open_location(path, download=download)


def open_arrays(images: ArrayLike, labels: ArrayLike, *, class_names: Sequence[str] | None = None) -> ImageSource:
    """Open pictures in memory without copying them.

    Args:
        images: `n x h x w` or `n x h x w x c`, c in {1, 3, 4}; uint8, uint16 (divided by 257), float in [0, 1] or bool.
        labels: `n` integers or strings, in any numbering.
        class_names: names by label 0 .. C-1; left out, the labels themselves are the names.

    Raises:
        LabelError: when labels are missing, of a wrong kind or number, or of one class only.
        DataError: when the shape, dtype or values of the images do not fit.
    """
    from warmstart.history_store.readers.arrays import from_memory

    return from_memory(images, labels, class_names=class_names)


def open_torch_dataset(dataset: Any) -> ImageSource:
    """Open a map-style torch Dataset: anything with `len` whose items are (picture, label).

    Pictures may be PIL pictures, `c x h x w` tensors or `h x w x c` arrays. Labels are taken from `targets`, `labels`
    or `tensors` where the dataset has them; otherwise every item is fetched once.

    Raises:
        LabelError: when labels are missing, of a wrong kind, or of one class only.
        DataError: when it has no length or its items are no (picture, label).
    """
    from warmstart.history_store.readers.torch_dataset import TorchSource

    return TorchSource(dataset)


def register_scheme(scheme: str, opener: Callable[[str], ImageSource]) -> None:
    """Register an opener for ``scheme:name``, which receives the name; it replaces an earlier one.

    Raises:
        UsageError: when the scheme is not a lower-case word of two letters or more.
    """
    register(scheme, opener)


__all__ = [
    "READERS",
    "Place",
    "Reader",
    "open_arrays",
    "open_images",
    "open_torch_dataset",
    "register_scheme",
    "scheme_reader",
]
