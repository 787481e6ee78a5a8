"""Paths in archives: none may lead out; a folder around all others is the root."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warmstart.history_store.errors import DataError
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.tree import split_of, walk_names


def check_inside(name: str, location: str) -> None:
    """Raise if a path leads out of its archive.

    Raises:
        DataError: when it does.
    """
    if ".." in re.split(r"[/\\]", name) or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or "\0" in name:
        msg = f"{location}: expected paths inside the archive, got {printable(name)!r}, which leads out of it. Do not trust it; make the archive anew."
        raise DataError(msg)


def repeated_path_error(name: str, location: str) -> DataError:
    """Return the error of an archive with two files of one path."""
    return DataError(f"{location}: expected each path once, got {printable(name)!r} twice. Make the archive anew.")


def plain_name(name: str) -> str:
    """Return a path with slashes, as some programs on Windows write none, and without ``./``."""
    return re.sub(r"/(\./)*/*", "/", name.replace("\\", "/")).removeprefix("./")


def wrapping_folder(names: Sequence[str]) -> str:
    """Return the folders around all others, with their slash; empty if there is none, or it is a class or a split."""
    around = ""
    while outer := _outer_folder([name.removeprefix(around) for name in names if name.startswith(around)]):
        around += outer
    return around


def _outer_folder(names: Sequence[str]) -> str:
    content = walk_names(names)
    tops = {folder.split("/")[0] for folder, pictures in content.pictures.items() if pictures}
    if len(tops) != 1:
        return ""
    (top,) = tops
    inner = {folder for folder, pictures in content.pictures.items() if pictures and folder.startswith(f"{top}/")}
    if not top or not inner or content.pictures.get(top) or split_of(top) is not None:
        return ""
    return f"{top}/"
