"""The order of writes to the files of a history: a stop at any moment loses nothing acknowledged.

A new file is written beside the old one, synced, read back, copied to the coming backup, and synced again: all room on
the disk is taken before anything is replaced. Then it replaces the old file, the copy replaces the backup, and only
then the journal is removed. Backup and journal together hold every acknowledged operation at every moment, and so
do file and journal.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from warmstart.history_store.errors import HistoryReadOnlyError, MissingPathError, StorageError, UsageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.append_index import SUFFIX, State, stamp
from warmstart.history_store.file.base import Identity, check_base, read_identity
from warmstart.history_store.file.durable import beside
from warmstart.history_store.file.journal import JournalText, JournalWriter, checksum, most_bytes, parse
from warmstart.history_store.file.lock import WriterLock

_WRITE_BITS = 0o222


class HistoryFiles:
    """File, backup and journal of a history, for its one writer.

    Args:
        path: of the history, links resolved.
        identity: of the file.
        text: of its journal.
        lock: of the writer.

    Attributes:
        is_copy: whether the file was copied since it was written: its journal would fit the other copies too.
    """

    def __init__(self, path: Path, identity: Identity, text: JournalText, lock: WriterLock) -> None:
        self.path = path
        self.backup = beside(path, ".bak")
        self.journal = beside(path, ".journal")
        self._lock = lock
        self._identity = identity
        self._text = text
        self._writer: JournalWriter | None = None
        self._is_prepared = False
        self._copy_permissions_to_index()
        self.is_copy = identity.inode not in (0, path.stat().st_ino)

    def append(self, line: str) -> None:
        """Write one operation to the journal, durably.

        Raises:
            StorageError: it could not be written, or lock, history or journal are not the files that were opened.
        """
        with durable.storage_errors(self.path):
            self._lock.check()
            self._prepare()
            if self._writer is None:
                identity = self._identity
                self._writer = JournalWriter(
                    self.journal, identity.id, self._text, salt=identity.salt, history=self.path
                )
            self._writer.append(line)
            # Again: if the files were replaced meanwhile, the line is lost and must not be acknowledged.
            self._lock.check()

    @property
    def has_long_journal(self) -> bool:
        """Return whether the journal is long enough to be written into the file.

        A journal that belongs to the backup, as after the removal of a dataset, does not count.
        """
        try:
            return not self._is_old_journal() and self._size > most_bytes(self.path.stat().st_size)
        except OSError:  # the file was removed
            return False

    @property
    def _size(self) -> int:
        """Return the bytes of the whole lines of the journal."""
        return self._text.end if self._writer is None else self._writer.size

    def state(self, serial: int) -> State | None:
        """Return the state of the files, for an index of them; None if backup or journal do not fit the file.

        Args:
            serial: of the last operation.

        Raises:
            StorageError: lock or history are not the files that were opened.
        """
        # Stamps before and after: a change between them would make an index of a state that never was.
        before = stamp(self.path), stamp(self.backup)
        self._lock.check()
        if self.is_copy or not self._backup_is_current() or (stamp(self.path), stamp(self.backup)) != before:
            return None
        identity, journal_checksum = self._identity, checksum(self.journal, self._size)
        return (
            None
            if journal_checksum is None
            else State(identity.id, identity.salt, identity.serial, serial, (self._size, journal_checksum), *before)
        )

    def recover(self) -> None:
        """Undo a failed write that could not be undone at once; call it before the journal is read again."""
        if self._writer is not None:
            with durable.storage_errors(self.path):
                self._writer.recover()

    @contextlib.contextmanager
    def replacing(self, *, keep_backup: bool) -> Iterator[Path]:
        """Yield the path of a temporary file, which replaces the history at the end.

        Args:
            keep_backup: leave the backup and its journal as they are; the next write brings them up to date.
        """
        with durable.storage_errors(self.path):
            self._lock.check()
            if keep_backup:
                self._prepare()
            with install(self.path, backup=None if keep_backup else self.backup, lock=self._lock) as temporary:
                yield temporary
            self.close()
            if not keep_backup and self.journal.exists():
                durable.remove(self.journal)
                durable.sync_folder(self.path.parent)

    def close(self) -> None:
        """Close the journal."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _copy_permissions_to_index(self) -> None:
        """Copy mode and group of the history to the index of an earlier writer."""
        index = beside(self.path, SUFFIX)
        if index.is_file():
            with contextlib.suppress(OSError, StorageError):
                os.close(durable.open_companion(index, os.O_RDWR | os.O_CREAT, self.path))

    def _prepare(self) -> None:
        """Finish what a stopped writer has left, before the first write."""
        if self._is_prepared:
            return
        folder = self.path.parent
        for suffix in (".tmp", ".bak.tmp", ".journal.tmp", ".index.tmp"):
            if beside(self.path, suffix).exists():
                durable.remove(beside(self.path, suffix))
        # The last rename of a stopped writer may not be on the disk yet.
        durable.sync_folder(folder)
        if not self._backup_is_current():
            check_base(self.path, source=self.path)
            durable.copy(self.path, beside(self.path, ".bak.tmp"))
            durable.replace(beside(self.path, ".bak.tmp"), self.backup)
            durable.sync_folder(folder)
        if self._is_old_journal():
            durable.remove(self.journal)
            durable.sync_folder(folder)
            self._text = parse(b"")
        self._is_prepared = True

    def _is_old_journal(self) -> bool:
        """Return whether the journal belongs to an earlier file and holds nothing that this one lacks."""
        text = self._text
        is_foreign = text.header is not None and text.salt != self._identity.salt
        return (is_foreign or bool(text.operations)) and not text.after(self._identity.serial)

    def _backup_is_current(self) -> bool:
        try:
            return not self.backup.is_symlink() and read_identity(self.backup) == self._identity
        except (StorageError, MissingPathError, UsageError):
            return False


