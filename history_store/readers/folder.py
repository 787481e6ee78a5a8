"""Pictures in class folders, decoded file by file."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import UsageError
from warmstart.history_store.fingerprint import file_fingerprint, file_signature
from warmstart.history_store.images import BrokenImage, FingerprintKind
from warmstart.history_store.limits import FILE_BYTES
from warmstart.history_store.picture import decode, reason_broken, side_of
from warmstart.history_store.readers.base import Canvas, Source, printable
from warmstart.history_store.readers.tree import labels_hint, list_folder


class FolderSource(Source):
    """A folder `root/class/x.png` or `root/split/class/x.png`; its rules: ``docs/datasets.md``.

    Attributes:
        root: the folder.
        files: paths below it, one a picture.
    """

    def __init__(self, root: str) -> None:
        listing = list_folder(root)
        self.root = root
        self.files = listing.files
        super().__init__(
            root,
            "folder",
            labels=listing.labels,
            class_names=listing.class_names,
            splits=listing.splits,
            hint=self._hint(root),
        )

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint the listed pictures; other files in the folder do not count."""
        return file_fingerprint(kind, self.root, self.files, largest=FILE_BYTES.value())

    def signature(self) -> str:
        """Return a signature of the listed pictures by path, size and time of change."""
        return file_signature(self.root, self.files)

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture, in pixels; None if its file does not tell."""
        return side_of(f"{self.root}/{self.files[index]}")

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        canvas = Canvas(len(indices), self.location)
        broken: dict[int, BrokenImage] = {}
        # Pillow warns of large pictures, which `decode` limits, and of odd metadata.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for row, index in enumerate(indices.tolist()):
                file = self.files[index]
                try:
                    picture = decode(f"{self.root}/{file}", size, "pixels")
                except UsageError:  # a limit that is none
                    raise
                except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
                    broken[row] = BrokenImage(printable(file), reason_broken(error, f"{self.root}/{file}"))
                else:
                    canvas.put(row, picture)
        return canvas.images(), broken

    def _hint(self, root: str) -> str:
        """Suggest the inner folder of an unpacked archive, or a CSV file of labels."""
        outer = {file.split("/")[0] for file in self.files}
        inner = {file.split("/")[1] for file in self.files if file.count("/") >= 2}
        if len(outer) > 1:
            return ""
        if len(inner) < 2:
            return labels_hint(root)
        return f"Did you mean {printable(f'{root}/{min(outer)}')}, which holds {len(inner)} folders?"
