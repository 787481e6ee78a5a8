"""What the operating system offers: the one module that knows Windows from POSIX systems.

What POSIX has and Windows has not is used by name here alone, and looked up when it is used: a system without `fcntl`
locks files by `msvcrt`, and one without owners, forks or folders that can be synced does without them.
"""

import errno
import getpass
import os
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


fcntl: Any = _module("fcntl")
resource: Any = _module("resource")
"""Modules of Python; None on Windows."""
msvcrt: Any = _module("msvcrt") if fcntl is None else None
"""Python's module on Windows, else None."""
_os: Any = os
HAS_PROCESS_TREES: bool = hasattr(os, "fork") and hasattr(os, "killpg")
"""Whether a process and all that it starts can be ended together."""
CAN_REPLACE_OPEN_FILES: bool = fcntl is not None
"""Whether a file that a process has open can be replaced or removed."""
SYNCABLE: int = os.O_RDONLY if hasattr(os, "O_DIRECTORY") else os.O_RDWR
"""Flag of `os.open` for a file that is to be synced: Windows syncs only what may be written."""
_FAR = 2**40
"""The byte that stands for a whole file where only bytes can be locked."""
_POLL_S = 0.02
BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR)
"""Errors of a lock that another has."""
_POSITION = threading.Lock()
"""Held while the position of a file is moved and used."""


def check_process_trees() -> None:
    """Raise if a process cannot be ended with all that it starts.

    Raises:
        UsageError: it cannot, as on Windows.
    """
    if not HAS_PROCESS_TREES:
        msg = "commands, several workers, collections and the service need a POSIX system: on Windows, use WSL2."
        raise UsageError(msg)


def open_descriptor(path: str | Path, flags: int, mode: int = 0o666, *, follow: bool = True) -> int:
    """Open a file as its bytes are, and return its descriptor.

    Started programs do not inherit it, and a pipe or a device does not block.

    Args:
        path: of the file.
        flags: of `os.open`.
        mode: of a new file.
        follow: whether the file behind a link is opened; else a link is an error (ELOOP).

    Raises:
        OSError: as `os.open`.
    """
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT", *(() if follow else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    if not follow and not hasattr(os, "O_NOFOLLOW") and Path(path).is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags, mode)


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Read at most `size` bytes at an offset."""
    if hasattr(os, "pread"):
        return bytes(_os.pread(fd, size, offset))
    with _POSITION:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes at an offset; return how many were written."""
    if hasattr(os, "pwrite"):
        return int(_os.pwrite(fd, data, offset))
    with _POSITION:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)


def sync_folder(path: Path) -> None:
    """Force a folder's entries to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    fd = open_descriptor(path, os.O_RDONLY | _os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def user_id() -> int | None:
    """Return the number of the user; None where files have no owners' numbers."""
    return int(_os.geteuid()) if hasattr(os, "geteuid") else None


def user_name() -> str | None:
    """Return the name of the user of this process; None for one without a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # of no account, as in some containers
        return None


def set_owner(fd: int, user: int, group: int) -> None:
    """Give an open file an owner and a group; -1 leaves one as it is."""
    _os.fchown(fd, user, group)


def set_mode(fd: int, mode: int) -> None:
    """Set the permissions of an open file."""
    _os.fchmod(fd, mode)


def try_lock(fd: int) -> bool:
    """Lock a file against other openings of it; return False if another has the lock.

    Raises:
        OSError: the file system has no locks.
    """
    if fcntl is None:
        return lock_byte(fd, _FAR)
    return _is_done(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))


def wait_for_lock(fd: int) -> None:
    """Lock a file as soon as no other opening of it is locked; closing it unlocks."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return
    while not lock_byte(fd, _FAR):
        time.sleep(_POLL_S)


def unlock(fd: int) -> None:
    """Unlock a file."""
    if fcntl is None:
        unlock_byte(fd, _FAR)
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)


def lock_byte(fd: int, byte: int) -> bool:
    """Lock one byte of a file, which need not have it, against other processes; return False if another has it locked.

    Raises:
        OSError: the file system has no locks.
    """
    if fcntl is None:
        return _is_done(lambda: _lock_by_msvcrt(fd, byte, "LK_NBLCK"))
    return _is_done(lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte))


def unlock_byte(fd: int, byte: int) -> None:
    """Unlock one byte of a file."""
    if fcntl is None:
        _lock_by_msvcrt(fd, byte, "LK_UNLCK")
    else:
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, byte)


def after_fork(reset: Callable[[], object]) -> None:
    """Have a function called in every child that this process forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def append_only(file: Any) -> None:
    """Have all that is written to an open file go to its end, where the system can."""
    if fcntl is not None:
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | _os.O_APPEND)


def _is_done(lock: Callable[[], object]) -> bool:
    """Call a function that locks; return False if the lock is another's."""
    try:
        lock()
    except OSError as error:
        if error.errno not in BUSY:
            raise
        return False
    return True


def _lock_by_msvcrt(fd: int, byte: int, kind: str) -> None:
    with _POSITION:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, byte, os.SEEK_SET)
        try:
            msvcrt.locking(fd, getattr(msvcrt, kind), 1)
        finally:
            os.lseek(fd, before, os.SEEK_SET)
