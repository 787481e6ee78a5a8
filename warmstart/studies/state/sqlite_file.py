"""SQLite files of studies, opened by path and never through a URL, which would be parsed."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.parse
from functools import partial
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import StorageError

SQLITE = b"SQLite format 3\x00"
"""The first bytes of a database."""
READS_ALONE = "reads_alone"
"""Execution option of a connection that writes nothing."""
_MAX_NAMES = 3


def is_sqlite(path: Path) -> bool:
    """Tell whether a file is an SQLite database."""
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def engine_options(path: Path, *, timeout: float, write: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the URL and the options for Optuna's `RDBStorage` to open exactly this file.

    The URL only selects SQLite: SQLAlchemy parses it, and Optuna formats braces in it. The connection uses the path
    itself, whatever its characters.

    Args:
        path: absolute.
        timeout: seconds that a write waits for another write.
        write: False = opened for reading only.

    Returns: URL and `engine_kwargs`.
    """
    # SQLite opens read-only by a URI alone, whose path must be quoted.
    name = str(path) if write else f"file:{urllib.parse.quote(str(path), errors='surrogateescape')}?mode=ro"
    connect = partial(sqlite3.connect, name, timeout=timeout, check_same_thread=False, uri=not write)
    return "sqlite:///studies.db", {"creator": connect}


def check_not_misplaced(path: Path) -> None:
    """Check that version 0.1 did not write the studies of a path to another file, as it read the path as part of a URL.

    That version left an SQLite file without tables at the path itself.

    Raises:
        StorageError: it did; the message names that file.
    """
    old_path = Path(urllib.parse.unquote(str(path).partition("?")[0]))
    if old_path == path or _tables(path) != 0:
        return
    names = study_names(old_path)
    if names:
        listing = ", ".join(repr(name) for name in names[:_MAX_NAMES]) + ", …" * (len(names) > _MAX_NAMES)
        msg = f"{path}: expected the studies of that name, got an empty file, for version 0.1 wrote them to another: {old_path} holds it: {listing}. Name that one with `storage` to go on; or remove the empty {path.name} to begin anew there."
        raise StorageError(msg)


def study_names(path: Path) -> list[str]:
    """Return the names of the studies in an SQLite file; empty for any other file. Changes nothing."""
    rows = _ask(path, "SELECT study_name FROM studies ORDER BY study_id")
    return [str(name) for (name,) in rows or ()]


def _tables(path: Path) -> int | None:
    """Return the number of tables of an SQLite file; None for any other file."""
    rows = _ask(path, "SELECT count(*) FROM sqlite_master")
    return None if rows is None else int(rows[0][0])


def _ask(path: Path, statement: str) -> list[Any] | None:
    _, options = engine_options(path, timeout=1.0, write=False)
    try:
        with contextlib.closing(options["creator"]()) as file:
            return list(file.execute(statement))
    except sqlite3.Error:
        return None
