"""The index of very many meta-features in a file of the cache folder, which may be lost and is never stale.

The file holds FAISS's inverted file, numbers, a header in JSON, and an end of fixed length. A file of an earlier state
of the history still serves while few vectors are new: these are searched beside it, and what is gone is passed over. A
file of another model, version or FAISS, cut short or altered counts as none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.file.blocks import Matrix
from warmstart.history_store.json_text import parse_stored_json
from warmstart.metafeat.cache import cache_folder

LEAST = 100_000
"""Datasets above which an index is stored: up to here the exact search takes less time than reading it would save."""
FOLDER, SUFFIX = "indexes", ".index"
MOST_BESIDE = 0.1
"""Share of vectors that are searched beside the file of an earlier state; with more, it counts as none."""
VERSION = 1
_END = struct.Struct("<IIQ8s")
_MAGIC = b"wsindex\1"
_MOST_HEADER = 65_536
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class StoredIndex:
    """What the file of an index holds.

    Attributes:
        cells: FAISS's index, mapped.
        norms: distances of some datasets to the nearest one of another group, when it was made; see
            `warmstart.suggestions.references`.
        rows: today's row of each vector in the cells, -1 = gone; None where nothing has changed.
        fresh: rows that are not in the cells, rising.
    """

    cells: Any
    norms: NDArray[np.float64]
    rows: NDArray[np.int64] | None = None
    fresh: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def mask(self, is_among: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Tell which vectors in the cells are of some of today's rows; None = all of both."""
        if self.rows is None:
            return is_among
        is_there = self.rows >= 0
        return is_there if is_among is None else is_there & is_among[self.rows]

    def today(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return today's rows of vectors in the cells; -1 = none."""
        return found if self.rows is None else np.where(found < 0, -1, self.rows[found])


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The file of a history's index for one model.

    Attributes:
        path: of the file.
        shape: `m x d`, of the vectors.
        mark: digest of the vectors and the groups.
    """

    path: Path
    shape: tuple[int, int]
    mark: str

    @classmethod
    def of(cls, history_id: str, model_hash: str, shape: tuple[int, int], mark: str) -> IndexFile:
        """Return the file of a history and a model, whether it is there or not."""
        name = hashlib.sha256(f"{history_id}\0{model_hash}".encode()).hexdigest()[:40]
        return cls(cache_folder() / FOLDER / f"{name}{SUFFIX}", shape, mark)

    def state(self) -> int:
        """Return when the file was written; 0 where there is none."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def read(self, vectors: Matrix) -> StoredIndex | None:
        """Read the index of `m x d` vectors; None where there is none, or too few of them are in it."""
        try:
            header, marks, norms, _ = self._read_end()
            if header["shape"][1] != self.shape[1]:
                return None
            from warmstart.metafeat.cells import load_cells, mark_vectors, rows_in

            if self._is_of_now(header):
                return StoredIndex(load_cells(self.path, is_mapped=True), norms)
            rows, fresh = rows_in(marks, mark_vectors(vectors))
            if len(fresh) > MOST_BESIDE * len(vectors):
                return None
            return StoredIndex(load_cells(self.path, is_mapped=True), norms, rows, fresh)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
            if not isinstance(error, FileNotFoundError):
                _log.debug("%s: not used (%s)", self.path, error)
            return None

    def fault(self) -> str | None:
        """Read every byte, and say why the file is not used; None where it is, or there is none."""
        if not self.path.exists():
            return None
        try:
            header, *_, checksum = self._read_end(whole=True)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            return f"it is damaged, or of another version ({error})"
        if checksum != header["whole"]:
            return "it is altered"
        return None if self._is_of_now(header) else "it is of an earlier state of the history"

    def _is_of_now(self, header: Mapping[str, Any]) -> bool:
        """Tell whether a header is that of these vectors and groups."""
        return (header["mark"], tuple(header["shape"])) == (self.mark, self.shape)

    def write(self, vectors: Matrix, compute_norms: Callable[[Any], NDArray[np.float64]]) -> None:
        """Build the index, or extend the one of an earlier state; do nothing if it is there or cannot be written.

        Args:
            vectors: `m x d`.
            compute_norms: called with the cells, for the numbers that are stored with them.
        """
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            if self._is_of_now(self._read_end()[0]):
                return
        from warmstart.metafeat.cells import build_cells, extend_cells, load_cells, mark_vectors, save_cells

        marks = mark_vectors(vectors)
        cells = None
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError):
            header, old_marks, *_ = self._read_end()
            if header["shape"][1] == self.shape[1]:
                cells = extend_cells(load_cells(self.path, is_mapped=False), old_marks, vectors, marks)
        cells = build_cells(vectors) if cells is None else cells
        norms = compute_norms(cells)
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_cells(cells, temporary)
            self._append_end(temporary, marks, norms)
            temporary.replace(self.path)
        except (OSError, RuntimeError) as error:
            _log.debug("%s: not stored (%s)", self.path, error)
        finally:
            temporary.unlink(missing_ok=True)

    def _append_end(self, path: Path, marks: NDArray[np.uint64], norms: NDArray[np.float64]) -> None:
        """Append numbers, header and end to a file of FAISS."""
        n_bytes = path.stat().st_size
        numbers = marks.astype("<u8").tobytes() + norms.astype("<f8").tobytes()
        with path.open("rb") as file:
            checksum = _checksum(file, n_bytes, zlib.crc32(numbers))
            file.seek(0)
            start = zlib.crc32(file.read(n_bytes - _n_mapped(self.shape)))
        header = {
            "version": VERSION,
            "faiss": version("faiss-cpu"),
            "mark": self.mark,
            "shape": list(self.shape),
            "norms": len(norms),
            "start": start,
            "whole": checksum,
        }
        text = json.dumps(header).encode()
        with path.open("ab") as file:
            file.write(numbers + text + _END.pack(len(text), zlib.crc32(text + numbers), n_bytes, _MAGIC))

    def _read_end(self, *, whole: bool = False) -> tuple[dict[str, Any], NDArray[np.uint64], NDArray[np.float64], int]:
        """Read all but the vectors; return header, marks, norms and, with `whole`, the checksum of every byte.

        Raises:
            OSError: no such file, or one that may not be read.
            ValueError: cut short, altered, or of another version or FAISS.
            KeyError, TypeError, RecursionError: a header of another kind.
        """
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _END.size))
            end = file.read()
            n_text, crc, n_bytes, magic = _END.unpack(end) if len(end) == _END.size else (0, 0, 0, b"")
            if magic != _MAGIC or n_text > _MOST_HEADER or n_bytes + n_text + _END.size > size:
                msg = "no index, or one cut short"
                raise ValueError(msg)
            file.seek(n_bytes)
            numbers, text = file.read(size - n_bytes - n_text - _END.size), file.read(n_text)
            if zlib.crc32(text + numbers) != crc:
                msg = "an altered index"
                raise ValueError(msg)
            header = parse_stored_json(text)
            m, n_mapped = header["shape"][0], _n_mapped(header["shape"])
            is_whole = len(numbers) == 8 * (m + header["norms"]) and n_bytes > n_mapped
            if not is_whole or (header["version"], header["faiss"]) != (VERSION, version("faiss-cpu")):
                msg = "an index of another version or FAISS"
                raise ValueError(msg)
            file.seek(0)
            if zlib.crc32(file.read(n_bytes - n_mapped)) != header["start"]:
                msg = "an altered index"
                raise ValueError(msg)
            file.seek(0)
            checksum = _checksum(file, n_bytes, zlib.crc32(numbers)) if whole else 0
        return header, np.frombuffer(numbers, "<u8", m), np.frombuffer(numbers, "<f8", offset=8 * m), checksum


def _n_mapped(shape: Sequence[int]) -> int:
    """Return the bytes of `m x d` vectors with their ids, which follow all else in FAISS's file and are mapped."""
    return shape[0] * (4 * shape[1] + 8)


def _checksum(file: Any, n_bytes: int, start: int) -> int:
    """Return the CRC-32 of the next bytes of a file, some at a time."""
    crc, left = start, n_bytes
    while left and (part := file.read(min(left, 2**24))):
        crc, left = zlib.crc32(part, crc), left - len(part)
    return crc
