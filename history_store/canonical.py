"""One spelling for a location: `photos`, `photos/`, `./photos`, the absolute path and a link to it are the same."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

_MOST_NAMES, _EVERY, _BEGINNING = 10_000, 100, 4096
"""Of a folder: files whose names and sizes are read, and of which some, and how many bytes, are read too."""
_HEAD = 2**20
"""Bytes of a single file."""
_LABELLED = re.compile(r"^(?P<folder>.*?)::labels=(?P<labels>.*?)(?:::column=(?P<column>.*))?$", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A location as a person wrote it, with the folder in which that was: equal to the same in other spellings.

    The same text is the same place too, and so is the same content: a study may have moved with its folder.
    """

    text: str
    folder: str
    content: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        if self.text == other.text or (self.content is not None and self.content == other.content):
            return True
        return canonical(self.text, self.folder) == canonical(other.text, other.folder)

    def __hash__(self) -> int:
        return 0  # equal ones may have different texts

    def __str__(self) -> str:
        return self.text


def content_digest(location: str) -> str | None:
    """Compute a digest of a dataset's files, by which it is known again elsewhere; None for what is no path.

    Of a folder: the first 10,000 names and sizes, and the beginning of every hundredth file, as sizes may be alike; of a file:
    its size and first megabyte.
    """
    path, digest, count = Path(location), hashlib.sha256(), 0
    try:
        if path.is_file():
            with path.open("rb") as file:
                digest.update(f"{path.stat().st_size}\0".encode() + file.read(_HEAD))
            return digest.hexdigest()
        for folder, subfolders, names in os.walk(path):
            subfolders.sort()
            if count == _MOST_NAMES:
                break
            for name in sorted(names)[: _MOST_NAMES - count]:
                file_path = Path(folder, name)
                text = f"{file_path.relative_to(path)}\0{file_path.stat().st_size}\0"
                digest.update(text.encode(errors="surrogateescape"))
                if count % _EVERY == 0:
                    with file_path.open("rb") as file:
                        digest.update(file.read(_BEGINNING))
                count += 1
    except OSError:
        return None
    return digest.hexdigest() if count else None


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


def split_labelled(location: str) -> tuple[str, str, str | None] | None:
    """Split the location of a labelled folder into folder, table of labels and column; None for another location."""
    match = _LABELLED.match(location)
    return None if match is None else (match["folder"], match["labels"], match["column"])


def labelled(folder: str, labels: str | None, column: str | None) -> str:
    """Return the location of a folder with its labels, or of a table with its column, for the readers."""
    named = folder if labels is None else f"{folder}::labels={labels}"
    return named if column is None else f"{named}::column={column}"


def images_of(location: str) -> Path:
    """Return the folder or file of a location, without its labels."""
    return home_path(re.split(r"::(?:labels|column)=", location, maxsplit=1)[0])


def resolved(location: str) -> str:
    """Return a location with absolute paths; a file of labels that does not exist stays as it is."""
    images = str(images_of(location).resolve())
    parts = split_labelled(location)
    if parts is None:
        _, mark, name = location.partition("::column=")
        return images + mark + name
    _, labels, column = parts
    table = home_path(labels)
    return labelled(images, str(table.resolve()) if table.is_file() else labels, column)


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