@contextlib.contextmanager
def install(target: Path, *, backup: Path | None, lock: WriterLock | None = None) -> Iterator[Path]:
    """Yield the path of a temporary file, then replace `target` by it, with a copy as backup.

    Args:
        target: need not exist.
        backup: path of the copy; None = no copy.
        lock: of its writer; it must hold its files until the end, and moves to the new file.

    Raises:
        StorageError: as `durable.storage_errors` tells; target and backup are then as before.
    """
    temporary, copied = beside(target, ".tmp"), beside(target, ".bak.tmp")
    with durable.storage_errors(target):
        try:
            os.close(durable.open_new(temporary, target))
            yield temporary
            durable.sync_file(temporary)
            check_base(temporary, source=target if lock is not None and target.exists() else None)
            if backup is not None:
                durable.copy(temporary, copied)
            if lock is not None:
                lock.check()
                lock.lock_new_file(temporary)
        except BaseException:
            temporary.unlink(missing_ok=True)
            copied.unlink(missing_ok=True)
            if lock is not None and lock.is_held:
                # If another writer came in, that is the cause to report.
                lock.check()
            raise
        durable.replace(temporary, target)
        durable.sync_folder(target.parent)
        if lock is not None:
            lock.adopt_new_file()
        if backup is not None:
            durable.replace(copied, backup)
            durable.sync_folder(target.parent)


def check_writable(path: Path, *, new: bool = False) -> None:
    """Check that a file and its folder may be written; their write bits count for the superuser too.

    Raises:
        MissingPathError: the folder does not exist.
        UsageError: `new`, and a folder has that name.
        HistoryReadOnlyError: not to be written.
    """
    folder = path.parent
    if not folder.is_dir():
        msg = f"{path}: expected a path in an existing folder, got {folder}, which is none. Create it first."
        raise MissingPathError(msg)
    if new and path.is_dir():
        msg = f"{path}: expected the name of a file, got a folder. Name a .h5 file in it."
        raise UsageError(msg)
    for entry, noun in ((folder, "folder"), *(() if new else ((path, "file"),))):
        if not entry.stat().st_mode & _WRITE_BITS or not os.access(entry, os.W_OK):
            msg = f"{path}: expected a {noun} that may be written, got a read-only one. Open it for reading, or copy the history to a place of yours."
            raise HistoryReadOnlyError(msg)


def check_free(path: Path) -> None:
    """Check that a path is free of a history and of its companions.

    Raises:
        UsageError: one does.
    """
    for suffix in ("", ".journal", ".bak"):
        if beside(path, suffix).exists():
            msg = f"{path}: expected nothing there yet, got {beside(path, suffix).name}. Choose another path, or move the old history and its companions away."
            raise UsageError(msg)


def check_writer(lock: WriterLock | None, path: Path) -> None:
    """Check that this process may write.

    Raises:
        HistoryReadOnlyError: opened for reading, or by the parent of this process.
    """
    if lock is None:
        msg = f"{path}: expected a history opened for writing, got one opened for reading. Open it with write=True."
        raise HistoryReadOnlyError(msg)
    if lock.pid != os.getpid():
        msg = f"{path}: expected the process that opened it for writing ({lock.pid}), got its child {os.getpid()}. Open it there, or send evaluations to the parent."
        raise HistoryReadOnlyError(msg)
