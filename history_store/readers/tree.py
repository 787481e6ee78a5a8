"""Listing of a folder of images: class and split of each file. No file is opened."""

from __future__ import annotations

import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.images import SPLITS, DatasetWarning
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.base import plural, printable, unpacking
from warmstart.history_store.readers.labels import composed, natural_key, one_spelling
from warmstart.history_store.wording import in_words

_IGNORED = frozenset({"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin"})
_SPELLINGS = {
    **dict.fromkeys(("train", "training", "trn", "trainval"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "dev", "development"), "val"),
    **dict.fromkeys(("test", "testing", "tst", "eval", "evaluation", "holdout"), "test"),
}
_DECORATION = re.compile(r"[\s._-]+|(?<=.)(set|split|data|images|imgs|files|folder)$")


@dataclass(frozen=True, slots=True)
class Listing:
    """The pictures of a dataset folder.

    Attributes:
        files: `n` paths below the root, with ``/``; by split, class and name.
        labels: `n` int64 in 0 .. C-1.
        class_names: C folder names in natural order.
        splits: split name to sorted indices, or None where the folder has no splits.
    """

    files: tuple[str, ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    splits: Mapping[str, NDArray[np.int64]] | None


@dataclass(slots=True)
class Found:
    """What a walk saw: picture names by folder (relative, ``""`` = the root), and how much else.

    Every folder walked is a key, also one without pictures.
    """

    pictures: dict[str, list[str]] = field(default_factory=dict)
    n_others: int = 0
    other: str = ""


def split_of(folder: str) -> str | None:
    """Return which split a folder name spells (``Train``, ``validation_set``, ``test-images``), or None."""
    word = folder.lower()
    while (shorter := _DECORATION.sub("", word)) != word:
        word = shorter
    return _SPELLINGS.get(word)


def splits_of(spelled: Sequence[str | None]) -> dict[str, NDArray[np.int64]] | None:
    """Return the rows of each split, by what the file of each row spells; None where one spells none, or all the same."""
    names = [name for name in dict.fromkeys(spelled) if name is not None]
    if None in spelled or len(names) < 2:  # one part alone is no split
        return None
    found = np.array(spelled)
    return {name: np.flatnonzero(found == name).astype(np.int64) for name in names}


def list_folder(root: str) -> Listing:
    """List a folder `root/class/…/x.png` or `root/split/class/…/x.png`.

    Folders below a class belong to it. Hidden files, system files and files without a picture's ending are passed over.

    Raises:
        LabelError: when the pictures do not lie in class folders.
        DataError: when there are no pictures, a folder cannot be read, or links run in a circle.
    """
    return list_found(walk(root), printable(root), root=root)


def list_found(found: Found, where: str, *, root: str | None = None) -> Listing:
    """List pictures that were found in a folder or an archive; as `list_folder`.

    Args:
        found: names of pictures by folder.
        where: what an error names.
        root: the folder; None for an archive.
    """
    if not any(found.pictures.values()):
        raise DataError(_no_pictures(found, where))
    splits = _split_folders(found, where)
    depth = 1 if splits else 0
    classes = one_spelling(folder.split("/")[depth] for folder in found.pictures if folder.count("/") >= depth)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    left_out: dict[str, int] = {}
    for folder, names in found.pictures.items():
        parts = folder.split("/") if folder else []
        split = splits.get(parts[0]) if splits and parts else "train"
        if len(parts) <= depth or split is None:
            if names:
                left_out[folder] = len(names)
            continue
        groups[split, classes[parts[depth]]] += [f"{folder}/{name}" for name in names]
    if not any(groups.values()):
        raise LabelError(_unlabelled(left_out, where, "" if root is None else labels_hint(root)))
    _warn(left_out, [folder for (_, folder) in groups], groups, where)
    return _arrange({key: files for key, files in groups.items() if files}, has_splits=bool(splits))


def walk(root: str) -> Found:
    """Walk a folder, links included, and note every picture by its ending.

    Raises:
        DataError: when a folder cannot be read, or links run in a circle.
    """
    found = Found()
    open_folders: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    while open_folders:
        folder, chain = open_folders.pop()
        prefix = f"{folder}/" if folder else ""
        names = found.pictures.setdefault(folder, [])
        try:
            with os.scandir(f"{root}/{folder}" if folder else root) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    is_picture = name[name.rfind(".") :].lower() in SUFFIXES
                    if is_picture and (entry.is_file() or _dangles(entry)):
                        names.append(name)
                    elif name.lower() in _IGNORED:
                        continue
                    elif entry.is_dir():
                        open_folders.append((prefix + name, _chain(entry, chain)))
                    else:
                        found.n_others += 1
                        found.other = max(found.other, prefix + name)
        except OSError as error:
            msg = f"{printable(f'{root}/{folder}')}: expected a folder that can be read, got {in_words(error)}. Check its permissions and links."
            raise DataError(msg) from error
    return found


def found_in(names: Iterable[str]) -> Found:
    """Note the pictures among the paths of an archive, by the rules of `walk`; folders end in ``/``."""
    found = Found({"": []})
    for path in names:
        *folders, name = path.split("/")
        if any(part[:1] == "." or part.lower() in _IGNORED for part in (*folders, name)):
            continue
        for depth in range(1, len(folders) + 1):
            found.pictures.setdefault("/".join(folders[:depth]), [])
        if not name:
            continue
        if name[name.rfind(".") :].lower() in SUFFIXES:
            found.pictures["/".join(folders)].append(name)
        else:
            found.n_others += 1
            found.other = max(found.other, path)
    return found


def _chain(entry: os.DirEntry[str], chain: tuple[str, ...]) -> tuple[str, ...]:
    """Add a folder to the real folders that lead to it."""
    real = os.path.realpath(entry.path) if entry.is_symlink() else f"{chain[-1]}/{entry.name}"
    if entry.is_symlink() and any(above == real or above.startswith(f"{real.rstrip('/')}/") for above in chain):
        msg = f"{printable(entry.path)}: expected a folder below its parent, got a link back to {printable(real)}. Remove the link: it runs in a circle."
        raise DataError(msg)
    return (*chain, real)


def _dangles(entry: os.DirEntry[str]) -> bool:
    """Return whether a link leads nowhere: a picture that is broken, not one that is absent."""
    return entry.is_symlink() and not os.path.exists(entry.path)  # noqa: PTH110


def _split_folders(found: Found, where: str) -> dict[str, str]:
    """Decide which top folders are splits; empty where they are classes.

    They are splits when all of them that hold pictures spell one; or, beside other folders or with words before
    the spelling (``seg_train``), when a training and another split share a class. Otherwise a class called "train"
    stays a class.

    Raises:
        LabelError: when folders look like splits but share no class.
    """
    classes: dict[str, set[str]] = defaultdict(set)
    for folder, names in found.pictures.items():
        if names and folder:
            top, *below = folder.split("/")
            classes[top].update(composed(name) for name in below[:1])
    spelled = {top: split for top in classes if (split := split_of(top)) is not None}
    if len(spelled) == len(classes):
        return spelled
    loose = {top: split for top in classes if (split := split_of(re.split(r"[\s._-]+", top)[-1])) is not None} | spelled
    train = [top for top, split in loose.items() if split == "train"]
    others = [top for top, split in loose.items() if split != "train"]
    if any(classes[one] & classes[other] for one in train for other in others):
        return loose
    if train and others:
        msg = f"{where}: expected splits that share classes (train/class, test/class), or classes, got {printable(train[0])}/ and {printable(others[0])}/ without a class in common. Put the class folders right into the splits, or rename what is no split."
        raise LabelError(msg)
    return {}


def _arrange(groups: Mapping[tuple[str, str], Sequence[str]], *, has_splits: bool) -> Listing:
    folders = sorted({folder for _, folder in groups}, key=natural_key)
    codes = {folder: code for code, folder in enumerate(folders)}
    files: list[str] = []
    labels: list[NDArray[np.int64]] = []
    splits: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for split, folder in sorted(groups, key=lambda key: (SPLITS.index(key[0]), codes[key[1]])):
        part = sorted(groups[split, folder])
        splits[split].append(np.arange(len(files), len(files) + len(part), dtype=np.int64))
        labels.append(np.full(len(part), codes[folder], dtype=np.int64))
        files += part
    return Listing(
        tuple(files),
        np.concatenate(labels),
        tuple(printable(folder) for folder in folders),
        {split: np.concatenate(parts) for split, parts in splits.items()} if has_splits else None,
    )


def _warn(
    left_out: Mapping[str, int], folders: Sequence[str], groups: Mapping[tuple[str, str], Sequence[str]], where: str
) -> None:
    filled = {folder for (_, folder), files in groups.items() if files}
    parts = [
        f"{plural(n, 'picture')} in {printable(folder or '.')}/ outside every class folder"
        for folder, n in sorted(left_out.items())[:5]
    ]
    if empty := sorted(set(folders) - filled, key=natural_key):
        named = ", ".join(printable(folder) for folder in empty[:5])
        parts.append(f"{plural(len(empty), 'folder')} without pictures ({named})")
    if parts:
        warnings.warn(f"{where}: left out {'; '.join(parts)}.", DatasetWarning, stacklevel=7)


def _no_pictures(found: Found, where: str) -> str:
    if not found.n_others:
        held = (
            "an empty folder"
            if len(found.pictures) == 1
            else f"{plural(len(found.pictures) - 1, 'folder')} without files"
        )
        return f"{where}: expected pictures in class folders, got {held}. Check the path."
    other = printable(found.other)
    step = "Check the path, or save the pictures as PNG or JPEG."
    if (unpacked := unpacking(found.other)) is not None:
        step = unpacked
    elif other.lower().endswith((".zip", ".tar", ".parquet", ".arrow", ".npz", ".h5", ".npy")):
        step = "Give the path of the file itself."
    return f"{where}: expected pictures in class folders, got {plural(found.n_others, 'other file')} such as {other}. {step}"


def labels_hint(root: str) -> str:
    """Ask whether a CSV file in a folder of pictures or beside it holds their labels; empty where there is none."""
    for place in (Path(root), Path(root).absolute().parent):
        try:
            names = sorted(file.name for file in place.iterdir() if file.suffix.lower() in (".csv", ".tsv"))
        except OSError:
            continue
        if names:
            named = next((name for name in names if "label" in name.lower()), names[0])
            return f"Does {printable(named)} hold their labels? Then add it with `labels`, or give {printable(f'{root}::labels={named}')}."
    return ""


def _unlabelled(left_out: Mapping[str, int], where: str, hint: str) -> str:
    folder, n = max(left_out.items(), key=lambda item: item[1])
    place = f" directly in {printable(folder)}/" if folder else ""
    return f"{where}: expected one folder a class (root/class/picture.png), got {plural(n, 'picture')}{place} without class folders. {hint or 'Sort the pictures into one folder a class: the similarity rests on labels.'}"
