"""The index beside a history: what one more run has to be compared with, found without reading the history.

It is made by a writer that has the whole history in hand, and holds for one state of the file and its backup. It says
nothing that the file does not say; without it, or where it does not fit, the file itself is read. Only Python's own
library is needed to read it: numpy and HDF5 take longer to load than a run takes to append.

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
    """What an index holds for.

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
    """Return what changes whenever a file is written or replaced; empty where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def digest_name(name: str) -> int:
    """Digest the name of a dataset."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def digest_config(config: Config) -> int:
    """Digest a configuration: equal ones alike, whatever the types of equal numbers."""
    text = json.dumps(sorted((name, _plain(value)) for name, value in config.items()))
    return digest_name(text)


def _plain(value: Value) -> str:
    if isinstance(value, str):
        return f"s{value}"
    is_whole = isinstance(value, int) or value.is_integer()
    return f"i{int(value)}" if is_whole else f"f{value!r}"


def digest_run(dataset: int, config: int, seed: int, origin: int) -> int:
    """Digest a run by the numbers of its dataset, configuration and origin; `digest_runs` does the same with arrays."""
    found = 0
    for value in (dataset, config, seed, origin):
        found = (found ^ value) * _STREAM[1] & _MASK
        found = (found ^ found >> 29) + _STREAM[0] & _MASK
        found = found * _STREAM[2] & _MASK
        found ^= found >> 32
    return found


def digest_runs(columns: Sequence[Any]) -> Any:
    """Digest many runs at once, given `n` integers of datasets, configurations, seeds and origins: `n` uint64."""
    import numpy as np

    found = np.zeros(len(columns[0]), np.uint64)
    first, second, third = (np.uint64(number) for number in _STREAM)
    with np.errstate(over="ignore"):
        for column in columns:
            found = (found ^ column.astype(np.uint64)) * second
            found = ((found ^ found >> np.uint64(29)) + first) * third
            found ^= found >> np.uint64(32)
    return found


class AppendIndex:
    """An open index.

    Args:
        path: of the history, links resolved.

    Attributes:
        state: of the files that it holds for.
        origins: of the runs, by their numbers.
        n_evaluations: up to the operation `state.counted`.

    Raises:
        ValueError: it is damaged, or of another version.
        OSError: there is none, or it may not be read.
        StorageError: something else has its name.
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
        about = parse_stored_json(head)
        state = about["state"]
        self.state = State(**{**state, **{key: tuple(state[key]) for key in ("journal", "file", "backup")}})
        self.origins: list[str] = about["origins"]
        self.n_evaluations = int(about["n_evaluations"])
        self._counts: dict[str, int] = about["counts"]
        sums, self._start = about["sums"], -(-(_HEAD.size + size) // 8) * 8
        n_blocks = -(-16 * sum(self._counts.values()) // _BLOCK)
        self._sums_at = self._start + n_blocks * _BLOCK
        if len(self._map) != self._sums_at + 4 * n_blocks or zlib.crc32(self._map[self._sums_at :]) != sums:
            msg = "an index of another length, or an altered one"
            raise ValueError(msg)
        self._known: set[int] = set()

    def close(self) -> None:
        """Close the file."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def find(self, table: str, digest: int) -> int | None:
        """Return the row of the first entry of a digest; None where there is none.

        Args:
            table: `names`, `configs` or `runs`.
            digest: of what is looked for.

        Raises:
            ValueError: a block that is read was altered.
        """
        first = 0
        for name, count in self._counts.items():
            if name == table:
                place = bisect_left(range(count), digest, key=lambda i: self._entry(first + i)[0])
                if place == count:
                    return None
                found, row = self._entry(first + place)
                return row if found == digest else None
            first += count
        return None

    def _entry(self, number: int) -> tuple[int, int]:
        block = 16 * number // _BLOCK
        at = self._start + block * _BLOCK
        if block not in self._known:
            (expected,) = struct.unpack_from("<I", self._map, self._sums_at + 4 * block)
            if zlib.crc32(self._map[at : at + _BLOCK]) != expected:
                msg = "an altered index"
                raise ValueError(msg)
            self._known.add(block)
        digest, row = struct.unpack_from("<QQ", self._map, self._start + 16 * number)
        return digest, row


def is_indexed(path: Path, state: State) -> bool:
    """Tell whether the index of a history holds for the files as they are, of which the journal may have grown."""
    try:
        with AppendIndex(path) as index:
            known = index.state
        is_whole = checksum(beside(path, ".journal"), known.journal[0]) == known.journal[1]
        return is_whole and replace(known, counted=state.counted, journal=state.journal) == state
    except (OSError, ValueError, StorageError):
        return False


def write_index(
    path: Path, state: State, tables: Mapping[str, Any], origins: Sequence[str], n_evaluations: int
) -> None:
    """Write the index of a history; where that cannot be done there is none.

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
    about = {
        "state": asdict(state),
        "origins": list(origins),
        "n_evaluations": n_evaluations,
        "counts": {name: len(digests) for name, digests in tables.items()},
        "sums": zlib.crc32(sums),
    }
    head = json.dumps(about).encode()
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
