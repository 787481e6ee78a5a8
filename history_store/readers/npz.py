"""Arrays in npz archives and npy files. Headers are read first; objects are never unpickled."""

from __future__ import annotations

import math
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.images import SPLITS, DatasetWarning
from warmstart.history_store.limits import check_unpacked, ordinary_file
from warmstart.history_store.readers.arrays import ArraySource, Block, Files, check_pixels, check_shape, split_ranges
from warmstart.history_store.readers.labels import as_texts, encode_labels
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tree import split_of

IMAGES_KEYS = ("images", "image", "imgs", "x", "data", "pixels")
LABELS_KEYS = ("labels", "label", "y", "targets", "target")
_STEMS = ("images", "x", "X", "x_train", "X_train", "train_images", "data")
"""Names of files of images in a folder."""
NAMES_KEYS = ("class_names", "classes", "label_names", "names")
_T = TypeVar("_T")
_GLUED = re.compile(r"^([xy])(train|val|valid|test)$")
# numpy parses an array's header as Python source
_BAD_HEADER = (ValueError, TypeError, SyntaxError, tokenize.TokenError, OverflowError, MemoryError)
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, KeyError, RuntimeError)
_DAMAGE = (OSError, EOFError, *_BAD_HEADER, *_BAD_ZIP)


