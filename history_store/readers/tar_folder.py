"""One tar of class folders, read in place: nothing is unpacked, and no link is followed."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.readers.archive_paths import check_inside, twice, wrapping
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.tar_members import TarPicture
from warmstart.history_store.readers.tree import found_in, list_found


class TarFolderSource(BlobSource):
    """The pictures of a tar, by the rules of folders; its fingerprint is that of the folder that it was made of.

    Where all lies in one folder that is neither class nor split, that folder is the root.
    """

    def __init__(self, location: str, pictures: Sequence[TarPicture]) -> None:
        where = printable(location)
        members: dict[str, TarPicture] = {}
        for picture in pictures:
            name = picture.name.removeprefix("./")
            check_inside(name, where)
            if name in members:
                raise twice(name, where)
            members[name] = picture
        root = wrapping(list(members))
        inside = {name.removeprefix(root): picture for name, picture in members.items()}
        listing = list_found(found_in(inside), where)
        self._path = pictures[0].path
        self._pictures = tuple(inside[name] for name in listing.files)
        super().__init__(
            location,
            "tar",
            names=listing.files,
            labels=listing.labels,
            class_names=listing.class_names,
            splits=listing.splits,
        )

    def keys(self) -> list[str]:
        """Return the paths below the root: they name the class."""
        return list(self.names)

    def size_of(self, index: int) -> int:
        """Return the bytes of a picture."""
        return self._pictures[index].size

    def signature(self) -> str:
        """Name the file by path, size and time of change."""
        return file_signature(self._path, [""])

    def blob(self, index: int) -> bytes:
        """Read one picture where it lies."""
        return self._pictures[index].read()
