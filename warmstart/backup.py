"""Backups: a history and the studies of a storage in one archive, made while both are in use."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import optuna

from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.history_store.file import durable
from warmstart.history_store.file.writing import check_free, check_writable
from warmstart.history_store.history import History
from warmstart.locations import HISTORY_VARIABLE, PathLike
from warmstart.studies.state.reading import open_to_read
from warmstart.studies.state.sqlite_file import is_sqlite, study_names
from warmstart.studies.state.storage import JOURNALS, Store, is_new_storage, local_path, open_store, quiet_optuna

SCHEMA_VERSION = 1
_ABOUT, _HISTORY, _STUDIES, _TOKENS = "about.json", "history.h5", "studies.db", "tokens"
_MOST_ABOUT = 100_000
"""Bytes of the description."""
_PRIVATE = 0o600
"""Mode of an archive and of tokens: their owner's alone."""
_CHUNK = 2**20


def write_backup(
    path: Path, *, history: PathLike | None = None, storage: PathLike | None = None, token_file: PathLike | None = None
) -> dict[str, Any]:
    """Write an archive of all that is there; the shipped history is part of the program, and stays out.

    The history and the studies of a file are each those of one moment. A database's studies are copied one after another.

    Returns: the description in the archive: ``schema_version``, ``version``, ``made``, ``parts`` with a digest each,
    ``n_datasets``, ``n_studies``.

    Raises:
        UsageError: there is a file of that name, or nothing to save.
        WarmstartError: a part cannot be read.
        StorageError: the archive cannot be written; nothing is left of it.
    """
    if path.exists():
        msg = f"{path}: expected a name that is free, got a file. Name another: a backup is never overwritten."
        raise UsageError(msg)
    with _folder_beside(path) as folder:
        counts = _save_history(history, folder) | _save_studies(storage, folder)
        if token_file is not None:
            shutil.copyfile(token_file, folder / _TOKENS)
        parts = {part.name: _digest(part) for part in sorted(folder.iterdir())}
        if not parts:
            msg = "expected a history or studies to save, got none. Name them with `history` and `storage`."
            raise UsageError(msg)
        about = {
            "schema_version": SCHEMA_VERSION,
            "version": version("warmstart"),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "parts": parts,
            **counts,
        }
        (folder / _ABOUT).write_text(json.dumps(about, indent=2))
        archive = folder / "archive"
        archive.touch(_PRIVATE)
        with tarfile.open(archive, "w") as tar:
            for name in (_ABOUT, *parts):
                tar.add(folder / name, name)
        durable.sync_file(archive)
        durable.replace(archive, path)
        durable.sync_folder(path.parent)
    return about


def restore_backup(
    path: Path, *, history: PathLike | None = None, storage: PathLike | None = None, token_file: PathLike | None = None
) -> dict[str, Any]:
    """Put the parts of an archive in their places, where nothing may be yet; the same call goes on after a kill.

    Returns: the description in the archive.

    Raises:
        UsageError: no place for a part is named, or something else is there.
        DataError: a damaged archive, or another file.
        StorageError: a part cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="warmstart-restore-") as name, durable.storage_errors(path):
        folder = Path(name)
        about = _unpack(path, folder)
        parts = about["parts"]
        history = history or os.environ.get(HISTORY_VARIABLE)
        if _HISTORY in parts and history is None:
            msg = f"needs `history`, the place of the {about.get('n_datasets', 0)} datasets in {path}."
            raise UsageError(msg)
        if _TOKENS in parts and token_file is not None:
            _place(folder / _TOKENS, Path(token_file), parts[_TOKENS])
        if _HISTORY in parts and history is not None:
            _place(folder / _HISTORY, Path(history), parts[_HISTORY])
        if _STUDIES in parts:
            _restore_studies(folder / _STUDIES, storage, parts[_STUDIES])
    return about


@contextlib.contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder on the disk of a file."""
    parent = path.absolute().parent
    check_writable(parent / "backup", new=True)
    with durable.storage_errors(path), tempfile.TemporaryDirectory(prefix=".warmstart-backup-", dir=parent) as folder:
        yield Path(folder)


def _save_history(history: PathLike | None, folder: Path) -> dict[str, int]:
    name = history or os.environ.get(HISTORY_VARIABLE)
    if name is None:
        return {}
    with History.open(Path(name)) as opened:
        opened.compact(path=folder / _HISTORY)
        return {"n_datasets": len(opened.names)}


