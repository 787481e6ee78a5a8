"""Datasets in several numbered files, such as ``train-00000-of-00002.parquet``: check that none is missing."""

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
_MAX_NAMED = 3


def check_parts(paths: Sequence[Path], location: str) -> None:
    """Check that a folder holds all parts that its files' names announce, numbered from 0 or 1.

    Args:
        paths: its files.
        location: what an error names.

    Raises:
        DataError: when some are missing.
    """
    groups: dict[tuple[Path, str, str, str], set[int]] = defaultdict(set)
    for path in paths:
        if match := _PART.match(path.name):
            groups[path.parent, match["stem"], match["all"], match["ending"]].add(int(match["number"]))
    for (folder, stem, digits, ending), numbers_present in groups.items():
        n = int(digits)
        if len(numbers_present) >= n:
            continue
        first = 1 if n in numbers_present and 0 not in numbers_present else 0
        numbers = islice(
            (number for number in count(first) if number not in numbers_present),
            min(_MAX_NAMED, n - len(numbers_present)),
        )
        missing = [f"{stem}{number:0{len(digits)}d}-of-{digits}{ending}" for number in numbers]
        more = ", …" if len(numbers_present) + len(missing) < n else ""
        named = printable(f"{folder / stem}…-of-{digits}{ending}")
        msg = f"{location}: expected all {n:,} parts {named}, got {len(numbers_present):,}, without {printable(', '.join(missing))}{more}. Download the rest, or name one file alone."
        raise DataError(msg)


def warn_of_other_parts(path: Path) -> None:
    """Warn if a single file is one of several parts."""
    match = _PART.match(path.name)
    if match is not None and int(match["all"]) > 1:
        msg = f"{printable(str(path))}: 1 of {int(match['all']):,} parts; the others are not read."
        warnings.warn(msg, DatasetWarning, stacklevel=5)