@dataclass(frozen=True, slots=True)
class _Header:
    """Content of an npy header, and the offset of the data."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


def open_npz(path: Path) -> ArraySource:
    """Open an npz archive with images and labels, in one pair of arrays or a pair for each split.

    Arrays that were stored uncompressed are mapped, so that only the pictures asked for are read.

    Raises:
        LabelError: when labels are missing or do not fit.
        DataError: when images are missing or do not fit, objects are stored, or the archive is damaged.
    """
    archive = _Archive(path)
    images, labels = _keys_by_split(archive.keys, IMAGES_KEYS), _keys_by_split(archive.keys, LABELS_KEYS)
    held = ", ".join(archive.keys[:8]) or "no array"
    if not images:
        msg = f"{path}: expected arrays images and labels (or x and y, or x_train and y_train), got {held}. Save them with np.savez(file, images=…, labels=…)."
        raise DataError(msg)
    paired = [split for split in (None, *SPLITS) if split in images and split in labels]
    if not paired:
        msg = f"{path}: expected labels beside {next(iter(images.values()))}, got {held}. Add an array named labels, one a picture."
        raise LabelError(msg)
    if None in paired and "train" in paired:
        paired = [None]
    _warn_of_unread(path, images, labels, paired)
    blocks, raw = [], []
    for split in paired:
        blocks.append(archive.block(images[split]))
        values = _column(archive.array(labels[split]))
        if values.shape[:1] != (blocks[-1].n,):
            msg = f"{path}:{labels[split]}: expected {blocks[-1].n} labels, one for each of {images[split]}, got shape {values.shape}. Check that they belong together."
            raise LabelError(msg)
        raw.append(as_texts(values, f"{path}:{labels[split]}") if values.dtype.kind == "S" else values)
    # Numbers of any kind can be joined; texts and others only with their own kind.
    if len({(values.ndim, "number" if values.dtype.kind in "iubf" else values.dtype.kind) for values in raw}) > 1:
        msg = f"{path}: expected labels of one kind in all splits, got {', '.join(f'{v.dtype} {v.shape}' for v in raw)}. Save them alike."
        raise LabelError(msg)
    joined = np.concatenate(raw)
    labelling = encode_labels(
        joined, f"{path}:{labels[paired[0]]}", n=len(joined), class_names=_class_names(archive, joined)
    )
    # beside other splits, a pair without one is for training
    sizes = {split or "train": [block.n] for split, block in zip(paired, blocks, strict=True) if paired != [None]}
    return ArraySource(
        str(path),
        "npz",
        blocks=blocks,
        labels=labelling.labels,
        class_names=labelling.class_names,
        splits=split_ranges(sizes) if sizes else None,
        files=Files(str(path), [""]),
    )


def open_npy(path: Path) -> ArraySource:
    """Open an npy file of images with its labels beside it: `images.npy` and `labels.npy`, or `x.npy` and `y.npy`.

    Raises:
        LabelError: when the labels file is missing or does not fit.
        DataError: when the file does not hold pictures, or is damaged.
    """
    partner = labels_beside(path)
    if partner is None:
        msg = f"{path}: expected its labels beside it, got none of {', '.join(_partners(path.stem)) or 'labels'} (.npy). Save them there, one a picture."
        raise LabelError(msg)
    array = _load_npy(path)
    check_shape(array.shape, array.dtype, str(path))
    names_file = path.with_name("class_names.npy")
    labelling = encode_labels(
        np.asarray(_load_npy(partner)),
        str(partner),
        n=len(array),
        class_names=_names(_load_npy(names_file), str(names_file)) if names_file.is_file() else None,
    )
    files = [file.name for file in (path, partner, names_file) if file.is_file()]
    return ArraySource(
        str(path),
        "npy",
        blocks=[Block(str(path), len(array), lambda: array)],
        labels=labelling.labels,
        class_names=labelling.class_names,
        files=Files(str(path.parent), files),
    )


def labels_beside(path: Path) -> Path | None:
    """Find the labels file of an npy file of images; None if there is none."""
    for stem in _partners(path.stem):
        if (partner := path.with_name(f"{stem}.npy")).is_file():
            return partner
    return None


def _warn_of_unread(
    path: Path, images: Mapping[str | None, str], labels: Mapping[str | None, str], read: Sequence[str | None]
) -> None:
    """Warn of images that are not read: without labels, or splits beside a pair that may hold them."""
    unlabelled = sorted(key for split, key in images.items() if split not in labels)
    unread = sorted(key for split, key in images.items() if split in labels and split not in read)
    parts = [f"{', '.join(unlabelled)}, which have no labels of their own"] if unlabelled else []
    parts += [f"{', '.join(unread)}, which {images[None]} may hold"] if unread else []
    if parts:
        warnings.warn(f"{path}: left out {'; '.join(parts)}.", DatasetWarning, stacklevel=3)


def _class_names(archive: _Archive, labels: NDArray[Any]) -> list[str] | None:
    """Read the names of the classes; None if there are none."""
    for key in archive.keys:
        if key.lower() in NAMES_KEYS:
            names = _names(archive.array(key), f"{archive.path}:{key}")
            if key.lower() != "names" or not len(np.unique(labels)) < len(names) == len(labels):
                return names
    return None


def _names(values: NDArray[Any], location: str) -> list[str]:
    names: list[str] = as_texts(values, location).ravel().tolist()
    return names


class _Archive:
    """The arrays of an npz file, by name, read one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(ordinary_file(path)) as archive:
                self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        except _DAMAGE as error:
            msg = (
                f"{path}: expected an npz archive, got {_reason(error)}. Save it again with np.savez, or copy it again."
            )
            raise DataError(msg) from error
        self.keys = list(self._members)

    def array(self, key: str) -> NDArray[Any]:
        """Read one array whole."""
        header = self._header(key)
        return self._read_or_refuse(key, lambda: self._read(key, header))

    def block(self, key: str) -> Block:
        """Check the header of an array of images; its pixels are read when needed."""
        header = self._header(key)
        location = f"{self.path}:{key}"
        check_shape(header.shape, header.dtype, location)
        mapped = self._members[key].compress_type == zipfile.ZIP_STORED

        def load() -> NDArray[Any]:
            array = self._read_or_refuse(key, lambda: self._map(key, header) if mapped else self._read(key, header))
            check_pixels(array, location)
            return array

        return Block(location, header.shape[0], load)

    def _header(self, key: str) -> _Header:
        def read() -> _Header:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[key]) as file:
                return _read_header(file)

        header = self._read_or_refuse(key, read)
        if header.dtype.hasobject:
            check_shape(header.shape, header.dtype, f"{self.path}:{key}")
        return header

    def _read(self, key: str, header: _Header) -> NDArray[Any]:
        member, location = self._members[key], f"{self.path}:{key}"
        due = math.prod(header.shape) * header.dtype.itemsize
        if member.file_size != header.offset + due:
            msg = f"{location}: expected {due:,} bytes for shape {header.shape}, got {member.file_size - header.offset:,}. Save or copy the file again."
            raise DataError(msg)
        check_unpacked(due, member.compress_size, location)
        with zipfile.ZipFile(self.path) as archive, archive.open(member) as file:
            file.read(header.offset)
            array = np.frombuffer(file.read(due), dtype=header.dtype)
        return array.reshape(header.shape, order="F" if header.fortran else "C")

    def _map(self, key: str, header: _Header) -> NDArray[Any]:
        start = self._members[key].header_offset
        # The local header counts: its extra field may have another length than the directory's.
        with self.path.open("rb") as file:
            file.seek(start + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
        offset = start + 30 + name_length + extra_length + header.offset
        return np.memmap(self.path, header.dtype, "r", offset, header.shape, "F" if header.fortran else "C")

    def _read_or_refuse(self, key: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except _DAMAGE as error:
            msg = f"{self.path}:{key}: expected an array that can be read, got {_reason(error)}. Save or copy the file again."
            raise DataError(msg) from error


def _read_header(file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return _Header(shape, fortran, dtype, file.tell())


def _load_npy(path: Path) -> NDArray[Any]:
    """Map an npy file; objects are refused before anything is loaded."""
    try:
        with ordinary_file(path).open("rb") as file:
            header = _read_header(file)
        if not header.dtype.hasobject:
            return np.asarray(np.load(path, mmap_mode=None if 0 in header.shape else "r", allow_pickle=False)).view()
    except _DAMAGE as error:
        msg = f"{path}: expected an npy file, got {_reason(error)}. Save or copy it again."
        raise DataError(msg) from error
    check_shape(header.shape, header.dtype, str(path))
    raise AssertionError


def _keys_by_split(keys: Sequence[str], role_names: Sequence[str]) -> Mapping[str | None, str]:
    """Return the key of each split (None = no split) that plays a role, such as images or labels."""
    keys_by_split: dict[str | None, tuple[int, str]] = {}
    for key in keys:
        word = _GLUED.sub(r"\1_\2", key.lower())
        parts = [part for part in re.split(r"[_\-. ]+", word) if part]
        split = next((split for part in parts if (split := split_of(part)) is not None), None)
        role = "_".join(part for part in parts if split_of(part) is None)
        if role in role_names:
            keys_by_split[split] = min(keys_by_split.get(split, (len(role_names), key)), (role_names.index(role), key))
    return {split: key for split, (_, key) in keys_by_split.items()}


def _partners(stem: str) -> list[str]:
    """Return the possible names of the labels file of an images file."""
    pairs = (
        ("images", "labels"),
        ("image", "label"),
        ("imgs", "labels"),
        ("x", "y"),
        ("X", "y"),
        ("X", "Y"),
        ("data", "labels"),
    )
    return [
        re.sub(rf"(^|_){old}(?=$|_)", rf"\g<1>{new}", stem)
        for old, new in pairs
        if re.search(rf"(^|_){old}($|_)", stem)
    ]


def _column(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _reason(error: BaseException) -> str:
    if isinstance(error, zipfile.BadZipFile) and "not a zip file" in str(error):
        return "a file of another kind, or a truncated one"
    return " ".join(str(error).split()) or type(error).__name__


def _matches(location: Place) -> bool:
    return location.file.endswith((".npz", ".npy")) or _images_file(location) is not None


def _open_location(location: Place) -> ArraySource:
    assert location.path is not None  # noqa: S101  matched
    if location.file.endswith(".npz"):
        return open_npz(location.path)
    return open_npy(location.path / (_images_file(location) or ""))


def _images_file(location: Place) -> str | None:
    """Return the name of a folder's file of images."""
    return next((f"{stem}.npy" for stem in _STEMS if f"{stem}.npy" in location.entries), None)


READER = Reader(_matches, _open_location)
