"""Text tables of a given width; no number is folded or cut."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmstart.history_store.quoting import heads_of, in_line
from warmstart.history_store.wording import in_short

Row = Mapping[str, Any]
GAP = "   "
LINE = "─"
MAX_TRANSPOSED_ROWS = 12
"""Most rows of a table that is transposed rather than narrowed."""
MIN_TEXT_WIDTH = 16
"""Least width of wrapped text."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text.

    Attributes:
        lines: of the table.
        left_out: heads of the columns that did not fit.
    """

    lines: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its head and its values as text."""

    head: str
    values: tuple[str, ...]
    is_numeric: bool = False

    @property
    def width(self) -> int:
        """Return its width in cells with every value on one line."""
        return max(_cells(text) for text in (self.head, *self.values))

    @property
    def least(self) -> int:
        """Return its least width in cells: numbers and words stay whole."""
        if self.is_numeric or self.width <= MIN_TEXT_WIDTH:
            return self.width
        words = [word for value in self.values for word in value.split()]
        return max(MIN_TEXT_WIDTH, _cells(self.head), *map(_cells, words))


def table(rows: Sequence[Row], width: int, *, optional: Sequence[str] = ()) -> Table:
    """Lay out rows as a table of a given width; their keys are the heads.

    Where it is too wide, text is wrapped at its spaces; a table of a few rows is transposed; else optional columns are
    left out; else it is transposed all the same, in parts one below the other.

    Args:
        rows: values by head.
        width: cells of a line.
        optional: heads that may be left out, the first one first.
    """
    heads = heads_of(rows)
    columns = _columns(rows, heads)
    if not columns:
        return Table(())
    if _least(columns) <= width:
        return Table(_plain(columns, width))
    if len(rows) > MAX_TRANSPOSED_ROWS:
        left_out: list[str] = []
        for head in [head for head in optional if head in heads]:
            left_out.append(head)
            narrower = [column for column in columns if column.head not in left_out]
            if narrower and _least(narrower) <= width:
                return Table(_plain(narrower, width), tuple(left_out))
    return Table(_transposed(columns, width))


def cells(values: Sequence[Any]) -> tuple[str, ...]:
    """Write values for people: numbers by `in_short`, `-` for None and NaN."""
    texts = ["-" if value is None or value != value else " ".join(in_short(value).split()) for value in values]
    return tuple(map(in_line, texts))


def escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks: table lines by dashes, others by escapes; an error handler for `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    units = [char.encode("utf-16-be", "surrogatepass").hex() for char in lacking]
    return "".join(
        "-" if char == LINE else "".join(f"\\u{unit[at : at + 4]}" for at in range(0, len(unit), 4))
        for char, unit in zip(lacking, units, strict=True)
    ), error.end


def _columns(rows: Sequence[Row], heads: Sequence[str]) -> list[_Column]:
    names, n = [in_line(head) for head in heads], len(rows)
    values = [[row.get(head) for row in rows] for head in heads]
    texts = cells([value for column in values for value in column])
    return [
        _Column(name, texts[i * n : (i + 1) * n], all(isinstance(value, int | float | None) for value in values[i]))
        for i, name in enumerate(names)
    ]


def _least(columns: Sequence[_Column]) -> int:
    return sum(column.least for column in columns) + len(GAP) * (len(columns) - 1)


def _plain(columns: Sequence[_Column], width: int) -> tuple[str, ...]:
    """Draw one row per line; wrap the widest text first."""
    widths = [column.width for column in columns]
    spare = width - len(GAP) * (len(columns) - 1)
    while sum(widths) > spare:
        wrappable = [i for i, column in enumerate(columns) if widths[i] > column.least]
        # One cell at a time from the widest column keeps the columns even.
        widest = max(wrappable, key=lambda i: widths[i])
        widths[widest] -= 1
    lines = _row([column.head for column in columns], columns, widths)
    lines.append(LINE * (sum(widths) + len(GAP) * (len(columns) - 1)))
    for values in zip(*(column.values for column in columns), strict=True):
        lines += _row(values, columns, widths)
    return tuple(lines)


def _row(texts: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> list[str]:
    """Draw one row, on as many lines as its longest text needs."""
    cells = [_wrapped(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for number in range(max(map(len, cells))):
        parts = [
            _aligned(part[number] if number < len(part) else "", width, right=column.is_numeric)
            for part, column, width in zip(cells, columns, widths, strict=True)
        ]
        lines.append(GAP.join(parts).rstrip())
    return lines


def _transposed(columns: Sequence[_Column], width: int) -> tuple[str, ...]:
    """Draw one column per line, as many rows side by side as fit, the next ones below; the first column is the head."""
    first, *body = columns if len(columns) > 1 else (_Column("", ("",) * len(columns[0].values)), *columns)
    side = max(_cells(column.head) for column in columns)
    room = width - side - len(GAP)
    lines: list[str] = []
    start, count = 0, len(first.values)
    while start < count:
        widths: list[int] = []
        while start + len(widths) < count:
            need = max(_cells(column.values[start + len(widths)]) for column in columns)
            if widths and sum(widths) + need + len(GAP) * len(widths) > room:
                break
            widths.append(need)
        end = start + len(widths)
        if len(widths) == 1:
            widths = [max(min(widths[0], room), MIN_TEXT_WIDTH)]
        if lines:
            lines.append("")
        # A single column reads better on the left.
        drawn = [_Column("", (), is_numeric=count > 1)] * len(widths)
        names = [_Column("", ()), *drawn]
        lines += _row([first.head, *first.values[start:end]], names, [side, *widths])
        lines.append(LINE * (side + sum(widths) + len(GAP) * len(widths)))
        for column in body:
            lines += _row([column.head, *column.values[start:end]], names, [side, *widths])
        start = end
    return tuple(lines)


def _wrapped(text: str, width: int) -> list[str]:
    if _cells(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _aligned(text: str, width: int, *, right: bool) -> str:
    fill = " " * (width - _cells(text))
    return fill + text if right else text + fill


def _cells(text: str) -> int:
    """Count the terminal cells of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
