"""Text tables of a given width; no number is folded or cut."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmstart.history_store.wording import in_short

Row = Mapping[str, Any]
GAP = "   "
LINE = "─"
TURNED = 12
"""Rows, at most, of a table that is turned rather than made narrower."""
LEAST = 16
"""Width, at least, of text that is wrapped."""
_ILLEGIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and what stands in Python for the bytes of a file name that are no UTF-8."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text.

    Attributes:
        lines: of the table.
        left_out: heads of the columns for which there was no room.
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
        """Return the cells that it takes on one line a row."""
        return max(_cells(text) for text in (self.head, *self.values))

    @property
    def least(self) -> int:
        """Return the cells that it needs: numbers and words stay whole."""
        if self.is_numeric or self.width <= LEAST:
            return self.width
        words = [word for value in self.values for word in value.split()]
        return max(LEAST, _cells(self.head), *map(_cells, words))


def table(rows: Sequence[Row], width: int, *, optional: Sequence[str] = ()) -> Table:
    """Lay rows out in so many columns of a terminal; their keys are the heads.

    Where it is too wide, text is wrapped at its spaces; a table of a few rows is turned, so that a column is a row; else
    optional columns are left out; else it is turned all the same, in parts one below the other.

    Args:
        rows: values by head.
        width: cells of a line.
        optional: heads that may be left out, the first one first.
    """
    from warmstart.suggestions.formats import heads_of  # `--help` shows no table of rows

    heads = heads_of(rows)
    columns = [_column(rows, head) for head in heads]
    if not columns:
        return Table(())
    if _least(columns) <= width:
        return Table(_plain(columns, width))
    if len(rows) > TURNED:
        left_out: list[str] = []
        for head in [head for head in optional if head in heads]:
            left_out.append(head)
            kept = [column for column in columns if column.head not in left_out]
            if kept and _least(kept) <= width:
                return Table(_plain(kept, width), tuple(left_out))
    return Table(_turned(columns, width))


def cell(value: Any) -> str:
    """Write one value for people: numbers by `in_short`, `-` for None and NaN."""
    if value is None or value != value:
        return "-"
    return legible(" ".join(in_short(value).split()))


def legible(text: str) -> str:
    r"""Write what a terminal would obey, or could not show, as escapes that JSON reads too: ``\u001b``."""
    return _ILLEGIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_known_letters(error: UnicodeError) -> tuple[str, int]:
    """Write what the encoding of a stream lacks: lines of tables as dashes, all else as `legible` does; a handler for `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    units = [char.encode("utf-16-be", "surrogatepass").hex() for char in lacking]
    return "".join(
        "-" if char == LINE else "".join(f"\\u{unit[at : at + 4]}" for at in range(0, len(unit), 4))
        for char, unit in zip(lacking, units, strict=True)
    ), error.end


def _column(rows: Sequence[Row], head: str) -> _Column:
    values = [row.get(head) for row in rows]
    return _Column(
        legible(head), tuple(map(cell, values)), all(isinstance(value, int | float | None) for value in values)
    )


def _least(columns: Sequence[_Column]) -> int:
    return sum(column.least for column in columns) + len(GAP) * (len(columns) - 1)


def _plain(columns: Sequence[_Column], width: int) -> tuple[str, ...]:
    """Draw a row a line; what is too wide is wrapped, the widest text first."""
    widths = [column.width for column in columns]
    spare = width - len(GAP) * (len(columns) - 1)
    while sum(widths) > spare:
        rest = [i for i, column in enumerate(columns) if widths[i] > column.least]
        widest = max(rest, key=lambda i: widths[i])
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


def _turned(columns: Sequence[_Column], width: int) -> tuple[str, ...]:
    """Draw a column a line, so many rows side by side as fit, the others below them; the first column is the head."""
    first, *others = columns if len(columns) > 1 else (_Column("", ("",) * len(columns[0].values)), *columns)
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
            widths = [max(min(widths[0], room), LEAST)]
        if lines:
            lines.append("")
        drawn = [_Column("", (), is_numeric=count > 1)] * len(widths)  # one alone reads better on the left
        names = [_Column("", ()), *drawn]
        lines += _row([first.head, *first.values[start:end]], names, [side, *widths])
        lines.append(LINE * (side + sum(widths) + len(GAP) * len(widths)))
        for column in others:
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
    """Count the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
