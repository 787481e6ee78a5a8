"""The elements of the HDF5 file: each has a type, a version and, if it holds bytes, a checksum.

Readers are found by (type, version), so readers of older versions stay; `history_store/FORMAT.md` describes the format.
Text is stored as UTF-8 of fixed length and metadata in HDF5's checksummed form, so that a flipped byte shows.
"""

import contextlib
import json
import mmap
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.errors import (
    HistoryDamagedError,
    HistoryVersionError,
    MissingPathError,
    StorageError,
    UsageError,
)
from warmstart.history_store.file.durable import beside
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.wording import in_shell

FORMAT = "warmstart-history"
SIGNATURE = b"\x89HDF\r\n\x1a\n"
# The oldest format with checksums on every piece of metadata.
LIBVER = ("v110", "v110")
CURRENT = {"history": "2", "json": "1", "array": "1", "evaluations": "1", "images": "2", "embeddings": "1"}
"""Version of each element type that is written: the newest."""

MAPPED = 2**20
"""Arrays of at least so many bytes are mapped, not copied; each begins at a page of its own."""

BROKEN = (OSError, LookupError, RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError, MemoryError)
"""Errors that reading a broken file may raise."""

Reader = Callable[[Any, str], Any]
_READERS: dict[tuple[str, str], Reader] = {}


def register_reader(type_: str, version: str) -> Callable[[Reader], Reader]:
    """Register the reader of one (type, version); it gets the HDF5 object and its location for errors."""

    def register(function: Reader) -> Reader:
        _READERS[type_, version] = function
        return function

    return register


def read_element(parent: h5py.Group, key: str, type_: str, location: str) -> Any:
    """Read one element.

    Args:
        parent: group that holds it.
        key: its name there.
        type_: its expected type.
        location: file name, for errors.

    Raises:
        HistoryDamagedError: it is missing, of another type, or does not match its checksum.
        HistoryVersionError: its version is unknown here.
    """
    at = f"{location}:{parent.name.rstrip('/')}/{key}"
    if key not in parent:
        msg = f"{at}: expected an element of type {type_!r}, got nothing. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    element = get_element(parent, key, at)
    return _READERS[type_, check_version(element, type_, at)](element, at)


def get_element(parent: h5py.Group, key: str, at: str) -> h5py.Group | h5py.Dataset:
    """Return a group or an array after checking that all its bytes are in this file, contiguous and uncompressed.

    Raises:
        HistoryDamagedError: a link, or bytes that lie elsewhere, are compressed, in chunks, of variable length, or
            beyond the file.
    """
    link = parent.get(key, getlink=True)
    if not isinstance(link, h5py.HardLink):
        msg = f"{at}: expected an element of this file, got a {type(link).__name__}. {restore_hint(at)}"
        raise HistoryDamagedError(msg)
    element = parent[key]
    if isinstance(element, h5py.Dataset):
        fault = _storage_fault(element)
        if fault:
            msg = f"{at}: expected contiguous bytes of fixed length in this file, got {fault}. {restore_hint(at)}"
            raise HistoryDamagedError(msg)
    return element


def _storage_fault(element: h5py.Dataset) -> str:
    """Describe what is wrong with the storage of an array's bytes; empty = nothing."""
    plist = element.id.get_create_plist()
    if plist.get_layout() not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT):
        return "chunks or a virtual array"
    if plist.get_external_count() or plist.get_nfilters():
        return "bytes of another file, or compressed ones"
    kind = element.id.get_type()
    if kind.get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING) or (
        kind.get_class() == h5py.h5t.STRING and kind.is_variable_str()
    ):
        return f"values of another kind ({element.dtype})"
    size = os.fstat(element.file.id.get_vfd_handle()).st_size
    offset = element.id.get_offset()
    if plist.get_layout() == h5py.h5d.COMPACT:
        return "" if element.nbytes <= size else f"{element.nbytes:,} bytes in a file of {size:,}"
    if element.nbytes and (offset is None or offset + element.nbytes > size):
        return f"{element.nbytes:,} bytes that the file of {size:,} does not hold"
    return ""


def check_version(element: h5py.Group | h5py.Dataset, type_: str, at: str) -> str:
    """Check type and version of an element, and return its version.

    Raises:
        HistoryDamagedError: another type, or none.
        HistoryVersionError: a version without a reader.
    """
    stored_type = get_text(element, "encoding-type")
    if stored_type != type_:
        msg = f"{at}: expected encoding-type {type_!r}, got {stored_type!r}. {restore_hint(at)}"
        raise HistoryDamagedError(msg)
    number = get_text(element, "encoding-version")
    if (type_, str(number)) not in _READERS:
        msg = f'{at}: expected encoding-version "{CURRENT[type_]}", got "{number}". Upgrade warmstart.'
        raise HistoryVersionError(msg)
    return str(number)


