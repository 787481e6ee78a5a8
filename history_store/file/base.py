"""The HDF5 file of a history as a whole: content to file and back."""

import mmap
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import (
    HistoryDamagedError,
    HistoryWarning,
    MissingPathError,
    StorageError,
    UsageError,
)
from warmstart.history_store.file.cells import CELLS, check_cells, write_cells
from warmstart.history_store.file.content import Content, quoted
from warmstart.history_store.file.dataset_list import read_datasets, write_datasets
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.layout import (
    FORMAT,
    LIBVER,
    MAPPED,
    check_file,
    child,
    damage,
    hint,
    mark,
    open_file,
    read,
    read_text,
    reader,
    set_text,
    version,
    write_array,
    write_json,
    write_text,
)
from warmstart.history_store.file.sink import Sink
from warmstart.history_store.file.stored_images import add_checksums
from warmstart.history_store.file.table import StoredTable, are_many, stored_table, table_faults, write_table
from warmstart.history_store.space import space_names

Embeddings = dict[str, NDArray[np.float32]]
_VALUES = (bool, int, float, str)
WriteImages = Callable[[h5py.Group], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells the file of a history from others.

    Attributes:
        id: of the history, for life.
        serial: of the last operation in it.
        salt: of this generation: drawn anew whenever a file is written; empty in files of version 1.
        inode: number under which it was written; a copy has another. 0 in files of version 1.
    """

    id: str
    serial: int
    salt: str
    inode: int


@reader("history", "1")
@reader("history", "2")
def _read_history(file: h5py.File, where: str) -> Content:
    return read_content(file, where)


def read_content(file: h5py.File, where: str, *, lazy: bool = False) -> Content:
    """Read everything but images and embeddings, checksums compared.

    Args:
        file: open for reading.
        where: its name, for errors.
        lazy: read the evaluations of a large history, and its records of datasets, when they are looked at; the file must
            stay open so long.

    Raises:
        HistoryDamagedError: an element is missing, altered or contradicts another.
        HistoryVersionError: an element of an unknown version.
    """
    with damage(Path(where)):
        header = read(file, "header", "json", where)
        space = child(file, "space", f"{where}:/space")
        version(space, "json", f"{where}:/space")
        content = Content(
            id=str(header["id"]),
            space_json=read_text(space, f"{where}:/space"),
            stored_size=int(header["stored_size"]),
            notes=dict(read(file, "notes", "json", where)),
            salt=str(header.get("salt", "")),
            serial=int(header["serial"]),
            revision=int(header["revision"]),
            datasets=read_datasets(file, where, lazy=lazy),
            configs=list(read(file, "configs", "json", where)),
            unit=read(file, "configs_unit", "array", where),
            base=stored_table(file, where, lazy=lazy),
            results=dict(read(file, "results", "json", where)),
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
                check_cells(file, where, content.base.cells(m, c), content.base.origin_counts())
        if not all(type(value) in _VALUES for config in content.configs for value in config.values()):
            faults.append("a configuration with a value that is no number, text or truth value")
        if not all(isinstance(value, dict) for value in content.results.values()):
            faults.append("a result that is no object")
        if len(content.dataset_of) != len(content.datasets):
            faults.append("two datasets have one name")
        if len(content.config_of) != len(content.configs):
            faults.append("two configurations are equal")
        space_names(content.space_json)
        if content.unit.ndim != 2 or len(content.unit) != len(content.configs):
            faults.append(f"{len(content.configs)} configurations have unit rows of shape {content.unit.shape}")
        if faults:
            msg = f"{where}: expected a history without contradictions, got: {'; '.join(faults)}. {hint(where)}"
            raise HistoryDamagedError(msg)
        return content


def read_identity(path: Path) -> Identity:
    """Read what identifies a history file; raises as `open_file` does."""
    with open_file(path) as file, damage(path):
        return identity_of(file, str(path))


def identity_of(file: h5py.File, where: str) -> Identity:
    """Read what identifies an open history file."""
    with damage(Path(where)):
        header = read(file, "header", "json", where)
        salt, inode = str(header.get("salt", "")), int(header.get("inode", 0))
        return Identity(str(header["id"]), int(header["serial"]), salt, inode)


@reader("embeddings", "1")
def _read_embeddings(group: h5py.Group, at: str) -> tuple[list[str], NDArray[np.float32]]:
    where = at.split(":/")[0]
    names, vectors = read(group, "names", "json", where), read(group, "vectors", "array", where)
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    are_vectors = vectors.ndim == 2 and vectors.dtype == np.float32 and _all_finite(vectors)
    if not are_vectors or not are_names or not len(set(names)) == len(names) == len(vectors):
        msg = f"{at}: expected a vector a name, all finite, got {len(names)} names and {vectors.dtype} of shape {vectors.shape}. {hint(where)}"
        raise HistoryDamagedError(msg)
    return list(names), vectors


def _all_finite(values: NDArray[np.float32]) -> bool:
    """Tell whether all numbers are finite; as a rule their sum tells, in one pass."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def read_vectors(file: h5py.File, where: str, model_hash: str) -> tuple[list[str], NDArray[np.float32]]:
    """Read the embeddings of one model as `m` names and `m x d` vectors; none for a model that is not there."""
    with damage(Path(where)):
        group = file["embeddings"]
        if model_hash not in group:
            return [], np.zeros((0, 0), np.float32)
        names, vectors = read(group, model_hash, "embeddings", where)
        return names, vectors


def read_embeddings(file: h5py.File, where: str, model_hash: str) -> Embeddings:
    """Read the embeddings of one model by dataset name; none for a model that is not there."""
    names, vectors = read_vectors(file, where, model_hash)
    return {name: vectors[row].copy() for row, name in enumerate(names)}


def write_base(
    path: Path,
    content: Content,
    *,
    embeddings: Mapping[str, Mapping[str, NDArray[np.float32]]],
    keep: Iterable[tuple[h5py.Group, str]] = (),
    add: Iterable[WriteImages] = (),
    writer: str = "",
) -> None:
    """Write a history file from nothing; not durable, not atomic: the caller syncs, checks and renames it.

    Args:
        path: replaced where it exists.
        content: what to write; read after `add` is used up, which may still change it.
        embeddings: by model hash and dataset name.
        keep: groups of images of an open file, with the names of their datasets, copied as they are.
        add: functions that each write the images of one dataset into the group they get.
        writer: version of the program, for the header.

    Raises:
        OSError: the system refused a write; the file is then useless.
    """
    sink = Sink(path)
    try:
        with h5py.File(sink, "w", libver=LIBVER, alignment_threshold=MAPPED, alignment_interval=mmap.PAGESIZE) as file:
            set_text(file, "format", FORMAT)
            mark(file, "history")
            images = file.create_group("images")
            for group, name in keep:
                group.file.copy(group, images, name=quoted(name))
                add_checksums(images[quoted(name)])
                sink.check()
            for write in add:
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
            if are_many(content.table):
                cells = content.table.cells(len(content.datasets), len(content.configs))
                write_cells(file, cells, content.table.origin_counts())
            write_json(file, "results", content.results)
            vectors = file.create_group("embeddings")
            for model_hash, by_name in embeddings.items():
                group = vectors.create_group(model_hash)
                mark(group, "embeddings")
                write_json(group, "names", list(by_name))
                rows: list[Any] = [np.asarray(vector, dtype="<f4") for vector in by_name.values()]
                write_array(group, "vectors", np.stack(rows) if rows else np.zeros((0, 0), "<f4"))
        sink.check()
    finally:
        sink.close()


def faults_of(path: Path) -> list[tuple[str, str]]:
    """Read a history file whole, every byte that has a checksum; returns (place, fault) for each unsound element."""
    with open_file(path) as file, damage(path):
        return list(check_file(file, str(path)))


def check_base(path: Path, *, of: Path | None = None) -> None:
    """Read a freshly written file back.

    Pixels that were altered in the history before do not stop it: they are carried over with their checksums, which
    keep telling; unless the backup still has them whole.

    Args:
        path: of the new file.
        of: the history that it was made from; None = nothing was altered before.

    Raises:
        HistoryDamagedError: it cannot be read as written, or the backup has what the history has lost.

    Warns:
        HistoryWarning: altered pixels were carried over.
    """
    faults = faults_of(path)
    if not faults:
        return
    places = {place for place, _ in faults}
    are_pixels = all(place.startswith("/images/") and place.endswith("/array") for place in places)
    if of is None or not are_pixels or not places <= {place for place, _ in faults_of(of)}:
        place, fault = faults[0]
        msg = f"{path}: expected to read back what was written, got {place}: {fault}. Check the disk; the history is as it was before."
        raise HistoryDamagedError(msg)
    named = ", ".join(sorted(place.split("/")[2] for place in places))
    kept = beside(of, ".bak")
    try:
        saved = None if kept.is_symlink() else {place for place, _ in faults_of(kept)}
    except (StorageError, MissingPathError, UsageError):
        saved = None
    if saved is not None and not places <= saved:
        msg = f"{of}: expected sound images, got altered pixels in {named}. {hint(str(of))}"
        raise HistoryDamagedError(msg)
    warnings.warn(
        f"{of}: the pixels of {named} were altered, and no backup has them whole. They are kept as they are, and refused where they are read. `warmstart history remove` and `add` put them in anew.",
        HistoryWarning,
        stacklevel=2,
    )
