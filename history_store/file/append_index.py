"""The append index beside a history: it tells without reading the history whether a run is new.

A writer that has read the whole history makes it; it is valid for one state of the file and its backup. It holds
nothing that is not in the file; if it is missing or not valid, the file itself is read. Reading it needs Python's own
library alone: numpy and HDF5 take longer to load than a run takes to append.

Three sorted tables of 64-bit digests, each with rows: names of datasets, configurations, and runs that have a seed.
Blocks of them are compared with their checksums when they are read.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from warmstart.history_store.errors import StorageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.journal import checksum
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import Config, Value

SUFFIX = ".index"
MAGIC = b"warmstart-index1"
_HEAD = struct.Struct("<16sII")
_BLOCK = 4096
_MASK = 2**64 - 1
_MOST_HEAD = 2**26
_STREAM = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class State:
    """State of the files for which an index is valid.

    Attributes:
        history: id of it.
        salt: of the generation of the file.
        serial: of the last operation in the file.
        counted: serial of the last operation whose datasets, configurations and runs are in the index.
        journal: bytes of its lines up to that one, and their CRC-32.
        file: inode, size and times of the file.
        backup: the same of the backup, which is up to date.
    """

    history: str
    salt: str
    serial: int
    counted: int
    journal: tuple[int, int]
    file: tuple[int, ...]
    backup: tuple[int, ...]


def stamp(path: Path) -> tuple[int, ...]:
    """Return inode, size and times of a file, which change when it is written or replaced; empty if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest_name(name: str) -> int:
    """Digest the name of a dataset."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def digest_config(config: Config) -> int:
    """Digest a configuration; equal numbers count as equal whatever their types."""
    text = json.dumps(sorted((name, _number_text(value)) for name, value in config.items()))
    return digest_name(text)


def _number_text(value: Value) -> str:
    if isinstance(value, str):
        return f"s{value}"
    is_whole = isinstance(value, int) or value.is_integer()
    return f"i{int(value)}" if is_whole else f"f{value!r}"


def digest_run(dataset: int, config: int, seed: int, origin: int) -> int:
    """Digest a run by the numbers of its dataset, configuration, seed and origin, as `digest_runs` does for arrays."""
    digest = 0
    for value in (dataset, config, seed, origin):
        digest = (digest ^ value) * _STREAM[1] & _MASK
        digest = (digest ^ digest >> 29) + _STREAM[0] & _MASK
        digest = digest * _STREAM[2] & _MASK
        digest ^= digest >> 32
    return digest


def digest_runs(columns: Sequence[Any]) -> Any:
    """Digest many runs: `n` uint64 from `n` integers each of datasets, configurations, seeds and origins."""
    import numpy as np

    digests = np.zeros(len(columns[0]), np.uint64)
    first, second, third = (np.uint64(number) for number in _STREAM)
    with np.errstate(over="ignore"):
        for column in columns:
            digests = (digests ^ column.astype(np.uint64)) * second
            digests = ((digests ^ digests >> np.uint64(29)) + first) * third
            digests ^= digests >> np.uint64(32)
    return digests


class AppendIndex:
    """An open index.

    Args:
        path: of the history, links resolved.

    Attributes:
        state: of the files for which it is valid.
        origins: of the runs, by their numbers.
        n_evaluations: up to the operation `state.counted`.

    Raises:
        ValueError: the index is damaged, or of another version.
        OSError: there is none, or it may not be read.
        StorageError: it is no ordinary file.
    """

    def __init__(self, path: Path) -> None:
        fd = durable.open_companion(beside(path, SUFFIX), os.O_RDONLY)
        try:
            self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        try:
            self._read_head()
        except (KeyError, TypeError, struct.error, RecursionError) as error:
            self._map.close()
            raise ValueError(str(error)) from error

    def _read_head(self) -> None:
        magic, size, crc = _HEAD.unpack_from(self._map)
        head = self._map[_HEAD.size : _HEAD.size + size] if size <= _MOST_HEAD else b""
        if magic != MAGIC or len(head) != size or zlib.crc32(head) != crc:
            msg = "no index, or an altered one"
            raise ValueError(msg)
        fields = parse_stored_json(head)
        state = fields["state"]
        self.state = State(**{**state, **{key: tuple(state[key]) for key in ("journal", "file", "backup")}})
        self.origins: list[str] = fields["origins"]
        self.n_evaluations = int(fields["n_evaluations"])
        self._counts: dict[str, int] = fields["counts"]
        sums, self._start = fields["sums"], -(-(_HEAD.size + size) // 8) * 8
        n_blocks = -(-16 * sum(self._counts.values()) // _BLOCK)
        self._checksums_start = self._start + n_blocks * _BLOCK
        if (
            len(self._map) != self._checksums_start + 4 * n_blocks
            or zlib.crc32(self._map[self._checksums_start :]) != sums
        ):
            msg = "an index of another length, or an altered one"
            raise ValueError(msg)
        self._verified_blocks: set[int] = set()

    def close(self) -> None:
        """Close the file."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def find(self, table: str, digest: int) -> int | None:
        """Return the row of the first entry of a digest; None if there is none.

        Args:
            table: `names`, `configs` or `runs`.
            digest: to look up.

        Raises:
            ValueError: a block that is read was altered.
        """
        first = 0
        for name, count in self._counts.items():
            if name == table:
                position = bisect_left(range(count), digest, key=lambda i: self._entry(first + i)[0])
                if position == count:
                    return None
                stored_digest, row = self._entry(first + position)
                return row if stored_digest == digest else None
            first += count
        return None

    def _entry(self, number: int) -> tuple[int, int]:
        block = 16 * number // _BLOCK
        at = self._start + block * _BLOCK
        if block not in self._verified_blocks:
            (expected,) = struct.unpack_from("<I", self._map, self._checksums_start + 4 * block)
            if zlib.crc32(self._map[at : at + _BLOCK]) != expected:
                msg = "an altered index"
                raise ValueError(msg)
            self._verified_blocks.add(block)
        digest, row = struct.unpack_from("<QQ", self._map, self._start + 16 * number)
        return digest, row


