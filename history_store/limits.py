"""Limits on the memory and time that one file of a dataset may take, and the variables that raise them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, UsageError

CELL_BYTES = 16
"""Memory that a cell of a table takes at least."""
RATIO = 100
"""Compressed data may always unpack to so many times their size."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a file.

    Attributes:
        variable: of the environment, that holds another number.
        default: if the variable is not set.
        unit: for people.
    """

    variable: str
    default: int
    unit: str

    def value(self) -> int:
        """Return the limit in force.

        Raises:
            UsageError: when the variable does not hold a positive whole number.
        """
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not text.isdecimal() or int(text) < 1:
            msg = f"${self.variable}: expected a positive whole number of {self.unit}, got {text!r}. Unset it for {self.default:,}."
            raise UsageError(msg)
        return int(text)

    def check(self, number: int, location: str, *, allowed: int = 0) -> None:
        """Raise if a number is above the limit.

        Args:
            number: units to be read.
            location: for errors.
            allowed: units that may always be read.

        Raises:
            DataError: names the limit and its variable.
        """
        limit = max(self.value(), allowed)
        if number > limit:
            msg = f"{location}: expected at most {limit:,} {self.unit}, got {number:,}. Where it is right, set {self.variable}={number}; else leave it out."
            raise DataError(msg)


PIXELS = Limit("WARMSTART_MAX_PIXELS", 100_000_000, "pixels in a picture")
FILE_BYTES = Limit("WARMSTART_MAX_PICTURE_BYTES", 2**30, "bytes in the file of a picture")
ARCHIVE_FILES = Limit("WARMSTART_MAX_ARCHIVE_FILES", 2_000_000, "files in an archive")
JOURNAL_BYTES = Limit("WARMSTART_MAX_JOURNAL_BYTES", 2**29, "bytes in the journal of a history")
_NOT_ORDINARY = "a pipe, a device or a folder"
UNPACKED = Limit("WARMSTART_MAX_UNPACKED_BYTES", 2**28, f"unpacked bytes, or {RATIO} times the packed ones")


def check_picture_file(path: str, location: str) -> None:
    """Raise if a file could take for ever to read: a pipe, a device, one of /proc, a huge sparse one.

    Raises:
        DataError: when it is one of these.
        OSError: when it is not there.
    """
    status = os.stat(path)  # noqa: PTH116  follows links, as reading does
    if not stat.S_ISREG(status.st_mode):
        msg = f"{location}: expected an ordinary file, got {_NOT_ORDINARY}. Remove it."
        raise DataError(msg)
    if not status.st_size:
        msg = f"{location}: an empty file"
        raise DataError(msg)
    FILE_BYTES.check(status.st_size, location)


def ordinary_file(path: Path) -> Path:
    """Return the path of a file of others, which can be opened: a pipe would wait for who writes into it.

    Raises:
        OSError: it is not there, or is a pipe, a device or a folder.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.ENXIO, _NOT_ORDINARY, str(path))
    return path


def first_bytes(path: Path, n_bytes: int) -> bytes:
    """Read the beginning of a file of others; raises OSError as `ordinary_file`, or where it cannot be read."""
    with ordinary_file(path).open("rb") as file:
        return file.read(n_bytes)


def check_unpacked(number: int, packed: int, location: str) -> None:
    """Raise if compressed data would unpack to far more than usual.

    Args:
        number: bytes unpacked.
        packed: bytes in the file.
        location: what an error names.

    Raises:
        DataError: names the limit and its variable.
    """
    UNPACKED.check(number, location, allowed=RATIO * packed)


def check_parquet(file: Any, groups: Iterable[int], packed: int, location: str) -> None:
    """Raise if one of some row groups of a Parquet file would unpack to far more than usual, or is damaged.

    Args:
        file: open, a `pyarrow.parquet.ParquetFile`.
        groups: numbers of the row groups.
        packed: bytes of the file.
        location: what an error names.

    Raises:
        DataError: names the limit and its variable.
        OSError: a damaged column, in Arrow's words.
    """
    for i in groups:
        group = file.metadata.row_group(i)
        check_unpacked(max(group.total_byte_size, 0), packed, f"{location} group {i + 1}")
        # A look at the columns of a damaged group ends the process; a read raises.
        next(file.iter_batches(batch_size=1, row_groups=[i]), None)
        columns = [group.column(j) for j in range(group.num_columns)]
        unpacked = sum(max(column.total_uncompressed_size, 0) for column in columns)
        check_unpacked(
            unpacked, sum(max(column.total_compressed_size, 0) for column in columns), f"{location} group {i + 1}"
        )
