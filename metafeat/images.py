"""Checks of the images that a model accepts."""

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, ModelMismatchError
from warmstart.history_store.picture import square_arrays
from warmstart.metafeat.spec import ModelSpec


def to_size(images: NDArray[np.uint8], spec: ModelSpec | None) -> NDArray[np.uint8]:
    """Shrink stored images `n x s x s x c` if the model accepts larger ones than its own."""
    return images if spec is None or not spec.accepts_size(images.shape[1]) else square_arrays(images, spec.image_size)


def check_images(images: NDArray[np.uint8], spec: ModelSpec, name: str = "images") -> None:
    """Check that an array holds images as the network reads them.

    Raises:
        DataError: empty, not uint8, not `n x s x s x c` with c = 1 or 3.
        ModelMismatchError: another side than the model's.
    """
    if images.ndim != 4 or images.shape[3] not in (1, 3) or images.dtype != np.uint8 or not len(images):
        msg = f"{name}: expected uint8 images n x s x s x c with n ≥ 1 and c = 1 or 3, got shape {images.shape} of {images.dtype}. Read them with warmstart.history_store.images."
        raise DataError(msg)
    size = spec.image_size
    if images.shape[1:3] != (size, size):
        msg = f"{name}: expected images of {size} x {size} as the model was trained on, got {images.shape[1]} x {images.shape[2]}. Read them with size={size}."
        raise ModelMismatchError(msg)
