"""Atomic writes: a file is written whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path

from history_store.errors import StorageError, StorageFullError


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
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        kind = StorageFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
        msg = f"{path}: expected a place to write {len(content)} bytes, got: {error.strerror}. Choose another folder or make room."
        raise kind(msg) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
