"""The elements of the HDF5 file: each carries a type, a version and, where it holds bytes, a checksum.

Readers are found by (type, version), so that readers of older versions stay; `docs/history-format.md` is the text.
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
LIBVER = ("v110", "v110")  # the oldest with checksums on every piece of metadata
CURRENT = {"history": "2", "json": "1", "array": "1", "evaluations": "1", "images": "2", "embeddings": "1"}
"""Newest version of every element type, the one that is written."""

MAPPED = 2**20
"""Arrays of so many bytes are mapped, not copied; they begin at a page of their own."""

BROKEN = (OSError, LookupError, RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError, MemoryError)
"""What reading a broken file may raise."""

Reader = Callable[[Any, str], Any]
_READERS: dict[tuple[str, str], Reader] = {}


def reader(type_: str, version: str) -> Callable[[Reader], Reader]:
    """Register the reader of one (type, version); it gets the HDF5 object and the words for an error."""

    def register(function: Reader) -> Reader:
        _READERS[type_, version] = function
        return function

    return register


def read(parent: h5py.Group, key: str, type_: str, where: str) -> Any:
    """Read one element.

    Args:
        parent: group that holds it.
        key: its name there.
        type_: the type that must stand on it.
        where: file name, for errors.

    Raises:
        HistoryDamagedError: it is missing, of another type, or does not match its checksum.
        HistoryVersionError: its version is unknown here.
    """
    at = f"{where}:{parent.name.rstrip('/')}/{key}"
    if key not in parent:
        msg = f"{at}: expected an element of type {type_!r}, got nothing. {hint(where)}"
        raise HistoryDamagedError(msg)
    element = child(parent, key, at)
    return _READERS[type_, version(element, type_, at)](element, at)


def child(parent: h5py.Group, key: str, at: str) -> h5py.Group | h5py.Dataset:
    """Return a group or an array that lies in this file, whole and as it is.

    Raises:
        HistoryDamagedError: a link, or bytes that lie elsewhere, are compressed, in chunks, of variable length, or beyond the file.
    """
    link = parent.get(key, getlink=True)
    if not isinstance(link, h5py.HardLink):
        msg = f"{at}: expected an element of this file, got a {type(link).__name__}. {hint(at)}"
        raise HistoryDamagedError(msg)
    element = parent[key]
    if isinstance(element, h5py.Dataset):
        fault = _storage_fault(element)
        if fault:
            msg = f"{at}: expected contiguous bytes of fixed length in this file, got {fault}. {hint(at)}"
            raise HistoryDamagedError(msg)
    return element


def _storage_fault(element: h5py.Dataset) -> str:
    """Say what is wrong with the way in which the bytes of an array are kept; empty = nothing."""
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


def version(element: h5py.Group | h5py.Dataset, type_: str, at: str) -> str:
    """Return the version of an element after checking that it is of the type and that the version is known.

    Raises:
        HistoryDamagedError: another type, or none.
        HistoryVersionError: a version without a reader.
    """
    found = get_text(element, "encoding-type")
    if found != type_:
        msg = f"{at}: expected encoding-type {type_!r}, got {found!r}. {hint(at)}"
        raise HistoryDamagedError(msg)
    number = get_text(element, "encoding-version")
    if (type_, str(number)) not in _READERS:
        msg = f'{at}: expected encoding-version "{CURRENT[type_]}", got "{number}". Upgrade warmstart.'
        raise HistoryVersionError(msg)
    return str(number)


def mark(element: h5py.Group | h5py.Dataset, type_: str) -> None:
    """Write type and current version on an element."""
    set_text(element, "encoding-type", type_)
    set_text(element, "encoding-version", CURRENT[type_])


def write_json(parent: h5py.Group, key: str, value: Any) -> None:
    """Write a value as JSON text."""
    write_text(parent, key, json.dumps(value, allow_nan=False, ensure_ascii=False))


def write_text(parent: h5py.Group, key: str, text: str) -> None:
    """Write a text that is JSON already."""
    data = text.encode()
    element = parent.create_dataset(key, data=np.array(data, dtype=h5py.string_dtype("utf-8", len(data))))
    mark(element, "json")
    element.attrs["crc32"] = np.uint32(zlib.crc32(data))


def write_array(parent: h5py.Group, key: str, array: NDArray[Any]) -> None:
    """Write numbers, contiguous and uncompressed, little endian."""
    values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    element = parent.create_dataset(key, data=values)
    mark(element, "array")
    element.attrs["crc32"] = np.uint32(crc(values))


@reader("json", "1")
def _read_json(element: h5py.Dataset, at: str) -> Any:
    return parse_stored_json(read_text(element, at))


def read_text(element: h5py.Dataset, at: str) -> str:
    """Read the text of a JSON element, as it was written, after comparing its checksum."""
    return str(read_bytes(element, at), "utf-8")


def read_bytes(element: h5py.Dataset, at: str) -> bytes | memoryview:
    """Read the same, not decoded; a long text stays in the file, which is mapped."""
    offset = element.id.get_offset()
    if element.nbytes < MAPPED or offset is None:
        data: bytes | memoryview = bytes(element[()])
    else:
        data = memoryview(_map(element))[offset : offset + element.nbytes]
    _compare(element, zlib.crc32(data), at)
    return data


@reader("array", "1")
def _read_array(element: h5py.Dataset, at: str) -> NDArray[Any]:
    values = _mapped(element)
    if values is None:
        values = element[()]
    _compare(element, crc(values), at)
    values.setflags(write=False)
    return values


def _mapped(element: h5py.Dataset) -> NDArray[Any] | None:
    """Lay an array over its file, which is replaced and never changed; None for small and unaligned ones."""
    offset = element.id.get_offset()
    if element.nbytes < MAPPED or offset is None or offset % element.dtype.itemsize or not element.dtype.isnative:
        return None
    found: NDArray[Any] = np.ndarray(element.shape, element.dtype, buffer=_map(element), offset=offset)
    return found


def _map(element: h5py.Dataset) -> mmap.mmap:
    """Map the very file that is open; what lies in it was compared with its size by `child`."""
    return mmap.mmap(element.file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ)


def crc(values: NDArray[Any]) -> int:
    """Compute the checksum of an array: CRC-32 of its little-endian bytes in C order."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def check_file(file: h5py.File, where: str) -> Iterator[tuple[str, str]]:
    """Read every element of a file, images included, and yield (place, fault) for each that is unsound."""
    places: list[str] = []
    file.visit_links(places.append)  # a fault in the tree itself surfaces here, as an error of HDF5
    for place in places:
        at = f"{where}:/{place}"
        try:
            element = child(file, place, at)
            type_ = get_text(element, "encoding-type")
            if type_ is None:
                if isinstance(element, h5py.Dataset):
                    yield f"/{place}", "an array without type and version"
                continue
            if type_ not in CURRENT:
                yield f"/{place}", f"unknown encoding-type {type_!r}"
                continue
            number = version(element, type_, at)
            if isinstance(element, h5py.Dataset):
                _READERS[type_, number](element, at)
        except StorageError as error:
            yield f"/{place}", str(error)
        except BROKEN as error:
            yield f"/{place}", f"unreadable: {error}"


