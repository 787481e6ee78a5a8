"""One writer at a time: locks on `<file>.lock` and on the file itself, released by the system when their holder dies.

The lock file is what every version locks. A person may remove or replace it, so the history file is locked too, where
the system has locks of open files (Linux): on a byte far behind its end, which no reader asks for. A lock counts only
while the open file is still the one of its name.
"""

import contextlib
import errno
import fcntl
import os
import struct
import time
import weakref
from pathlib import Path

from warmstart.history_store.errors import HistoryLockedError, StorageError
from warmstart.history_store.file.durable import beside, open_companion, storage_errors

_POLL_S = 0.02
_BYTE = 2**62
_FLOCK = "hhqqi4x"  # struct flock of 64 bit: type, whence, start, length, process
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR)
_held: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


class WriterLock:
    """The right to write one history, held from construction to `release`.

    A child made by fork does not hold it: its copies of the descriptors are closed at once, so that a parent's
    death frees the history even while children live.

    Args:
        path: of the history, which need not exist.
        timeout: seconds to wait for another writer; 0 = not at all.

    Raises:
        HistoryLockedError: another writer still holds it after `timeout`.
        HistoryReadOnlyError: the folder may not be written.
        StorageError: what lies under the lock's name is no ordinary file.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self.history = path
        self.path = beside(path, ".lock")
        self.pid = os.getpid()
        self._fd: int | None = None
        self._file: int | None = None
        self._next: int | None = None
        try:
            with storage_errors(path):
                self._wait(timeout)
        except BaseException:
            self.close_descriptor()
            raise
        _held.add(self)

    @property
    def held(self) -> bool:
        """Tell whether this process holds the lock."""
        return self._fd is not None

    def check(self) -> None:
        """Check that lock and history are still the files that were locked.

        Raises:
            StorageError: one was removed or replaced; another writer may be at work.
        """
        for fd, path, what in ((self._fd, self.path, "lock"), (self._file, self.history, "history")):
            if fd is not None and not is_at(fd, path):
                got = "another file" if path.exists() else "none"
                msg = f"{self.history}: expected the {what} file that this writer locked, got {got} in its place ({path.name}). Nothing more is written, and all that was acknowledged before is kept in the file that was there; open the history again."
                raise StorageError(msg)

    def cover(self, temporary: Path) -> None:
        """Lock the file that is about to take the history's place."""
        self._drop_next()
        self._next = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
        if not _lock_file(self._next):
            msg = f"{temporary}: expected a new file of this writer, got one that is locked by another. Run the command again."
            raise StorageError(msg)

    def replaced(self) -> None:
        """Hold on to the new file, which is in its place now."""
        if self._next is not None:
            old, self._file, self._next = self._file, self._next, None
            if old is not None:
                os.close(old)
        self.check()

    def release(self) -> None:
        """Let the next writer in; releasing twice is no error."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.close_descriptor()

    def close_descriptor(self) -> None:
        """Forget the descriptors without unlocking: what a forked child does."""
        self._drop_next()
        for fd in (self._file, self._fd):
            if fd is not None:
                os.close(fd)
        self._fd = self._file = None

    def _drop_next(self) -> None:
        if self._next is not None:
            os.close(self._next)
            self._next = None

    def _wait(self, timeout: float) -> None:
        give_up = time.monotonic() + timeout
        while not self._try():
            if time.monotonic() >= give_up:
                msg = f"{self.history}: expected to be the only writer, got a lock held by process {self._holder()} after {timeout:g} s. Wait for it to end, or raise lock_timeout."
                raise HistoryLockedError(msg)
            time.sleep(_POLL_S)
        if self._fd is not None and os.fstat(self._fd).st_nlink == 1:  # else it is somebody else's file as well
            with contextlib.suppress(OSError):  # the number only serves a message; a full disk may refuse it
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, f"{self.pid}\n".encode(), 0)

    def _try(self) -> bool:
        """Try to take both locks; tells whether that worked."""
        if self._fd is None:
            self._fd = open_companion(self.path, os.O_RDWR | os.O_CREAT, self.history)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                raise
            if not is_at(self._fd, self.path):  # its holder's file was removed: wait for the one that is there
                os.close(self._fd)
                self._fd = None
            return False
        if not is_at(self._fd, self.path):
            os.close(self._fd)
            self._fd = None
            return False
        return self._try_file()

    def _try_file(self) -> bool:
        """Lock the history itself, where it is there."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        try:
            self._file = os.open(self.history, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, IsADirectoryError):
            return True
        return _lock_file(self._file) and is_at(self._file, self.history)

    def _holder(self) -> str:
        text = b"" if self._fd is None else os.pread(self._fd, 32, 0)
        return text.decode("ascii", "replace").strip() or "unknown"


def is_at(fd: int, path: Path) -> bool:
    """Tell whether an open file is still the one at a path."""
    mine = os.fstat(fd)
    try:
        there = path.stat()
    except OSError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _lock_file(fd: int) -> bool:
    """Lock the byte of writers in an open file; true also where the system has no such lock."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return True
    wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _BYTE, 1, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
    except OSError as error:
        if error.errno not in _BUSY:
            return True  # a file system without them: the lock file alone has to do
        found = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, wanted))
        # Where flock is made of these locks (NFS), a reader's lock covers the whole file and is none of a writer.
        return not (found[0] == fcntl.F_WRLCK and found[2] == _BYTE)
    return True


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.close_descriptor()


os.register_at_fork(after_in_child=_forget_in_child)
