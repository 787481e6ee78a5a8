"""Labels of any kind, converted to 0 .. C-1 with the names of the classes; and the column of a table that holds them."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError
from warmstart.history_store.fingerprint import composed

_DIGITS_READ = 1000
"""Python refuses to read a number of several thousand digits."""
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Labelling:
    """Labels `n` int64 in 0 .. C-1, every class present, and the C class names."""

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]


def natural_key(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Return the sort key of natural order: ``class2`` before ``class10``, upper case beside lower."""
    parts = _DIGITS.split(name)
    return tuple(
        (0, int(part[:_DIGITS_READ]), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts if part
    ), name


def one_spelling(names: Iterable[str]) -> dict[str, str]:
    """Return the class name of each name: itself, or the composed one for two compositions of the same."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for name in names:
        spellings[composed(name)].add(name)
    return {name: name if len(same) == 1 else whole for whole, same in spellings.items() for name in same}


def encode_labels(raw: Any, location: str, *, n: int, class_names: Sequence[str] | None = None) -> Labelling:
    """Number the classes that occur, in natural order of their names, or in numeric order.

    Args:
        raw: `n` or `n x 1` integers, integers stored as floats, booleans, or strings, in any numbering from 0 on.
        location: what an error names.
        n: number of pictures.
        class_names: names of the labels 0, 1, …; or, for any other numbering, of the labels in rising order. Names that
            no picture carries are dropped.

    Raises:
        LabelError: when labels are missing, negative, fractional, one-hot, of another kind or number, or do not fit the
            names.
    """
    if raw is None:
        msg = f"{location}: expected a label for each picture, got none. Give labels: the similarity of datasets rests on their classes."
        raise LabelError(msg)
    values = raw if _are_texts(raw) else _flat_labels(np.asarray(raw), location)
    if len(values) != n:
        msg = f"{location}: expected {n} labels, one a picture, got {len(values)}. Check that images and labels belong together."
        raise LabelError(msg)
    if isinstance(values, list):
        return _encode_names(values, class_names, location)
    kind = values.dtype.kind
    if kind in "US":
        return _encode_names(as_texts(values, location).tolist(), class_names, location)
    if kind == "f":
        values = _whole_numbers(values, location)
    elif kind not in "iub":
        msg = f"{location}: expected integers or strings, got dtype {values.dtype}. Number the classes 0, 1, 2, …"
        raise LabelError(msg)
    return _encode_numbers(values.astype(np.int64), class_names, location)


def as_texts(values: NDArray[Any], location: str) -> NDArray[np.str_]:
    """Return an array as text; bytes that are no UTF-8 become escapes, so that names stay different.

    Raises:
        LabelError: raw bytes; characters that Unicode does not have, as a damaged file has them, or halves of surrogate
            pairs.
    """
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "backslashreplace")
    if values.dtype.kind == "V":
        msg = f"{location}: expected text, got dtype {values.dtype}. Store it as strings."
        raise LabelError(msg)
    texts = values.astype(str)
    codes = texts.ravel().view(np.uint32) if texts.dtype.itemsize else np.zeros(0, np.uint32)
    if np.any((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))):
        msg = f"{location}: expected text, got characters that Unicode does not have. Save or copy the file again."
        raise LabelError(msg)
    return texts


def _are_texts(raw: Any) -> bool:
    """Return whether labels are a list of texts: in an array, each would take the room of the longest."""
    return isinstance(raw, list) and bool(raw) and all(isinstance(label, str) for label in raw)


def _flat_labels(values: NDArray[Any], location: str) -> NDArray[Any]:
    # Lists of Python strings or integers, as from pandas.
    if values.dtype.kind == "O":
        values = np.array(values.tolist()) if values.ndim == 1 and len({type(v) for v in values}) == 1 else values
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 2:
        msg = f"{location}: expected one label a picture, got shape {values.shape}. Turn one-hot rows into numbers: labels.argmax(axis=1)."
        raise LabelError(msg)
    if values.ndim != 1:
        msg = f"{location}: expected labels of shape (n,), got shape {values.shape}. Give one label a picture."
        raise LabelError(msg)
    return values


def _whole_numbers(values: NDArray[Any], location: str) -> NDArray[np.int64]:
    odd = ~(np.abs(values) < 2.0**63) | (values != np.round(values))
    if odd.any():
        first = int(np.argmax(odd))
        msg = f"{location}: expected whole numbers, got {values[first]:g} for picture {first} (dtype {values.dtype}). Give the number or the name of the class."
        raise LabelError(msg)
    return values.astype(np.int64)


def _encode_numbers(values: NDArray[np.int64], names: Sequence[str] | None, location: str) -> Labelling:
    present, codes = np.unique(values, return_inverse=True)
    if present.size and present[0] < 0:
        n_negative = int((values < 0).sum())
        msg = f"{location}: expected labels of 0 or more, got {present[0]} ({n_negative} negative). Leave unlabelled pictures out."
        raise LabelError(msg)
    if names is None:
        chosen = [str(value) for value in present.tolist()]
    elif not present.size or present[-1] < len(names):
        chosen = [str(names[value]) for value in present.tolist()]
    elif len(names) == len(present):
        chosen = [str(name) for name in names]
    else:
        msg = f"{location}: expected a name for each label, got {len(names)} class names and labels up to {present[-1]}. Name all classes, or none."
        raise LabelError(msg)
    _check_distinct(chosen, location)
    return Labelling(codes.astype(np.int64), tuple(chosen))


def _encode_names(labels: Sequence[str], names: Sequence[str] | None, location: str) -> Labelling:
    spelled = one_spelling([*dict.fromkeys(labels), *map(str, names or ())])
    present_names = {spelled[label] for label in labels}
    if names is None:
        ordered = sorted(present_names, key=natural_key)
    else:
        ordered = [spelled[str(name)] for name in names if spelled[str(name)] in present_names]
        if unknown := present_names - set(ordered):
            msg = f"{location}: expected labels that are among the class names, got {min(unknown)!r}. Name all classes, or none."
            raise LabelError(msg)
        _check_distinct(ordered, location)
    rank = {name: position for position, name in enumerate(ordered)}
    return Labelling(np.array([rank[spelled[label]] for label in labels], dtype=np.int64), tuple(ordered))


def _check_distinct(names: Sequence[str], location: str) -> None:
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        msg = f"{location}: expected distinct class names, got {twice!r} twice. Rename one of the two."
        raise LabelError(msg)


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
