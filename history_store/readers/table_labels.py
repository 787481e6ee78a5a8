"""Labels out of a column of a table: which column, which rows are labelled, and what is no class but another task."""

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
_MOST_SHOWN = 12
_LONGEST = 1000
"""Python refuses to read a number of several thousand digits."""
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_PLAIN = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0*)?")
_IDENTIFIER = re.compile(r"[-+]?0[0-9]+")


def choose_column(names: Sequence[str], wanted: str | None, where: str) -> str:
    """Return the column of the labels: the one asked for, one of a usual name, or the only one.

    Args:
        names: columns that may be it.
        wanted: its name, where a person said it.
        where: what an error names.

    Raises:
        LabelError: none of that name, or several that could be meant.
    """
    shown = ", ".join(names[:_MOST_SHOWN]) or "none"
    if wanted is not None:
        if wanted not in names:
            msg = f"{where}: expected a column {wanted!r} with labels, got {shown}. Correct its name."
            raise LabelError(msg)
        return wanted
    lower = {name.lower(): name for name in reversed(names)}
    found = next((lower[name] for name in LABELS if name in lower), None)
    if found is not None:
        return found
    if len(names) == 1:
        return names[0]
    what = "several columns that may be it" if len(names) > 1 else "no column"
    msg = f"{where}: expected a column of labels ({', '.join(LABELS[:4])}, …), got {what}: {shown}. Name it with `labels_column`; one-hot columns must become one."
    raise LabelError(msg)


def read_labels(cells: Sequence[Any], where: str) -> tuple[list[Any], list[bool]]:
    """Read labels: whole numbers as numbers, anything else as text.

    Numbers are texts where two that are written differently would be one (``1e3`` and ``1000``, but not ``1`` and
    ``1.0``), and where one does not fit into 64 bits.

    Args:
        cells: as the table has them; bytes are text.
        where: what an error names.

    Returns: the labels, and which rows have one: empty cells and −1 have none.

    Raises:
        LabelError: real numbers, which belong to a regression; boxes or lists, which belong to a detection.
    """
    cells = [cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else cell for cell in cells]
    labelled = [not _is_empty(cell) for cell in cells]
    known = [cell for cell, has in zip(cells, labelled, strict=True) if has]
    if any(isinstance(cell, list | tuple | dict) for cell in known):
        msg = f"{where}: expected one class a picture, got lists: labels of a multi-label, detection or segmentation task. warmstart compares classification datasets alone."
        raise LabelError(msg)
    numbers = _numbers(known, where)
    if numbers is not None:
        rows = [numbers[cell] if has else -1 for cell, has in zip(cells, labelled, strict=True)]
        return rows, [has and row != -1 for has, row in zip(labelled, rows, strict=True)]
    texts = iter([str(cell).strip() for cell in known])
    return [next(texts) if has else "" for has in labelled], labelled


def _is_empty(cell: Any) -> bool:
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and not cell.strip())
    )


def _numbers(known: Sequence[Any], where: str) -> dict[Any, int] | None:
    """Return the whole number of each cell, None where they are texts.

    Raises:
        LabelError: numbers that are not whole.
    """
    read = {cell: _number(cell) for cell in dict.fromkeys(known)}
    if not read or None in read.values():
        return None
    whole = {cell: number for cell, number in read.items() if isinstance(number, int)}
    if len(whole) < len(read):
        first = next(cell for cell in read if cell not in whole)
        msg = f"{where}: expected classes, got real numbers such as {first}: labels of a regression. warmstart compares classification datasets alone; put the numbers into classes, or name another column with `labels_column`."
        raise LabelError(msg)
    spellings = {_spelled(cell, number) for cell, number in whole.items()}
    is_distinct = len(spellings) == len(set(whole.values()))
    return whole if is_distinct and all(-(2**63) <= number < 2**63 for number in whole.values()) else None


def _number(cell: Any) -> int | float | None:
    """Return a whole number as int; None for what is none, 1_1 and identifiers such as 007 among them."""
    if isinstance(cell, int):
        return int(cell)
    if isinstance(cell, float):
        number = cell
    else:
        text = str(cell).strip()
        if len(text) > _LONGEST or not _NUMBER.fullmatch(text) or _IDENTIFIER.fullmatch(text):
            return None
        if match := _PLAIN.fullmatch(text):
            return int(match[1])  # exactly: a float has 53 bits
        number = float(text)
        if not math.isfinite(number):
            return None
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _spelled(cell: Any, number: int) -> str:
    """Return how a whole number is written, without the zeros behind its point."""
    is_plain = not isinstance(cell, str) or _PLAIN.fullmatch(cell.strip())
    return str(number) if is_plain else cell.strip()
