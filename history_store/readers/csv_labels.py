"""Pictures in a folder, their labels in a CSV file beside them: ``FOLDER::labels=train.csv[::column=breed]``."""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError, MissingPathError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.limits import UNPACKED, check_picture_file
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.labels import composed, encode_labels
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.table_labels import LABELS, choose_column, read_labels
from warmstart.history_store.readers.tree import split_of, walk

PICTURES = (
    *("file_name", "filename", "file", "image", "image_path", "path", "filepath", "file_path", "img", "img_path"),
    *("image_name", "image_id", "id", "name", "id_code", "uid"),
)
"""Columns that name pictures, the likeliest first."""
_MARK = re.compile(r"^(?P<folder>.*?)::labels=(?P<labels>.*?)(?:::column=(?P<column>.*))?$", re.DOTALL)
_MAX_NAMED = 5


class CsvSource(BlobSource):
    """Pictures labelled by a CSV file; other pictures of the folder are left out, with a warning.

    Attributes:
        columns: of the table by name, a cell a picture.
    """

    columns: Mapping[str, Sequence[str]] = MappingProxyType({})

    def __init__(
        self,
        location: str,
        root: str,
        table: str,
        *,
        names: Sequence[str],
        labels: NDArray[np.int64],
        class_names: Sequence[str],
        splits: Mapping[str, NDArray[np.int64]] | None,
    ) -> None:
        self._root, self._table = root, table
        super().__init__(location, "csv", names=names, labels=labels, class_names=class_names, splits=splits)

    def blob(self, index: int) -> bytes:
        """Read the file of one picture."""
        path = f"{self._root}/{self.names[index]}"
        check_picture_file(path, "picture")
        return Path(path).read_bytes()

    def size_of(self, index: int) -> int:
        """Return the bytes of the file; -1 if it is gone."""
        try:
            return os.stat(f"{self._root}/{self.names[index]}").st_size  # noqa: PTH116 - a Path each costs seconds
        except OSError:
            return -1

    def signature(self) -> str:
        """Return a signature of pictures and table by path, size and time of change."""
        return file_signature(self._root, self.names) + file_signature(self._table, [""])

    def _digest(self, index: int) -> bytes | None:
        try:
            return super()._digest(index)
        except OSError:
            return None


def labelled(folder: str, labels: str | None, column: str | None) -> str:
    """Return the location of a folder with its labels, or of a table with its column, for the readers."""
    named = folder if labels is None else f"{folder}::labels={labels}"
    return named if column is None else f"{named}::column={column}"


def images_of(location: str) -> Path:
    """Return the folder or file of a location, without its labels."""
    return Path(re.split(r"::(?:labels|column)=", location, maxsplit=1)[0]).expanduser()


def resolved(location: str) -> str:
    """Return a location with absolute paths; a file of labels that does not exist stays as it is."""
    images = str(images_of(location).resolve())
    match = _MARK.match(location)
    if match is None:
        _, mark, column = location.partition("::column=")
        return images + mark + column
    table = Path(match["labels"]).expanduser()
    return labelled(images, str(table.resolve()) if table.is_file() else match["labels"], match["column"])