def _save_studies(storage: PathLike | None, folder: Path) -> dict[str, int]:
    if is_new_storage(storage):
        if storage is not None:
            msg = f"expected a storage of studies, got {os.fspath(storage)!r}, where nothing is. Check the path."
            raise MissingPathError(msg, param="storage")
        return {}
    target = folder / _STUDIES
    with open_to_read(storage) as store:
        if store.path is not None and is_sqlite(store.path):
            with (
                store.guard(),
                contextlib.closing(sqlite3.connect(target)) as copy,
                contextlib.closing(sqlite3.connect(store.path.as_uri() + "?mode=ro", uri=True)) as source,
            ):
                source.backup(copy)
        else:
            with contextlib.closing(open_store(target)) as copied:
                _copy_studies(store, copied)
    with contextlib.closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA journal_mode=DELETE")  # no companions
    (folder / f"{_STUDIES}.writer").unlink(missing_ok=True)
    return {"n_studies": len(study_names(target))}


def _copy_studies(source: Store, target: Store) -> None:
    """Copy all studies that the target lacks.

    Raises:
        UsageError: the target has a study of that name with other trials.
    """
    with source.guard(), target.guard(), quiet_optuna():
        present = set(optuna.get_all_study_names(target.optuna))
        for name in optuna.get_all_study_names(source.optuna):
            if name not in present:
                optuna.copy_study(from_study_name=name, from_storage=source.optuna, to_storage=target.optuna)
                continue
            n_trials = [
                len(optuna.load_study(study_name=name, storage=store.optuna).get_trials(deepcopy=False))
                for store in (source, target)
            ]
            if n_trials[0] != n_trials[1]:
                msg = f"expected no study {name!r} in {target.display_name}, or the one of the backup with its {n_trials[0]} trials, got one with {n_trials[1]}. Rename it, or delete it if an earlier call was ended while it copied."
                raise UsageError(msg, param="storage")


def _unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Write the parts of an archive to a folder and check their digests; return the description."""
    if not path.is_file():
        msg = f"{path}: expected a backup, got {'a folder' if path.is_dir() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            file = None if first is None or first.name != _ABOUT or first.size > _MOST_ABOUT else tar.extractfile(first)
            if file is None:
                raise _no_backup(path)
            about: dict[str, Any] = json.loads(file.read())
            if about["schema_version"] != SCHEMA_VERSION:
                msg = f"{path}: expected a backup of form {SCHEMA_VERSION}, got {str(about['schema_version'])[:20]}. Use the version of warmstart that made it."
                raise DataError(msg)
            for name in about["parts"]:
                member = tar.extractfile(name)
                if name not in (_HISTORY, _STUDIES, _TOKENS) or member is None:
                    raise _no_backup(path)
                (folder / name).touch(_PRIVATE if name == _TOKENS else 0o666)
                with (folder / name).open("wb") as part:
                    shutil.copyfileobj(member, part, _CHUNK)
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise _no_backup(path) from error
    for name, digest in about["parts"].items():
        if _digest(folder / name) != digest:
            msg = f"{path}: expected {name} as it was written, got other bytes. Take another backup."
            raise DataError(msg)
    return about


def _no_backup(path: Path) -> DataError:
    return DataError(f"{path}: expected an archive of `warmstart backup`, got another file, or a damaged one.")


def _place(part: Path, target: Path, digest: str) -> None:
    """Move a part to its place, unless an earlier call has."""
    if target.is_file() and _digest(target) == digest:
        return
    check_free(target)
    draft = target.with_name(f"{part.parent.name}-{target.name}")
    try:
        durable.copy(part, draft)
        durable.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    durable.sync_folder(target.absolute().parent)


def _restore_studies(part: Path, storage: PathLike | None, digest: str) -> None:
    """Put the studies into a file that is not there yet, or copy them into a storage."""
    path = local_path(storage)
    if path is not None and is_new_storage(storage) and path.suffix not in JOURNALS:
        _place(part, path, digest)
        return
    with open_to_read(part) as source, contextlib.closing(open_store(storage)) as target:
        _copy_studies(source, target)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        msg = f"{path}: expected a file that can be read, got: {error.strerror}."
        raise StorageError(msg) from error
