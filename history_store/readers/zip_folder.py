"""One zip of class folders, read in place: nothing is unpacked, and no path leads out of it."""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from pathlib import Path

from warmstart.history_store.errors import DataError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.limits import ARCHIVE_FILES, check_unpacked
from warmstart.history_store.readers.archive_paths import check_inside, twice, wrapping
from warmstart.history_store.readers.base import printable
from warmstart.history_store.readers.blobs import BlobSource, check_blob
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tree import found_in, list_found

_BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError)
_CHUNK = 1 << 20


class ZipSource(BlobSource):
    """The pictures of a zip, by the rules of folders; its fingerprint is that of the folder that it was made of.

    Where all lies in one folder that is neither class nor split, as archives of a folder have it, that folder is the root.
    """

    def __init__(self, path: Path) -> None:
        where = printable(str(path))
        members = _members(path, where)
        self._path, self._root = path, wrapping(list(members))
        inside = {name.removeprefix(self._root): info for name, info in members.items() if name != self._root}
        listing = list_found(found_in(inside), where)
        self._infos = tuple(inside[name] for name in listing.files)
        self._archive: zipfile.ZipFile | None = None
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
        """Return the paths below the root: they name the class."""
        return list(self.names)

    def size_of(self, index: int) -> int:
        """Return the unpacked bytes of a picture."""
        return self._infos[index].file_size

    def signature(self) -> str:
        """Name the file by path, size and time of change."""
        return file_signature(str(self._path), [""])

    def blob(self, index: int) -> bytes:
        """Unpack one picture into memory; what it claims and what it is are both held to the limits."""
        info = self._infos[index]
        self._check(info)
        try:
            with self._opened().open(info) as file:
                data = file.read(info.file_size + 1)
        except _BAD_ZIP as error:
            msg = f"damaged in the archive ({' '.join(str(error).split())[:80]})"
            raise DataError(msg) from error
        if len(data) != info.file_size:
            msg = f"damaged in the archive ({len(data):,} bytes, {info.file_size:,} promised)"
            raise DataError(msg)
        return data

    def _digest(self, index: int) -> bytes | None:
        info, whole = self._infos[index], hashlib.sha256()
        try:
            if info.file_size:
                self._check(info)
                with self._opened().open(info) as file:
                    while part := file.read(_CHUNK):
                        whole.update(part)
        except (DataError, *_BAD_ZIP):
            return None
        return whole.digest()

    def _check(self, info: zipfile.ZipInfo) -> None:
        if stat.S_ISLNK(info.external_attr >> 16):
            msg = "a link in an archive, which is not followed"
            raise DataError(msg)
        check_blob(info.file_size, "picture")
        check_unpacked(info.file_size, info.compress_size, "picture")

    def _opened(self) -> zipfile.ZipFile:
        if self._archive is None:
            self._archive = zipfile.ZipFile(self._path)
        return self._archive


def _members(path: Path, where: str) -> dict[str, zipfile.ZipInfo]:
    """Return what an archive holds by path.

    Raises:
        DataError: damaged, encrypted, a path that leads out, two of one name, or more than is allowed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except _BAD_ZIP as error:
        msg = f"{where}: expected a zip archive, got a damaged or truncated one ({' '.join(str(error).split())[:80]}). Copy or download it again."
        raise DataError(msg) from error
    ARCHIVE_FILES.check(len(infos), where)
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        check_inside(name, where)
        if info.flag_bits & 1:
            msg = f"{where}: expected an archive without a password, got {printable(name)!r}, which has one. Unpack it, then give the folder."
            raise DataError(msg)
        if name in found and not name.endswith("/"):
            raise twice(name, where)
        found[name] = info
    return found


def _matches(place: Place) -> bool:
    return place.path is not None and place.file.endswith(".zip")


def _open(place: Place) -> ZipSource:
    assert place.path is not None  # noqa: S101  matched
    return ZipSource(place.path)


READER = Reader(_matches, _open)
