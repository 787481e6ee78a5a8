"""Whether a process has a transaction open that writes, looked at from outside while the process is stopped."""

import fcntl
import os
import struct
from pathlib import Path
from typing import Protocol

WAL_WRITE_LOCK = 120
"""Byte of the file `-shm` beside an SQLite database that its one writer holds (sqlite.org/walformat.html)."""
_FLOCK = "hhqqi4x"


class OpenWrites(Protocol):
    """Looks for open writes."""

    def is_open(self, number: int, pid: int) -> bool:
        """Tell whether the server of that number and process has one open."""
        ...


class FileWrites:
    """Of an SQLite database."""

    def __init__(self, path: Path) -> None:
        self._shm = Path(f"{path}-shm")

    def is_open(self, number: int, pid: int) -> bool:  # noqa: ARG002  as the protocol has it
        """Tell who holds the lock of the writer; asking takes none."""
        try:
            file = os.open(self._shm, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, WAL_WRITE_LOCK, 1, 0)
            kind, _, _, _, holder = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        finally:
            os.close(file)
        return bool(kind != fcntl.F_UNLCK and holder == pid)


class DatabaseWrites:
    """Of a PostgreSQL database; servers are known by the names of their sessions."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name

    def is_open(self, number: int, pid: int) -> bool:  # noqa: ARG002
        """Tell whether a session has a transaction with changes."""
        import psycopg

        question = "select count(*) from pg_stat_activity where application_name = %s and backend_xid is not null"
        with psycopg.connect(self._url) as session:
            row = session.execute(question, (self._name.format(number),)).fetchone()
        return row is not None and row[0] > 0
