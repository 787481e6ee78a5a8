"""Journal file of Optuna with checksums, to detect altered and lost lines.

Optuna's format has no checksums. Each line written here ends with one more key, which Optuna ignores: the CRC-32 of all
bytes of the file before it, and of the line up to that key. Lines of other programs lack the key; the next line written
here covers them too.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from optuna.storages.journal import BaseJournalBackend

from warmstart.history_store.errors import StorageError
from warmstart.history_store.json_text import parse_json

KEY = "warmstart:crc"
_MARK = f',"{KEY}":'.encode()


class Lock(Protocol):
    """Lock against other writers."""

    def acquire(self) -> bool:
        """Wait for the lock."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


class JournalFile(BaseJournalBackend):
    """Backend for Optuna's `JournalStorage`, with checksums.

    Args:
        path: of the file, which must exist.
        lock: of its writers; None = only read.
    """

    def __init__(self, path: Path, lock: Lock | None) -> None:
        self._path, self._lock = path, lock
        self._ends = [0]  # of the lines read so far, by their number
        self._sums = [0]  # CRC-32 of all bytes up to there

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the operations from a number on.

        Raises:
            StorageError: a line is altered, or one before it was altered or lost.
        """
        number = min(log_number_from, len(self._ends) - 1)
        with self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._ends[-1]:
                msg = f"{self._path}: expected a storage of studies that answers, got a journal of {size:,} bytes that had {self._ends[-1]:,}: lines were lost. Bring it back from a copy."
                raise StorageError(msg)
            file.seek(self._ends[number])
            for line in file:
                end = self._ends[number] + len(line)
                if end > size or not line.endswith(b"\n"):  # unfinished: of a writer at work, or a killed one
                    return
                log = self._read(line, number)
                if number + 1 == len(self._ends):
                    self._ends.append(end)
                    self._sums.append(zlib.crc32(line, self._sums[number]))
                number += 1
                if number > log_number_from:
                    yield log

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations durably, each with its checksum.

        Raises:
            StorageError: the journal is damaged before its end.
            OSError: it could not be written.
        """
        assert self._lock is not None  # noqa: S101 - opened for writing
        self._lock.acquire()
        try:
            for _ in self.read_logs(len(self._ends) - 1):
                pass  # update the checksum by lines that others wrote meanwhile
            total, text = self._sums[-1], b""
            for log in logs:
                body = json.dumps(log, separators=(",", ":")).encode()[:-1]
                line = body + _MARK + b"%d}\n" % zlib.crc32(body, total)
                total = zlib.crc32(line, total)
                text += line
            with self._path.open("ab") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        finally:
            with contextlib.suppress(OSError):
                self._lock.release()

    def _read(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            log = parse_json(line)
        except (ValueError, RecursionError):
            log = None
        if not isinstance(log, dict) or "op_code" not in log:
            msg = f"{self._path}: expected a storage of studies that answers, got no operation of Optuna in line {number + 1}. Bring it back from a copy, or name another file."
            raise StorageError(msg)
        checksum = log.pop(KEY, None)
        if checksum is not None and checksum != zlib.crc32(line[: line.rfind(_MARK)], self._sums[number]):
            msg = f"{self._path}: expected a storage of studies that answers, got line {number + 1}, which does not match its checksum: it was altered, or a line before it was altered or lost. Bring the file back from a copy."
            raise StorageError(msg)
        return log
