"""Read-only access to storages: nothing is created, locked or changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.storages import JournalStorage, RDBStorage

from warmstart.history_store.errors import MissingPathError, StorageError
from warmstart.studies.state.sqlite_file import SQLITE, check_not_misplaced, engine_options
from warmstart.studies.state.storage import (
    BUSY_S,
    DEFAULT,
    JOURNALS,
    Store,
    local_path,
    open_store,
    translate_errors,
)


@contextmanager
def open_to_read(text: str | os.PathLike[str] | None = None) -> Iterator[Store]:
    """Open a storage of studies for reading only; see `warmstart.studies.state.storage.open_store` for its names.

    A journal is told from SQLite by its content, so any file name works.

    Raises:
        MissingPathError: the file does not exist.
        UsageError: a URL of another kind.
        StorageError: a storage that cannot be opened, an empty file that is no journal, or a file of something else.
    """
    path = local_path(text)
    store = open_store(text) if path is None else _open_file(path)
    try:
        yield store
    finally:
        store.close()


def _open_file(path: Path) -> Store:
    if path.exists() and not path.is_file() and not path.is_dir():
        msg = f"{path}: expected an ordinary file of studies, got a pipe or a device. Name another with `storage`."
        raise StorageError(msg)
    if not path.is_file():
        got = "a folder" if path.is_dir() else "nothing there"
        msg = f"{path}: expected a storage of studies, got {got}. Check the path; `warmstart tune` makes {DEFAULT} where it is run."
        raise MissingPathError(msg)
    with translate_errors(str(path)):
        with path.open("rb") as file:
            head = file.read(16)
        if not head and path.suffix not in JOURNALS:
            check_not_misplaced(path)
            msg = f"{path}: expected a storage of studies, got an empty file. Check the path, or bring it back from a copy."
            raise StorageError(msg)
        if head == SQLITE:
            check_not_misplaced(path)
            url, options = engine_options(path, timeout=BUSY_S, write=False)
            return Store(str(path), RDBStorage(url, engine_kwargs=options), path)
        if head and not head.startswith(b"{"):  # an empty journal is one without studies
            msg = f"{path}: expected a storage of studies, an SQLite file or a journal of Optuna, got another file. Check the path."
            raise StorageError(msg)

        from warmstart.studies.state.journal_file import JournalFile

        return Store(str(path), JournalStorage(JournalFile(path, None)), path)
