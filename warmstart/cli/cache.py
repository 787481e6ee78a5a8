"""`cache`: show or clear cached meta-features and features, and what killed calls left behind."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.history_store.errors import StorageError

_KINDS = {
    "meta-features": ("*.emb", "embeddings"),
    "features": ("*.features", "features"),
    "indexes": ("*.index", "indexes"),
}
"""Kinds of cached files: name, pattern, folder below the cache folder."""
_LEFTOVERS = ("warmstart-networks-*", "warmstart-rehearsal-*", "warmstart-restore-*", "warmstart-upload-*")
"""Temporary folders, which calls remove at their end unless they are killed."""
_OLD_S = 7 * 86_400.0
"""Age from which a temporary folder is no running call's."""


class Stored(NamedTuple):
    """A file of the cache, or a folder of a killed call: its bytes, and when it was last used."""

    kind: str
    path: Path
    n_bytes: int
    used: float


@takes_options
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it; it is computed again when needed.")] = False,
    limit: Annotated[
        float | None, typer.Option("--limit", min=0, metavar="MB", help="Remove what was unused longest, down to this.")
    ] = None,
    shell: Shell,
) -> None:
    """Show what the cache holds, and what killed calls left; or clear it, and say what that frees."""
    from warmstart.metafeat.cache import cache_folder

    stored = [*_cached(cache_folder()), *_leftovers()]
    freed = _to_remove(stored, 0.0 if clear else limit)
    for each in freed:
        _remove(each.path)
    left = [each for each in stored if each not in freed]
    n_bytes = sum(each.n_bytes for each in freed)
    is_cleared = clear or limit is not None
    if is_cleared:
        shell.note(f"Freed {n_bytes / 1e6:.1f} MB.")
    document = {"cleared": clear, "freed_mb": round(n_bytes / 1e6, 1), "kept": _rows(left)}
    shell.result(document, _rows(freed if is_cleared else stored), title="Cleared:" if is_cleared else "")


def _cached(folder: Path) -> list[Stored]:
    """List the cached files."""
    from warmstart.metafeat.cache import cached_files

    return [
        Stored(kind, path, about.st_size, about.st_mtime)
        for kind, (pattern, subfolder) in _KINDS.items()
        for path, about in cached_files(folder / subfolder, pattern)
    ]


def _leftovers() -> list[Stored]:
    """List the temporary folders of calls that were killed: those that nothing was written to for a week."""
    folders = [path for pattern in _LEFTOVERS for path in Path(tempfile.gettempdir()).glob(pattern) if path.is_dir()]
    leftovers = []
    for folder in folders:
        try:
            states = [path.lstat() for path in (folder, *folder.rglob("*"))]
        except OSError:  # it ends at this moment, or is somebody else's
            continue
        used = max(state.st_mtime for state in states)
        if used < time.time() - _OLD_S:
            leftovers.append(Stored("left by killed calls", folder, sum(state.st_size for state in states), used))
    return leftovers


def _to_remove(stored: list[Stored], limit_mb: float | None) -> list[Stored]:
    """Choose what goes, the longest unused first, until the rest is below a limit; None = nothing."""
    if limit_mb is None:
        return []
    excess, chosen = sum(each.n_bytes for each in stored) - 1e6 * limit_mb, []
    for each in sorted(stored, key=lambda each: each.used):
        if excess <= 0 < limit_mb:
            break
        chosen.append(each)
        excess -= each.n_bytes
    return chosen


def _remove(path: Path) -> None:
    """Remove a file or a folder.

    Raises:
        StorageError: it cannot be removed.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        msg = f"{path}: expected a file that can be removed, got: {error.strerror}. Check who owns the folder, or name another one with $WARMSTART_CACHE."
        raise StorageError(msg) from error


def _rows(stored: list[Stored]) -> list[dict[str, object]]:
    """Return a row a kind: files or folders, and megabytes."""
    from warmstart.metafeat.cache import cache_folder

    folders = {kind: str(cache_folder() / subfolder) for kind, (_, subfolder) in _KINDS.items()}
    folders["left by killed calls"] = tempfile.gettempdir()
    return [
        {
            "what": kind,
            "files": sum(each.kind == kind for each in stored),
            "MB": round(sum(each.n_bytes for each in stored if each.kind == kind) / 1e6, 1),
            "folder": folder,
        }
        for kind, folder in folders.items()
        if kind in _KINDS or any(each.kind == kind for each in stored)
    ]
