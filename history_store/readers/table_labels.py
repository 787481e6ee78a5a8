"""Labels in a column of a table: choice of the column, unlabelled rows, and labels of other tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from warmstart.history_store.errors import LabelError

LABELS = (
    "label",
    "labels",
    "class",
    "class_name",
    "classname",
    "category",
    "target",
    "fine_label",
    "breed",
    "species",
    "y",
)
"""Columns that hold labels, the likeliest first."""
_MAX_NAMED = 12
_LONGEST = 1000
"""Python refuses to read a number of several thousand digits."""
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_PLAIN = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0*)?")
_IDENTIFIER = re.compile(r"[-+]?0[0-9]+")


def choose_column(names: Sequence[str], column: str | None, location: str) -> str:
    """Return the column of the labels: by its name, by a usual name, or the only one.

    Args:
        names: columns that may be it.
        column: its name, where a person said it.
        location: what an error names.

    Raises:
        LabelError: none of that name, or several that could be meant.
    """
    names_text = ", ".join(names[:_MAX_NAMED]) or "none"
    if column is not None:
        if column not in names:
            msg = f"{location}: expected a column {column!r} with labels, got {names_text}. Correct its name."
            raise LabelError(msg)
        return column
    lower = {name.lower(): name for name in reversed(names)}
    usual = next((lower[name] for name in LABELS if name in lower), None)
    if usual is not None:
        return usual
    if len(names) == 1:
        return names[0]
    got = "several columns that may be it" if len(names) > 1 else "no column"
    msg = f"{location}: expected a column of labels ({', '.join(LABELS[:4])}, …), got {got}: {names_text}. Name it with `labels_column`; one-hot columns must become one."
    raise LabelError(msg)


def read_labels(cells: Sequence[Any], location: str) -> tuple[list[Any], list[bool]]:
    """Read labels: whole numbers as numbers, anything else as text.

    Numbers are texts where two that are written differently would be one (``1e3`` and ``1000``, but not ``1`` and
    ``1.0``), and where one does not fit into 64 bits.

    Args:
        cells: as the table has them; bytes are text.
        location: what an error names.

    Returns: the labels, and which rows have one: empty cells and −1 have none.

    Raises:
        LabelError: real numbers, which belong to a regression; boxes or lists, which belong to a detection.
    """
    cells = [cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else cell for cell in cells]
    labelled = [not _is_empty(cell) for cell in cells]
    labelled_cells = [cell for cell, has in zip(cells, labelled, strict=True) if has]
    if any(isinstance(cell, list | tuple | dict) for cell in labelled_cells):
        msg = f"{location}: expected one class a picture, got lists: labels of a multi-label, detection or segmentation task. warmstart compares classification datasets alone."
        raise LabelError(msg)
    numbers = _numbers(labelled_cells, location)
    if numbers is not None:
        rows = [numbers[cell] if has else -1 for cell, has in zip(cells, labelled, strict=True)]
        return rows, [has and row != -1 for has, row in zip(labelled, rows, strict=True)]
    texts = iter([str(cell).strip() for cell in labelled_cells])
    return [next(texts) if has else "" for has in labelled], labelled


def _is_empty(cell: Any) -> bool:
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and not cell.strip())
    )


def _numbers(cells: Sequence[Any], location: str) -> dict[Any, int] | None:
    """Return the whole number of each cell; None if the labels are texts.

    Raises:
        LabelError: numbers that are not whole.
    """
    number_by_cell = {cell: _number(cell) for cell in dict.fromkeys(cells)}
    if not number_by_cell or None in number_by_cell.values():
        return None
    whole = {cell: number for cell, number in number_by_cell.items() if isinstance(number, int)}
    if len(whole) < len(number_by_cell):
        first = next(cell for cell in number_by_cell if cell not in whole)
        msg = f"{location}: expected classes, got real numbers such as {first}: labels of a regression. warmstart compares classification datasets alone; put the numbers into classes, or name another column with `labels_column`."
        raise LabelError(msg)
    spellings = {_spelled(cell, number) for cell, number in whole.items()}
    is_distinct = len(spellings) == len(set(whole.values()))
    return whole if is_distinct and all(-(2**63) <= number < 2**63 for number in whole.values()) else None


def _number(cell: Any) -> int | float | None:
    """Return a number, whole ones as int; None for text, 1_1 and identifiers such as 007 included."""
    if isinstance(cell, int):
        return int(cell)
    if isinstance(cell, float):
        number = cell
    else:
        text = str(cell).strip()
        if len(text) > _LONGEST or not _NUMBER.fullmatch(text) or _IDENTIFIER.fullmatch(text):
            return None
        if match := _PLAIN.fullmatch(text):
            # Not through a float, which has 53 bits.
            return int(match[1])
        number = float(text)
        if not math.isfinite(number):
            return None
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _spelled(cell: Any, number: int) -> str:
    """Return the spelling of a whole number, without zeros behind its point."""
    is_plain = not isinstance(cell, str) or _PLAIN.fullmatch(cell.strip())
    return str(number) if is_plain else cell.strip()
