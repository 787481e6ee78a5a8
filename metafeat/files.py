"""Atomic writes: a file is written whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
import time
from pathlib import Path

from warmstart.history_store import system
from warmstart.history_store.errors import StorageError, StorageFullError

_DAY = 86_400


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write content to a temporary file beside path and move it there; a reader sees the old file or the new.

    Args:
        path: its folder must exist.
        content: the whole file.
        durable: fsync the file before the move; a cache need not.

    Raises:
        StorageFullError: no space left; the old file stays.
        StorageError: the folder is missing or not writable.
    """
    temporary = None
    try:
        new_file = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        # Not `tempfile`: its files are readable by their owner alone. These get the umask's mode.
        descriptor = system.open_descriptor(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        temporary = new_file
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new_file.replace(path)
        temporary = None
    except OSError as error:
        kind = StorageFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
        msg = f"{path}: expected a place to write {len(content)} bytes, got: {error.strerror}. Choose another folder or make room."
        raise kind(msg) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def read_ordinary(path: Path) -> bytes:
    """Read an ordinary file whole, never a pipe or a device, which could block for ever.

    Raises:
        OSError: it is missing, may not be read, or is no ordinary file.
    """
    with os.fdopen(system.open_descriptor(path, os.O_RDONLY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no ordinary file", str(path))
        return file.read()


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of `replace_file` whose writers were killed more than a day ago."""
    for leftover in folder.glob(".*.*.*"):
        with contextlib.suppress(OSError):
            # 16 hex digits after a dot: a name of `replace_file`. A younger file may still be written.
            if len(leftover.suffix) == 17 and leftover.lstat().st_mtime < time.time() - _DAY:
                leftover.unlink()