def open_file(path: Path) -> h5py.File:
    """Open the HDF5 file of a history for reading and check that it is one.

    Raises:
        MissingPathError: nothing there.
        UsageError: a folder.
        HistoryDamagedError: truncated, not HDF5, or not a history.
        HistoryVersionError: written by a newer version.
        StorageError: it may not be read.
    """
    where = str(path)
    if path.is_dir():
        msg = f"{where}: expected a history file, got a folder. Name the .h5 file in it."
        raise UsageError(msg)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as raw:  # a pipe would block
            is_file = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
            start = raw.read(len(SIGNATURE)) if is_file else b"none"
    except FileNotFoundError as error:
        kept = beside(path, ".bak")
        step = (
            f"Its backup {kept.name} is there: `warmstart history verify --restore {in_shell(where)}` brings it back."
            if kept.exists()
            else "Check the path."
        )
        msg = f"{where}: expected a history file, got nothing there. {step}"
        raise MissingPathError(msg) from error
    except OSError as error:
        msg = f"{where}: expected a history that may be read, got: {error.strerror}. Check the permissions."
        raise StorageError(msg) from error
    if start != SIGNATURE:
        got = "an empty file" if not start else "a file that is not HDF5"
        msg = f"{where}: expected a history, got {got}. {hint(where)}"
        raise HistoryDamagedError(msg)
    with damage(path):
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            if "lock" not in str(error):
                raise
            file = h5py.File(
                path, "r", locking=False
            )  # where the file system has no locks; files are never written in place
        try:
            _check_whole(file, where)
            version(file, "history", where)
        except BaseException:
            file.close()
            raise
    return file


