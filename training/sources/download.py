"""Download of one file, atomically."""

import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.wording import in_words
from warmstart.metafeat.cache import cache_folder

CHUNK = 1 << 18
TIMEOUT_S = 30.0


def data_folder() -> Path:
    """Return the folder of downloads: $WARMSTART_DATA, else `datasets` in the cache folder."""
    if folder := os.environ.get("WARMSTART_DATA"):
        return Path(folder)
    return cache_folder() / "datasets"


def download(url: str, path: str | Path, *, sha256: str, max_bytes: int) -> Path:
    """Download a file and check its sha256; an existing file is only checked.

    The bytes go to a temporary file in the same folder, which replaces the path only after the check.

    Args:
        url: http or https.
        path: of the new file.
        sha256: of the file, 64 hex digits.
        max_bytes: largest size of the transfer.

    Returns: the path.

    Raises:
        UsageError: when the URL is of another kind.
        MissingPathError: when the download fails.
        DataError: when the download is too large, or download or existing file have another checksum.
    """
    path = Path(path)
    if path.exists():
        actual = hash_file(path)
        if actual != sha256:
            msg = f"{path}: expected sha256 {sha256}, got {actual}. Move the file away, then download again."
            raise DataError(msg)
        return path
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        msg = f"download: expected an http or https address, got {url!r}. Correct the manifest."
        raise UsageError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        actual = _fetch(url, part, max_bytes=max_bytes)
        if actual != sha256:
            msg = f"{url}: expected sha256 {sha256}, got {actual} ({part.stat().st_size} bytes). Try again, or correct the manifest."
            raise DataError(msg)
        part.replace(path)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        msg = f"{url}: expected a file, got {_refusal(error)}. Check the address and the network, or put the file at {path}."
        raise MissingPathError(msg) from error
    finally:
        part.unlink(missing_ok=True)
    return path


def _fetch(url: str, path: Path, *, max_bytes: int) -> str:
    """Download a URL to a file, durably, and return its sha256."""
    digest, received = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, path.open("wb") as file:  # noqa: S310  checked
        while chunk := response.read(CHUNK):
            received += len(chunk)
            if received > max_bytes:
                msg = f"{url}: expected at most {max_bytes} bytes, got more. Correct max_bytes in the manifest if that is right."
                raise DataError(msg)
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def unpack(archive: str | Path, folder: str | Path) -> Path:
    """Unpack a zip or tar archive to a folder, atomically; an existing folder stays.

    Raises:
        DataError: when the file is no such archive, or a member would land outside the folder.
    """
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        return folder
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        if archive.name.endswith(".zip"):
            shutil.unpack_archive(archive, part)  # skips members that would land outside
        else:
            shutil.unpack_archive(archive, part, filter="data")
        part.replace(folder)
    except (shutil.ReadError, tarfile.TarError, ValueError, OSError) as error:
        reason = "a member that would land outside" if isinstance(error, tarfile.FilterError) else in_words(error)
        msg = f"{archive}: expected a zip or tar archive, got {reason}. Unpack it by hand to {folder}."
        raise DataError(msg) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def hash_file(path: str | Path) -> str:
    """Compute the sha256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refusal(error: Exception) -> str:
    """Return the reason of a failed download."""
    code = getattr(error, "code", None)
    if code is not None:
        return f"the server's answer {code}"
    reason = getattr(error, "reason", error)
    return in_words(reason) if isinstance(reason, OSError) else "no answer"