def is_indexed(path: Path, state: State) -> bool:
    """Return whether the index of a history is valid for the files' state; the journal may have grown."""
    try:
        with AppendIndex(path) as index:
            indexed = index.state
        is_whole = checksum(beside(path, ".journal"), indexed.journal[0]) == indexed.journal[1]
        return is_whole and replace(indexed, counted=state.counted, journal=state.journal) == state
    except (OSError, ValueError, StorageError):
        return False


def write_index(
    path: Path, state: State, tables: Mapping[str, Any], origins: Sequence[str], n_evaluations: int
) -> None:
    """Write the index of a history; if that fails, there is none.

    Args:
        path: of the history, links resolved.
        state: of its files.
        tables: `n` digests each, uint64, in the order of rows: names, configs, runs.
        origins: of the runs, by number.
        n_evaluations: up to the operation `state.counted`.
    """
    import numpy as np

    parts = []
    for digests in tables.values():
        order = np.argsort(digests, kind="stable")
        parts.append(np.stack([digests[order], order.astype(np.uint64)], axis=1).astype("<u8").tobytes())
    data = b"".join(parts)
    data += bytes(-len(data) % _BLOCK)
    sums = array("I", (zlib.crc32(data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK))).tobytes()
    fields = {
        "state": asdict(state),
        "origins": list(origins),
        "n_evaluations": n_evaluations,
        "counts": {name: len(digests) for name, digests in tables.items()},
        "sums": zlib.crc32(sums),
    }
    head = json.dumps(fields).encode()
    text = _HEAD.pack(MAGIC, len(head), zlib.crc32(head)) + head
    text += bytes(-len(text) % 8)
    target, temporary = beside(path, SUFFIX), beside(path, SUFFIX + ".tmp")
    with contextlib.suppress(OSError, StorageError, MemoryError):
        fd = durable.open_new(temporary, path)
        try:
            for part in (text, data, sums):
                durable.write(fd, part, temporary)
        except (OSError, MemoryError):
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        durable.replace(temporary, target)
