"""Small datasets in every layout that the readers know."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
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


def png(image: Pixels) -> bytes:
    """Return one picture as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, "png")
    return buffer.getvalue()


def save_zip(path: Path, folder: Path, *, prefix: str = "") -> Path:
    """Zip a folder, its files below the prefix."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, prefix + str(file.relative_to(folder)))
    return path


def save_tar(path: Path, folder: Path, *, prefix: str = "") -> Path:
    """Pack a folder into a tar, its files below the prefix."""
    with tarfile.open(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.add(file, prefix + str(file.relative_to(folder)), recursive=False)
    return path


def save_table(
    path: Path,
    images: Pixels,
    labels: Sequence[Any] | NDArray[np.int64],
    *,
    names: Sequence[str] | None = None,
    group: int = 10,
    column: str = "label",
) -> Path:
    """Write a table as Hugging Face `datasets` does: structs of bytes and path, labels, what the columns are in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = [{"bytes": png(image), "path": f"{number}.png"} for number, image in enumerate(images)]
    label = {"names": list(names), "_type": "ClassLabel"} if names else {"dtype": "int64", "_type": "Value"}
    about = {"info": {"features": {"image": {"_type": "Image"}, column: label}}}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    table = pa.table({"image": pa.array(cells, kind), column: values})
    table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    return path


def save_shard(
    path: Path, images: Pixels, labels: Sequence[Any] | NDArray[np.int64] | None, *, first: int = 0, ending: str = "cls"
) -> Path:
    """Write a tar of samples: `000001.png` and, with labels, `000001.cls`."""
    with tarfile.open(path, "w") as archive:
        for number, image in enumerate(images):
            parts = {"png": png(image)}
            if labels is not None:
                label = labels[number]
                label = label.item() if isinstance(label, np.generic) else label
                parts[ending] = json.dumps({"label": label}).encode() if ending == "json" else str(label).encode()
            for end, data in parts.items():
                info = tarfile.TarInfo(f"{first + number:06d}.{end}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return path
