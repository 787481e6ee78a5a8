"""Tables of pictures of Hugging Face `datasets`: Parquet, and Arrow of `save_to_disk`."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import DataError, LabelError, MissingPathError, UsageError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.images import BrokenImage, DatasetWarning, FingerprintKind
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.limits import check_parquet, check_picture_file, check_unpacked, ordinary_file
from warmstart.history_store.parquet_file import arrow_errors, parquet_batches
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.blobs import BlobSource, check_blob
from warmstart.history_store.readers.labels import choose_column, encode_labels, read_labels
from warmstart.history_store.readers.parts import check_parts, warn_of_other_parts
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tree import rows_without_foreign_splits, split_of, splits_of

ENDINGS = (".parquet", ".arrow")
PICTURES = ("image", "img", "picture", "jpg", "jpeg", "png", "webp", "pixel_values", "images")
_ROW_BYTES = 100
"""Memory that a row takes beside its picture: a column without values has no bytes in the file."""
GROUP = 64
"""Rows of an Arrow file that are hashed together."""
SAMPLED_GROUPS = 8
"""Groups of rows that `listing` fingerprints read."""
_BOXES = frozenset({"objects", "bbox", "bboxes", "boxes", "annotations"})
_MASKS = frozenset({"mask", "masks", "segmentation", "segmentation_mask", "semantic_segmentation", "annotation"})
_MARK = "::column="


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a table; its rows begin at number `first` and are read in groups."""

    path: Path
    first: int
    starts: tuple[int, ...]
    n: int


