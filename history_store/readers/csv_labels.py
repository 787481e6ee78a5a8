"""Pictures in a folder, their labels in a table beside them: ``FOLDER::labels=train.csv[::column=breed]``.

The table is a CSV file, or JSON lines as in Hugging Face's ``metadata.jsonl``; each split may have one.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import islice, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.canonical import home_path, split_labelled
from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import DataError, LabelError, MissingPathError
from warmstart.history_store.external_runs import as_columns
from warmstart.history_store.fingerprint import composed, file_signature
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import UNPACKED, check_picture_file, ordinary_file
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.labels import LABELS, choose_column, encode_labels, read_labels
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tree import rows_without_foreign_splits, split_of, splits_by_name, walk
from warmstart.history_store.wording import in_words

PICTURES = (
    *("file_name", "filename", "file", "image", "image_path", "path", "filepath", "file_path", "img", "img_path"),
    *("image_name", "image_id", "id", "name", "id_code", "uid"),
)
"""Columns that name pictures, the likeliest first."""
_MAX_NAMED = 5
_MOST_LEVELS = 50
_MAX_TRIED = 1000
"""Cells of a column of which one must name a picture."""


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
        tables: Sequence[str],
        *,
        names: Sequence[str],
        labels: NDArray[np.int64],
        class_names: Sequence[str],
        splits: Mapping[str, NDArray[np.int64]] | None,
    ) -> None:
        self._root, self._tables = root, tables
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
        return file_signature(self._root, self.names) + "".join(file_signature(table, [""]) for table in self._tables)

    def _digest(self, index: int) -> bytes | None:
        try:
            return super()._digest(index)
        except OSError:
            return None


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
    root = home_path(folder)
    if not root.is_dir():
        msg = f"{printable(folder)}: expected a folder of pictures, got {'a file' if root.exists() else 'nothing there'}. Check the path."
        raise MissingPathError(msg)
    tables = _tables_of(root, labels)
    columns, files, picture_column, table_name = _read_tables(tables, str(root))
    label_columns = [name for name in columns if name != picture_column and name.lower() != "split"]
    chosen = choose_column(label_columns, column, table_name)
    values, has = read_labels(
        [cell.strip() if isinstance(cell, str) else cell for cell in columns[chosen]],
        f"{table_name}: column {chosen!r}",
    )
    rows = [row for row in range(len(files)) if has[row]]
    if not rows:
        msg = f"{table_name}: expected labels in column {chosen!r}, got none: all of its {plural(len(files), 'row')} are unlabelled. Name another column with `labels_column`, or label the pictures: the similarity rests on labels."
        raise LabelError(msg)
    splits, unlabelled = _spelled_splits(columns), len(files) - len(rows)
    rows = rows_without_foreign_splits(rows, values, splits or ["train"] * len(files), table_name)
    encoding = encode_labels([values[row] for row in rows], table_name, n=len(rows))
    names = [files[row] for row in rows]
    _check_distinct(names, table_name)
    _warn_left_out(root, table_name, unlabelled=unlabelled, names=set(files))
    source = CsvSource(
        location,
        str(root),
        [str(path) for path in tables.values()],
        names=names,
        labels=encoding.labels,
        class_names=encoding.class_names,
        splits=None if splits is None else splits_by_name([splits[row] for row in rows]),
    )
    source.columns = {name: [cells[row] for row in rows] for name, cells in columns.items()}
    return source


def _tables_of(root: Path, labels: str) -> dict[str, Path]:
    """Find the files of labels: at the path, else in the folder, else beside it, else one in each of its splits.

    Returns: file by folder whose pictures it names, ``""`` = the root.
    """
    for path in (home_path(labels), root / labels, root.parent / labels):
        if path.is_file():
            return {"": path}
    in_splits = {
        folder.name: folder / labels
        for folder in sorted(root.iterdir())
        if split_of(folder.name) is not None and (folder / labels).is_file()
    }
    if in_splits:
        return in_splits
    msg = f"expected a CSV file, got nothing at {printable(labels)}, nor in {printable(str(root))}. Check the path."
    raise MissingPathError(msg, param="labels")


def _read_tables(tables: Mapping[str, Path], root: str) -> tuple[dict[str, list[Any]], list[str], str, str]:
    """Read the tables of a folder, and find the picture of each row.

    Returns: the columns that all tables have; `n` paths of pictures; the column that names them; the tables, for messages.
    """
    content = walk(root)
    files = [f"{folder}/{name}" if folder else name for folder, names in content.pictures.items() for name in names]
    locations = {split: printable(str(path)) for split, path in tables.items()}
    parts, pictures = [], list[str]()
    column = ""
    for split, path in tables.items():
        columns = _read_table(path)
        inside = [file.removeprefix(f"{split}/") for file in files if not split or file.startswith(f"{split}/")]
        rows, column = _resolve_pictures(columns, inside, f"{root}/{split}".rstrip("/"), locations[split])
        pictures += [f"{split}/{file}" if split else file for file in rows]
        parts.append({**columns, "split": [split] * len(rows)} if split else columns)
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return (
        {name: [cell for part in parts for cell in part[name]] for name in names},
        pictures,
        column,
        ", ".join(locations.values()),
    )


def _read_table(path: Path) -> dict[str, list[Any]]:
    """Read a table with a head, or JSON lines. Cells are as written.

    Raises:
        DataError: no table, or rows of another length.
    """
    location = printable(str(path))
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _read_json_lines(path, location)
    table = read_csv(path)
    if not table.rows:
        msg = f"{location}: expected a head of distinct names and a row a picture, got 1 row. Write a head such as filename,label."
        raise DataError(msg)
    for line, row in zip(table.lines, table.rows, strict=True):
        if len(row) != len(table.names):
            msg = f"{location} row {line}: expected {len(table.names)} cells, got {len(row)}. Correct the row."
            raise DataError(msg)
    return dict[str, list[Any]](table.columns())


def _read_json_lines(path: Path, location: str) -> dict[str, list[Any]]:
    UNPACKED.check(path.stat().st_size, location)
    rows: list[dict[str, Any]] = []
    try:
        lines = ordinary_file(path).read_bytes().decode("utf-8-sig").split("\n")
        rows.extend({**parse_json(line)} for line in lines if line.strip())
    except (OSError, TypeError, ValueError) as error:
        msg = f"{location}: expected JSON lines, an object a picture, got {in_words(error)} in entry {len(rows) + 1}. Correct the line."
        raise DataError(msg) from error
    columns = as_columns(rows, location)
    if not columns:
        msg = f'{location}: expected JSON lines, an object a picture, got none. Write a line such as {{"file_name": "1.png", "label": "cat"}}.'
        raise DataError(msg)
    return columns


def _resolve_pictures(
    columns: Mapping[str, Sequence[Any]], files: Sequence[str], root: str, location: str
) -> tuple[list[str], str]:
    """Find the picture of each row, and the column that names the pictures.

    Args:
        columns: of the table.
        files: paths of pictures below the root.
        root: for messages.
        location: of the table, for messages.

    Raises:
        DataError: no column names pictures; some are not there; a name is that of several.
    """
    texts = {name: cells for name, cells in columns.items() if all(isinstance(cell, str) for cell in cells)}
    pictures, column = _find_picture_column(texts, files) if texts else (_Pictures(files), None)
    if column is None:
        likely = [name for name in texts if name.casefold() in PICTURES] or list(texts)
        looked_for = f", such as {printable(repr(texts[likely[0]][0]))} of {likely[0]!r}," if likely else ""
        msg = f"{location}: expected a column that names pictures in {printable(root)}, got {', '.join(list(columns)[:12])}: none of their values{looked_for} is one of its {plural(len(files), 'picture')}. Check the folder."
        raise DataError(msg)
    _check_head(texts, column, pictures, location)
    cells = texts[column]
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
    """The pictures of a folder by name.

    Args:
        files: their paths below the folder.
        is_loose: case and composition of a name may differ.
    """

    def __init__(self, files: Sequence[str], *, is_loose: bool = False) -> None:
        self._files, self._prefix = frozenset(files), ""
        self._files_by_name = _files_by_name(files, str)
        self._files_by_loose_name = _files_by_name(files, _loose_key) if is_loose else {}

    def below(self, prefix: str) -> _Pictures:
        """Return the same pictures for names that have folders before the path below the folder."""
        pictures = copy(self)
        pictures._prefix = prefix  # noqa: SLF001  of this class
        return pictures

    def of(self, cell: str) -> list[str]:
        """Return the pictures that a cell may name: one for a path, several for an ambiguous name.

        Spaces around it count where they are of a file's name.
        """
        names = [_plain_path(spelling).removeprefix(self._prefix) for spelling in dict.fromkeys((cell, cell.strip()))]
        for name in names:
            if name in self._files:
                return [name]
        for files_by_name, form in ((self._files_by_name, str), (self._files_by_loose_name, _loose_key)):
            for name in names:
                if files := files_by_name.get(form(name)):
                    return files
        return []


def _plain_path(cell: str) -> str:
    """Return a path with slashes, without ``./`` before it and without those that are doubled."""
    return re.sub(r"/(\./)*/*", "/", cell.replace("\\", "/")).removeprefix("./")


def _prefixes(cells: Sequence[str]) -> list[str]:
    """Return what may stand before the paths below a folder: folders that all cells begin with, the fewest first.

    A table written on another machine, or beside the folder, names all pictures with such folders before them.
    """
    folders = [_plain_path(cell.strip()).split("/")[:-1] for cell in cells]
    levels = islice(zip(*folders, strict=False), _MOST_LEVELS)
    shared = [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
    return ["", *("/".join(shared[:count]) + "/" for count in range(1, len(shared) + 1))]


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
    pairs = sorted(
        ((prefix, name) for name in likely for prefix in _prefixes(columns[name])), key=lambda pair: pair[0].count("/")
    )
    best: tuple[int, _Pictures, str | None] = (0, _Pictures(files), None)
    for is_loose in (False, True):
        named = _Pictures(files, is_loose=is_loose)
        for prefix, name in pairs:
            pictures = named.below(prefix)
            hits = _count_hits(pictures, columns[name])
            best = (hits, pictures, name) if hits > best[0] else best
        if best[2] is not None and best[0] == len(columns[best[2]]):
            break
    return best[1:]


def _count_hits(pictures: _Pictures, cells: Sequence[str]) -> int:
    """Count the cells that name a picture; 0 without looking further if none of the first ones does."""
    return sum(bool(pictures.of(cell)) for cell in cells) if any(map(pictures.of, cells[:_MAX_TRIED])) else 0


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


def _spelled_splits(columns: Mapping[str, Sequence[Any]]) -> list[str] | None:
    """Read the split of each row from a column `split`; None unless all of it spells splits."""
    name = next((name for name in columns if name.lower() == "split"), None)
    spelled = [] if name is None else [split_of(str(cell)) for cell in columns[name]]
    splits = [split for split in spelled if split is not None]
    return splits if spelled and len(splits) == len(spelled) else None


def _warn_left_out(root: Path, location: str, *, unlabelled: int, names: set[str]) -> None:
    parts = [f"{plural(unlabelled, 'row')} without a label"] if unlabelled else []
    n_unnamed = sum(len(files) for files in walk(str(root)).pictures.values()) - len(names)
    parts += [f"{plural(n_unnamed, 'picture')} that the file does not name"] if n_unnamed > 0 else []
    if parts:
        warnings.warn(f"{location}: left out {'; '.join(parts)}.", DatasetWarning, stacklevel=5)


def _matches(location: Place) -> bool:
    return location.path is None and "::labels=" in location.text


def _open_location(location: Place) -> CsvSource:
    parts = split_labelled(location.text)
    assert parts is not None  # noqa: S101  matched
    return open_labelled(location.text, *parts)


READER = Reader(_matches, _open_location)
