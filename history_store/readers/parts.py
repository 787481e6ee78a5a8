"""Datasets in several numbered files, such as ``train-00000-of-00002.parquet``: whether all of them are there."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.readers.base import printable

_PART = re.compile(
    r"^(?P<stem>.*?)(?P<number>\d{4,})-of-(?P<all>\d{4,})(-[0-9a-f]+)?(?P<ending>\.\w+)$", re.IGNORECASE | re.DOTALL
)
"""Tools write five digits, and the Hub a hash before some endings; `day-3-of-7` may be anything."""
_SHOWN = 3


def check_parts(paths: Sequence[Path], where: str) -> None:
    """Check that a folder holds all the parts that the names of its files tell of; they are numbered from 0 or 1.

    Args:
        paths: its files.
        where: what an error names.

    Raises:
        DataError: when some are missing.
    """
    groups: dict[tuple[Path, str, str, str], set[int]] = defaultdict(set)
    for path in paths:
        if match := _PART.match(path.name):
            groups[path.parent, match["stem"], match["all"], match["ending"]].add(int(match["number"]))
    for (folder, stem, digits, ending), found in groups.items():
        n = int(digits)
        if len(found) >= n:
            continue
        first = 1 if n in found and 0 not in found else 0
        numbers = islice((number for number in count(first) if number not in found), min(_SHOWN, n - len(found)))
        gone = [f"{stem}{number:0{len(digits)}d}-of-{digits}{ending}" for number in numbers]
        more = ", …" if len(found) + len(gone) < n else ""
        named = printable(f"{folder / stem}…-of-{digits}{ending}")
        msg = f"{where}: expected all {n:,} parts {named}, got {len(found):,}, without {printable(', '.join(gone))}{more}. Download the rest, or name one file alone."
        raise DataError(msg)


def tell_of_others(path: Path) -> None:
    """Warn where a file that was named alone is one of several parts."""
    match = _PART.match(path.name)
    if match is not None and int(match["all"]) > 1:
        msg = f"{printable(str(path))}: 1 of {int(match['all']):,} parts; the others are not read."
        warnings.warn(msg, DatasetWarning, stacklevel=5)