def mark_element(element: h5py.Group | h5py.Dataset, type_: str) -> None:
    """Write type and current version on an element."""
    set_text(element, "encoding-type", type_)
    set_text(element, "encoding-version", CURRENT[type_])


def write_json(parent: h5py.Group, key: str, value: Any) -> None:
    """Write a value as JSON text."""
    write_text(parent, key, json.dumps(value, allow_nan=False, ensure_ascii=False))


def write_text(parent: h5py.Group, key: str, text: str) -> None:
    """Write a JSON text."""
    data = text.encode()
    element = parent.create_dataset(key, data=np.array(data, dtype=h5py.string_dtype("utf-8", len(data))))
    mark_element(element, "json")
    element.attrs["crc32"] = np.uint32(zlib.crc32(data))


def write_array(parent: h5py.Group, key: str, array: NDArray[Any]) -> None:
    """Write numbers, contiguous and uncompressed, little endian."""
    values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    element = parent.create_dataset(key, data=values)
    mark_element(element, "array")
    element.attrs["crc32"] = np.uint32(array_checksum(values))


@register_reader("json", "1")
def _read_json(element: h5py.Dataset, at: str) -> Any:
    return parse_stored_json(read_text(element, at))


def read_text(element: h5py.Dataset, at: str) -> str:
    """Read the text of a JSON element and compare its checksum."""
    return str(read_bytes(element, at), "utf-8")


def read_bytes(element: h5py.Dataset, at: str) -> bytes | memoryview:
    """Read the bytes of a JSON element and compare their checksum; a long text is mapped, not copied."""
    data = map_bytes(element)
    if data is None:
        data = bytes(element[()])
    _compare_checksum(element, zlib.crc32(data), at)
    return data


def map_bytes(element: h5py.Dataset) -> bytes | memoryview | None:
    """View a text through a map of its file; None for a short one."""
    offset = element.id.get_offset()
    if element.nbytes < MAPPED or offset is None or not system.CAN_REPLACE_OPEN_FILES:
        return None
    return memoryview(_map_file(element))[offset : offset + element.nbytes]


@register_reader("array", "1")
def _read_array(element: h5py.Dataset, at: str) -> NDArray[Any]:
    values = map_array(element)
    if values is None:
        values = element[()]
    _compare_checksum(element, array_checksum(values), at)
    values.setflags(write=False)
    return values


def map_array(element: h5py.Dataset) -> NDArray[Any] | None:
    """View an array through a map of its file; None for small and unaligned ones."""
    # Safe, since the file is replaced and never changed in place.
    offset = element.id.get_offset()
    is_aligned = offset is not None and offset % element.dtype.itemsize == 0 and element.dtype.isnative
    if element.nbytes < MAPPED or not is_aligned or not system.CAN_REPLACE_OPEN_FILES:
        return None
    values: NDArray[Any] = np.ndarray(element.shape, element.dtype, buffer=_map_file(element), offset=offset)
    return values


def _map_file(element: h5py.Dataset) -> mmap.mmap:
    """Map the open file of an element, whose bounds `get_element` has checked."""
    return mmap.mmap(element.file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ)


