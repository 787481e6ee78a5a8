"""Copies of pictures in a folder a class, by the answers of a classifier; nothing is overwritten."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warmstart.history_store.errors import StorageError, UsageError
from warmstart.locations import PathLike
from warmstart.prediction import Prediction, Predictions

UNSURE = "unsure"
USUAL_THRESHOLD = 0.8
_FORBIDDEN = str.maketrans(dict.fromkeys([*'/\\:*?"<>|', *map(chr, range(32))], "_"))
"""Characters that some file system refuses in a name, and those that act on a terminal."""


@dataclass(frozen=True, slots=True)
class SortedPicture:
    """A copied picture.

    Attributes:
        image: path of the picture.
        copy: path of its copy.
    """

    image: str
    copy: Path


def sort_pictures(predictions: Predictions, folder: PathLike, *, threshold: float = USUAL_THRESHOLD) -> list[SortedPicture]:  # fmt: skip
    """Copy pictures into a folder a class; the unsure ones, and those unlike what was learned, into ``unsure``.

    A picture whose copy is there already stays; another file of that name does too, and the copy gets a number.

    Args:
        predictions: of picture files.
        folder: made if it is not there; it may hold earlier copies.
        threshold: least probability of a sure answer.

    Raises:
        UsageError: a folder that is a file, or that holds the pictures themselves.
        StorageError: a copy cannot be written.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        msg = f"expected a folder, got the file {target}. Name another."
        raise UsageError(msg, param="sort_into")
    inside = next((row.image for row in predictions.rows if Path(row.image).resolve().is_relative_to(target.resolve())), None)  # fmt: skip
    if inside is not None:
        msg = f"expected a folder without the pictures themselves, got {target}, which holds {inside}. Name another."
        raise UsageError(msg, param="sort_into")
    names = folder_names(predictions.classes)
    try:
        return [SortedPicture(row.image, _copy(row.image, target / _folder_of(row, names, threshold))) for row in predictions.rows]  # fmt: skip
    except OSError as error:
        msg = f"{error.filename2 or error.filename or target}: expected a picture to be copied, got: {error.strerror}. What was copied stays; correct this, and run the command again."
        raise StorageError(msg) from error


def folder_names(classes: tuple[str, ...]) -> dict[str, str]:
    """Return a folder's name for each class: all different, and other than that of the unsure ones."""
    names: dict[str, str] = {}
    for label in classes:
        plain = label.translate(_FORBIDDEN).strip(" .") or "_"
        candidates = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
        taken = {UNSURE, *(name.casefold() for name in names.values())}
        names[label] = next(name for name in candidates if name.casefold() not in taken)
    return names


def _folder_of(row: Prediction, names: dict[str, str], threshold: float) -> str:
    return UNSURE if row.unlike or row.probability < threshold else names[row.label]


def _copy(image: str, folder: Path) -> Path:
    """Copy a picture into a folder under its name, or the next free one."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(image)
    for target in _candidates(folder / source.name):
        try:
            with target.open("xb") as written:
                try:
                    with source.open("rb") as read:
                        shutil.copyfileobj(read, written)
                except BaseException:
                    target.unlink(missing_ok=True)
                    raise
        except FileExistsError:
            if _is_same(source, target):
                return target
            continue
        shutil.copystat(source, target)
        return target
    raise AssertionError  # there are numbers without end


def _candidates(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_stem(f"{path.stem}-{number}")


def _is_same(first: Path, second: Path) -> bool:
    return second.is_file() and first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()  # fmt: skip
