"""Tables in text, with a head: commas, semicolons or tabs, as programs and spreadsheets write them."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.limits import CELL_BYTES, UNPACKED, check_unpacked, ordinary_file
from warmstart.history_store.readers.base import printable
from warmstart.history_store.wording import FaultError, in_words

# Python's usual limit of 128 KiB is less than a long curve. It can only be set for the whole process.
csv.field_size_limit(2**31 - 1)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_SEPARATOR = re.compile(r'"?sep=([,;\t])"?\r?\n', re.IGNORECASE)
"""First line by which a spreadsheet names the delimiter."""
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?(e[+-]?\d+)?(\s*%)?", re.ASCII | re.IGNORECASE)
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?(\s*%)?", re.ASCII | re.IGNORECASE)
_PERCENTAGE = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)\s*%", re.ASCII)
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class CsvTable:
    """Rows of text cells under distinct names, without rows that are blank.

    Attributes:
        names: of the columns, without spaces around them.
        rows: cells; each row as long as the head, unless rows may be shorter.
        lines: number of the line in which each row ends, from 1.
        has_decimal_commas: whether numbers are written with a comma in place of the point.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    has_decimal_commas: bool

    def columns(self) -> dict[str, list[str]]:
        """Return the cells by column; cells that a row lacks at its end are empty, and numbers have points in place of decimal commas."""
        columns = {
            name: [row[index] if index < len(row) else "" for row in self.rows] for index, name in enumerate(self.names)
        }
        return {name: _with_points(cells) for name, cells in columns.items()} if self.has_decimal_commas else columns

    def numeric_columns(self) -> dict[str, list[str]]:
        """Return the cells by column, as `columns`; numbers are fractions where all are per cent."""
        percentages = self.percentages
        return {name: _as_fractions(cells) if name in percentages else cells for name, cells in self.columns().items()}

    @property
    def percentages(self) -> frozenset[str]:
        """Return the names of columns in which every cell that is not empty is a number of per cent."""
        columns = {name: list(filter(None, map(str.strip, cells))) for name, cells in self.columns().items()}
        return frozenset(name for name, cells in columns.items() if cells and all(map(_PERCENTAGE.fullmatch, cells)))


def read_csv(path: Path, content: str = "a CSV file in UTF-8 with a header") -> CsvTable:
    """Read a table; its head tells the delimiter.

    Args:
        path: of the file.
        content: what it should hold, for messages.

    Raises:
        DataError: no such table, two columns of one name, a row that is longer than the head, or a file above the limit of
            unpacked bytes.
    """
    location = printable(str(path))
    try:
        UNPACKED.check(path.stat().st_size, location)
        data = ordinary_file(path).read_bytes()
        names, rows, lines, delimiter = _parse(data)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        msg = f"{location}: expected {content}, got {in_words(error)}. Save it anew as CSV."
        raise DataError(msg) from error
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        msg = f"{location}: expected one column for {twice!r}, got two. Rename one."
        raise DataError(msg)
    for line, row in zip(lines, rows, strict=True):
        if len(row) > len(names):
            msg = f"{location}: expected a CSV file whose rows are no longer than the header, got {len(row)} cells for {len(names)} names in line {line}. Save it anew as CSV."
            raise DataError(msg)
    # Short rows are filled up.
    check_unpacked(CELL_BYTES * len(names) * len(rows), len(data), location)
    return CsvTable(names, rows, lines, delimiter != "," and _has_decimal_commas(rows))


def numbered_rows(text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table, each with the number of the line in which it ends, from 1.

    Raises:
        ValueError: quotes that stay open, or a lone carriage return.
    """
    # Lines end with a line feed alone, so that a lone carriage return outside quotes is an error, not a forged row.
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        msg = "quotes that stay open" if "unexpected end" in str(error) else str(error)
        raise FaultError(msg) from error


def _parse(data: bytes) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], tuple[int, ...], str]:
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    named = _SEPARATOR.match(text)
    head = text[named.end() if named else 0 :].lstrip("\r\n").partition("\n")[0]
    unquoted = _QUOTED.sub("", head)
    delimiter = named[1] if named else max(",;\t", key=unquoted.count)
    lines = numbered_rows(text, delimiter)
    if named:
        next(lines)
    numbered = [(line, tuple(row)) for line, row in lines if any(cell.strip() for cell in row)]
    if not numbered:
        msg = "an empty file"
        raise FaultError(msg)
    (_, padded), *below = numbered
    # Spreadsheets write columns of nothing beside a table; with a name, or a cell, a column stays.
    filled = {index for _, row in below for index, cell in enumerate(row) if cell.strip()}
    used = [index for index, name in enumerate(padded) if name.strip() or index in filled]
    rows = tuple(_cells(row, padded, used) for _, row in below)
    names = tuple(padded[index].strip() for index in used)
    return names, rows, tuple(line for line, _ in below), delimiter


def _cells(row: Sequence[str], head: Sequence[str], used: Sequence[int]) -> tuple[str, ...]:
    """Return the cells of the used columns, then those beyond the head; below a name with spaces around it, without spaces."""
    inside = (
        row[index] if head[index] == head[index].strip() else row[index].strip()
        for index in takewhile(lambda index: index < len(row), used)
    )
    beyond = row[len(head) :]
    return (*inside, *(beyond if "".join(beyond).strip() else ()))


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether some cell is a number with a decimal comma, and none is one with a point."""
    cells = {cell.strip() for row in rows for cell in row}
    return any("," in cell and _COMMA_NUMBER.fullmatch(cell) for cell in cells) and not any(
        _POINT_NUMBER.fullmatch(cell) for cell in cells
    )


def _with_points(cells: list[str]) -> list[str]:
    is_numeric = all(not cell.strip() or _COMMA_NUMBER.fullmatch(cell.strip()) for cell in cells)
    return [cell.replace(",", ".") for cell in cells] if is_numeric else cells


def _as_fractions(cells: list[str]) -> list[str]:
    return [str(Decimal(cell.replace(",", ".").strip().rstrip("% ")) / 100) if cell.strip() else cell for cell in cells]
