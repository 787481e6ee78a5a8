"""The idx layout of MNIST and its successors, plain or gzipped [LeCun1998mnist]."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.images import SPLITS
from warmstart.history_store.limits import check_unpacked, first_bytes, ordinary_file
from warmstart.history_store.readers.arrays import ArraySource, Block, Files, check_shape, split_ranges
from warmstart.history_store.readers.labels import encode_labels
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.wording import in_words

IMAGES_NAME = re.compile(r"^(?P<prefix>.*?)images(?P<dot>[-._])idx(?P<rank>[34])-ubyte(?P<gz>\.gz)?$", re.IGNORECASE)
_UBYTE = 0x08


def open_idx(path: Path, names: Sequence[str]) -> ArraySource:
    """Open idx files: those of a folder, or one images file with its labels beside it.

    Args:
        path: the folder.
        names: images files in it; of a plain and a gzipped one the plain is read.

    Raises:
        LabelError: when a labels file is missing or does not fit.
        DataError: when a file is no idx file, or truncated.
    """
    single = path / names[0] if len(names) == 1 else None
    pairs: dict[str, tuple[Path, Path]] = {}
    for name in sorted(names, key=lambda name: (name.endswith(".gz"), name)):
        split = _split(name)
        if split in pairs and pairs[split][0].name == name.removesuffix(".gz"):
            continue
        if split in pairs:
            msg = f"{path}: expected one images file a split, got {pairs[split][0].name} and {name}. Give the path of the one to use."
            raise DataError(msg)
        pairs[split] = (path / name, _labels_file(path, name))
    ordered = {split: pairs[split] for split in SPLITS if split in pairs}
    blocks = {split: _images(images) for split, (images, _) in ordered.items()}
    raw = []
    for split, (images, labels) in ordered.items():
        values = read_idx(labels)
        if values.ndim != 1 or len(values) != blocks[split].n:
            msg = f"{labels}: expected {blocks[split].n} labels for {images.name}, got {' x '.join(map(str, values.shape))}. Take both files from one source."
            raise LabelError(msg)
        raw.append(values)
    labelling = encode_labels(np.concatenate(raw), str(path), n=sum(block.n for block in blocks.values()))
    return ArraySource(
        str(single or path),
        "idx",
        blocks=list(blocks.values()),
        labels=labelling.labels,
        class_names=labelling.class_names,
        splits=None if single else split_ranges({split: [block.n] for split, block in blocks.items()}),
        files=Files(str(path), [file.name for pair in ordered.values() for file in pair]),
    )


def read_idx(path: Path) -> NDArray[Any]:
    """Read a whole idx file of unsigned bytes; a plain one is mapped.

    Raises:
        DataError: when it is no idx file of unsigned bytes, or shorter or longer than its header says.
    """
    shape, offset = _header(path)
    if path.suffix.lower() != ".gz":
        return np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=shape)
    due = offset + math.prod(shape)
    check_unpacked(due, path.stat().st_size, str(path))
    data = _gunzip(path, due + 1)
    _check_length(path, len(data), shape, offset, is_part=len(data) > due)
    return np.frombuffer(data, dtype=np.uint8, offset=offset).reshape(shape)


def _images(path: Path) -> Block:
    shape, _ = _header(path)
    check_shape(shape, np.dtype(np.uint8), str(path))
    return Block(str(path), shape[0], lambda: read_idx(path))


def _header(path: Path) -> tuple[tuple[int, ...], int]:
    """Read shape and offset of the data; a plain file's length is checked against them."""
    head = _gunzip(path, 20) if path.suffix.lower() == ".gz" else _first_bytes(path)
    if len(head) < 4 or head[:2] != b"\0\0" or not 1 <= head[3] <= 4:
        msg = f"{path}: expected an idx file (magic number 00 00 08 rank), got first bytes {head[:4].hex(' ') or 'none'}. Download the file again."
        raise DataError(msg)
    if head[2] != _UBYTE:
        msg = f"{path}: expected idx type 08 (unsigned bytes), got type {head[2]:02x}. Convert the values to bytes."
        raise DataError(msg)
    offset = 4 + 4 * head[3]
    if len(head) < offset:
        msg = f"{path}: expected a header of {offset} bytes, got {len(head)}. The file is truncated: download it again."
        raise DataError(msg)
    shape = tuple(np.frombuffer(head[4:offset], dtype=">u4").tolist())
    if path.suffix.lower() != ".gz":
        _check_length(path, path.stat().st_size, shape, offset)
    return shape, offset


def _check_length(path: Path, length: int, shape: tuple[int, ...], offset: int, *, is_part: bool = False) -> None:
    due = offset + math.prod(shape)
    if length != due:
        state, got = ("truncated" if length < due else "too long"), f"{'at least ' * is_part}{length}"
        msg = f"{path}: expected {due} bytes for {' x '.join(map(str, shape))}, got {got}. The file is {state}: download it again."
        raise DataError(msg)


def _first_bytes(path: Path) -> bytes:
    try:
        return first_bytes(path, 20)
    except OSError as error:
        msg = f"{path}: expected a file that can be read, got {error.strerror}. Check its permissions."
        raise DataError(msg) from error


def _gunzip(path: Path, length: int) -> bytes:
    try:
        with gzip.open(ordinary_file(path)) as file:
            return file.read(length)
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{path}: expected a gzip file, got {in_words(error)}. Download the file again."
        raise DataError(msg) from error


def _labels_file(path: Path, images: str) -> Path:
    match = IMAGES_NAME.match(images)
    assert match is not None  # noqa: S101 - callers pass names that match
    stem = f"{match['prefix']}labels{match['dot']}idx1-ubyte"
    ending = match["gz"] or ""
    for name in (stem + ending, stem, f"{stem}.gz"):
        if (path / name).is_file():
            return path / name
    msg = f"{path / images}: expected its labels beside it, got no {stem + ending}. Put the labels file into the same folder."
    raise LabelError(msg)


def _split(name: str) -> str:
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & {"t10k", "test", "t50k", "testing"}:
        return "test"
    return "val" if words & {"val", "valid", "validation", "dev"} else "train"


def _open_location(location: Place) -> ArraySource:
    assert location.path is not None  # noqa: S101  matched
    images = location.matching(IMAGES_NAME)
    return open_idx(location.path, images) if images else open_idx(location.path.parent, [location.path.name])


READER = Reader(
    lambda location: bool(location.matching(IMAGES_NAME) or IMAGES_NAME.match(location.file)), _open_location
)
