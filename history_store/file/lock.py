"""One writer at a time: a lock on `<file>.lock`, released by the system when its holder dies."""

import contextlib
import errno
import fcntl
import os
import time
import weakref
from pathlib import Path

from history_store.errors import HistoryLockedError
from history_store.file.durable import beside, storage_errors

_POLL_S = 0.02
_held: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


class WriterLock:
    """The right to write one history, held from construction to `release`.

    A child made by fork does not hold it: its copy of the descriptor is closed at once, so that a parent's
    death frees the history even while children live.

    Args:
        path: of the history.
        timeout: seconds to wait for another writer; 0 = not at all.

    Raises:
        HistoryLockedError: another writer still holds it after `timeout`.
        HistoryReadOnlyError: the folder may not be written.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self.path = beside(path, ".lock")
        self.pid = os.getpid()
        self._fd: int | None = None
        with storage_errors(path):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._wait(fd, path, timeout)
            with contextlib.suppress(OSError):  # the number only serves a message; a full disk may refuse it
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{self.pid}\n".encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        _held.add(self)

    @property
    def held(self) -> bool:
        """Tell whether this process holds the lock."""
        return self._fd is not None

    def release(self) -> None:
        """Let the next writer in; releasing twice is no error."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.close_descriptor()

    def close_descriptor(self) -> None:
        """Forget the descriptor without unlocking: what a forked child does."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @staticmethod
    def _wait(fd: int, path: Path, timeout: float) -> None:
        give_up = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                    with storage_errors(path):
                        raise
                if time.monotonic() >= give_up:
                    holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                    msg = f"{path}: expected to be the only writer, got a lock held by process {holder} after {timeout:g} s. Wait for it to end, or raise lock_timeout."
                    raise HistoryLockedError(msg) from None
            else:
                return
            time.sleep(_POLL_S)


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.close_descriptor()


os.register_at_fork(after_in_child=_forget_in_child)
