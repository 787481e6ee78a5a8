"""Claims of a local storage: locks on bytes of a companion file, between processes and threads."""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
import weakref
from pathlib import Path

from warmstart.history_store import system
from warmstart.history_store.errors import StorageError
from warmstart.history_store.file.durable import open_companion
from warmstart.studies.state.locks import SPAN

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's `struct flock` on 64-bit machines: kind, whence, start, length, process."""
_RETRY_S = (0.001, 0.02)
"""Seconds between two tries to lock a byte that another process holds: at first, and at most."""
_RECHECK_S = 1.0
"""Seconds after which a thread that waits for another thread checks whether that still holds its claim."""


class FileClaims:
    """Claims as locks on bytes of a file beside a local storage; the system releases them when their process ends.

    The system assigns locks to processes. So the process itself records which of its `FileClaims` holds which byte, and
    opens the file only once: closing any descriptor of it would release all locks of the process.
    """

    def __init__(self, path: Path, study: int, *, like: Path | None = None) -> None:
        """Open the file; create it with the mode and the group of the storage `like`.

        Raises:
            StorageError: that is not possible.
        """
        self._path, self._offset = path, study * SPAN
        try:
            self._file = _ClaimFile.open(path, like)
        except StorageError:
            raise
        except OSError as error:
            msg = f"{path}: expected a place for the locks of trials, got {error.strerror}. Give `storage` a folder that can be written."
            raise StorageError(msg) from error

    def take(self, number: int, *, patience: bool = False) -> bool:
        """Take a claim; see `TrialLocks`."""
        try:
            return self._file.take(self._offset + number, self, patience=patience)
        except OSError as error:
            msg = f"{self._path}: expected a file system that locks files, got {error.strerror}. Put `storage` on a local disk, or name a database."
            raise StorageError(msg) from error

    def release(self, number: int) -> None:
        """Release a claim."""
        self._file.release(self._offset + number, self)

    def close(self) -> None:
        """Release all claims."""
        self._file.close(self)


class _ClaimFile:
    """The open file of claims of this process, and the holder of each byte within the process."""

    def __init__(self, fd: int) -> None:
        self._fd, self._users, self._changed = fd, 0, threading.Condition()
        self._held: dict[int, tuple[weakref.ref[FileClaims], int]] = {}

    @classmethod
    def open(cls, path: Path, like: Path | None) -> _ClaimFile:
        """Return the file if it is open already, else open it."""
        with _OPENING:
            claim_file = cls.find_open(path)
            if claim_file is None:
                fd = open_companion(path, os.O_RDWR | os.O_CREAT, like)
                claim_file = _OPEN[_identity(os.fstat(fd))] = cls(fd)
            claim_file._users += 1
            return claim_file

    @classmethod
    def find_open(cls, path: Path) -> _ClaimFile | None:
        """Return the file if this process has it open, else None."""
        try:
            return _OPEN.get(_identity(path.stat()))
        except OSError:
            return None

    def take(self, byte: int, claims: FileClaims, *, patience: bool) -> bool:
        """Lock a byte; return whether that succeeded. A holder in the same thread is never waited for: a deadlock."""
        with self._changed:
            while (holder := self._holder(byte)) is not None and holder[0] is not claims:
                if not patience:
                    return False
                if holder[1] == threading.get_ident():
                    return True
                self._changed.wait(_RECHECK_S)
            self._held[byte] = (weakref.ref(claims), threading.get_ident())
        try:
            is_locked = self._lock(byte, patience=patience)
        except BaseException:
            self._forget(byte)
            raise
        if not is_locked:
            self._forget(byte)
        return is_locked

    def _lock(self, byte: int, *, patience: bool) -> bool:
        """Lock a byte against other processes; return whether that succeeded.

        It polls instead of waiting: the system knows locks by their process, so if two threads of one process wait at
        once it may see a deadlock with another process where there is none, and refuse to wait (EDEADLK).
        """
        wait = _RETRY_S[0]
        while True:
            if system.lock_byte(self._fd, byte):
                return True
            if not patience:
                return False
            time.sleep(wait)
            wait = min(2 * wait, _RETRY_S[1])

    def release(self, byte: int, claims: FileClaims) -> None:
        """Unlock a byte if these claims hold it."""
        with self._changed:
            holder = self._holder(byte)
            if holder is not None and holder[0] is claims:
                system.unlock_byte(self._fd, byte)
                self._forget(byte)

    def close(self, claims: FileClaims) -> None:
        """Unlock all bytes of these claims, and close the file after its last user."""
        with _OPENING:
            with self._changed:
                held_bytes = [byte for byte, (holder, _) in self._held.items() if holder() is claims]
            for byte in held_bytes:
                self.release(byte, claims)
            self._users -= 1
            if not self._users:
                for identity in [identity for identity, file in _OPEN.items() if file is self]:
                    del _OPEN[identity]
                os.close(self._fd)

    def is_held(self, byte: int) -> bool:
        """Tell whether a byte is locked, by this process or another."""
        with self._changed:
            return self._holder(byte) is not None or _is_locked(self._fd, byte)

    def _holder(self, byte: int) -> tuple[FileClaims, int] | None:
        """Return the holder of a byte in this process, and its thread; else None."""
        reference, thread = self._held.get(byte, (None, 0))
        claims = None if reference is None else reference()
        return None if claims is None else (claims, thread)

    def _forget(self, byte: int) -> None:
        with self._changed:
            self._held.pop(byte, None)
            self._changed.notify_all()


_CAN_ASK = sys.platform == "linux" and sys.maxsize > 2**32
"""Whether the layout of the question is known."""
_OPENING = threading.RLock()
_OPEN: dict[tuple[int, int], _ClaimFile] = {}
"""Open files of claims of this process, by device and inode."""


def _reset_after_fork() -> None:
    """Forget all files in a forked child: the locks stay with the parent."""
    global _OPENING
    _OPENING = threading.RLock()
    _OPEN.clear()


system.after_fork(_reset_after_fork)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_locked(fd: int, byte: int) -> bool:
    """Tell whether another process locked a byte of a file."""
    fcntl = system.fcntl
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, request))[0] != fcntl.F_UNLCK)


def is_claimed(path: Path, study: int, number: int) -> bool | None:
    """Tell whether a trial is claimed in a file, without claiming it; None if the system cannot tell."""
    if not _CAN_ASK:
        return None
    byte = study * SPAN + number
    with _OPENING:  # closing the file here would release this process's locks, if it were open elsewhere
        claim_file = _ClaimFile.find_open(path)
        if claim_file is not None:
            return claim_file.is_held(byte)
        try:
            with path.open("rb") as file:
                return _is_locked(file.fileno(), byte)
        except OSError:
            return None
