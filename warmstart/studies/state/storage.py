"""Storages of studies: Optuna storages, named by a path or a URL, with errors for people."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import traceback
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.history_store import system
from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import MissingPathError, StorageError, StorageFullError, UsageError, WarmstartError
from warmstart.history_store.file.durable import open_companion
from warmstart.history_store.wording import in_words
from warmstart.studies.state.file_claims import FileClaims, is_claimed
from warmstart.studies.state.locks import ASKING, NO_STUDY, DatabaseClaims, TrialLocks
from warmstart.studies.state.sqlite_file import READS_ALONE, check_not_misplaced, engine_options

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy import Engine

DEFAULT = "warmstart-studies.db"
VARIABLE = "WARMSTART_STORAGE"
"""Environment variable of the usual storage: a URL with a password does not belong on a command line."""
JOURNALS = (".journal", ".jsonl", ".log")
"""Suffixes of journal files; any other path is an SQLite file."""
SERVERS = ("postgresql", "mysql", "mariadb")
BLOCK = 65_536
BUSY_S = 30.0
"""Seconds that a write waits for another write."""

_CAUSES = (
    ("not a database", "a storage of studies, got a file of another kind, or a damaged one", "Name another with `storage`, or restore the file"),
    ("malformed", "a storage of studies, got a damaged one", "Restore the file, or name another with `storage`"),
    ("refused", "a server that answers, got a refused connection", "Check host and port, and that it runs"),
    ("could not translate host", "a server that answers, got a host that nobody knows", "Check its name"),
    ("Name or service not known", "a server that answers, got a host that nobody knows", "Check its name"),
    ("timeout expired", "a server that answers, got none in time", "Check host and port, and that it runs"),
    ("password", "a server that lets you in, got a refusal", "Check user and password"),
    ("Access denied", "a server that lets you in, got a refusal", "Check user and password"),
    ("database \"", "a database of that name, got none", "Make it on the server, or correct the name"),
    ("Unknown database", "a database of that name, got none", "Make it on the server, or correct the name"),
    ("disk is full", "room on the disk, got none left", "Free some space and run the same command again"),
    ("No space left", "room on the disk, got none left", "Free some space and run the same command again"),
    ("locked", "a storage that can be written, got one that is locked by another program", "End that one, and run the same command again"),
    ("readonly", "a storage that can be written, got a read-only one", "Change its permissions, or name another with `storage`"),
    ("Permission denied", "a storage that can be written, got a read-only one", "Change its permissions, or name another with `storage`"),
    ("Read-only file system", "a storage that can be written, got a read-only one", "Name another with `storage`"),
    ("unable to open", "a storage that can be opened, got none", "Check that its folder is there and can be written"),
    ("disk I/O error", "a storage that answers, got an error of the disk", "Check that the file is still there, and run the same command again"),
)  # fmt: skip
_STORAGE_MODULES = (("storages", "journal"), ("storages", "_rdb"), ("optuna", "storages"))


@dataclass(frozen=True, slots=True)
class Store:
    """An open storage.

    Attributes:
        url: to open it again, also in another process.
        optuna: the storage of Optuna.
        path: the file of a local storage; None on a server.
        inode: of that file.
        sessions: connections to a server for claims only; None for a local storage.
    """

    url: str
    optuna: BaseStorage
    path: Path | None
    inode: int = 0
    sessions: Engine | None = None

    @property
    def display_name(self) -> str:
        """Return the name of the storage for people, without its password."""
        return _without_password(self.url)

    def claims(self, study: int) -> TrialLocks:
        """Return the claims on the trials of a study."""
        if self.path is not None:
            return FileClaims(_beside(self.path, ".claims"), study, like=self.path)
        assert self.sessions is not None  # noqa: S101  one of the two is there
        return DatabaseClaims(self.sessions, study)

    def is_claimed(self, study: int, number: int) -> bool | None:
        """Tell whether a trial is claimed, without claiming it; None if that is unknown, as on a server."""
        return None if self.path is None else is_claimed(_beside(self.path, ".claims"), study, number)

    def check(self) -> None:
        """Check that a local storage is still the opened file: SQLite would write to a deleted one.

        Raises:
            StorageError: it is gone or another file.
        """
        if self.path is not None and _inode(self.path) != self.inode:
            msg = f"{self.path}: expected the storage that was opened, got {'another file' if self.path.exists() else 'none'} in its place. Put it back, and run the same command again."
            raise StorageError(msg)

    def close(self) -> None:
        """Close the connections to a database; later calls open new ones."""
        for engine in (getattr(getattr(self.optuna, "_backend", None), "engine", None), self.sessions):
            if engine is not None:
                engine.dispose()

    def one_read(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the trials of a database are read once, and again after this thread ended one."""
        return getattr(self.optuna, "one_read", contextlib.nullcontext)()

    def guard(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that turns errors of the storage into a `StorageError` with the next step."""
        return translate_errors(self.url if self.path is None else str(self.path))


def open_store(text: str | os.PathLike[str] | None = None) -> Store:
    """Open a storage; create it if it does not exist.

    Args:
        text: a path (``.journal``, ``.jsonl`` or ``.log``: a journal file, else SQLite), or a URL of SQLite, PostgreSQL
            or MySQL; None = what `WARMSTART_STORAGE` says, else `DEFAULT` in the working folder.

    Raises:
        UsageError: a URL of another kind, or a driver that is not installed.
        MissingPathError: a path in a folder that does not exist.
        StorageError: a storage that cannot be opened or is something else.
    """
    name = _name(text)
    kind, separator, _ = name.partition("://")
    path = local_path(name)
    if path is not None:
        _check_storage_path(path)
        is_journal = not separator and path.suffix in JOURNALS
        with translate_errors(str(path)), _exclusive(path):
            storage = _journal(path) if is_journal else _sqlite(path)
            return Store(str(path), storage, path, _inode(path))
    if kind.split("+")[0] not in SERVERS:
        msg = f"expected a path, or a URL of sqlite, {', '.join(SERVERS)}, got {name!r}. Leave it out for {DEFAULT}."
        raise UsageError(msg, param="storage")
    with translate_errors(name):
        return _server(name)


def _name(text: str | os.PathLike[str] | None) -> str:
    return os.environ.get(VARIABLE) or DEFAULT if text is None else os.fspath(text)


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's messages, which repeat ours; restore its log level afterwards."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def is_new_storage(text: str | os.PathLike[str] | None = None) -> bool:
    """Tell whether `open_store` would create a file; nothing is created. Raises as `open_store` for unusable paths."""
    path = local_path(text)
    if path is None or path.exists():
        return False
    _check_storage_path(path)
    return True


def local_path(text: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of a storage by its name; None = on a server."""
    name = _name(text)
    kind, separator, url_path = name.partition("://")
    if separator and kind.split("+")[0] != "sqlite":
        return None
    return (_path_of_url(name, url_path) if separator else _typed_path(name)).absolute()


def _typed_path(text: str) -> Path:
    """Return a path with `~/` expanded, which no shell does in `--storage=~/x.db`."""
    return home_path(text) if text.startswith("~/") and not Path("~").is_dir() else Path(text)


def _path_of_url(url: str, url_path: str) -> Path:
    """Return the path of an SQLite URL, percent-decoded."""
    path_text, query, _ = url_path.partition("?")
    if query or not path_text.startswith("/"):
        msg = f"expected sqlite:///PATH, got {url!r}. Give the path alone: every character may stand in it."
        raise UsageError(msg, param="storage")
    return Path(urllib.parse.unquote(path_text[1:]))


def _check_storage_path(path: Path) -> None:
    """Check that a path can be a storage, before anything is written."""
    if path.is_dir():
        msg = f"{path}: expected a file for the studies, got a folder. Name a file in it."
        raise UsageError(msg)
    if path.exists() and not path.is_file():
        msg = f"{path}: expected an ordinary file for the studies, got a pipe or a device. Name another with `storage`."
        raise StorageError(msg)
    if not path.parent.is_dir():
        msg = f"{path}: expected a folder for the studies, got none at {path.parent}. Make it, or name another place with `storage`."
        raise MissingPathError(msg)
    for location in (path.parent, *([path] if path.exists() else [])):
        if not location.stat().st_mode & 0o222:
            msg = f"{location}: expected a storage that can be written, got a read-only one. Change its permissions, or name another with `storage`."
            raise StorageError(msg)


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of the writers, so that only one process creates the tables."""
    lock = _WriterLock(path)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _sqlite(path: Path) -> BaseStorage:
    from sqlalchemy import event

    from warmstart.studies.state.trial_storage import SharedReads, TableDatabase

    check_not_misplaced(path)
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_S)) as file:
        file.execute("PRAGMA journal_mode=WAL")  # readers never wait for the writer; kept in the file
    url, options = engine_options(path, timeout=BUSY_S)
    storage = TableDatabase(url, engine_kwargs=options)

    # A transaction that begins by reading cannot wait to write: SQLite reports it as locked at once. One that reads
    # alone says so, and holds up no writer.
    @event.listens_for(storage.engine, "connect")
    def _no_own_transactions(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(storage.engine, "begin")
    def _begin(connection: Any) -> None:
        is_reader = connection.get_execution_options().get(READS_ALONE, False)
        connection.exec_driver_sql("BEGIN" if is_reader else "BEGIN IMMEDIATE")

    storage.engine.dispose()  # connections from before the listeners
    return SharedReads(storage)


def _journal(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage

    from warmstart.studies.state.journal_file import JournalFile

    path.touch()
    return JournalStorage(JournalFile(path, _JournalLock(path)))


class _WriterLock:
    """Lock of the writers of a local storage; the system releases it when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._storage, self._place, self._file = path, _beside(path, ".writer"), -1

    def acquire(self) -> bool:
        self._file = open_companion(self._place, os.O_RDWR | os.O_CREAT, self._storage)
        system.wait_for_lock(self._file)
        return True

    def release(self) -> None:
        os.close(self._file)


class _JournalLock(_WriterLock):
    """Lock of a journal, which also removes the unfinished line of a killed writer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._journal = path

    def acquire(self) -> bool:
        super().acquire()
        with self._journal.open("rb+") as journal:
            start = end = journal.seek(0, os.SEEK_END)
            tail = b""
            while start and b"\n" not in tail:
                start = max(0, start - BLOCK)
                journal.seek(start)
                tail = journal.read(end - start)
            complete = start + tail.rfind(b"\n") + 1
            if complete < end:
                journal.truncate(complete)
        return True


def _server(url: str) -> Store:
    from sqlalchemy import create_engine

    from warmstart.studies.state.trial_storage import SharedReads, TableDatabase

    try:
        # Not the storage's few connections: those who wait for a claim would leave none for its holder.
        sessions = create_engine(url, pool_pre_ping=True, max_overflow=-1)
        claims = DatabaseClaims(sessions, NO_STUDY)  # only one process at a time can create the tables
        try:
            claims.take(ASKING, patience=True)
            storage = SharedReads(TableDatabase(url, engine_kwargs={"pool_pre_ping": True}))
            return Store(url, storage, None, sessions=sessions)
        finally:
            claims.close()
    except ImportError as error:
        msg = f"expected a database whose Python driver is installed, got {url.partition('://')[0]!r} ({in_words(error.__cause__ or error)}). Install the extra warmstart[postgres] or warmstart[mysql]."
        raise UsageError(msg, param="storage") from error


@contextlib.contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Turn errors of databases and files into a `StorageError` with the next step."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except WarmstartError:
        raise
    except Exception as error:
        storage_errors = (StorageInternalError, SQLAlchemyError, sqlite3.Error, OSError)
        if not isinstance(error, storage_errors) and not _is_storage_error(error):
            raise
        reason, name = _reason(error), _without_password(url)
        for sign, expected, step in _CAUSES:
            if sign in reason:
                kind = StorageFullError if "room" in expected else StorageError
                msg = f"{name}: expected {expected}. {step}."
                raise kind(msg) from error
        msg = f"{name}: expected a storage of studies that answers, got an error of the {type(error).__module__.partition('.')[0]} package (-vv shows it). Check the name and, on a server, that it runs; nothing told before is lost."
        raise StorageError(msg) from error


def _is_storage_error(error: BaseException) -> bool:
    """Tell whether an error was raised in Optuna's storages, for a table or a journal that they cannot read."""
    files = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(Path(file).parts[-3:-1] in _STORAGE_MODULES for file in files)


def _reason(error: BaseException) -> str:
    """Return the message of the first cause, the database's."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _without_password(url: str) -> str:
    """Return a URL without its password."""
    kind, separator, address = url.partition("://")
    user, separator_at, host = address.rpartition("@")
    return url if not separator or not separator_at else f"{kind}://{user.partition(':')[0]}@{host}"


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1


def _beside(path: Path, suffix: str) -> Path:
    """Return the path of a storage's companion file; the same for all links to the storage."""
    real = path.resolve()
    return real.with_name(real.name + suffix)
