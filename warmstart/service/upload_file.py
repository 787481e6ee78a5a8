"""An uploaded dataset becomes a descriptor: unpacked and looked at in a process of its own, which is then gone with all its files.

Run as ``python -m warmstart.service.upload_file FILE KIND MODEL MOST_BYTES MOST_PIXELS``; prints the descriptor as JSON.
"""

import json
import lzma
import resource
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

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
"""What the standard library raises for a damaged archive, or one with a password."""


def unpack(archive: Path, kind: str, folder: Path, *, most_bytes: int) -> tuple[Path, list[str]]:
    """Unpack the pictures of an archive, by the rules of folders: hidden and system files are passed over.

    Returns: the folder that holds the classes; notes on what else was left out.

    Raises:
        DataError: no archive of that kind, or one with too many files, too many bytes or a name that leads elsewhere.
    """
    left, count = most_bytes, 0
    others: list[str] = []
    links: list[str] = []
    try:
        for name, opened in _members(archive, kind):
            found = walk_names([_plain(name)])
            if not any(found.pictures.values()):
                others += [name] * found.n_other_files  # 0 of what is hidden
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
                        msg = f"expected at most {most_bytes:,} bytes unpacked, got more. Send a sample: 400 pictures are looked at."
                        raise DataError(msg)
                    file.write(part)
    except _UNREADABLE as error:
        if isinstance(error, WarmstartError):
            raise
        msg = f"expected a {kind} archive without a password, got another file ({type(error).__name__}). Pack it again."
        raise DataError(msg) from error
    if not count:
        msg = "expected pictures in a folder for each class, got none. Pack CLASS/PICTURE.png."
        raise DataError(msg)
    notes = [_left_out(others, "file", "by their endings no pictures"), _left_out(links, "link", "not followed")]
    return _classes_in(folder), [note for note in notes if note]


def check_pixels(folder: Path, most: int) -> None:
    """Check how large pictures are, before any is decoded.

    Raises:
        DataError: they have too many pixels together.
    """
    from PIL import Image, UnidentifiedImageError

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
            continue  # what is no picture is left out later, and named
        if left < 0:
            msg = f"expected at most {most:,} pixels in all pictures, got more. Send smaller ones: they are resized to 32 x 32."
            raise DataError(msg)


def check_arrays(file: Path, most: int) -> None:
    """Check how large the arrays of an npz file are, before any is read.

    Raises:
        DataError: it is none, or they have too many bytes.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(each.file_size for each in archive.infolist())
    except zipfile.BadZipFile as error:
        msg = "expected an npz file, got something else. Write it with numpy.savez(images=..., labels=...)."
        raise DataError(msg) from error
    if size > most:
        msg = f"expected arrays of at most {most:,} bytes, got {size:,}. Send a sample: 400 pictures are looked at."
        raise DataError(msg)


def main(arguments: list[str]) -> int:
    """Describe a file; prints the descriptor, or what is wrong with the file."""
    from warmstart.suggestions.advisor import Advisor

    file, kind, model, most_bytes, most_pixels = arguments
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    found: dict[str, object]
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as place:
        try:
            if kind == "npz":
                check_arrays(Path(file), int(most_pixels) * 3)
                dataset = Path(file)
            else:
                dataset, notes = unpack(Path(file), kind, Path(place), most_bytes=int(most_bytes))
                check_pixels(dataset, int(most_pixels))
            advisor = Advisor(None, model or None, skip_broken=True, threads=1, cache=False)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", DatasetWarning)
                described = advisor.describe(dataset)
            notes += [str(each.message) for each in said if issubclass(each.category, DatasetWarning)]
            notes += described.notes
            found = {
                "descriptor": described.descriptor.to_dict(),
                "notes": [_within(note, place, file) for note in notes[:20]],
            }
        except WarmstartError as error:
            found = {"error": _within(str(error), place, file)}
    sys.stdout.write(json.dumps(found))
    return 0


def _within(text: str, place: str, file: str) -> str:
    """Name files as the client does."""
    return text.replace(place + "/", "").replace(place, "the archive").replace(file, "the file")


def _members(archive: Path, kind: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Open the files of an archive in turn; None for links and devices. A hard link of a tar is the file that it names."""
    if kind == "zip":
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                if not entry.is_dir():
                    is_file = (entry.external_attr >> 28) in (0, 8)
                    yield entry.filename, opened.open(entry) if is_file else None
        return
    files: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            found = files.get(member.linkname) if member.islnk() else member if member.isreg() else None
            if found is not None:
                files[member.name] = found
            if not member.isdir():
                yield member.name, None if found is None else packed.extractfile(found)


def _parts(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def _plain(name: str) -> str:
    """Return a path without what leads elsewhere, to tell whether it is of a picture."""
    return "/".join(part for part in _parts(name) if part != "..")


def _left_out(names: Sequence[str], what: str, why: str) -> str:
    """Note what was left out; empty where that is nothing."""
    return f"left out {plural(len(names), what)}, {why}, such as {printable(names[0][:80])}" if names else ""


def _target(folder: Path, name: str) -> Path:
    """Return where a picture goes.

    Raises:
        DataError: a name that leads elsewhere.
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
    """Go down while there is one folder alone."""
    while True:
        inside = list(folder.iterdir())
        if len(inside) != 1 or not inside[0].is_dir() or not any(each.is_dir() for each in inside[0].iterdir()):
            return folder
        folder = inside[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
