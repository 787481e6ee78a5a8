"""Images for a saved classifier: checked, and converted to its number of channels. No torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError

_GREY = np.array([299, 587, 114])
"""Thousandths of red, green and blue in a grey picture, as in Pillow."""


def to_channels(images: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Convert pictures `... x c` to grey (1) or coloured (3) ones."""
    if images.shape[-1] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=-1)
    grey: NDArray[np.uint8] = ((images @ _GREY + 500) // 1000).astype(np.uint8)[..., None]
    return grey


def fitted_images(images: NDArray[Any], size: int, channels: int) -> NDArray[np.uint8]:
    """Check images `n x size x size x 1` or `x 3`, and convert them to the channels of a classifier.

    Raises:
        DataError: when the images are of another shape or type.
    """
    shape = images.shape
    if images.dtype != np.uint8 or len(shape) != 4 or shape[1:3] != (size, size) or shape[3] not in (1, 3):
        msg = f"classifier: expected images n x {size} x {size} x 1 or 3 of uint8, got {images.dtype} of shape {shape}. Read them with open_images(path).read(rows, size={size})."
        raise DataError(msg)
    return to_channels(images, channels)
