"""One writer at a time: locks on `<file>.lock` and on the file itself, released by the system when their holder dies.

Every version locks the lock file. A person may remove or replace it, so the history file is locked too, where the
system has locks of open files (Linux): on a byte far behind its end, which no reader asks for. A lock counts only while
the open file is still the one of its name.
"""

import contextlib
import os
import struct
import time
import weakref
from pathlib import Path

from warmstart.history_store import system
from warmstart.history_store.errors import HistoryLockedError, StorageError
from warmstart.history_store.file.durable import beside, open_companion, storage_errors

_POLL_S = 0.02
_BYTE = 2**62
# struct flock of 64 bit: type, whence, start, length, process
_FLOCK = "hhqqi4x"
_live_locks: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


class WriterLock:
    """The exclusive right to write one history, held from construction to `release`.

    A child made by fork does not hold it: its copies of the descriptors are closed at once, so that a parent's
    death frees the history even while children live.

    Args:
        path: of the history, which need not exist.
        timeout: seconds to wait for another writer; 0 = not at all.

    Raises:
        HistoryLockedError: another writer still holds it after `timeout`.
        HistoryReadOnlyError: the folder may not be written.
        StorageError: the lock is no ordinary file.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self.history = path
        self.path = beside(path, ".lock")
        self.pid = os.getpid()
        self._lock_fd: int | None = None
        self._history_fd: int | None = None
        self._new_fd: int | None = None
        try:
            with storage_errors(path):
                self._wait_for_locks(timeout)
        except BaseException:
            self.close_descriptors()
            raise
        _live_locks.add(self)

    @property
    def is_held(self) -> bool:
        """Return whether this process holds the lock."""
        return self._lock_fd is not None

    def check(self) -> None:
        """Check that the lock and the history are still the files that this writer locked.

        Raises:
            StorageError: one was removed or replaced; another writer may be at work.
        """
        for fd, path, noun in ((self._lock_fd, self.path, "lock"), (self._history_fd, self.history, "history")):
            if fd is not None and not is_at(fd, path):
                got = "another file" if path.exists() else "none"
                msg = f"{self.history}: expected the {noun} file that this writer locked, got {got} in its place ({path.name}). Nothing more is written, and all that was acknowledged before is kept in the file that was there; open the history again."
                raise StorageError(msg)

    def lock_new_file(self, temporary: Path) -> None:
        """Lock the file that will replace the history."""
        self._close_new_file()
        if not system.CAN_REPLACE_OPEN_FILES:
            return
        self._new_fd = system.open_descriptor(temporary, os.O_RDWR)
        if not _lock_file(self._new_fd):
            msg = f"{temporary}: expected a new file of this writer, got one that is locked by another. Run the command again."
            raise StorageError(msg)

    def adopt_new_file(self) -> None:
        """Keep the lock on the new file, which has replaced the history, and close the old one."""
        if self._new_fd is not None:
            old, self._history_fd, self._new_fd = self._history_fd, self._new_fd, None
            if old is not None:
                os.close(old)
        self.check()

    def release(self) -> None:
        """Release the locks; releasing twice is no error."""
        if self._lock_fd is not None:
            system.unlock(self._lock_fd)
        self.close_descriptors()

    def close_descriptors(self) -> None:
        """Close the descriptors without unlocking, as in a forked child."""
        self._close_new_file()
        for fd in (self._history_fd, self._lock_fd):
            if fd is not None:
                os.close(fd)
        self._lock_fd = self._history_fd = None

    def _close_new_file(self) -> None:
        if self._new_fd is not None:
            os.close(self._new_fd)
            self._new_fd = None

    def _wait_for_locks(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._try_locks():
            if time.monotonic() >= deadline:
                msg = f"{self.history}: expected to be the only writer, got a lock held by process {self._holder()} after {timeout:g} s. Wait for it to end, or raise lock_timeout."
                raise HistoryLockedError(msg)
            time.sleep(_POLL_S)
        # A file with a second name (a hard link) may be somebody else's: nothing is written to it.
        if self._lock_fd is not None and os.fstat(self._lock_fd).st_nlink == 1:
            # The number only serves a message; a full disk may refuse it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock_fd, 0)
                system.write_at(self._lock_fd, f"{self.pid}\n".encode(), 0)

    def _try_locks(self) -> bool:
        """Try to take both locks; return whether that worked."""
        if self._lock_fd is None:
            self._lock_fd = open_companion(self.path, os.O_RDWR | os.O_CREAT, self.history)
        if not system.try_lock(self._lock_fd):
            # Somebody removed the holder's lock file: open and wait for the new one instead.
            if not is_at(self._lock_fd, self.path):
                os.close(self._lock_fd)
                self._lock_fd = None
            return False
        if not is_at(self._lock_fd, self.path):
            os.close(self._lock_fd)
            self._lock_fd = None
            return False
        return self._try_history()

    def _try_history(self) -> bool:
        """Try to lock the history itself, if it exists; return whether that worked."""
        if self._history_fd is not None:
            os.close(self._history_fd)
            self._history_fd = None
        if not system.CAN_REPLACE_OPEN_FILES:
            return True
        try:
            self._history_fd = system.open_descriptor(self.history, os.O_RDWR)
        except (FileNotFoundError, IsADirectoryError):
            return True
        return _lock_file(self._history_fd) and is_at(self._history_fd, self.history)

    def _holder(self) -> str:
        text = b"" if self._lock_fd is None else system.read_at(self._lock_fd, 32, 0)
        return text.decode("ascii", "replace").strip() or "unknown"


def is_at(fd: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    opened = os.fstat(fd)
    try:
        current = path.stat()
    except OSError:
        return False
    return (opened.st_dev, opened.st_ino) == (current.st_dev, current.st_ino)


def _lock_file(fd: int) -> bool:
    """Try to lock the byte of writers in an open file; true also if the system has no such lock."""
    fcntl = system.fcntl
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return True
    request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _BYTE, 1, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno not in system.BUSY:
            # A file system without such locks: only the lock file protects.
            return True
        holder = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request))
        # Where flock is made of these locks (NFS), a reader's lock covers the whole file and is none of a writer.
        return not (holder[0] == fcntl.F_WRLCK and holder[2] == _BYTE)
    return True


def _close_locks_in_child() -> None:
    for lock in list(_live_locks):
        lock.close_descriptors()


system.after_fork(_close_locks_in_child)