class TableSource(BlobSource):
    """Pictures in the cells of a table; labels are read first, groups of rows when pictures are needed."""

    def __init__(self, location: str, paths: Sequence[Path], column: str | None = None) -> None:
        printable_location = printable(location)
        self._files, cells, self._image, chosen, names = _list_table(paths, column, printable_location)
        values, has = read_labels(cells, f"{printable_location}: column {chosen!r}")
        rows = [row for row in range(len(cells)) if has[row]]
        if not rows:
            msg = f"{printable_location}: expected labels in column {chosen!r}, got none: all of its {plural(len(cells), 'row')} are unlabelled (−1 or empty). Take a split that has labels, or name another column with `labels_column`."
            raise LabelError(msg)
        if len(rows) < len(cells):
            left_out = len(cells) - len(rows)
            warnings.warn(
                f"{printable_location}: left out {plural(left_out, 'row')} without a label.",
                DatasetWarning,
                stacklevel=5,
            )
        spelled = [split for file in self._files for split in [_split_of_file(file.path)] * file.n]
        rows = rows_without_foreign_splits(rows, values, spelled, printable_location)
        is_numbered = names is not None and isinstance(values[rows[0]], int)
        encoding = encode_labels([values[row] for row in rows], printable_location, n=len(rows), class_names=names if is_numbered else None)  # fmt: skip
        self._rows = np.array(rows, dtype=np.int64)
        self._cells_by_row: dict[int, Any] = {}
        super().__init__(
            location,
            "table",
            names=self._names(rows),
            labels=encoding.labels,
            class_names=encoding.class_names,
            splits=splits_of([spelled[row] for row in rows]),
        )

    def _names(self, rows: Sequence[int]) -> list[str]:
        """Return names of rows: their file below the common folder, and their number."""
        root = os.path.commonpath([file.path.parent for file in self._files])
        below = {file.path: file.path.relative_to(root).as_posix() for file in self._files}
        return [f"{below[file.path]}/{row - file.first:07d}" for row in rows for file in (self._file_of(row),)]

    def signature(self) -> str:
        """Return a signature of the files by path, size and time of change."""
        return "".join(file_signature(str(file.path), [""]) for file in self._files) + str(self.class_names)

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint labels and pictures; `listing` reads at most `SAMPLED_GROUPS` groups of rows."""
        whole = hashlib.sha256(f"warmstart table {kind} 1\0{len(self)}\0{self.class_names}".encode())
        whole.update(self.labels.tobytes())
        groups = [(number, group) for number, file in enumerate(self._files) for group in range(len(file.starts))]
        if kind == "listing" and len(groups) > SAMPLED_GROUPS:
            groups = sorted(sorted(groups, key=lambda pair: zlib.crc32(repr(pair).encode()))[:SAMPLED_GROUPS])
        labelled_rows = set(self._rows.tolist())
        for number, group in groups:
            first = self._files[number].first + self._files[number].starts[group]
            for offset, cell in enumerate(_read_group(self._files[number], group, self._image)):
                if first + offset in labelled_rows:
                    whole.update(_digest(cell, self._files[number].path.parent))
        return f"{kind}:{whole.hexdigest()[:40]}"

    def blob(self, index: int) -> bytes:
        """Return the bytes of one picture, from its cell or from the file that the cell names."""
        row = int(self._rows[index])
        file = self._file_of(row)
        if row not in self._cells_by_row:
            self._read_cells(np.array([index]))
        return _picture_bytes(self._cells_by_row[row], file.path.parent)

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        self._read_cells(indices)
        try:
            return super()._decode(indices, size)
        finally:
            self._cells_by_row = {}

    def _read_cells(self, indices: NDArray[np.int64]) -> None:
        """Read the cells of some pictures, each group of rows once."""
        rows = sorted(set(self._rows[indices].tolist()))
        self._cells_by_row = {}
        position = 0
        while position < len(rows):
            file = self._file_of(rows[position])
            group = int(np.searchsorted(file.starts, rows[position] - file.first, side="right")) - 1
            first = file.first + file.starts[group]
            end = file.first + (file.starts[group + 1] if group + 1 < len(file.starts) else file.n)
            cells = _read_group(file, group, self._image)
            while position < len(rows) and rows[position] < end:
                self._cells_by_row[rows[position]] = cells[rows[position] - first]
                position += 1

    def _file_of(self, row: int) -> _File:
        firsts = [file.first for file in self._files]
        return self._files[int(np.searchsorted(firsts, row, side="right")) - 1]


def _list_table(
    paths: Sequence[Path], column: str | None, location: str
) -> tuple[tuple[_File, ...], list[Any], str, str, list[str] | None]:
    """Read everything but the pictures: files, labels, the two columns, class names."""
    files: list[_File] = []
    cells: list[Any] = []
    image = chosen = ""
    names: list[str] | None = None
    for path in paths:
        schema, n, starts = _shape(path)
        if not n:
            continue
        features = _features(schema)
        if not image:
            image = _image_column(schema, features, location)
            _check_task(schema, features, image, location)
            other_columns = [name for name in schema.names if name != image]
            chosen = choose_column(
                _label_like(other_columns, features) if column is None else other_columns, column, location
            )
            names = _class_names(features.get(chosen, {}), location)
        elif not {image, chosen} <= set(schema.names):
            msg = f"{printable(str(path))}: expected the columns {image!r} and {chosen!r} of the files before it, got {', '.join(schema.names)}. Give one table."
            raise DataError(msg)
        files.append(_File(path, len(cells), starts, n))
        cells += _column(path, chosen)
        if len(cells) != files[-1].first + n:
            msg = f"{printable(str(path))}: expected {n:,} labels, got {len(cells) - files[-1].first:,}. Copy or download it again."
            raise DataError(msg)
    if not files:
        msg = f"{location}: expected a table of pictures, got no row. Check the path."
        raise DataError(msg)
    return tuple(files), cells, image, chosen, names


def _label_like(names: Sequence[str], features: Mapping[str, Any]) -> list[str]:
    """Return the columns that the table declares as classes, else all."""
    classes = [name for name in names if features.get(name, {}).get("_type") == "ClassLabel"]
    return classes or list(names)


def _image_column(schema: Any, features: Mapping[str, Any], location: str) -> str:
    declared = [name for name in schema.names if features.get(name, {}).get("_type") == "Image"]
    shaped = [field.name for field in schema if str(field.type).startswith(("struct", "binary", "large_binary")) and _holds_bytes(field.type)]  # fmt: skip
    usual = [name for name in PICTURES if name in schema.names]
    candidates = [name for name in usual if name in (*declared, *shaped)] + declared + shaped
    if not candidates:
        msg = f"{location}: expected a column of pictures (struct of bytes and path, or binary), got {', '.join(f'{field.name}: {field.type}' for field in schema)}. Save the dataset with its Image feature."
        raise DataError(msg)
    return str(candidates[0])


def _holds_bytes(kind: Any) -> bool:
    if "struct" in str(kind):
        return {kind.field(i).name for i in range(kind.num_fields)} >= {"bytes", "path"} or "bytes" in str(kind)
    return True


def _check_task(schema: Any, features: Mapping[str, Any], image: str, location: str) -> None:
    """Raise if a table belongs to another task."""
    names = {name.lower() for name in schema.names}
    pictures = [name for name in schema.names if name != image and features.get(name, {}).get("_type") == "Image"]
    task = "a detection" if names & _BOXES else "a segmentation" if names & _MASKS or pictures else ""
    if task and not names & {"label", "labels"}:
        columns = ", ".join(schema.names)
        msg = f"{location}: expected one class a picture, got the columns {columns}, which are those of {task} task. warmstart compares classification datasets alone."
        raise LabelError(msg)
    if not [name for name in schema.names if name != image]:
        msg = f"{location}: expected a column of labels beside {image!r}, got unlabelled pictures. The similarity of datasets rests on labels."
        raise LabelError(msg)


def _features(schema: Any) -> dict[str, Any]:
    """Read the columns' features from the metadata of `datasets`."""
    try:
        metadata = parse_json((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = metadata["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    # A sequence may be described by a list.
    pairs = features.items() if isinstance(features, dict) else ()
    return {name: feature for name, feature in pairs if isinstance(feature, dict)}


def _class_names(feature: Mapping[str, Any], location: str) -> list[str] | None:
    names = feature.get("names")
    try:
        if isinstance(names, dict):  # {"0": "cat", ...}
            names = [names[key] for key in sorted(names, key=int)]
        return [str(name) for name in names] if names else None
    except (TypeError, ValueError) as error:
        msg = f"{location}: expected names of classes, got {str(names)[:60]!r}. Save the dataset again."
        raise DataError(msg) from error


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        msg = "dataset: expected pyarrow for Parquet and Arrow, got an installation without it. Install it: pip install pyarrow."
        raise UsageError(msg) from error
    return pa


_CONTENT = "a Parquet or Arrow file"


def _shape(path: Path) -> tuple[Any, int, tuple[int, ...]]:
    """Return schema, number of rows, and the first rows of the groups; an Arrow file is checked whole."""
    _arrow()
    location, packed = printable(str(path)), path.stat().st_size
    with arrow_errors(path, _CONTENT):
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(ordinary_file(path)) as file:
                metadata = file.metadata
                check_unpacked(_ROW_BYTES * metadata.num_rows, packed, location)
                check_parquet(file, range(metadata.num_row_groups), packed, location)
                counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
                return file.schema_arrow, metadata.num_rows, tuple(np.cumsum([0, *counts])[:-1].tolist())
        table = _table(path)
        # Offsets that lead out of their buffer would read memory beside the file.
        table.validate(full=True)
        check_unpacked(_ROW_BYTES * table.num_rows, packed, location)
        return table.schema, table.num_rows, tuple(range(0, table.num_rows, GROUP))


def _table(path: Path) -> Any:
    """Map an Arrow file, in the stream format of `datasets` or in the file format."""
    pa = _arrow()
    mapped = pa.memory_map(str(ordinary_file(path)))
    try:
        return pa.ipc.open_stream(mapped).read_all()
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_file(mapped).read_all()


def _column(path: Path, name: str) -> list[Any]:
    with arrow_errors(path, _CONTENT):
        if path.suffix.lower() == ".parquet":
            return [cell for batch in parquet_batches(path, columns=[name]) for cell in batch[name].to_pylist()]
        values: list[Any] = _table(path)[name].to_pylist()
        return values


def _read_group(file: _File, group: int, image: str) -> list[Any]:
    """Read the cells of the pictures of one group of rows."""
    with arrow_errors(file.path, _CONTENT):
        if file.path.suffix.lower() == ".parquet":
            batches = parquet_batches(file.path, columns=[image], group=group)
            return [cell for batch in batches for cell in batch[image].to_pylist()]
        return list(_table(file.path)[image].slice(file.starts[group], GROUP).to_pylist())


def _picture_bytes(cell: Any, folder: Path) -> bytes:
    data = cell.get("bytes") if isinstance(cell, dict) else cell
    if isinstance(data, bytes):
        check_blob(len(data), "picture")
        return data
    path = cell.get("path") if isinstance(cell, dict) else cell
    if not isinstance(path, str) or not path:
        msg = "an empty cell"
        raise DataError(msg)
    file = next((candidate for candidate in (folder / path, Path(path)) if candidate.is_file()), None)
    if file is None:
        msg = f"a path that leads nowhere: {path}"
        raise DataError(msg)
    check_picture_file(str(file), "picture")
    return file.read_bytes()


def _digest(cell: Any, folder: Path) -> bytes:
    try:
        return hashlib.sha256(_picture_bytes(cell, folder)).digest()
    except (DataError, OSError):
        return b"unreadable"


def _split_of_file(path: Path) -> str | None:
    """Return the split that the first word of a file's name spells, or its folder's name."""
    return split_of(re.split(r"[-_.]", path.stem)[0]) or split_of(path.parent.name)


def table_files(folder: Path, entries: Sequence[str]) -> list[Path]:
    """Find the files of a table in a folder: right in it, in `data/`, or in a folder a split.

    Of Parquet and Arrow the first kind found counts: `datasets` keeps copies of one as the other.
    """
    folders = [folder, *(folder / entry for entry in entries if entry == "data" or split_of(entry) is not None)]
    for ending in ENDINGS:
        files = [
            path
            for candidate in folders
            if candidate.is_dir()
            for path in sorted(candidate.iterdir())
            if path.suffix.lower() == ending and not path.name.startswith((".", "cache-"))
        ]
        if files:
            return files
    return []


def _matches(location: Place) -> bool:
    if location.path is None:
        return _MARK in location.text and "::labels=" not in location.text
    if not location.is_folder:
        return location.file.endswith(ENDINGS)
    return bool(table_files(location.path, location.entries))


def _open_location(location: Place) -> TableSource:
    text, _, column = location.text.partition(_MARK)
    path = home_path(text)
    if not path.exists():
        msg = f"{printable(text)}: expected a table of pictures, got nothing there. Check the path; `labels_column` needs a table or `labels`."
        raise MissingPathError(msg)
    if path.is_dir():
        files = table_files(path, sorted(os.listdir(path)))  # noqa: PTH208
        check_parts(files, printable(text))
    else:
        files = [path] if path.suffix.lower() in ENDINGS else []
        warn_of_other_parts(path)
    if not files:
        msg = f"{printable(text)}: expected Parquet or Arrow files whose column {column!r} holds labels, got none. Leave `labels_column` out, or give `labels`."
        raise DataError(msg)
    return TableSource(location.text, files, column or None)


READER = Reader(_matches, _open_location)
