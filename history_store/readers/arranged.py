"""A dataset with parts and left-out pictures of its own: ``DATASET::arranged=TABLE``.

The table is a CSV file with a row a picture: its name in the dataset, its part, and the group of pictures with which it
belongs. Pictures without a row are left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.csv_table import numbered_rows
from warmstart.history_store.errors import DataError, MissingPathError
from warmstart.history_store.images import SPLITS, FingerprintKind, ImageSet, ImageSource
from warmstart.history_store.limits import ordinary_file
from warmstart.history_store.readers.base import Source, printable
from warmstart.history_store.readers.registry import Place, Reader, open_location

MARK = "::arranged="
_HEAD = ("picture", "part", "group")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Parts of the pictures of a dataset.

    Attributes:
        names: `n` pictures, as `names_in` gives them.
        parts: `n`, each ``train``, ``val`` or ``test``.
        groups: `n` numbers; pictures of one group belong together.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    groups: tuple[int, ...]

    def to_csv(self) -> str:
        """Return the table."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_HEAD)
        writer.writerows(zip(self.names, self.parts, self.groups, strict=True))
        return text.getvalue()

    @classmethod
    def read(cls, path: Path) -> Arrangement:
        """Read a table of `to_csv`.

        Raises:
            MissingPathError: it is not there.
            DataError: it is something else.
        """
        location = printable(str(path))
        try:
            text = ordinary_file(path).read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            msg = f"{location}: expected the table of a dataset's parts, got none. Run the command that wrote it again."
            raise MissingPathError(msg) from error
        try:
            rows = [row for _, row in numbered_rows(text)]
        except ValueError:
            rows = []
        if len(rows) < 2 or tuple(rows[0]) != _HEAD or any(len(row) != len(_HEAD) or row[1] not in SPLITS or not row[2].isdecimal() or len(row[2]) > 18 for row in rows[1:]):  # fmt: skip
            msg = f"{location}: expected a table with the head {','.join(_HEAD)}, got another file. Run the command that wrote it again."
            raise DataError(msg)
        names, parts, groups = zip(*rows[1:], strict=True)
        return cls(names, parts, tuple(map(int, groups)))


class ArrangedSource(Source):
    """The pictures of another source that a table names, in its parts.

    Attributes:
        files: names of the pictures.
        groups: `n` int64; pictures of one number belong together.
    """

    def __init__(self, inner: ImageSource, location: str, arrangement: Arrangement) -> None:
        row_of = {name: row for row, name in enumerate(names_in(inner))}
        missing = [name for name in arrangement.names if name not in row_of]
        if missing:
            msg = f"{printable(inner.location)}: expected the pictures that were looked at, got {len(missing)} fewer, without {printable(missing[0])}. Run the command again, which looks anew."
            raise DataError(msg)
        self.files, self.groups = arrangement.names, np.array(arrangement.groups, dtype=np.int64)
        self._inner, self._table = inner, arrangement.to_csv().encode("utf-8", "surrogateescape")
        self._rows = np.array([row_of[name] for name in arrangement.names], dtype=np.int64)
        parts = np.array(arrangement.parts)
        splits = {part: np.flatnonzero(parts == part).astype(np.int64) for part in SPLITS if (parts == part).any()}
        labels = np.asarray(inner.labels)[self._rows]
        super().__init__(location, inner.layout, labels=labels, class_names=inner.class_names, splits=splits)

    def read(
        self, indices: Sequence[int] | NDArray[np.integer[Any]], *, size: int | None = 32, skip_broken: bool = False
    ) -> ImageSet:
        """Decode pictures; see `warmstart.history_store.images.ImageSource.read`."""
        rows = self._check_indices(indices)
        inner_rows = self._rows[rows]
        images = self._inner.read(inner_rows, size=size, skip_broken=skip_broken)
        if images.broken:
            own_row = dict(zip(inner_rows.tolist(), rows.tolist(), strict=True))
            rows = np.array([own_row[row] for row in images.whole(self._inner, inner_rows).tolist()], dtype=np.int64)
        return ImageSet(images.images, self.labels[rows], self.class_names, images.broken, rows)

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture, in pixels; None if it is unknown."""
        side = getattr(self._inner, "side", None)
        return None if side is None else side(int(self._rows[index]))

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint the dataset with its parts."""
        digest = hashlib.sha256(self._inner.fingerprint(kind).encode())
        digest.update(self._table)
        return f"{kind}:{digest.hexdigest()[:40]}"

    def signature(self) -> str:
        """Return a signature of the pictures' files and of the parts."""
        return self._inner.signature() + hashlib.sha256(self._table).hexdigest()

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> Any:
        raise NotImplementedError  # `read` asks the inner source


def names_in(source: ImageSource) -> list[str]:
    """Return distinct names of the pictures of a source: its files, else their numbers."""
    names = getattr(source, "files", None) or getattr(source, "names", None)
    return [str(row) for row in range(len(source))] if names is None else [str(name) for name in names]


def _open(location: Place) -> ArrangedSource:
    inner, _, table = location.text.rpartition(MARK)
    return ArrangedSource(
        open_location(inner, download=location.download), location.text, Arrangement.read(Path(table))
    )


READER = Reader(lambda location: location.path is None and MARK in location.text, _open)
