"""Compute the descriptor of an uploaded dataset in a separate process with limits, which removes all its files.

Run as ``python -m warmstart.service.upload_file FILE KIND MODEL MOST_BYTES MOST_PIXELS``; prints the descriptor as JSON.
"""

import json
import lzma
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from PIL import Image, UnidentifiedImageError

from warmstart.history_store import system
from warmstart.history_store.errors import DataError, WarmstartError
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.picture import FORMATS
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.tree import walk_names

MOST_FILES = 20_000
MOST_MEMORY = 4 * 2**30
MOST_CPU_S = 120
_PART = 1 << 16
_UNREADABLE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    *(EOFError, OSError, RuntimeError, NotImplementedError),
)
"""Exceptions of the standard library for a damaged or encrypted archive."""


def unpack(archive: Path, kind: str, folder: Path, *, most_bytes: int) -> tuple[Path, list[str]]:
    """Unpack the pictures of an archive; skip hidden and system files, as in folders.

    Returns: the folder of the class folders; notes on other files left out.

    Raises:
        DataError: not an archive of that kind, too many files or bytes, or a name outside of the folder.
    """
    left, count = most_bytes, 0
    skipped: list[str] = []
    links: list[str] = []
    try:
        for name, opened in _members(archive, kind, most_bytes):
            listing = walk_names([_without_parents(name)])
            if not any(listing.pictures.values()):
                # Hidden files do not count: `n_other_files` is 0 for them.
                skipped += [name] * listing.n_other_files
                continue
            if opened is None:
                links.append(name)
                continue
            target = _target(folder, name)
            if target.exists():
                msg = f"expected each name once, got {name[:200]!r} again. Pack it again."
                raise DataError(msg)
            count += 1
            if count > MOST_FILES:
                msg = f"expected at most {MOST_FILES:,} pictures, got more. Send a sample: 400 are looked at."
                raise DataError(msg)
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened, target.open("wb") as file:
                while part := opened.read(_PART):
                    left -= len(part)
                    if left < 0:
                        raise DataError(_too_many_bytes(most_bytes))
                    file.write(part)
    except _UNREADABLE as error:
        if isinstance(error, WarmstartError):
            raise
        msg = f"expected a {kind} archive without a password, got another file ({type(error).__name__}). Pack it again."
        raise DataError(msg) from error
    if not count:
        msg = "expected pictures in a folder for each class, got none. Pack CLASS/PICTURE.png."
        raise DataError(msg)
    notes = [
        _left_out_note(skipped, "file", "by their endings no pictures"),
        _left_out_note(links, "link", "not followed"),
    ]
    return _classes_in(folder), [note for note in notes if note]


def check_pixels(folder: Path, most: int) -> None:
    """Check the total pixels of pictures before any is decoded.

    Raises:
        DataError: too many pixels.
    """
    left = most
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        try:
            with Image.open(path, formats=FORMATS) as picture:
                left -= picture.width * picture.height
        except Image.DecompressionBombError:
            left = -1
        except (UnidentifiedImageError, OSError, ValueError):
            # Reading leaves it out later, with a note.
            continue
        if left < 0:
            msg = f"expected at most {most:,} pixels in all pictures, got more. Send smaller ones: they are resized to 32 x 32."
            raise DataError(msg)


def check_arrays(file: Path, most: int) -> None:
    """Check the total bytes of an npz file's arrays before any is read.

    Raises:
        DataError: not an npz file, or too many bytes.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        msg = "expected an npz file, got something else. Write it with numpy.savez(images=..., labels=...)."
        raise DataError(msg) from error
    if size > most:
        msg = f"expected arrays of at most {most:,} bytes, got {size:,}. Send a sample: 400 pictures are looked at."
        raise DataError(msg)


def main(arguments: list[str]) -> int:
    """Print the descriptor of a file, or the error, as JSON."""
    from warmstart.suggestions.advisor import Advisor

    file, kind, model, most_bytes, most_pixels = arguments
    # Decoders of hostile files may loop or allocate without end.
    system.resource.setrlimit(system.resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    system.resource.setrlimit(system.resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    output: dict[str, object]
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        try:
            if kind == "npz":
                check_arrays(Path(file), int(most_pixels) * 3)
                dataset = Path(file)
            else:
                dataset, notes = unpack(Path(file), kind, Path(folder), most_bytes=int(most_bytes))
                check_pixels(dataset, int(most_pixels))
            advisor = Advisor(None, model or None, threads=1, cache=False)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DatasetWarning)
                described = advisor.describe(dataset)
            notes += [str(warning.message) for warning in caught if issubclass(warning.category, DatasetWarning)]
            notes += described.notes
            output = {
                "descriptor": described.descriptor.to_dict(),
                "notes": [_client_names(note, folder, file) for note in notes[:20]],
            }
        except WarmstartError as error:
            output = {"error": _client_names(str(error), folder, file)}
    sys.stdout.write(json.dumps(output))
    return 0


def _client_names(text: str, folder: str, file: str) -> str:
    """Replace the server's paths in a text by the client's names."""
    return text.replace(folder + "/", "").replace(folder, "the archive").replace(file, "the file")


def _too_many_bytes(most: int) -> str:
    return f"expected at most {most:,} bytes unpacked, got more. Send a sample: 400 pictures are looked at."


def _members(archive: Path, kind: str, most_bytes: int) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Iterate over the files of an archive, opened; None for links and devices. A hard link of a tar is its target.

    A tar is unpacked up to the files of it that are read: what lies before them counts, too.
    """
    if kind == "zip":
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                if not entry.is_dir():
                    # The top bits of the Unix mode: 8 = regular file, 0 = not set.
                    is_file = (entry.external_attr >> 28) in (0, 8)
                    yield entry.filename, opened.open(entry) if is_file else None
        return
    files, n_bytes = dict[str, tarfile.TarInfo](), 0
    with tarfile.open(archive) as packed:
        for member in packed:
            n_bytes += member.size
            if n_bytes > most_bytes:
                raise DataError(_too_many_bytes(most_bytes))
            target = files.get(member.linkname) if member.islnk() else member if member.isreg() else None
            if target is not None:
                files[member.name] = target
            if not member.isdir():
                yield member.name, None if target is None else packed.extractfile(target)


def _parts(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def _without_parents(name: str) -> str:
    """Return a path without ``..``, only to tell whether it is a picture."""
    return "/".join(part for part in _parts(name) if part != "..")


def _left_out_note(names: Sequence[str], noun: str, why: str) -> str:
    """Return a note on files left out; empty without any."""
    return f"left out {plural(len(names), noun)}, {why}, such as {printable(names[0][:80])}" if names else ""


def _target(folder: Path, name: str) -> Path:
    """Return the target path of a picture.

    Raises:
        DataError: a name outside of the folder, or an extreme one.
    """
    parts = _parts(name)
    if (
        ".." in parts
        or name.startswith("/")
        or any("\0" in part or len(part) > 200 for part in parts)
        or len(parts) > 10
    ):
        msg = f"expected names within the archive, got {name[:80]!r}. Pack the folder itself."
        raise DataError(msg)
    return folder.joinpath(*parts)


def _classes_in(folder: Path) -> Path:
    """Descend while a folder holds nothing but one folder of folders."""
    while True:
        inside = list(folder.iterdir())
        if len(inside) != 1 or not inside[0].is_dir() or not any(entry.is_dir() for entry in inside[0].iterdir()):
            return folder
        folder = inside[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
