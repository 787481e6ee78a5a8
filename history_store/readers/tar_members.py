"""The files of an uncompressed tar: listed once, read in place; and a check that the tar is whole."""

from __future__ import annotations

import copy
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.limits import ARCHIVE_FILES, ordinary_file
from warmstart.history_store.picture import HEAD_BYTES, SUFFIXES
from warmstart.history_store.readers.archive_paths import check_inside, plain_name, repeated_path_error, wrapping_folder
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import BlobSource, check_blob
from warmstart.history_store.readers.tree import list_content, walk_names

_TAIL_BYTES = 1 << 20
"""Bytes behind the end that are looked at; tools fill up to 10 KiB with zeros."""


@dataclass(frozen=True, slots=True)
class TarPicture:
    """Position of a picture in a tar.

    Attributes:
        path: of the tar.
        name: in the tar.
        offset: of the first byte; -1 for a link or a sparse file.
        size: in bytes.
    """

    path: str
    name: str
    offset: int
    size: int

    @classmethod
    def of(cls, path: str, member: tarfile.TarInfo) -> TarPicture:
        """Return the picture of a member."""
        if member.isfile() and not member.issparse():
            return cls(path, member.name, member.offset_data, member.size)
        return cls(path, member.name, -1, -1)

    def head(self) -> bytes:
        """Read the first bytes; none of a link."""
        try:
            return TarPicture(self.path, self.name, self.offset, min(self.size, HEAD_BYTES)).read()
        except DataError:
            return b""

    def read(self) -> bytes:
        """Read the bytes of the picture.

        Raises:
            DataError: when they are too many, those of a link, or not there any more.
        """
        if self.offset < 0:
            msg = "a link or a sparse file in an archive, which is not followed"
            raise DataError(msg)
        check_blob(self.size, "picture")
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as error:
            msg = f"cannot be read any more ({error.strerror})"
            raise DataError(msg) from error
        if len(data) < self.size:
            msg = "cut off: the archive ends before the picture does"
            raise DataError(msg)
        return data


def tar_members(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the files and symbolic links of a tar; a hard link is its file under its own name.

    Raises:
        DataError: damaged, cut short or compressed, or more files than are allowed.
    """
    location, files = printable(str(path)), dict[str, tarfile.TarInfo]()
    try:
        with tarfile.open(ordinary_file(path), "r:") as archive:
            for count, member in enumerate(archive, start=1):
                ARCHIVE_FILES.check(count, location)
                target = _target(member, files)
                if target.isfile():
                    files[target.name] = target
                if target.isfile() or target.issym() or target.islnk():
                    yield archive, target
            _check_end(archive, path)
    except DataError:
        raise
    # Damaged headers make the library raise other errors than its own.
    except (tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        msg = f"{location}: expected a tar that is not compressed, got a damaged, truncated or compressed one ({error}). Unpack .tar.gz with gunzip, or download it again."
        raise DataError(msg) from error


def _target(member: tarfile.TarInfo, files: Mapping[str, tarfile.TarInfo]) -> tarfile.TarInfo:
    """Return the file of a hard link under the link's name; any other member as it is."""
    if not member.islnk() or member.linkname not in files:
        return member
    target = copy.copy(files[member.linkname])
    target.name = member.name
    return target


def _check_end(archive: tarfile.TarFile, path: Path) -> None:
    """Check that a tar ends where its files do: with a block of zeros, and no other tar behind it.

    Python takes a damaged header, half a header and the end of the file for the end of the tar.

    Raises:
        DataError: when it does not.
    """
    location, file = printable(str(path)), archive.fileobj
    assert file is not None  # noqa: S101  open
    file.seek(archive.offset)
    block = file.read(tarfile.BLOCKSIZE)
    if not block.strip(b"\0") and block:
        rest = file.read(_TAIL_BYTES)
        start = (len(rest) - len(rest.lstrip(b"\0"))) // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE
        if rest[start + 257 : start + 262] == b"ustar":
            msg = f"{location}: expected one tar, got another one behind its end. Join them with `tar --concatenate`."
            raise DataError(msg)
        return
    step = "Copy or download it again."
    got = "a damaged header" if len(block) == tarfile.BLOCKSIZE else "half a header at the end"
    if not block:
        got = "no end-of-archive block"
        step = f"Copy or download it again. If nothing is missing, end it: head -c 1024 /dev/zero >> {printable(shlex.quote(path.name))}"
    msg = f"{location}: expected a whole tar, got a damaged or truncated one ({got}). {step}"
    raise DataError(msg)


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
