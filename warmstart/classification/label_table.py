"""Table of a dataset's labels to correct: all pictures, the doubtful ones first, for `--labels`."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers.arranged import names_in
from warmstart.locations import PathLike
from warmstart.metafeat.files import replace_file

HEAD = ("file", "label", "suggested", "why")
BOM = "\ufeff"
"""First character of a table, by which spreadsheets know that it is UTF-8."""


def label_table(source: ImageSource, doubted: Sequence[Mapping[str, Any]], copies: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as CSV.

    Args:
        source: the dataset; its own parts and further columns of its labels stay.
        doubted: labels that answers contradict, the most doubtful first.
        copies: groups of equal pictures whose labels or parts contradict each other.
    """
    names = names_in(source)
    classes = [source.class_names[label] for label in source.labels.tolist()]
    columns: dict[str, Sequence[str]] = {"split": _parts(source)} if len(source.splits) > 1 else {}
    columns |= {name: cells for name, cells in _further_columns(source).items() if name not in (*HEAD, *columns)}
    about = {each["image"]: (str(each["suggested"]), f"probability {each['probability']:.2f}") for each in doubted}
    for copy in copies:
        of_copy = [each["image"] for each in copy["images"]]
        for image in of_copy:
            suggested, why = about.get(image, ("", ""))
            others = ", ".join(name for name in of_copy if name != image)
            about[image] = (suggested, "; ".join(filter(None, (why, f"like {others}"))))
    row_of = {name: row for row, name in enumerate(names)}
    first = [row_of[image] for image in about if image in row_of]
    chosen = set(first)
    order = [*first, *(row for row in range(len(names)) if row not in chosen)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([*HEAD, *columns])
    for row in order:
        further = [cells[row] for cells in columns.values()]
        writer.writerow([names[row], classes[row], *about.get(names[row], ("", "")), *further])
    return BOM + text.getvalue()


def write_label_table(
    path: Path, text: str, *, written: str | None, labels: PathLike | None = None
) -> tuple[Path, str]:
    """Write a table, never over another file or over one that a person has changed.

    Args:
        path: of the table; the next free name beside it is taken where something else is there.
        text: of the table.
        written: digest of the table that was written there before; None = none was.
        labels: the table that the labels come from, which stays.

    Returns: the path, and the digest for the next call.
    """
    content = text.encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(content).hexdigest()
    names = itertools.chain([path], (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2)))
    origin = None if labels is None else Path(labels).resolve()
    free = (name for name in names if name.resolve() != origin)
    target = next(name for name in free if not name.exists() or _digest(name) in (written, digest))
    replace_file(target, content, durable=False)
    return target, digest


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _parts(source: ImageSource) -> list[str]:
    parts = [""] * len(source)
    for name, rows in source.splits.items():
        for row in rows.tolist():
            parts[row] = name
    return parts


def _further_columns(source: ImageSource) -> Mapping[str, Sequence[str]]:
    """Return the columns of a dataset's own table of labels, without names of pictures and labels."""
    columns: Mapping[str, Sequence[Any]] = getattr(source, "columns", {})
    names, classes = names_in(source), [source.class_names[label] for label in source.labels.tolist()]
    return {
        name: list(map(str, cells))
        for name, cells in columns.items()
        if list(map(str, cells)) not in (names, classes) and name.lower() != "split"
    }
