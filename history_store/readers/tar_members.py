"""The files of an uncompressed tar: listed once, read in place; and a check that the tar is whole."""

from __future__ import annotations

import copy
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.limits import ARCHIVE_FILES
from warmstart.history_store.picture import HEAD_BYTES
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import check_blob

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
        with tarfile.open(path, "r:") as archive:
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
