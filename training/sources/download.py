"""Fetch one file, whole or not at all."""

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

CHUNK = 1 << 18
TIMEOUT_S = 30.0


def download(url: str, path: str | Path, *, sha256: str, max_bytes: int) -> Path:
    """Fetch a file to a path that then holds exactly the bytes asked for; a file that is there already stays.

    The bytes go to a temporary file beside it, which replaces the path only after the check.

    Args:
        url: http or https.
        path: of the file to be.
        sha256: of the file, 64 hex digits.
        max_bytes: a transfer that grows beyond is given up.

    Returns: the path.

    Raises:
        UsageError: when the URL is of another kind.
        MissingPathError: when it cannot be fetched.
        DataError: when what came is too large or has another checksum, or what lies at the path has.
    """
    path = Path(path)
    if path.exists():
        found = hash_file(path)
        if found != sha256:
            msg = f"{path}: expected sha256 {sha256}, got {found}. Move the file away, then download again."
            raise DataError(msg)
        return path
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        msg = f"download: expected an http or https address, got {url!r}. Correct the manifest."
        raise UsageError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        found = _fetch(url, part, max_bytes=max_bytes)
        if found != sha256:
            msg = f"{url}: expected sha256 {sha256}, got {found} ({part.stat().st_size} bytes). Try again, or correct the manifest."
            raise DataError(msg)
        part.replace(path)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        msg = f"{url}: expected a file, got {_refusal(error)}. Check the address and the network, or put the file at {path}."
        raise MissingPathError(msg) from error
    finally:
        part.unlink(missing_ok=True)
    return path


def _fetch(url: str, path: Path, *, max_bytes: int) -> str:
    """Write what an address gives to a file, durably; return its sha256."""
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
    """Unpack a zip or tar beside its place and move it there whole; a folder that is there already stays.

    Raises:
        DataError: when it is no such archive, or a member would land outside the folder.
    """
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        return folder
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        if archive.name.endswith(".zip"):
            shutil.unpack_archive(archive, part)  # leaves out members that would land outside
        else:
            shutil.unpack_archive(archive, part, filter="data")
        part.replace(folder)
    except (shutil.ReadError, tarfile.TarError, ValueError, OSError) as error:
        said = "a member that would land outside" if isinstance(error, tarfile.FilterError) else in_words(error)
        msg = f"{archive}: expected a zip or tar archive, got {said}. Unpack it by hand to {folder}."
        raise DataError(msg) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def hash_file(path: str | Path) -> str:
    """Compute the sha256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refusal(error: Exception) -> str:
    """Say why nothing was fetched."""
    code = getattr(error, "code", None)
    if code is not None:
        return f"the server's answer {code}"
    reason = getattr(error, "reason", error)
    return in_words(reason) if isinstance(reason, OSError) else "no answer"
