"""The journal beside a history: one checksummed line an operation, synced before the operation is acknowledged.

A line is `crc32 SP json LF`, the checksum eight hexadecimal digits over the JSON bytes. The first line names the
history. Every line is synced before the next is written, so only the last one can be torn.
"""

import contextlib
import json
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from warmstart.history_store.errors import DataError, HistoryDamagedError, HistoryVersionError, StorageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.lock import is_at
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.limits import JOURNAL_BYTES

VERSIONS = (1, 2)
"""1: journal of a file without a salt, written by version 0.1; 2: the header names the salt."""
_LONG, _LONGEST, _SHARE = 256 << 10, 4 << 20, 1000
_SERIALS = 2**63


def most_bytes(file_size: int) -> int:
    """Return the size beyond which a journal is written into its file when its writer closes."""
    # Each opening reads the whole journal; a large file takes longer to rewrite, so its journal may grow further.
    return min(max(file_size // _SHARE, _LONG), _LONGEST)


@dataclass(frozen=True, slots=True)
class JournalText:
    """Content of a journal.

    Attributes:
        header: the first line; None = no line is whole.
        operations: the others, in file order.
        end: number of bytes up to the end of the last whole line.
        torn: the last line was cut off by a crash; nothing acknowledged is in it.
        damaged: numbers of the lines, from 1, that are whole and do not match their checksum.
        file: device, inode and size of the file; empty = there is none.
    """

    header: dict[str, Any] | None
    operations: tuple[dict[str, Any], ...]
    end: int
    torn: bool
    damaged: tuple[int, ...]
    file: tuple[int, ...] = ()

    @property
    def salt(self) -> str:
        """Return the salt of the file generation to which the journal belongs; empty for version 1."""
        return "" if self.header is None else str(self.header.get("salt", ""))

    def after(self, serial: int) -> list[dict[str, Any]]:
        """Return the operations that a file of this serial number lacks."""
        return [operation for operation in self.operations if operation["serial"] > serial]


def parse(data: bytes) -> JournalText:
    """Parse the bytes of a journal; never fails.

    The last line is torn if it has no line end, or holds zero bytes (a power cut kept its blocks from the disk).
    """
    *lines, rest = data.split(b"\n")
    torn = bool(rest)
    if lines and not _parse_line(lines[-1]) and b"\0" in lines[-1]:
        torn = True
        lines.pop()
    header: dict[str, Any] | None = None
    operations: list[dict[str, Any]] = []
    damaged: list[int] = []
    end = 0
    for number, line in enumerate(lines, start=1):
        end += len(line) + 1
        values = _parse_line(line)
        if values is None:
            damaged.append(number)
        elif number == 1:
            header = values
        elif _is_operation(values):
            operations.append(values)
        else:
            damaged.append(number)
    return JournalText(header, tuple(operations), end, torn, tuple(damaged))


def load(path: Path) -> JournalText:
    """Read a journal file; a missing one is empty.

    Raises:
        HistoryDamagedError: the journal is no ordinary file, or larger than its limit.
        StorageError: it may not be read, or there is no memory for it.
    """
    try:
        with os.fdopen(durable.open_companion(path, os.O_RDONLY), "rb") as file:
            JOURNAL_BYTES.check(os.fstat(file.fileno()).st_size, str(path))
            data = file.read()
            status = os.fstat(file.fileno())
            return replace(parse(data), file=(status.st_dev, status.st_ino, len(data)))
    except FileNotFoundError:
        return parse(b"")
    except MemoryError as error:
        msg = f"{path}: expected memory to read the journal, got none left. End other programs and repeat."
        raise StorageError(msg) from error
    except (StorageError, DataError) as error:
        raise HistoryDamagedError(str(error)) from error
    except OSError as error:
        msg = f"{path}: expected a journal that may be read, got: {error.strerror}. Change its permissions: the history is not whole without it."
        raise StorageError(msg) from error


def check(text: JournalText, history: tuple[str, int, str], path: Path, hint: str) -> None:
    """Check that a journal belongs to a history and is whole.

    Args:
        text: of the journal.
        history: id, serial number and salt of the file.
        path: of the journal.
        hint: how to restore the history, for a message.

    Raises:
        HistoryDamagedError: whole lines do not match their checksums or are no operations, or the journal belongs to
            another history, or to another copy of this one.
        HistoryVersionError: written by a newer version.
    """
    history_id, serial, salt = history
    if text.damaged:
        msg = f"{path}: expected whole operations that match their checksums, got altered {'line' if len(text.damaged) == 1 else 'lines'} {', '.join(map(str, text.damaged))}. {hint}"
        raise HistoryDamagedError(msg)
    if text.header is None:
        return
    if text.header.get("journal") not in VERSIONS:
        msg = (
            f'{path}: expected journal version "{VERSIONS[-1]}", got "{text.header.get("journal")}". Upgrade warmstart.'
        )
        raise HistoryVersionError(msg)
    if text.header.get("history") != history_id:
        msg = f"{path}: expected the journal of history {history_id}, got that of {text.header.get('history')}. Move it away, or put its own history file back."
        raise HistoryDamagedError(msg)
    if not belongs(text, serial, salt):
        msg = f"{path}: expected the journal of this file ({salt or 'without a salt'}), got one that goes on from another copy of the history ({text.salt or 'without a salt'}). Put that copy back, or move the journal away."
        raise HistoryDamagedError(msg)


def belongs(text: JournalText, serial: int, salt: str) -> bool:
    """Return whether a journal belongs to the file of this salt, or holds nothing that the file lacks."""
    return text.salt == salt or not text.after(serial)


def checksum(path: Path, size: int) -> int | None:
    """Return the CRC-32 of the first `size` bytes of a journal; None if it is shorter or cannot be read."""
    if not size:
        return 0
    try:
        with os.fdopen(durable.open_companion(path, os.O_RDONLY), "rb") as file:
            data = file.read(size)
    except (OSError, StorageError, MemoryError):
        return None
    return zlib.crc32(data) if len(data) == size else None


class JournalWriter:
    """An open journal.

    Args:
        path: of the journal; a missing or empty one is created with its header.
        history_id: of its history.
        text: of the journal; a torn line at its end is cut off.
        salt: of the file to which it belongs; empty for a file without one.
        history: path of the history, which gives the journal its mode and group.

    Raises:
        StorageError: the journal was written or replaced since it was read.
    """

    def __init__(
        self, path: Path, history_id: str, text: JournalText, *, salt: str = "", history: Path | None = None
    ) -> None:
        self.path = path
        self.size = text.file[2] if text.file else 0
        self.uncut = False
        # The journal was removed since it was read; opening would create a new one.
        if text.file and not os.path.lexists(path):
            self._refuse_journal("none")
        self._fd = durable.open_append(path, history)
        try:
            status = os.fstat(self._fd)
            if text.file[:2] not in ((), (status.st_dev, status.st_ino)):
                self._refuse_journal("another file")
            self._check()
            if text.end != self.size:
                durable.truncate(self._fd, text.end, path)
                durable.sync(self._fd, path)
                self.size = text.end
            # The header is synced before any line: a power cut must not leave a line behind a torn header.
            if self.size == 0:
                self._write(header(history_id, salt))
                durable.sync_folder(path.parent)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, text: str) -> None:
        """Write one operation and sync it.

        Raises:
            StorageError: it could not be written; the journal is as before.
        """
        self._check()
        self._write(line(text))
        self._check()

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def recover(self) -> None:
        """Cut off the remains of a failed write, if that was not possible at once.

        Raises:
            OSError: it still fails.
        """
        if self.uncut:
            durable.truncate(self._fd, self.size, self.path)
            durable.sync(self._fd, self.path)
            self.uncut = False

    def _check(self) -> None:
        """Check that the journal is still the file that was opened, and that nobody else wrote to it."""
        size = os.fstat(self._fd).st_size
        if not is_at(self._fd, self.path) or (size != self.size and not self.uncut):
            self._refuse_journal(
                f"{size:,} bytes" if is_at(self._fd, self.path) else "another file" if self.path.exists() else "none"
            )

    def _refuse_journal(self, got: str) -> NoReturn:
        msg = f"{self.path}: expected the journal that this writer opened, {self.size:,} bytes long, got {got}. Nothing more is written; open the history again."
        raise StorageError(msg)

    def _write(self, data: bytes) -> None:
        self.recover()
        # Set before the write: if it fails and cannot be undone at once, the next call cuts off the remains.
        self.uncut = True
        try:
            durable.write(self._fd, data, self.path)
            durable.sync(self._fd, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.recover()
            raise
        self.size += len(data)
        self.uncut = False


def line(text: str) -> bytes:
    """Return a line of the journal: checksum, blank, text."""
    data = text.encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


def header(history_id: str, salt: str = "") -> bytes:
    """Return the first line of a journal."""
    fields = {"journal": 2, "history": history_id, "salt": salt} if salt else {"journal": 1, "history": history_id}
    return line(json.dumps(fields))


def _parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if the checksum does not match or it cannot be read."""
    try:
        if len(raw) < 10 or raw[8:9] != b" " or int(raw[:8], 16) != zlib.crc32(raw[9:]):
            return None
        values = parse_stored_json(raw[9:])
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _is_operation(values: dict[str, Any]) -> bool:
    serial = values.get("serial")
    return type(serial) is int and 0 < serial < _SERIALS and isinstance(values.get("op"), str)
