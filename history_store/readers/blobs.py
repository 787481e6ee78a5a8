"""Pictures as bytes inside other files: an archive, a table, files of a list."""

from __future__ import annotations

import hashlib
import struct
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.fingerprint import named_fingerprint
from warmstart.history_store.images import BrokenImage, FingerprintKind
from warmstart.history_store.limits import FILE_BYTES
from warmstart.history_store.picture import HEAD_BYTES, decode, other_content, side_of
from warmstart.history_store.readers.base import Canvas, Source, printable


class BlobSource(Source):
    """A collection whose pictures are read one by one as the bytes of picture files.

    Attributes:
        names: `n`, what errors and fingerprints call each picture.
    """

    def __init__(
        self,
        location: str,
        layout: str,
        *,
        names: Sequence[str],
        labels: NDArray[np.int64],
        class_names: Sequence[str],
        splits: Mapping[str, NDArray[np.int64]] | None = None,
    ) -> None:
        super().__init__(location, layout, labels=labels, class_names=class_names, splits=splits)
        self.names = tuple(names)

    @abstractmethod
    def blob(self, index: int) -> bytes:
        """Read the bytes of one picture.

        Raises:
            DataError: when they are too many, or cannot be read.
        """

    def size_of(self, index: int) -> int:
        """Return the number of bytes of one picture."""
        return len(self.blob(index))

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture, in pixels; None if its bytes do not tell."""
        try:
            return side_of(BytesIO(self.blob(index)))
        except DataError:
            return None

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint the pictures by name and content, with their labels unless the names hold them."""
        rows = {name: row for row, name in enumerate(self.keys())}
        return named_fingerprint(
            kind,
            list(rows),
            size_of=lambda name: self.size_of(rows[name]),
            digest_of=lambda name: self._digest(rows[name]),
        )

    def keys(self) -> list[str]:
        """Return `n` distinct names that contain the label: class name, then picture name."""
        return [
            f"{self.class_names[label]}/{name}" for label, name in zip(self.labels.tolist(), self.names, strict=True)
        ]

    def _digest(self, index: int) -> bytes | None:
        try:
            return hashlib.sha256(self.blob(index)).digest()
        except DataError:
            return None

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        canvas = Canvas(len(indices), self.location)
        broken: dict[int, BrokenImage] = {}
        # Pillow warns of large pictures, which `decode` limits, and of odd metadata.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for row, index in enumerate(indices.tolist()):
                try:
                    data = self.blob(index)
                    picture = decode(BytesIO(data), size, "pixels")
                except UsageError:  # a limit that is none
                    raise
                except UnidentifiedImageError:
                    broken[row] = BrokenImage(printable(self.names[index]), other_content(data[:HEAD_BYTES]))
                except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
                    broken[row] = BrokenImage(printable(self.names[index]), reason_of(error))
                else:
                    canvas.put(row, picture)
        return canvas.images(), broken


def check_blob(number: int, location: str) -> None:
    """Raise if a picture has no bytes, or too many.

    Raises:
        DataError: when it is one.
    """
    if not number:
        msg = "an empty file"
        raise DataError(msg)
    FILE_BYTES.check(number, location)


def reason_of(error: Exception) -> str:
    """Describe in a few words why a picture could not be decoded."""
    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, struct.error):
        return "damaged data"
    return (" ".join(str(error).split()) or type(error).__name__)[:120]
