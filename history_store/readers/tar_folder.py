"""One tar of class folders, read in place: nothing is unpacked, and no link is followed."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.archive_paths import check_inside, plain_name, repeated_path_error, wrapping_folder
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.tar_members import TarPicture
from warmstart.history_store.readers.tree import list_content, walk_names


class TarFolderSource(BlobSource):
    """The pictures of a tar, by the rules of folders; it has the fingerprint of the same folder.

    Where all lies in one folder that is neither class nor split, that folder is the root.
    """

    def __init__(self, location: str, files: Sequence[TarPicture]) -> None:
        printable_location = printable(location)
        members: dict[str, TarPicture] = {}
        for picture in files:
            check_inside(picture.name, printable_location)
            name = plain_name(picture.name)
            if name in members and name[name.rfind(".") :].lower() in SUFFIXES:
                raise repeated_path_error(name, printable_location)
            members[name] = picture
        root = wrapping_folder(list(members))
        inside = {name.removeprefix(root): picture for name, picture in members.items()}
        listing = list_content(walk_names(inside, lambda name: inside[name].head()), printable_location)
        self._path = files[0].path
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
        """Return the paths below the root, which contain the class."""
        return list(self.names)

    def size_of(self, index: int) -> int:
        """Return the bytes of a picture."""
        return self._pictures[index].size

    def signature(self) -> str:
        """Return a signature of the file by path, size and time of change."""
        return file_signature(self._path, [""])

    def blob(self, index: int) -> bytes:
        """Read one picture from its position in the tar."""
        return self._pictures[index].read()
