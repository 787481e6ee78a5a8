"""Labels out of a column of a table: which column, which rows are labelled, and what is no class but another task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from history_store.errors import LabelError

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
    what = "columns of numbers or of several tasks" if len(names) > 1 else "no column"
    msg = f"{where}: expected a column of labels ({', '.join(LABELS[:4])}, …), got {what}: {shown}. Name it with `labels_column`; one-hot columns must become one."
    raise LabelError(msg)


def read_labels(cells: Sequence[Any], where: str) -> tuple[list[Any], list[bool]]:
    """Read labels: whole numbers as numbers, anything else as text.

    Args:
        cells: as the table has them.
        where: what an error names.

    Returns: the labels, and which rows have one: empty cells and −1 have none.

    Raises:
        LabelError: real numbers, which belong to a regression; boxes or lists, which belong to a detection.
    """
    labelled = [not _is_empty(cell) for cell in cells]
    known = [cell for cell, has in zip(cells, labelled, strict=True) if has]
    if any(isinstance(cell, list | tuple | dict) for cell in known):
        msg = f"{where}: expected one class a picture, got lists: labels of a multi-label, detection or segmentation task. warmstart compares classification datasets alone."
        raise LabelError(msg)
    numbers = [_number(cell) for cell in known]
    if known and all(number is not None for number in numbers):
        if any(number != int(number) for number in numbers if number is not None):
            first = next(
                cell
                for cell, number in zip(known, numbers, strict=True)
                if number is not None and number != int(number)
            )
            msg = f"{where}: expected classes, got real numbers such as {first}: labels of a regression. warmstart compares classification datasets alone; put the numbers into classes, or name another column with `labels_column`."
            raise LabelError(msg)
        values = iter([int(number) for number in numbers if number is not None])
        rows = [next(values) if has else -1 for has in labelled]
        return rows, [has and row != -1 for has, row in zip(labelled, rows, strict=True)]
    texts = iter([str(cell).strip() for cell in known])
    return [next(texts) if has else "" for has in labelled], labelled


def _is_empty(cell: Any) -> bool:
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and not cell.strip())
    )


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool | int | float):
        return float(cell)
    text = str(cell).strip()
    if len(text) > 1 and text[0] == "0" and text.isdigit():
        return None  # an identifier such as 007
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