def array_checksum(values: NDArray[Any]) -> int:
    """Compute the checksum of an array: CRC-32 of its little-endian bytes in C order."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def check_file(file: h5py.File, location: str) -> Iterator[tuple[str, str]]:
    """Read every element of a file, images included, and yield (path, fault) for each that is unsound."""
    paths: list[str] = []
    # A fault in the tree itself shows here, as an error of HDF5.
    file.visit_links(paths.append)
    for path in paths:
        at = f"{location}:/{path}"
        try:
            element = get_element(file, path, at)
            type_ = get_text(element, "encoding-type")
            if type_ is None:
                if isinstance(element, h5py.Dataset):
                    yield f"/{path}", "an array without type and version"
                continue
            if type_ not in CURRENT:
                yield f"/{path}", f"unknown encoding-type {type_!r}"
                continue
            number = check_version(element, type_, at)
            if isinstance(element, h5py.Dataset):
                _READERS[type_, number](element, at)
        except StorageError as error:
            yield f"/{path}", str(error)
        except BROKEN as error:
            yield f"/{path}", f"unreadable: {error}"


def open_file(path: Path) -> h5py.File:
    """Open the HDF5 file of a history for reading and check that it is one.

    Raises:
        MissingPathError: nothing there.
        UsageError: a folder.
        HistoryDamagedError: truncated, not HDF5, or not a history.
        HistoryVersionError: written by a newer version.
        StorageError: it may not be read.
    """
    location = str(path)
    if path.is_dir():
        msg = f"{location}: expected a history file, got a folder. Name the .h5 file in it."
        raise UsageError(msg)
    try:
        # Not blocking: opening a pipe would wait for a writer.
        with os.fdopen(system.open_descriptor(path, os.O_RDONLY), "rb") as raw:
            is_file = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
            start = raw.read(len(SIGNATURE)) if is_file else b"none"
    except FileNotFoundError as error:
        backup = beside(path, ".bak")
        step = (
            f"Its backup {backup.name} is there: `warmstart history verify --restore {in_shell(location)}` brings it back."
            if backup.exists()
            else "Check the path."
        )
        msg = f"{location}: expected a history file, got nothing there. {step}"
        raise MissingPathError(msg) from error
    except OSError as error:
        msg = f"{location}: expected a history that may be read, got: {error.strerror}. Check the permissions."
        raise StorageError(msg) from error
    if start != SIGNATURE:
        got = "an empty file" if not start else "a file that is not HDF5"
        msg = f"{location}: expected a history, got {got}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    with damage_errors(path):
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            if "lock" not in str(error):
                raise
            # The file system has no locks. None is needed: files are never written in place.
            file = h5py.File(path, "r", locking=False)
        try:
            _check_format_and_length(file, location)
            check_version(file, "history", location)
        except BaseException:
            file.close()
            raise
    return file


@contextlib.contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a broken file into HistoryDamagedError, with the way to restore it."""
    try:
        yield
    except StorageError:
        raise
    except BROKEN as error:
        text = str(error)
        got = "a truncated one" if "truncated file" in text else f"a damaged one ({text.strip()[:200]})"
        msg = f"{path}: expected a whole history file, got {got}. {restore_hint(str(path))}"
        raise HistoryDamagedError(msg) from error


def restore_hint(location: str) -> str:
    """Return the sentence on how to restore a damaged file."""
    # A folder may have ":/" in its name too: take the shortest head that is a file or has a backup.
    parts = location.split(":/")
    files = [Path(":/".join(parts[:n])) for n in range(1, len(parts) + 1)]
    path = next((file for file in files if file.is_file() or beside(file, ".bak").is_file()), files[0])
    backup = beside(path, ".bak")
    if backup.exists():
        return f"Its backup is {backup}: `warmstart history verify --restore {in_shell(path)}` brings it back."
    return f"There is no backup {backup.name} beside it for `warmstart history verify --restore`."


def set_text(element: h5py.Group | h5py.Dataset, name: str, text: str) -> None:
    """Write an attribute as UTF-8 text of fixed length."""
    # HDF5's strings of variable length have no checksum.
    data = text.encode()
    element.attrs.create(name, np.array(data, dtype=h5py.string_dtype("utf-8", max(len(data), 1))))


def get_text(element: h5py.Group | h5py.Dataset, name: str) -> str | None:
    """Read a text attribute; None if it is missing."""
    value = element.attrs.get(name)
    return bytes(value).decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


def _check_format_and_length(file: h5py.File, location: str) -> None:
    """Check format and length of an HDF5 file."""
    # HDF5 does not complain of a truncated file: it reads zeros in place of the missing bytes.
    if get_text(file, "format") != FORMAT:
        msg = f"{location}: expected an HDF5 file with format {FORMAT!r}, got {get_text(file, 'format')!r}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    fd = file.id.get_vfd_handle()
    start, size = system.read_at(fd, 36, 0), os.fstat(fd).st_size
    # Only superblocks of these versions have a checksum.
    if start[8] not in (2, 3):
        msg = f"{location}: expected an HDF5 superblock of version 2 or 3, got {start[8]}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    end = int.from_bytes(start[28:36], "little")
    if size < end:
        msg = f"{location}: expected a whole history of {end} bytes, got one truncated to {size}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)


def _compare_checksum(element: h5py.Dataset, checksum: int, at: str) -> None:
    stored = element.attrs.get("crc32")
    if stored is None or int(stored) != checksum:
        msg = f"{at}: expected checksum {stored}, got {checksum}: the bytes were altered. {restore_hint(at)}"
        raise HistoryDamagedError(msg)