@contextlib.contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn whatever reading a broken file raises into HistoryDamagedError, which names the way back."""
    try:
        yield
    except StorageError:
        raise
    except BROKEN as error:
        text = str(error)
        got = "a truncated one" if "truncated file" in text else f"a damaged one ({text.strip()[:200]})"
        msg = f"{path}: expected a whole history file, got {got}. {hint(str(path))}"
        raise HistoryDamagedError(msg) from error


def hint(where: str) -> str:
    """Say how a damaged file comes back."""
    parts = where.split(":/")  # the file, perhaps in a folder with this in its name, and the place in it
    files = [Path(":/".join(parts[:n])) for n in range(1, len(parts) + 1)]
    path = next((file for file in files if file.is_file() or beside(file, ".bak").is_file()), files[0])
    kept = beside(path, ".bak")
    if kept.exists():
        return f"Its backup is {kept}: `warmstart history verify --restore {in_shell(path)}` brings it back."
    return f"There is no backup {kept.name} beside it for `warmstart history verify --restore`."


def set_text(element: h5py.Group | h5py.Dataset, name: str, text: str) -> None:
    """Write an attribute as UTF-8 of fixed length (HDF5's strings of variable length have no checksum)."""
    data = text.encode()
    element.attrs.create(name, np.array(data, dtype=h5py.string_dtype("utf-8", max(len(data), 1))))


def get_text(element: h5py.Group | h5py.Dataset, name: str) -> str | None:
    """Read a text attribute, or None where it is missing."""
    value = element.attrs.get(name)
    return bytes(value).decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


def _check_whole(file: h5py.File, where: str) -> None:
    """Check format and length: HDF5 itself reads what was cut off as zeros."""
    if get_text(file, "format") != FORMAT:
        msg = f"{where}: expected an HDF5 file with format {FORMAT!r}, got {get_text(file, 'format')!r}. {hint(where)}"
        raise HistoryDamagedError(msg)
    fd = file.id.get_vfd_handle()
    start, size = os.pread(fd, 36, 0), os.fstat(fd).st_size
    if start[8] not in (2, 3):  # superblocks with a checksum
        msg = f"{where}: expected an HDF5 superblock of version 2 or 3, got {start[8]}. {hint(where)}"
        raise HistoryDamagedError(msg)
    end = int.from_bytes(start[28:36], "little")
    if size < end:
        msg = f"{where}: expected a whole history of {end} bytes, got one truncated to {size}. {hint(where)}"
        raise HistoryDamagedError(msg)


def _compare(element: h5py.Dataset, found: int, at: str) -> None:
    stored = element.attrs.get("crc32")
    if stored is None or int(stored) != found:
        msg = f"{at}: expected checksum {stored}, got {found}: the bytes were altered. {hint(at)}"
        raise HistoryDamagedError(msg)
