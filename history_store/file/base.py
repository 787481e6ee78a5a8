"""The HDF5 file of a history as a whole: writing and reading the content."""

import mmap
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.errors import (
    HistoryDamagedError,
    HistoryWarning,
    MissingPathError,
    StorageError,
    UsageError,
)
from warmstart.history_store.file import durable
from warmstart.history_store.file.blocks import Matrix, StoredRows, open_rows, write_rows
from warmstart.history_store.file.cells import CELLS, check_cells, write_cells
from warmstart.history_store.file.content import Content, quoted
from warmstart.history_store.file.dataset_list import are_distinct, read_datasets, write_datasets
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.layout import (
    FORMAT,
    LIBVER,
    MAPPED,
    check_file,
    check_version,
    damage_errors,
    get_element,
    mark_element,
    open_file,
    read_element,
    read_text,
    register_reader,
    restore_hint,
    set_text,
    write_array,
    write_json,
    write_text,
)
from warmstart.history_store.file.stored_images import add_checksums
from warmstart.history_store.file.table import StoredTable, is_large, read_evaluations, table_faults, write_table
from warmstart.history_store.records import Config
from warmstart.history_store.space import space_names

Embeddings = dict[str, NDArray[np.float32]]
_VALUES = (bool, int, float, str)
WriteImages = Callable[[h5py.Group], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the file of a history.

    Attributes:
        id: of the history, for life.
        serial: of the last operation in it.
        salt: of this generation: drawn anew whenever a file is written; empty in files of version 1.
        inode: number of the file when it was written; a copy has another. 0 in files of version 1.
    """

    id: str
    serial: int
    salt: str
    inode: int


@dataclass(frozen=True, slots=True)
class Glance:
    """Fields of a history under the names of `History`: of its file alone, and only `configs` may grow in the journal."""

    space_json: str
    model_hashes: tuple[str, ...]
    stored_size: int
    configs: tuple[Config, ...]


@register_reader("history", "1")
@register_reader("history", "2")
def _read_history(file: h5py.File, location: str) -> Content:
    return read_content(file, location)


def read_content(file: h5py.File, location: str, *, lazy: bool = False) -> Content:
    """Read everything except images and embeddings, and compare checksums.

    Args:
        file: open for reading.
        location: its name, for errors.
        lazy: read evaluations and dataset records of a large history at their first use; the file must stay open.

    Raises:
        HistoryDamagedError: an element is missing, altered or contradicts another.
        HistoryVersionError: an element of an unknown version.
    """
    with damage_errors(Path(location)):
        header = read_element(file, "header", "json", location)
        content = Content(
            id=str(header["id"]),
            space_json=_read_space(file, location),
            stored_size=int(header["stored_size"]),
            notes=dict(read_element(file, "notes", "json", location)),
            salt=str(header.get("salt", "")),
            serial=int(header["serial"]),
            revision=int(header["revision"]),
            datasets=read_datasets(file, location, lazy=lazy),
            configs=list(read_element(file, "configs", "json", location)),
            unit=read_element(file, "configs_unit", "array", location),
            base=read_evaluations(file, location, lazy=lazy),
            results=dict(read_element(file, "results", "json", location)),
        )
        if content.serial < 0 or content.revision < 0 or content.stored_size < 1:
            faults = [f"serial {content.serial}, revision {content.revision}, stored size {content.stored_size}"]
        else:
            faults = []
        if isinstance(content.base, StoredTable):
            content.base.limits = len(content.datasets), len(content.configs)
        else:
            m, c = len(content.datasets), len(content.configs)
            faults += table_faults(content.base, m, c)
            if CELLS in file and not faults:
                check_cells(file, location, content.base.cells(m, c), content.base.origin_counts())
        if not all(type(value) in _VALUES for config in content.configs for value in config.values()):
            faults.append("a configuration with a value that is no number, text or truth value")
        if not all(isinstance(value, dict) for value in content.results.values()):
            faults.append("a result that is no object")
        if not are_distinct(content.datasets.names):
            faults.append("two datasets have one name")
        if len(content.config_of) != len(content.configs):
            faults.append("two configurations are equal")
        space_names(content.space_json)
        if content.unit.ndim != 2 or len(content.unit) != len(content.configs):
            faults.append(f"{len(content.configs)} configurations have unit rows of shape {content.unit.shape}")
        if faults:
            msg = f"{location}: expected a history without contradictions, got: {'; '.join(faults)}. {restore_hint(location)}"
            raise HistoryDamagedError(msg)
        return content


def read_glance(path: Path) -> Glance:
    """Open a history file and read the elements of a `Glance`; raises as `open_file`."""
    location = str(path)
    with open_file(path) as file, damage_errors(path):
        return Glance(
            _read_space(file, location),
            tuple(file["embeddings"]),
            int(read_element(file, "header", "json", location)["stored_size"]),
            tuple(read_element(file, "configs", "json", location)),
        )


def _read_space(file: h5py.File, location: str) -> str:
    at = f"{location}:/space"
    space = get_element(file, "space", at)
    check_version(space, "json", at)
    return read_text(space, at)


def read_identity(path: Path) -> Identity:
    """Open a history file and read its identity; raises as `open_file`."""
    with open_file(path) as file, damage_errors(path):
        return identity_of(file, str(path))


def identity_of(file: h5py.File, location: str) -> Identity:
    """Read the identity of an open history file."""
    with damage_errors(Path(location)):
        header = read_element(file, "header", "json", location)
        salt, inode = str(header.get("salt", "")), int(header.get("inode", 0))
        return Identity(str(header["id"]), int(header["serial"]), salt, inode)


@register_reader("embeddings", "1")
def _read_embeddings(group: h5py.Group, at: str) -> tuple[list[str], Matrix]:
    location = at.split(":/")[0]
    names, vectors = read_element(group, "names", "json", location), open_rows(group, "vectors", location)
    are_names = isinstance(names, list) and set(map(type, names)) <= {str} and are_distinct(names)
    are_vectors = vectors.ndim == 2 and vectors.dtype == np.float32 and len(vectors) == len(names)
    if not are_names or not are_vectors or not (isinstance(vectors, StoredRows) or _all_finite(vectors)):
        msg = f"{at}: expected a vector a name, all finite, got {len(names)} names and {vectors.dtype} of shape {vectors.shape}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    return names, vectors


def _all_finite(values: NDArray[np.float32]) -> bool:
    """Return whether all numbers are finite."""
    # A finite sum proves it in one pass, without an array of truth values.
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def read_vectors(file: h5py.File, location: str, model_hash: str) -> tuple[list[str], Matrix]:
    """Read the embeddings of one model as `m` names and `m x d` float32 vectors; none for an unknown model."""
    with damage_errors(Path(location)):
        group = file["embeddings"]
        if model_hash not in group:
            return [], np.zeros((0, 0), np.float32)
        names, vectors = read_element(group, model_hash, "embeddings", location)
        return names, vectors


def read_embeddings_mark(file: h5py.File, location: str, model_hash: str) -> str:
    """Read the checksums of the names and vectors of one model's embeddings; empty for an unknown model."""
    with damage_errors(Path(location)):
        if model_hash not in file["embeddings"]:
            return ""
        group = file["embeddings"][model_hash]
        return "-".join(f"{int(group[key].attrs['crc32']):08x}" for key in ("names", "vectors"))


def read_embeddings(file: h5py.File, location: str, model_hash: str) -> Embeddings:
    """Read the embeddings of one model by dataset name; none for an unknown model."""
    names, stored = read_vectors(file, location, model_hash)
    vectors = np.asarray(stored)
    return {name: vectors[row].copy() for row, name in enumerate(names)}


def write_base(
    path: Path,
    content: Content,
    *,
    embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]],
    image_groups: Iterable[tuple[h5py.Group, str]] = (),
    image_writers: Iterable[WriteImages] = (),
    writer: str = "",
) -> None:
    """Write a new history file; not durable, not atomic: the caller syncs, checks and renames it.

    Args:
        path: replaced if it exists.
        content: of the history; read after the last of `image_writers`, which may still change it.
        embeddings: by model hash and dataset name.
        image_groups: groups of images of an open file, with the names of their datasets, to be copied as they are.
        image_writers: functions that each write the images of one dataset into the group they get.
        writer: version of the program, for the header.

    Raises:
        OSError: the system refused a write; the file is then useless.
    """
    sink = Sink(path)
    try:
        with h5py.File(sink, "w", libver=LIBVER, alignment_threshold=MAPPED, alignment_interval=mmap.PAGESIZE) as file:
            set_text(file, "format", FORMAT)
            mark_element(file, "history")
            images = file.create_group("images")
            for group, name in image_groups:
                group.file.copy(group, images, name=quoted(name))
                add_checksums(images[quoted(name)])
                sink.check()
            for write in image_writers:
                write(images)
                sink.check()
            header = {
                "id": content.id,
                "salt": secrets.token_hex(8),
                "inode": sink.inode,
                "serial": content.serial,
                "revision": content.revision,
                "stored_size": content.stored_size,
                "writer": writer,
            }
            write_json(file, "header", header)
            write_text(file, "space", content.space_json)
            write_json(file, "notes", content.notes)
            write_datasets(file, content.datasets)
            write_json(file, "configs", content.configs)
            write_array(file, "configs_unit", content.unit)
            write_table(file, "evaluations", content.table)
            if is_large(content.table):
                cells = content.table.cells(len(content.datasets), len(content.configs))
                write_cells(file, cells, content.table.origin_counts())
            write_json(file, "results", content.results)
            vectors = file.create_group("embeddings")
            for model_hash, by_name in embeddings.items():
                group = vectors.create_group(model_hash)
                mark_element(group, "embeddings")
                # In the order in which a question reads them, so that it need not copy them.
                names = sorted(by_name)
                write_json(group, "names", names)
                rows: list[Any] = [np.asarray(by_name[name], dtype="<f4") for name in names]
                write_rows(group, "vectors", np.stack(rows) if rows else np.zeros((0, 0), "<f4"))
        sink.check()
    finally:
        sink.close()


