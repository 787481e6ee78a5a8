"""The file of a bundle: a header, then the sorted records; text, or compressed.

The header holds the SHA-256 of all that follows, so a file of another name or compression is the same bundle if its header
says so. Reading runs no code and is bounded in size.
"""

import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO

from warmstart.history_store.bundle.records import (
    LARGEST,
    Record,
    SharedRun,
    SharedSpace,
    canonical,
    is_sound,
    parse,
)
from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    HistoryVersionError,
    MissingPathError,
    UsageError,
)
from warmstart.history_store.file import durable
from warmstart.history_store.limits import Limit

FORMAT = "warmstart-bundle"
VERSION = 1
SUFFIX = ".warmstart.gz"
BYTES = Limit("WARMSTART_MAX_BUNDLE_BYTES", 2**29, "unpacked bytes in a bundle")
MOST_LINE = 2**22
"""Bytes of one record, at most."""
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Bundle:
    """A set of records. Two bundles are merged by the union of their sets.

    Attributes:
        lines: the records, each in its canonical form.
    """

    lines: frozenset[str]

    @cached_property
    def id(self) -> str:
        """Return the SHA-256 of the records in order, 64 hexadecimal digits."""
        return sha256(self._body).hexdigest()

    @cached_property
    def _body(self) -> bytes:
        return b"".join(line.encode() + b"\n" for line in sorted(self.lines))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Return the parsed records in their order.

        Raises:
            DataError: one is not what a record is.
        """
        return tuple(parse(line, f"record {number}") for number, line in enumerate(sorted(self.lines), start=1))

    def __or__(self, other: "Bundle") -> "Bundle":
        return Bundle(self.lines | other.lines)

    def to_bytes(self) -> bytes:
        """Return the whole file, not compressed."""
        header = {"format": FORMAT, "version": VERSION, "records": len(self.lines), "sha256": self.id}
        return canonical(header).encode() + b"\n" + self._body


def write_bundle(bundle: Bundle, out: str | Path) -> Path:
    """Write a bundle durably.

    Args:
        bundle: the records.
        out: a file, compressed where its name ends in ``.gz``; or a folder, where the file is named by its content.

    Returns: the file. An existing one with the same content is left as it is.

    Raises:
        UsageError: another file is there.
        MissingPathError: a folder that is not there.
        StorageError: it cannot be written.
    """
    path = Path(out)
    is_folder = path.is_dir() or str(out).endswith(("/", os.sep))
    path = path / f"{bundle.id[:32]}{SUFFIX}" if is_folder else path
    if path.exists():
        with contextlib.suppress(DataError, HistoryDamagedError, HistoryVersionError):
            if read_bundle(path).id == bundle.id:
                return path
        msg = f"{path}: expected a path where nothing lies, got an existing file. Choose another name; nothing was changed."
        raise UsageError(msg)
    if not path.parent.is_dir():
        msg = f"{path.parent}: expected a folder to write into, got none there. Make it first."
        raise MissingPathError(msg)
    data = bundle.to_bytes()
    packed = gzip.compress(data, 9, mtime=0) if path.name.endswith(".gz") else data
    with durable.storage_errors(path):
        durable.write_file(path, packed)
    return path


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle and check its digest and every record.

    Raises:
        MissingPathError: nothing there.
        HistoryDamagedError: truncated, altered or no bundle.
        HistoryVersionError: written by a newer version.
        DataError: larger than the limit, or a record that is none although the digest fits.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"{path}: expected a bundle, got {'a folder' if path.is_dir() else 'no such file'}. Check the path; `warmstart history bundle` writes one."
        raise MissingPathError(msg)
    try:
        with path.open("rb") as file, _open_unpacked(file) as stream:
            lines = tuple(_read_lines(stream, path))
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, HistoryDamagedError | HistoryVersionError):
            raise
        raise _damage_error(
            path, f"a file that cannot be read whole ({str(error)[:80] or type(error).__name__})"
        ) from error
    bundle = Bundle(frozenset(lines))
    try:
        spaces = [record for record in bundle.records if isinstance(record, SharedSpace)]
    except DataError as error:
        msg = f"{path}: {error}"
        raise DataError(msg) from error
    if (number := next((n for n, record in enumerate(bundle.records, 1) if not is_sound(record)), None)) is not None:
        msg = f"{path}: record {number}: expected numbers below {LARGEST:g}, got larger ones. Ask for the bundle again."
        raise DataError(msg)
    if len(spaces) != 1 and any(isinstance(record, SharedRun) for record in bundle.records):
        msg = f"{path}: expected runs over one space, got {len(spaces)} spaces. Ask for the bundle again."
        raise DataError(msg)
    return bundle


@contextlib.contextmanager
def _open_unpacked(file: IO[bytes]) -> Iterator[IO[bytes]]:
    start = file.read(2)
    file.seek(0)
    if start != _GZIP:
        yield file
        return
    with gzip.open(file) as stream:
        yield io.BufferedReader(stream)


def _read_lines(stream: IO[bytes], path: Path) -> Iterable[str]:
    """Yield the records, checked against the header, without more than the limit in memory."""
    n_records, digest = _read_header(stream.readline(MOST_LINE), path)
    limit = BYTES.value()
    actual, size, last = sha256(), 0, ""
    for _ in range(n_records):
        raw = stream.readline(MOST_LINE)
        size += len(raw)
        if size > limit:
            msg = f"{path}: expected at most {limit:,} {BYTES.unit}, got more. Where it is right, set {BYTES.variable} to a larger number; else leave it out."
            raise DataError(msg)
        actual.update(raw)
        try:
            line = raw.decode()[:-1] if raw.endswith(b"\n") else None
        except UnicodeDecodeError:
            line = None
        if line is None or line <= last:
            raise _damage_error(path, f"{raw[:40]!r} in place of a record")
        last = line
        yield line
    if actual.hexdigest() != digest or stream.read(1):
        raise _damage_error(path, "other content")


def _read_header(raw: bytes, path: Path) -> tuple[int, str]:
    try:
        values = json.loads(raw)
        kind, version = values["format"], values["version"]
        if kind == FORMAT and version == VERSION:
            return max(int(values["records"]), 0), str(values["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise _damage_error(path, f"a file that begins with {raw[:40]!r}") from error
    if kind == FORMAT and isinstance(version, int) and version > VERSION:
        msg = f"{path}: expected a bundle of version {VERSION}, got version {version}. Upgrade warmstart."
        raise HistoryVersionError(msg)
    raise _damage_error(path, f"format {str(kind)[:40]!r}, version {str(version)[:20]!r}")


def _damage_error(path: Path, got: str) -> HistoryDamagedError:
    msg = f"{path}: expected a whole bundle as `warmstart history bundle` writes it, got {got}. It is damaged or no bundle: fetch it again, or ask who shared it."
    return HistoryDamagedError(msg)
