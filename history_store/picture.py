"""One picture, from whatever was stored to the square that networks see."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from history_store.errors import DataError

DECODING = "centre square, antialiased (Lanczos)"


def to_uint8(array: NDArray[np.generic], where: str = "images") -> NDArray[np.uint8]:
    """Bring pixel values to 0 .. 255.

    Args:
        array: any shape; bool (False black, True white), uint8 (as is), uint16 (divided by 257) or float in [0, 1].
        where: what an error names.

    Returns: the same shape, uint8, rounded to nearest.

    Raises:
        DataError: when floats lie outside [0, 1] or are not finite, or the dtype is none of these.
    """
    if array.dtype == np.uint8:
        return array.view(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint16:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype.kind == "f":
        low, high = (float(np.min(array)), float(np.max(array))) if array.size else (0.0, 0.0)
        if not (low >= 0.0 and high <= 1.0):
            msg = f"{where}: expected floats in [0, 1], got minimum {low:g} and maximum {high:g}. Scale them, or give uint8."
            raise DataError(msg)
        return np.rint(array * array.dtype.type(255)).astype(np.uint8)
    msg = f"{where}: expected uint8, uint16, bool or floats in [0, 1], got dtype {array.dtype}. Convert the pixel values first."
    raise DataError(msg)


def square(picture: Image.Image, size: int) -> Image.Image:
    """Cut the centre square and resize it, antialiased, to `size x size`; a square of that size is left as is."""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    if (side, side) == (size, size):
        return picture if picture.size == (size, size) else picture.crop((left, top, left + side, top + side))
    # Lanczos in Pillow widens its window when it shrinks: that is the antialiasing.
    return picture.resize((size, size), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side))


def square_arrays(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Cut and resize decoded pictures.

    Args:
        images: `n x h x w x c` uint8, c in {1, 3}.
        size: side in pixels.

    Returns: `n x size x size x c` uint8, C-contiguous.
    """
    n, height, width, channels = images.shape
    if (height, width) == (size, size):
        return np.ascontiguousarray(images)
    out = np.empty((n, size, size, channels), dtype=np.uint8)
    for row, image in zip(out, images, strict=True):
        picture = Image.fromarray(image[..., 0] if channels == 1 else image)
        row[...] = np.asarray(square(picture, size)).reshape(size, size, channels)
    return out