def list_faults(path: Path) -> list[tuple[str, str]]:
    """Read every byte of a history file that has a checksum; return (element, fault) for each unsound element."""
    with open_file(path) as file, damage_errors(path):
        return list(check_file(file, str(path)))


def check_base(path: Path, *, source: Path | None = None) -> None:
    """Read back and check a new file.

    Pixels that were altered before are no error: they are copied with their checksums, which still do not match. If the
    backup has them whole, they are an error.

    Args:
        path: of the new file.
        source: the history that it was made from; None = nothing was altered before.

    Raises:
        HistoryDamagedError: the file does not read as written, or the backup has pixels that the history has lost.

    Warns:
        HistoryWarning: altered pixels were copied.
    """
    faults = list_faults(path)
    if not faults:
        return
    elements = {element for element, _ in faults}
    are_pixels = all(element.startswith("/images/") and element.endswith("/array") for element in elements)
    if source is None or not are_pixels or not elements <= {element for element, _ in list_faults(source)}:
        element, fault = faults[0]
        msg = f"{path}: expected to read back what was written, got {element}: {fault}. Check the disk; the history is as it was before."
        raise HistoryDamagedError(msg)
    names = ", ".join(sorted(element.split("/")[2] for element in elements))
    backup = beside(source, ".bak")
    try:
        backup_elements = None if backup.is_symlink() else {element for element, _ in list_faults(backup)}
    except (StorageError, MissingPathError, UsageError):
        backup_elements = None
    if backup_elements is not None and not elements <= backup_elements:
        msg = f"{source}: expected sound images, got altered pixels in {names}. {restore_hint(str(source))}"
        raise HistoryDamagedError(msg)
    warnings.warn(
        f"{source}: the pixels of {names} were altered, and no backup has them whole. They are kept as they are, and refused where they are read. `warmstart history remove` and `add` put them in anew.",
        HistoryWarning,
        stacklevel=2,
    )


class Sink:
    """A file object for h5py that stores the first error of the system and then ignores all writes.

    Args:
        path: of the file, which is emptied if it exists.

    Attributes:
        error: the first error, for `check`.
        inode: number of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | MemoryError | None = None
        self._position = 0
        self._size = 0
        self._fd = system.open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, follow=False)
        self.inode = os.fstat(self._fd).st_ino

    def check(self) -> None:
        """Raise the stored error, if there is one.

        Raises:
            OSError: no space, for example.
            MemoryError: none left.
        """
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Close the file; call it after HDF5 has."""
        os.close(self._fd)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read back some bytes."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def readinto(self, buffer: memoryview) -> int:
        """Read back bytes that HDF5 wrote; zeros in place of an ignored write."""
        content = system.read_at(self._fd, len(buffer), self._position)
        buffer[:] = content + bytes(len(buffer) - len(content))
        self._position += len(buffer)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        """Write bytes; after an error, only count them."""
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                durable.write_at(self._fd, view, self._position, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length; after an error, only note it."""
        self._size = self._position if size is None else size
        if self.error is None:
            try:
                durable.truncate(self._fd, self._size, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        return self._size

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""
