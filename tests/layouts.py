"""Small datasets in every layout that the readers know."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from warmstart.testing.reader import Pixels as Pixels
from warmstart.testing.reader import classes as classes
from warmstart.testing.reader import pixels as pixels


def save_picture(path: Path, image: Pixels, **options: Any) -> Path:
    """Write one picture in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(path, **options)
    return path


def save_folder(root: Path, images: Pixels, labels: Sequence[int] | NDArray[np.int64], *, first: int = 0) -> Path:
    """Write `root/<label>/<number>.png`."""
    for number, (image, label) in enumerate(zip(images, labels, strict=True), first):
        save_picture(root / str(label) / f"{number:04d}.png", image)
    return root


def save_idx(path: Path, array: NDArray[np.uint8]) -> Path:
    """Write an idx file of bytes, gzipped where the name ends in ``.gz``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def save_mnist(
    folder: Path, images: Pixels, labels: NDArray[np.int64], *, part: str = "train", ending: str = ""
) -> Path:
    """Write the two idx files of one part under their MNIST names."""
    save_idx(folder / f"{part}-images-idx3-ubyte{ending}", images[..., 0])
    save_idx(folder / f"{part}-labels-idx1-ubyte{ending}", labels.astype(np.uint8))
    return folder


def save_cifar(path: Path, images: Pixels, labels: NDArray[np.int64], *, coarse: bool = False) -> Path:
    """Write a CIFAR binary: with a coarse label (0) before the fine one for CIFAR-100."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flat = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    columns = [labels.astype(np.uint8)[:, np.newaxis], flat]
    if coarse:
        columns.insert(0, np.zeros((len(images), 1), np.uint8))
    path.write_bytes(np.concatenate(columns, axis=1).tobytes())
    return path


def huge_png() -> bytes:
    """Make a small PNG whose header claims 50,000 x 50,000 pixels."""
    buffer = io.BytesIO()
    Image.new("L", (4, 4)).save(buffer, "PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = struct.pack(">II", 50_000, 50_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)
