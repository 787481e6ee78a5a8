"""Fingerprints: names of a collection by its content, equal on every machine and in every order of files.

``content:`` covers every byte of every file. ``listing:`` covers the sorted relative paths, the byte sizes, and the
bytes of at most 400 files chosen by the hash of their path: enough for the key of a cache, and quick for a million
files. Collections in memory have rows instead of files; there both cover every row, in any order.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import os
import stat
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.images import FingerprintKind

Blocks = Iterable[tuple[int, Callable[[NDArray[np.int64]], NDArray[Any]]]]
"""Blocks of rows: their number, and a function that returns rows by number."""
SAMPLED_FILES = 400
_CHUNK_BYTES = 1 << 20
"""Rows are hashed in pieces that stay in the processor's cache."""
_UNREADABLE = b"unreadable"
_LONGEST_COMPOSED = 1000


def file_fingerprint(kind: FingerprintKind, root: str, names: Sequence[str], *, largest: float = math.inf) -> str:
    """Fingerprint files; one that cannot be read counts as unreadable.

    Args:
        kind: ``listing`` or ``content``.
        root: folder, or a single file when `names` is ``[""]``.
        names: paths below the folder, with ``/``.
        largest: bytes of a file that is read; larger ones count as unreadable.
    """
    return named_fingerprint(
        kind,
        names,
        size_of=lambda name: _stat(root, name)[0],
        digest_of=lambda name: _file_digest(_join(root, name), largest),
    )


def named_fingerprint(
    kind: FingerprintKind,
    names: Sequence[str],
    *,
    size_of: Callable[[str], int],
    digest_of: Callable[[str], bytes | None],
) -> str:
    """Fingerprint named contents as `file_fingerprint` does files, so that an archive equals its folder.

    Args:
        kind: ``listing`` or ``content``.
        names: paths with ``/``.
        size_of: bytes of one.
        digest_of: SHA-256 of its bytes; None = it cannot be read.
    """
    whole = hashlib.sha256(f"warmstart files {kind} 1".encode())
    chosen = keyed = sorted(zip([_key(name) for name in names], names, strict=True))
    if kind == "listing":
        for key, name in keyed:
            whole.update(b"%s\0%d\0" % (key, size_of(name)))
        # Chosen by a hash of the path: the same files on every machine, spread over all folders.
        if len(keyed) > SAMPLED_FILES:
            chosen = sorted(heapq.nsmallest(SAMPLED_FILES, keyed, key=lambda pair: (zlib.crc32(pair[0]), pair[0])))
    for key, name in chosen:
        digest = digest_of(name)
        whole.update(key + b"\0" + (_UNREADABLE if digest is None else digest))
    return f"{kind}:{whole.hexdigest()[:40]}"


def file_signature(root: str, names: Sequence[str]) -> str:
    """Return a signature of files by path, size and time of change, without opening them; for one process."""
    whole = hashlib.sha256(root.encode("utf-8", "surrogateescape"))
    for name in names:
        size, changed = _stat(root, name)
        whole.update(b"%s\0%d %d\0" % (name.encode("utf-8", "surrogateescape"), size, changed))
    return whole.hexdigest()


def row_fingerprint(
    kind: FingerprintKind,
    blocks: Blocks,
    labels: NDArray[np.int64],
    class_names: Sequence[str],
) -> str:
    """Fingerprint pictures in memory with their labels, whatever the order of the rows.

    `listing` adds up a 64-bit non-linear hash a row (fast, not meant against forgery); `content` hashes the sorted
    SHA-256 of the rows.

    Args:
        kind: ``listing`` or ``content``.
        blocks: of rows.
        labels: of all rows, block after block.
        class_names: by label.
    """
    whole = hashlib.sha256(f"warmstart rows {kind} 1\0{len(labels)}\0".encode())
    digests: list[bytes] = []
    total = 0
    start = 0
    for part in _pieces(blocks):
        codes = labels[start : start + len(part)]
        start += len(part)
        shape = _shape(part)
        if kind == "content":
            names = [class_names[code].encode("utf-8", "surrogatepass") for code in codes]
            digests += [
                hashlib.sha256(b"\0".join((shape, name, row.data))).digest()
                for row, name in zip(part, names, strict=True)
            ]
        else:
            total += int(_row_keys(part, codes, zlib.crc32(shape)).sum(dtype=np.uint64))
    for name, count in zip(class_names, np.bincount(labels, minlength=len(class_names)), strict=True):
        whole.update(f"{name}\0{count}\0".encode("utf-8", "surrogatepass"))
    whole.update(b"".join(sorted(digests)) or (total % 2**64).to_bytes(8, "little"))
    return f"{kind}:{whole.hexdigest()[:40]}"


def row_signature(blocks: Blocks, labels: NDArray[np.int64], class_names: Sequence[str]) -> str:
    """Return a signature of pictures in memory with their labels, in the order of the rows."""
    whole = hashlib.sha256(repr(tuple(class_names)).encode("utf-8", "surrogatepass"))
    whole.update(labels.tobytes())
    for part in _pieces(blocks):
        whole.update(_shape(part))
        whole.update(part.data)
    return whole.hexdigest()


def _pieces(blocks: Blocks) -> Iterator[NDArray[Any]]:
    """Yield the rows block by block, in pieces that stay in the processor's cache."""
    for n, rows in blocks:
        step = max(1, _CHUNK_BYTES // rows(np.arange(1)).nbytes)
        for first in range(0, n, step):
            yield np.ascontiguousarray(rows(np.arange(first, min(first + step, n))))


def _shape(rows: NDArray[Any]) -> bytes:
    return f"{rows.shape[1:]} {rows.dtype.str}".encode()


def _row_keys(rows: NDArray[Any], labels: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """Hash rows to 64 bits each: a random odd combination of their words, then mixed (splitmix64) with the label."""
    flat = rows.reshape(len(rows), -1).view(np.uint8)
    missing = -flat.shape[1] % 8
    words = (np.pad(flat, ((0, 0), (0, missing))) if missing else flat).view(np.uint64)
    weights = np.random.Generator(np.random.PCG64(20)).integers(0, 2**63, words.shape[1], dtype=np.uint64) * np.uint64(
        2
    )
    # The shift carries high bytes down, where the product keeps all of them.
    keys: NDArray[np.uint64] = np.einsum("nw,w->n", words ^ (words >> np.uint64(29)), weights + np.uint64(1))
    keys ^= labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def composed(name: str) -> str:
    """Return a name in Unicode's composed form: a letter with its accent is one character."""
    # The time of long runs of accents grows with their square.
    return unicodedata.normalize("NFC", name) if len(name) <= _LONGEST_COMPOSED else name


def _key(name: str) -> bytes:
    """Return a path as bytes that are the same on every machine: composed Unicode."""
    return (name if name.isascii() else composed(name)).encode("utf-8", "surrogateescape")


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root


def _stat(root: str, name: str) -> tuple[int, int]:
    try:
        status = os.stat(_join(root, name))  # noqa: PTH116 - a Path for each of a million files costs seconds
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def _file_digest(path: str, largest: float) -> bytes:
    try:
        with os.fdopen(system.open_descriptor(path, os.O_RDONLY), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
                return _UNREADABLE
            # Files of the system have no size, and some no end.
            return (hashlib.file_digest(file, "sha256") if status.st_size else hashlib.sha256()).digest()
    except OSError:
        return _UNREADABLE
