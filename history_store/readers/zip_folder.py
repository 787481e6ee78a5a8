"""One zip of class folders, read in place: nothing is unpacked, and no path leads out of it."""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.limits import ARCHIVE_FILES, check_unpacked, ordinary_file
from warmstart.history_store.picture import HEAD_BYTES, is_picture, other_content
from warmstart.history_store.readers.archive_paths import check_inside, plain_name, repeated_path_error, wrapping_folder
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import BlobSource, check_blob
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tree import list_content, walk_names

_BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError)
_CHUNK = 1 << 20
_WITHOUT_BEGINNING = (".tga",)
"""Endings of pictures that no first bytes tell."""


class ZipSource(BlobSource):
    """The pictures of a zip, by the rules of folders; it has the fingerprint of the same folder.

    Where all lies in one folder that is neither class nor split, as archives of a folder have it, that folder is the root.
    """

    def __init__(self, path: Path) -> None:
        location = printable(str(path))
        members = _list_members(path, location)
        self._path, self._root = path, wrapping_folder(list(members))
        self._archive: zipfile.ZipFile | None = None
        inside = {
            name.removeprefix(self._root): info
            for name, info in members.items()
            if name.startswith(self._root) and name != self._root
        }
        listing = list_content(walk_names(inside, lambda name: self._head_of(inside[name])), location)
        self._infos = tuple(inside[name] for name in listing.files)
        super().__init__(
            str(path),
            "zip",
            names=listing.files,
            labels=listing.labels,
            class_names=listing.class_names,
            splits=listing.splits,
        )

    def __del__(self) -> None:
        """Close the file."""
        archive = getattr(self, "_archive", None)
        if archive is not None:
            archive.close()

    def keys(self) -> list[str]:
        """Return the paths below the root, which contain the class."""
        return list(self.names)

    def size_of(self, index: int) -> int:
        """Return the unpacked bytes of a picture."""
        return self._infos[index].file_size

    def signature(self) -> str:
        """Return a signature of the file by path, size and time of change."""
        return file_signature(str(self._path), [""])

    def blob(self, index: int) -> bytes:
        """Unpack one picture into memory, within the limits of claimed and real size."""
        info = self._infos[index]
        self._check_member(info)
        try:
            with self._open_archive().open(info) as file:
                data = file.read(HEAD_BYTES)
                if not is_picture(data) and not info.filename.lower().endswith(_WITHOUT_BEGINNING):
                    raise DataError(other_content(data))
                data += file.read(max(info.file_size + 1 - len(data), 0))
        except _BAD_ZIP as error:
            msg = f"damaged in the archive ({' '.join(str(error).split())[:80]})"
            raise DataError(msg) from error
        if len(data) != info.file_size:
            msg = f"damaged in the archive ({len(data):,} bytes, {info.file_size:,} promised)"
            raise DataError(msg)
        return data

    def _head_of(self, info: zipfile.ZipInfo) -> bytes:
        try:
            self._check_member(info)
            with self._open_archive().open(info) as file:
                return file.read(HEAD_BYTES)
        except (DataError, *_BAD_ZIP):
            return b""

    def _digest(self, index: int) -> bytes | None:
        info, whole = self._infos[index], hashlib.sha256()
        try:
            if info.file_size:
                self._check_member(info)
                with self._open_archive().open(info) as file:
                    while part := file.read(_CHUNK):
                        whole.update(part)
        except (DataError, *_BAD_ZIP):
            return None
        return whole.digest()

    def _check_member(self, info: zipfile.ZipInfo) -> None:
        if stat.S_ISLNK(info.external_attr >> 16):
            msg = "a link in an archive, which is not followed"
            raise DataError(msg)
        check_blob(info.file_size, "picture")
        check_unpacked(info.file_size, info.compress_size, "picture")

    def _open_archive(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(self._path)
        return self._archive


def _list_members(path: Path, location: str) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by path.

    Raises:
        DataError: damaged, encrypted, a path that leads out, two of one name, or more than is allowed.
    """
    try:
        with zipfile.ZipFile(ordinary_file(path)) as archive:
            infos = archive.infolist()
    except _BAD_ZIP as error:
        msg = f"{location}: expected a zip archive, got a damaged or truncated one ({' '.join(str(error).split())[:80]}). Copy or download it again."
        raise DataError(msg) from error
    ARCHIVE_FILES.check(len(infos), location)
    packed = min(sum(info.compress_size for info in infos), path.stat().st_size)
    check_unpacked(sum(info.file_size for info in infos), packed, location)
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        check_inside(info.filename, location)
        name = plain_name(info.filename)
        if info.flag_bits & 1:
            msg = f"{location}: expected an archive without a password, got {printable(name)!r}, which has one. Unpack it, then give the folder."
            raise DataError(msg)
        if name in members and not name.endswith("/"):
            raise repeated_path_error(name, location)
        members[name] = info
    return members


def _matches(location: Place) -> bool:
    return location.path is not None and location.file.endswith(".zip")


def _open_location(location: Place) -> ZipSource:
    assert location.path is not None  # noqa: S101  matched
    return ZipSource(location.path)


READER = Reader(_matches, _open_location)
