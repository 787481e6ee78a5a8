"""Paths in archives: none may lead out; a folder around all others is the root."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import takewhile

from warmstart.history_store.errors import DataError
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.tree import split_of, walk_names

_DEEPEST = 100


def check_inside(name: str, location: str) -> None:
    """Raise if a path leads out of its archive, or through more folders than file systems have.

    Raises:
        DataError: when it does.
    """
    if ".." in re.split(r"[/\\]", name) or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or "\0" in name:
        msg = f"{location}: expected paths inside the archive, got {printable(name)!r}, which leads out of it. Do not trust it; make the archive anew."
        raise DataError(msg)
    if name.count("/") + name.count("\\") > _DEEPEST:
        msg = f"{location}: expected paths of at most {_DEEPEST} folders, got {printable(name[:40])!r}…, which has more. Make the archive anew."
        raise DataError(msg)


def repeated_path_error(name: str, location: str) -> DataError:
    """Return the error of an archive with two files of one path."""
    return DataError(f"{location}: expected each path once, got {printable(name)!r} twice. Make the archive anew.")


def plain_name(name: str) -> str:
    """Return a path with slashes, as some programs on Windows write none, and without ``./``."""
    return re.sub(r"/(\./)*/*", "/", name.replace("\\", "/")).removeprefix("./")


def wrapping_folder(names: Sequence[str]) -> str:
    """Return the folders around all others, with their slash; empty if there is none, or it is a class or a split."""
    folders = [folder.split("/") for folder, pictures in walk_names(names).pictures.items() if pictures]
    parts = os.path.commonprefix(folders)  # noqa: RUF071  of lists of folders
    around = takewhile(lambda part: split_of(part) is None, parts[:-1] if parts in folders else parts)
    return "".join(f"{part}/" for part in around)
