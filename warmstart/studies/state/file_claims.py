"""Claims of a local storage: locks on bytes of a file beside it, between processes and between the threads of one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
import time
import weakref
from pathlib import Path

from warmstart.history_store.errors import StorageError
from warmstart.history_store.file.durable import open_companion
from warmstart.studies.state.locks import SPAN

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's `struct flock`, where numbers have 64 bits: kind, whence, start, length, process."""
_ASK_AGAIN_S = (0.001, 0.02)
"""Seconds between two tries of who waits for another process, at first and at most."""
_LOOK_S = 1.0
"""Seconds after which a thread that waits for another one looks whether that is still there."""


class FileClaims:
    """Locks as locks on bytes of a file beside a local storage; the system drops them when their process ends.

    To the system all locks of a process are one's own. So the process keeps who of its own holds which, and has the file open once:
    closing it would drop the locks of all.
    """

    def __init__(self, path: Path, study: int, *, like: Path | None = None) -> None:
        """Open the file, made where it is not there, with the mode and the group of the storage `like`.

        Raises:
            StorageError: when that is not possible.
        """
        self._path, self._offset = path, study * SPAN
        try:
            self._file = _ClaimFile.opened(path, like)
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
        """Give a claim back."""
        self._file.release(self._offset + number, self)

    def close(self) -> None:
        """Return everything back."""
        self._file.close(self)


class _ClaimFile:
    """A file of claims as this process has it open, and who of the process holds which byte."""

    def __init__(self, fd: int) -> None:
        self._fd, self._users, self._changed = fd, 0, threading.Condition()
        self._held: dict[int, tuple[weakref.ref[FileClaims], int]] = {}

    @classmethod
    def opened(cls, path: Path, like: Path | None) -> _ClaimFile:
        """Return the file as it is open already, or open it."""
        with _OPENING:
            found = cls.known(path)
            if found is None:
                fd = open_companion(path, os.O_RDWR | os.O_CREAT, like)
                found = _OPEN[_identity(os.fstat(fd))] = cls(fd)
            found._users += 1
            return found

    @classmethod
    def known(cls, path: Path) -> _ClaimFile | None:
        """Return the file where this process has it open."""
        try:
            return _OPEN.get(_identity(path.stat()))
        except OSError:
            return None

    def take(self, place: int, claims: FileClaims, *, patience: bool) -> bool:
        """Lock a byte; tells whether that worked. Whoever holds it in this very thread is never waited for."""
        with self._changed:
            while (holder := self._holder(place)) is not None and holder[0] is not claims:
                if not patience:
                    return False
                if holder[1] == threading.get_ident():
                    return True
                self._changed.wait(_LOOK_S)
            self._held[place] = (weakref.ref(claims), threading.get_ident())
        try:
            is_locked = self._lock(place, patience=patience)
        except BaseException:
            self._forget(place)
            raise
        if not is_locked:
            self._forget(place)
        return is_locked

    def _lock(self, place: int, *, patience: bool) -> bool:
        """Lock a byte against other processes; tells whether that worked.

        Who waits asks again and again. The system knows locks by their process, so where two threads of one wait at once it may see a
        circle with another process where there is none, and refuse to wait (EDEADLK).
        """
        wait = _ASK_AGAIN_S[0]
        while True:
            with contextlib.suppress(BlockingIOError, PermissionError):
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return True
            if not patience:
                return False
            time.sleep(wait)
            wait = min(2 * wait, _ASK_AGAIN_S[1])

    def release(self, place: int, claims: FileClaims) -> None:
        """Unlock a byte that is held by these claims."""
        with self._changed:
            holder = self._holder(place)
            if holder is not None and holder[0] is claims:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, place)
                self._forget(place)

    def close(self, claims: FileClaims) -> None:
        """Unlock what is held by these claims, and close the file where they were the last."""
        with _OPENING:
            with self._changed:
                places = [place for place, (held, _) in self._held.items() if held() is claims]
            for place in places:
                self.release(place, claims)
            self._users -= 1
            if not self._users:
                for identity in [identity for identity, file in _OPEN.items() if file is self]:
                    del _OPEN[identity]
                os.close(self._fd)

    def is_held(self, place: int) -> bool:
        """Tell whether anybody, of this process or another one, has locked a byte."""
        with self._changed:
            return self._holder(place) is not None or _is_locked(self._fd, place)

    def _holder(self, place: int) -> tuple[FileClaims, int] | None:
        """Return who of this process holds a byte, and the thread that took it."""
        held, thread = self._held.get(place, (None, 0))
        claims = None if held is None else held()
        return None if claims is None else (claims, thread)

    def _forget(self, place: int) -> None:
        with self._changed:
            self._held.pop(place, None)
            self._changed.notify_all()


_OPENING = threading.RLock()
_OPEN: dict[tuple[int, int], _ClaimFile] = {}
"""Files of claims that this process has open, by device and inode."""


def _forget_all() -> None:
    """Begin anew in a forked child: the locks stay with the parent."""
    global _OPENING
    _OPENING = threading.RLock()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_all)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_locked(fd: int, place: int) -> bool:
    """Tell whether another process has locked a byte of a file."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)


def is_claimed(path: Path, study: int, number: int) -> bool | None:
    """Tell whether anybody has a claim in a file, without taking it; None where that cannot be told."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    place = study * SPAN + number
    with _OPENING:  # a file that is opened and closed here must not be open elsewhere in this process
        known = _ClaimFile.known(path)
        if known is not None:
            return known.is_held(place)
        try:
            with path.open("rb") as file:
                return _is_locked(file.fileno(), place)
        except OSError:
            return None
