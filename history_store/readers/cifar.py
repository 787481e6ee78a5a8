"""The binary layout of CIFAR-10 and CIFAR-100: label bytes, then 3,072 bytes channel by channel [Krizhevsky2009cifar]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.readers.arrays import ArraySource, Block, Files, split_ranges
from warmstart.history_store.readers.labels import encode_labels, natural_key
from warmstart.history_store.readers.registry import Place, Reader

FILE_NAME = re.compile(r"^(data_batch(_\d+)?|test_batch|train|test)\.bin$")
_PIXELS = 3 * 32 * 32
_NAMES = {10: "batches.meta.txt", 100: "fine_label_names.txt"}


def open_cifar(path: Path, names: Sequence[str], *, single: bool = False) -> ArraySource:
    """Open CIFAR binaries: those of a folder, or a single one.

    CIFAR-10 has one label byte a record, CIFAR-100 two, of which the second (the fine class) counts; the file
    names tell them apart, for a single file of another name the record size.

    Args:
        path: the folder.
        names: files in it.
        single: whether one file was asked for: then it has no splits.

    Raises:
        DataError: when a file is no whole number of records.
        LabelError: when a label is higher than the layout allows.
    """
    ordered = sorted(names, key=lambda name: (name.startswith("test"), natural_key(name)))
    n_classes = _n_classes(path, ordered)
    n_label_bytes = 1 if n_classes == 10 else 2
    records = [_records(path / name, n_label_bytes + _PIXELS) for name in ordered]
    raw = np.concatenate([part[:, n_label_bytes - 1] for part in records])
    if raw.max() >= n_classes:
        msg = f"{path}: expected labels 0 .. {n_classes - 1} of CIFAR-{n_classes}, got {raw.max()}. The file is damaged or of another layout."
        raise LabelError(msg)
    labelling = encode_labels(raw, str(path), n=len(raw), class_names=_class_names(path / _NAMES[n_classes], n_classes))
    sizes: dict[str, list[int]] = {}
    for name, part in zip(ordered, records, strict=True):
        sizes.setdefault("test" if name.startswith("test") else "train", []).append(len(part))
    return ArraySource(
        str(path / names[0]) if single else str(path),
        "cifar",
        blocks=[_block(path / name, part, n_label_bytes) for name, part in zip(ordered, records, strict=True)],
        labels=labelling.labels,
        class_names=labelling.class_names,
        splits=None if single else split_ranges(sizes),
        files=Files(str(path), [*ordered, *([_NAMES[n_classes]] if (path / _NAMES[n_classes]).is_file() else [])]),
    )


def _n_classes(path: Path, names: Sequence[str]) -> int:
    if any("batch" in name for name in names):
        return 10
    if {"train.bin", "test.bin"} & set(names):
        return 100
    return 10 if (path / names[0]).stat().st_size % (_PIXELS + 1) == 0 else 100


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    n_bytes = path.stat().st_size
    if n_bytes == 0 or n_bytes % length:
        msg = f"{path}: expected records of {length} bytes, got {n_bytes} bytes, which is {n_bytes / length:.2f} records. The file is truncated or no CIFAR binary."
        raise DataError(msg)
    try:
        return np.memmap(path, dtype=np.uint8, mode="r", shape=(n_bytes // length, length))
    except OSError as error:
        msg = f"{path}: expected a file that can be read, got {error.strerror}. Check its permissions."
        raise DataError(msg) from error


def _block(path: Path, records: NDArray[np.uint8], n_label_bytes: int) -> Block:
    def load() -> NDArray[Any]:
        return records[:, n_label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    return Block(str(path), len(records), load)


def _class_names(path: Path, n_classes: int) -> list[str] | None:
    if not path.is_file():
        return None
    text = ordinary_file(path).read_bytes().decode("utf-8", "backslashreplace")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    return names if len(names) == n_classes else None


def _open_location(location: Place) -> ArraySource:
    assert location.path is not None  # noqa: S101  matched
    binaries = location.matching(FILE_NAME)
    if binaries:
        return open_cifar(location.path, binaries)
    return open_cifar(location.path.parent, [location.path.name], single=True)


READER = Reader(lambda location: bool(location.matching(FILE_NAME)) or location.file.endswith(".bin"), _open_location)