def open_labelled(location: str, folder: str, labels: str, column: str | None) -> CsvSource:
    """Open a folder of pictures that a CSV file labels.

    A name in the file is a path below the folder, a file's name, or either without its ending; where it is no picture's as it is
    written, it may differ in case and in how Unicode composes letters. A column `split` is used where all of it spells splits.
    Rows without a label, or with −1, are left out, with a warning.

    Raises:
        MissingPathError: no folder or no file there.
        LabelError: no labels, several columns that could be them, or those of another task.
        DataError: rows whose pictures are not there, or that name several.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        msg = f"{printable(folder)}: expected a folder of pictures, got {'a file' if root.exists() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    table = _table_of(root, labels)
    columns = _read_csv(table)
    table_name = printable(str(table))
    files, picture_column = _resolve_pictures(columns, str(root), table_name)
    label_columns = [name for name in columns if name != picture_column and name.lower() != "split"]
    chosen = choose_column(label_columns, column, table_name)
    values, has = read_labels([cell.strip() for cell in columns[chosen]], f"{table_name}: column {chosen!r}")
    rows = [row for row in range(len(files)) if has[row]]
    if not rows:
        msg = f"{table_name}: expected labels in column {chosen!r}, got none: all of its {plural(len(files), 'row')} are unlabelled. Name another column with `labels_column`, or label the pictures: the similarity rests on labels."
        raise LabelError(msg)
    encoding = encode_labels([values[row] for row in rows], table_name, n=len(rows))
    names = [files[row] for row in rows]
    _check_distinct(names, table_name)
    _warn_left_out(root, table_name, unlabelled=len(files) - len(rows), names=set(files))
    source = CsvSource(
        location,
        str(root),
        str(table),
        names=names,
        labels=encoding.labels,
        class_names=encoding.class_names,
        splits=_splits(columns, rows),
    )
    source.columns = {name: [cells[row] for row in rows] for name, cells in columns.items()}
    return source


def _table_of(root: Path, labels: str) -> Path:
    """Find the file of labels: at its path, else in the folder, else beside it."""
    for path in (Path(labels).expanduser(), root / labels, root.parent / labels):
        if path.is_file():
            return path
    msg = f"expected a CSV file, got nothing at {printable(labels)}, nor in {printable(str(root))}. Check the path."
    raise MissingPathError(msg, param="labels")


def _read_csv(path: Path) -> dict[str, list[str]]:
    """Read a table with a head; commas, semicolons or tabs. Cells are as written.

    Raises:
        DataError: no table, or rows of another length.
    """
    location = printable(str(path))
    UNPACKED.check(path.stat().st_size, location)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{location}: expected a CSV file in UTF-8, got one that cannot be read ({error}). Save it as UTF-8."
        raise DataError(msg) from error
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        msg = f"{location}: expected a CSV file, got one that cannot be read ({error}). Save it as CSV."
        raise DataError(msg) from error
    names = [name.strip() for name in rows[0]] if rows else []
    if len(rows) < 2 or len(set(names)) < len(names):
        got = plural(len(rows), "row") if len(rows) < 2 else f"the first row {', '.join(names[:_MAX_NAMED])}"
        msg = f"{location}: expected a head of distinct names and a row a picture, got {got}. Write a head such as filename,label."
        raise DataError(msg)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            msg = f"{location} row {number}: expected {len(names)} cells, got {len(row)}. Correct the row."
            raise DataError(msg)
    return {name: [row[column] for row in rows[1:]] for column, name in enumerate(names)}


def _resolve_pictures(columns: Mapping[str, Sequence[str]], root: str, location: str) -> tuple[list[str], str]:
    """Find the picture of each row, and the column that names the pictures.

    Raises:
        DataError: no column names pictures; some are not there; a name is that of several.
    """
    content = walk(root)
    files = [f"{folder}/{name}" if folder else name for folder, names in content.pictures.items() for name in names]
    pictures, column = _find_picture_column(columns, files)
    if column is None:
        msg = f"{location}: expected a column that names pictures in {printable(root)}, got {', '.join(list(columns)[:12])}: none of their values is one of its {plural(len(files), 'picture')}. Check the folder."
        raise DataError(msg)
    _check_head(columns, column, pictures, location)
    cells = columns[column]
    missing = [cell for cell in cells if not pictures.of(cell)]
    if missing:
        named = ", ".join(repr(cell) for cell in missing[:_MAX_NAMED]) + (", …" if len(missing) > _MAX_NAMED else "")
        msg = f"{location}: expected a picture for each row in {printable(root)}, got {len(missing)} of {len(cells)} without one: {named}. Give the folder that holds them, or take the rows out."
        raise DataError(msg)
    several = next((cell for cell in cells if len(pictures.of(cell)) > 1), None)
    if several is not None:
        msg = f"{location}: expected names of one picture each, got {several!r}, which is that of {', '.join(sorted(pictures.of(several))[:3])}. Write paths below the folder, with endings."
        raise DataError(msg)
    return [pictures.of(cell)[0] for cell in cells], column


class _Pictures:
    """The pictures of a folder by name; loosely, if case and composition of a name may differ."""

    def __init__(self, files: Sequence[str], *, is_loose: bool) -> None:
        self._files = frozenset(files)
        self._files_by_name = _files_by_name(files, str)
        self._files_by_loose_name = _files_by_name(files, _loose_key) if is_loose else {}

    def of(self, cell: str) -> list[str]:
        """Return the pictures that a cell may name: one for a path, several for an ambiguous name.

        Spaces around it count where they are of a file's name.
        """
        names = [spelling.replace("\\", "/").removeprefix("./") for spelling in dict.fromkeys((cell, cell.strip()))]
        for name in names:
            if name in self._files:
                return [name]
        for files_by_name, form in ((self._files_by_name, str), (self._files_by_loose_name, _loose_key)):
            for name in names:
                if files := files_by_name.get(form(name)):
                    return files
        return []


def _files_by_name(files: Sequence[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    """Index pictures by path and name, each with and without its ending."""
    files_by_name: dict[str, list[str]] = defaultdict(list)
    for file in files:
        path = form(file)
        base = path.rsplit("/", 1)[-1]
        for key in {path, base, path.rpartition(".")[0], base.rpartition(".")[0]}:
            files_by_name[key].append(file)
    return dict(files_by_name)


def _loose_key(name: str) -> str:
    """Return a name in lower case with composed letters: macOS stores them decomposed."""
    return composed(composed(name).casefold())


def _find_picture_column(columns: Mapping[str, Sequence[str]], files: Sequence[str]) -> tuple[_Pictures, str | None]:
    """Find the column that names pictures; None if there is none."""
    lower = {name.lower(): name for name in columns}
    likely = [lower[name] for name in PICTURES if name in lower] + [n for n in columns if n.lower() not in PICTURES]
    likely = [
        name for name in likely if name.lower() not in LABELS
    ] or likely  # classes may be numbers, as pictures are
    for is_loose in (False, True):
        pictures = _Pictures(files, is_loose=is_loose)
        hits = {name: sum(bool(pictures.of(cell)) for cell in columns[name]) for name in likely}
        column = max(likely, key=lambda name: hits[name])
        if hits[column] == len(columns[column]):
            break
    return pictures, column if hits[column] else None


def _check_head(columns: Mapping[str, Sequence[str]], column: str, pictures: _Pictures, location: str) -> None:
    """Raise if the first row of a table is no head but a picture with its label.

    Raises:
        DataError: when it is one.
    """
    named = [] if column.lower() in (*PICTURES, *LABELS) else pictures.of(column)
    if named and all(pictures.of(cell) != named for cell in columns[column]):
        msg = f"{location}: expected a head such as filename,label, got the picture {printable(column)!r} in the first row. Write a head above it."
        raise DataError(msg)


def _check_distinct(names: Sequence[str], location: str) -> None:
    names_so_far: set[str] = set()
    for name in names:
        if name in names_so_far:
            msg = f"{location}: expected one row a picture, got {printable(name)!r} twice. Keep one: a picture has one class here."
            raise LabelError(msg)
        names_so_far.add(name)


def _splits(columns: Mapping[str, Sequence[str]], rows: Sequence[int]) -> dict[str, NDArray[np.int64]] | None:
    """Read the splits from a column `split` that spells one in every row."""
    name = next((name for name in columns if name.lower() == "split"), None)
    spelled = [] if name is None else [split_of(columns[name][row]) for row in rows]
    if not spelled or None in spelled:
        return None
    split_names = np.array(spelled)
    return {split: np.flatnonzero(split_names == split).astype(np.int64) for split in dict.fromkeys(spelled) if split}


def _warn_left_out(root: Path, location: str, *, unlabelled: int, names: set[str]) -> None:
    parts = [f"{plural(unlabelled, 'row')} without a label"] if unlabelled else []
    n_unnamed = sum(len(files) for files in walk(str(root)).pictures.values()) - len(names)
    parts += [f"{plural(n_unnamed, 'picture')} that the file does not name"] if n_unnamed > 0 else []
    if parts:
        warnings.warn(f"{location}: left out {'; '.join(parts)}.", DatasetWarning, stacklevel=5)


def _matches(location: Place) -> bool:
    return location.path is None and "::labels=" in location.text


def _open_location(location: Place) -> CsvSource:
    match = _MARK.match(location.text)
    assert match is not None  # noqa: S101  matched
    return open_labelled(location.text, match["folder"], match["labels"], match["column"])


READER = Reader(_matches, _open_location)
