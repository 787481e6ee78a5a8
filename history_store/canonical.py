"""One spelling for a location: `photos`, `photos/`, `./photos`, the absolute path and a link to it are the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A location as a person wrote it, with the folder in which that was: equal to the same in other spellings.

    The same text is the same place too: a study may have moved with its folder.
    """

    text: str
    folder: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        return self.text == other.text or canonical(self.text, self.folder) == canonical(other.text, other.folder)

    def __hash__(self) -> int:
        return 0  # equal ones may have different texts

    def __str__(self) -> str:
        return self.text


def canonical(location: str, folder: str | os.PathLike[str] = ".") -> str:
    """Return a location with real absolute paths: a dataset, `FILE.h5::name`, `file.py:function`.

    What is no path stays as it is: `sklearn:digits`, `module:function`; of a path that does not exist, as on another
    machine, `./` and a last `/` go.

    Args:
        location: as a person wrote it.
        folder: working folder in which it was written.
    """
    head, separator, tail = location.partition("::")
    if separator:
        parts = [_real(part, folder) for part in tail.split("::")]
        return "::".join([_real(head, folder), *parts])
    path, colon, name = location.rpartition(":")
    if colon and path.endswith(".py"):
        return f"{_real(path, folder)}:{name}"
    return _real(location, folder)


def without_arrangement(location: str) -> str:
    """Return a dataset's location without the table of its parts, for people."""
    return location.partition("::arranged=")[0]


def home_path(text: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder in place of ``~``; as it is where there is no such user."""
    return Path(os.path.expanduser(text))  # noqa: PTH111  that of Path raises an error


def _real(text: str, folder: str | os.PathLike[str]) -> str:
    """Return the real path of what exists; else the text, also in `name=path`."""
    name, equals, path = text.partition("=")
    if equals and name in ("labels", "arranged"):
        return f"{name}={_real(path, folder)}"
    full = os.path.join(folder, os.path.expanduser(text))  # noqa: PTH111, PTH118  no Path: a slash at the end is of the text
    if text and os.path.exists(full):  # noqa: PTH110
        return os.path.realpath(full)
    return text if "://" in text or "/" not in text else os.path.normpath(text)
