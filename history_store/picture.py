"""Decoding of one image: from a stored file to a grey or RGB square."""

from __future__ import annotations

import logging
import os
import re
import warnings
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError, features

from warmstart.history_store.errors import DataError
from warmstart.history_store.limits import PIXELS, check_picture_file

DECODING = "centre square, antialiased (Lanczos)"
_AVIF = ("AVIF",) if features.check("avif") else ()
"""Pillow from 11.3 on decodes it, unless it was built without."""
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "DIB", "PPM", "TIFF", "WEBP", "TGA", "JPEG2000", *_AVIF)
"""What is decoded, the usual ones first. Formats that run other programs (EPS) stay out."""

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm"}
    | {".tif", ".tiff", ".webp", ".tga", ".jp2", ".j2k", ".mpo", *(f".{name.lower()}" for name in _AVIF)}
)
"""File endings, lower case, that count as pictures whatever is inside."""
_BEGINNINGS = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|BM.{4}\0{4}|P[1-6]\s|II\*\0|MM\0\*|RIFF.{4}WEBP|\0{3}\x0cjP  |\xff\x4f\xff\x51"
    + (rb"|.{4}ftypavi[fs]" if _AVIF else b""),
    re.DOTALL,
)
HEAD_BYTES = 32
_OTHER_CONTENT = {
    re.compile(rb"version https://git-lfs"): "a pointer of Git LFS: `git lfs pull` fetches the picture",
    re.compile(rb"\s*<(!doctype|html|\?xml|head|body)", re.IGNORECASE): "a web page",
    re.compile(rb".{4}ftyp(hei|mif1|msf1)", re.DOTALL): "HEIC, which is not read: save it as PNG or JPEG",
    re.compile(
        rb".{4}ftypavi", re.DOTALL
    ): "AVIF, which this installation of Pillow does not read: `pip install -U pillow`",
    re.compile(rb"\s*[{[]\s*[\"{]"): "JSON",
    re.compile(rb"%PDF-"): "a PDF",
}
"""What stands in files that are named like pictures, by how they begin."""


def is_picture(head: bytes) -> bool:
    """Return whether the first `HEAD_BYTES` of a file are those of a format that is decoded."""
    return _BEGINNINGS.match(head) is not None


def other_content(head: bytes) -> str:
    """Describe a file that is no picture by its first `HEAD_BYTES`."""
    if head and not head.strip(b"\0"):
        return "not a picture: it begins with zeros"
    return next((name for beginning, name in _OTHER_CONTENT.items() if beginning.match(head)), "not a picture")


_ORIENTATION = 0x0112
# Pillow logs what is odd about a file; with a handler of its own that does not go to stderr unasked.
logging.getLogger("PIL").addHandler(logging.NullHandler())
ROUNDING = 1e-6
"""By which floats may leave [0, 1]: less than half a step of 8 bits, and what single precision adds when colours are converted."""


