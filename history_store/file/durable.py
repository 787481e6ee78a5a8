"""The system calls of a durable write, one function each: a test can stop the process between any two of them.

Every call announces itself to `hook` just before it acts. Nothing else in the package writes, syncs, renames,
cuts or removes a file of a history; h5py writes through `warmstart.history_store.file.base`.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from warmstart.history_store import system
from warmstart.history_store.errors import HistoryReadOnlyError, StorageError, StorageFullError, WarmstartError

hook: Callable[[str, Path], None] | None = None
"""Called with the name of the call and its path, just before the call. For tests."""

_CHUNK = 8 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a companion of a history: `h.h5` and `.journal` give `h.h5.journal`."""
    return path.with_name(path.name + suffix)


def open_companion(path: Path, flags: int, history: Path | None = None) -> int:
    """Open a companion of a history, never through a link; a new one gets the mode and the group of the history.

    Args:
        path: of the companion.
        flags: of `os.open`.
        history: gives the mode and the group; None, or a missing one = the umask does.

    Raises:
        StorageError: a link, a pipe or a folder has that name.
    """
    model = None if history is None else next((p for p in (history, beside(history, ".bak")) if p.is_file()), None)
    try:
        # Not through a link, which could lead to any file; not blocking, as a pipe would wait for its other end.
        fd = system.open_descriptor(path, flags, 0o666 if model is None else 0o600, follow=False)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR):
            raise StorageError(_not_ordinary_message(path)) from error
        raise
    try:
        _check_companion(fd, path, model if flags & os.O_CREAT else None)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_companion(fd: int, path: Path, model: Path | None) -> None:
    """Check that an open companion is an ordinary file, and give it the permissions of its history."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise StorageError(_not_ordinary_message(path))
    if model is not None:
        _copy_permissions(fd, status, model.stat())


def _copy_permissions(fd: int, status: os.stat_result, model: os.stat_result) -> None:
    """Copy group and mode of a history to its companion, as far as the system allows."""
    user = system.user_id()
    if user is None:
        return
    # A second name (a planted hard link): the file may be somebody else's.
    if user not in (0, status.st_uid) or status.st_nlink > 1:
        return
    if (status.st_uid, status.st_gid) != (model.st_uid, model.st_gid):
        with contextlib.suppress(PermissionError):
            system.set_owner(fd, model.st_uid if user == 0 else -1, model.st_gid)
    mode = stat.S_IMODE(model.st_mode) & 0o666
    if os.fstat(fd).st_gid != model.st_gid:
        # Another group than the history's: it gets no access.
        mode &= ~0o060
    if stat.S_IMODE(status.st_mode) != mode:
        system.set_mode(fd, mode)


def _not_ordinary_message(path: Path) -> str:
    return f"{path}: expected an ordinary file, got {_file_kind(path)}. Remove it: the writer makes its own."


def _file_kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "something else"
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a named pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "something else")


def open_append(path: Path, history: Path | None = None) -> int:
    """Open a companion for appending, or create it; return its descriptor."""
    _call_hook("open", path)
    return open_companion(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, history)


def open_new(path: Path, history: Path | None = None) -> int:
    """Create a file, in place of one that a stopped writer left; return its descriptor."""
    path.unlink(missing_ok=True)
    return open_companion(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, history)


def write(fd: int, data: bytes, path: Path) -> None:
    """Write all bytes, also after short writes."""
    view = memoryview(data)
    while view:
        _call_hook("write", path)
        view = view[os.write(fd, view) :]


def write_at(fd: int, view: memoryview, offset: int, path: Path) -> None:
    """Write all bytes at an offset, also after short writes."""
    while view:
        _call_hook("write", path)
        written = system.write_at(fd, view, offset)
        view, offset = view[written:], offset + written


def sync(fd: int, path: Path) -> None:
    """Force a file's bytes to the disk."""
    _call_hook("fsync", path)
    os.fsync(fd)


def sync_file(path: Path) -> None:
    """Force the bytes of a closed file to the disk."""
    fd = system.open_descriptor(path, system.SYNCABLE)
    try:
        sync(fd, path)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Force a folder's entries to the disk: files that were created, renamed or removed in it."""
    _call_hook("fsync-folder", path)
    system.sync_folder(path)


def truncate(fd: int, size: int, path: Path) -> None:
    """Cut an open file to `size` bytes."""
    _call_hook("truncate", path)
    os.ftruncate(fd, size)


def replace(source: Path, target: Path) -> None:
    """Replace a file by another atomically."""
    _call_hook("replace", target)
    source.replace(target)


def remove(path: Path) -> None:
    """Remove a file; one that is missing is no error."""
    _call_hook("remove", path)
    path.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    """Write a synced copy of a file, with its mode and its group."""
    with source.open("rb") as reader:
        fd = open_new(target, source)
        try:
            while chunk := reader.read(_CHUNK):
                write(fd, chunk, target)
            sync(fd, target)
        finally:
            os.close(fd)


def write_file(path: Path, data: bytes, history: Path | None = None) -> None:
    """Replace a small file as a whole, durably; a companion of `history` gets its mode and its group."""
    # A file that is no companion lies among a person's own: its temporary file has a name that nobody else uses.
    temporary = beside(path, ".warmstart.tmp" if history is None else ".tmp")
    fd = open_new(temporary, history)
    try:
        write(fd, data, temporary)
        sync(fd, temporary)
    finally:
        os.close(fd)
    replace(temporary, path)
    sync_folder(path.parent)


@contextlib.contextmanager
def storage_errors(location: Path) -> Iterator[None]:
    """Turn the system's errors of a write into errors of warmstart.

    Raises:
        StorageFullError: no space, or a quota or a limit reached.
        HistoryReadOnlyError: the folder or the file may not be written.
        StorageError: anything else that the system refuses.
    """
    try:
        yield
    except WarmstartError:
        raise
    except OSError as error:
        number = error.errno
        reason = os.strerror(number) if number else str(error)
        if error.filename is not None and Path(os.fsdecode(error.filename)) != location:
            reason += f" ({Path(os.fsdecode(error.filename)).name})"
        if number in _FULL:
            msg = f"{location}: expected room to write, got: {reason}. Nothing acknowledged was lost; free some space and repeat."
            raise StorageFullError(msg) from error
        if number in _READ_ONLY:
            msg = f"{location}: expected a file and a folder that may be written, got: {reason}. Copy the history to a place of yours."
            raise HistoryReadOnlyError(msg) from error
        msg = (
            f"{location}: expected the write to succeed, got: {reason}. Nothing acknowledged was lost; check the disk."
        )
        raise StorageError(msg) from error
    except MemoryError as error:
        msg = f"{location}: expected memory to write, got none left. Nothing acknowledged was lost; end other programs and repeat."
        raise StorageError(msg) from error


def _call_hook(call: str, path: Path) -> None:
    if hook is not None:
        hook(call, path)