def to_uint8(array: NDArray[Any], location: str = "images") -> NDArray[np.uint8]:
    """Convert pixel values to 0 .. 255.

    Args:
        array: any shape; bool (False black, True white), uint8 (as is), uint16 (divided by 257) or float in [0, 1].
        location: what an error names.

    Returns: the same shape, uint8, rounded to nearest.

    Raises:
        DataError: when floats lie outside [0, 1] or are not finite, or the dtype is none of these.
    """
    if array.dtype == np.uint8:
        return array.view(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype.kind == "f":
        check_floats(array, location)
        scaled: NDArray[np.uint8] = np.rint(array * array.dtype.type(255)).astype(np.uint8)
        return scaled
    msg = f"{location}: expected uint8, uint16, bool or floats in [0, 1], got dtype {array.dtype}. Convert the pixel values first."
    raise DataError(msg)


def check_floats(array: NDArray[Any], location: str) -> None:
    """Raise if floats are not pixel values.

    Raises:
        DataError: when a value is not finite, or lies outside [0, 1]; it names the minimum and the maximum.
    """
    low, high = (float(np.min(array)), float(np.max(array))) if array.size else (0.0, 0.0)
    if low >= -ROUNDING and high <= 1.0 + ROUNDING:
        return
    if np.isnan(low):
        n_nan = int(np.isnan(array).sum())
        finite = array[np.isfinite(array)]
        span = f"the others between {finite.min():g} and {finite.max():g}" if finite.size else "no finite value"
        msg = f"{location}: expected floats in [0, 1], got {n_nan} NaN ({span}). Replace the missing pixels, or leave those pictures out."
        raise DataError(msg)
    msg = f"{location}: expected floats in [0, 1], got minimum {low:.9g} and maximum {high:.9g}. Scale them, or give uint8."
    raise DataError(msg)


def opaque(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay pictures with an alpha channel on white, as a browser shows them.

    Args:
        images: `n x h x w x c` uint8; c = 4 is RGBA, others are left as they are.

    Returns: `n x h x w x c` uint8, c in {1, 3}; the same bytes as Pillow gives for pasting on white.
    """
    if images.shape[-1] != 4:
        return images
    alpha = images[..., 3:].astype(np.uint32)
    blended: NDArray[np.uint8] = ((images[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return blended


def plain(picture: Image.Image, location: str = "picture") -> Image.Image:
    """Convert a picture of any mode to grey (L) or RGB, transparency on white, turned as its EXIF says.

    Grey are the modes 1, L, LA, I;16, I and F; 16-bit values are divided by 257.

    Raises:
        DataError: when 32-bit integers leave 0 .. 65535, or floats leave [0, 1].
    """
    if picture.getexif().get(_ORIENTATION, 1) != 1:
        picture = ImageOps.exif_transpose(picture)
    mode = picture.mode
    if mode in ("L", "RGB") and "transparency" not in picture.info:
        return picture
    if mode.startswith("I") or mode == "F":
        return Image.fromarray(to_uint8(_deep_values(picture, location), location))
    if picture.has_transparency_data:
        grey = mode in ("L", "LA", "La", "1")
        picture = picture.convert("LA" if grey else "RGBA")
        white = Image.new("L" if grey else "RGB", picture.size, "white")
        white.paste(picture.convert(white.mode), mask=picture.getchannel("A"))
        return white
    return picture.convert("L" if mode in ("1", "L") else "RGB")


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


def decode(file: str | IO[bytes], size: int | None, location: str = "picture") -> NDArray[np.uint8]:
    """Decode one picture file to a grey or RGB square.

    A JPEG is decoded at the smallest eighth that leaves the shorter side at twice the size or more, then resized.
    The first frame of an animation counts. A truncated file is an error, never half a picture.

    Args:
        file: path or open binary file.
        size: side in pixels; None keeps the picture's own sides.
        location: what an error names.

    Returns: `size x size` (grey) or `size x size x 3` uint8.

    Raises:
        DataError: when the picture is no ordinary file, or larger than `warmstart.history_store.limits` allow (a JPEG counts with
            the pixels that are decoded), or claims more pixels than Pillow allows, or its values do not fit.
        Exception: whatever Pillow raises on damaged bytes.
    """
    if isinstance(file, str):
        check_picture_file(file, location)
    try:
        opened = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError as error:
        msg = f"{location}: expected a picture of a size that Pillow allows, got one that claims more. Shrink it, or leave it out."
        raise DataError(msg) from error
    with opened as picture:
        if size is not None:
            picture.draft(None, (2 * size, 2 * size))
        PIXELS.check(picture.width * picture.height, location)
        picture.load()
        flat = plain(picture, location)
        return np.asarray(flat if size is None else square(flat, size))


def side_of(file: str | IO[bytes]) -> int | None:
    """Read the shorter side of a picture file, in pixels, from its first bytes; None if they do not tell."""
    try:
        if isinstance(file, str):
            check_picture_file(file, "picture")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file, formats=FORMATS) as picture:
                return min(picture.size)
    except Exception:  # noqa: BLE001 - damaged bytes make decoders raise anything
        return None


def reason_broken(error: Exception, path: str) -> str:
    """Describe in a few words why `decode` could not decode a picture file."""
    if isinstance(error, DataError):
        return str(error).removeprefix("pixels: ")
    if isinstance(error, FileNotFoundError):
        return "a link that leads nowhere" if os.path.islink(path) else "gone since the folder was listed"  # noqa: PTH114
    if isinstance(error, UnidentifiedImageError):
        with open(path, "rb") as file:  # noqa: PTH123  as the path is a text
            return other_content(file.read(HEAD_BYTES))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "cut short" if "truncated" in str(error).lower() else "damaged data"


def _deep_values(picture: Image.Image, location: str) -> NDArray[Any]:
    """Return 16-bit, 32-bit or float pixel values of a picture; 32-bit integers as 16-bit values."""
    values = np.asarray(picture)
    if picture.mode != "I":
        return values
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        msg = f"{location}: expected 16-bit pixel values in 0 .. 65535, got minimum {low} and maximum {high}. Save it with 8 or 16 bits."
        raise DataError(msg)
    return values.astype(np.uint16)
