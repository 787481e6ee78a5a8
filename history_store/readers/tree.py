"""Listing of a folder of images: class and split of each file. No file is opened."""

from __future__ import annotations

import os
import posixpath
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.fingerprint import composed
from warmstart.history_store.images import SPLITS, DatasetWarning
from warmstart.history_store.limits import check_picture_file
from warmstart.history_store.picture import HEAD_BYTES, SUFFIXES, is_picture
from warmstart.history_store.readers.base import plural, printable, unpacking
from warmstart.history_store.readers.labels import natural_key, one_spelling
from warmstart.history_store.wording import in_words

_IGNORED = frozenset({"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin"})
_SPECIAL = "(a pipe or a device)"
_COMPANIONS = frozenset(
    {
        ".txt",
        ".csv",
        ".tsv",
        ".json",
        ".jsonl",
        ".ndjson",
        ".xml",
        ".yaml",
        ".yml",
        ".toml",
        ".ini",
        ".md",
        ".rst",
        ".html",
    }
    | {
        ".py",
        ".ipynb",
        ".sh",
        ".log",
        ".lst",
        ".mat",
        ".npy",
        ".npz",
        ".pkl",
        ".pt",
        ".pth",
        ".h5",
        ".hdf5",
        ".parquet",
    }
    | {".arrow", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".pdf", ".db", ".sqlite", ".lock"}
    | {
        ".cls",
        ".xlsx",
        ".xls",
        ".docx",
        ".bib",
        ".license",
        ".names",
        ".data",
        ".meta",
        ".info",
        ".cache",
        ".safetensors",
    }
)
"""Endings of files that lie beside pictures and are none; others are looked into, and told."""
TABLES = (".csv", ".tsv", ".jsonl")
"""Endings of tables of labels."""
_MAX_TRIED = 100
"""Files of an ending of which one must be a picture."""
_MAX_NAMED = 5
_MOST_WAYS = 100
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
class FolderContent:
    """Picture names by folder (relative, ``""`` = the root), and other files by ending.

    Every folder walked is a key, also one without pictures.
    """

    pictures: dict[str, list[str]] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def n_other_files(self) -> int:
        """Return the number of files that are no pictures."""
        return sum(map(len, self.others.values()))

    @property
    def other_file(self) -> str:
        """Return one of the other files; empty if there is none."""
        return max((max(paths) for paths in self.others.values() if paths), default="")

    def add(self, folder: str, name: str) -> None:
        """Add a file by its ending."""
        ending = name[name.rfind(".") :].lower() if "." in name else ""
        if ending in SUFFIXES:
            self.pictures[folder].append(name)
        else:
            self.others[ending].append(f"{folder}/{name}" if folder else name)

    def add_by_content(self, head_of: Callable[[str], bytes]) -> None:
        """Move files of unusual endings to the pictures where they begin like one.

        Args:
            head_of: returns the first bytes of a file.
        """
        for ending in sorted(self.others.keys() - _COMPANIONS):
            paths = sorted(self.others[ending])
            if not any(is_picture(head_of(path)) for path in paths[:_MAX_TRIED]):
                continue
            self.others[ending] = []
            for path in paths:
                if is_picture(head_of(path)):
                    folder, _, name = path.rpartition("/")
                    self.pictures[folder].append(name)
                else:
                    self.others[ending].append(path)

    def describe_others(self) -> list[str]:
        """Describe the files of unusual endings that are no pictures, such as ``90 files .heic``."""
        kinds = sorted(
            ((ending, paths) for ending, paths in self.others.items() if paths and ending not in _COMPANIONS),
            key=lambda item: -len(item[1]),
        )
        more = sum(len(paths) for _, paths in kinds[_MAX_NAMED:])
        return [
            f"{plural(len(paths), 'file')} {ending or 'without an ending'} that cannot be read as pictures (such as {printable(max(paths))})"
            for ending, paths in kinds[:_MAX_NAMED]
        ] + ([f"{plural(more, 'file')} of other endings"] if more else [])


def split_of(folder: str) -> str | None:
    """Return the split that a folder name spells (``Train``, ``validation_set``, ``test-images``), or None."""
    word = folder.lower()
    while (shorter := _DECORATION.sub("", word)) != word:
        word = shorter
    return _SPELLINGS.get(word)


def splits_of(spelled: Sequence[str | None]) -> dict[str, NDArray[np.int64]] | None:
    """Return the rows of each split by the spelled split of each row; None if one has none, or all the same."""
    # One part alone is no split.
    names = [name for name in spelled if name is not None]
    return None if len(names) < len(spelled) or len(set(names)) < 2 else splits_by_name(names)


def splits_by_name(spelled: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each split by the split of each row."""
    split_names = np.array(spelled)
    return {name: np.flatnonzero(split_names == name).astype(np.int64) for name in dict.fromkeys(spelled)}


def list_folder(root: str) -> Listing:
    """List a folder `root/class/…/x.png` or `root/split/class/…/x.png`.

    Folders below a class belong to it. Hidden files, system files and files without a picture's ending are passed over.

    Raises:
        LabelError: when the pictures do not lie in class folders.
        DataError: when there are no pictures, a folder cannot be read, or links run in a circle.
    """
    return list_content(walk(root), printable(root), root=root)


def list_content(content: FolderContent, location: str, *, root: str | None = None) -> Listing:
    """List the pictures of a folder or an archive, as `list_folder`.

    Args:
        content: names of pictures by folder.
        location: what an error names.
        root: the folder; None for an archive.
    """
    if not any(content.pictures.values()):
        raise DataError(_no_pictures_message(content, location))
    splits = _split_folders(content, location)
    depth = 1 if splits else 0
    classes = one_spelling(folder.split("/")[depth] for folder in content.pictures if folder.count("/") >= depth)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    left_out: dict[str, int] = {}
    for folder, names in content.pictures.items():
        parts = folder.split("/") if folder else []
        split = splits.get(parts[0]) if splits and parts else "train"
        if len(parts) <= depth or split is None:
            if names:
                left_out[folder] = len(names)
            continue
        groups[split, classes[parts[depth]]] += [f"{folder}/{name}" for name in names]
    foreign = foreign_splits(key for key, files in groups.items() if files)
    strange = {key: groups.pop(key) for key in list(groups) if key[0] in foreign}
    if not any(groups.values()):
        raise LabelError(_unlabelled_message(left_out, location, "" if root is None else labels_hint(root)))
    _warn_left_out(left_out, strange, groups, content, location)
    if not splits:
        _ask_about_classes(content, location)
    return _arrange({key: files for key, files in groups.items() if files}, has_splits=bool(splits))


def walk(root: str) -> FolderContent:
    """List every picture below a folder by its ending; links are followed.

    Raises:
        DataError: when a folder cannot be read, or links run in a circle.
    """
    content = FolderContent()
    open_folders: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    n_ways = Counter[str]()
    while open_folders:
        folder, chain = open_folders.pop()
        prefix = f"{folder}/" if folder else ""
        content.pictures.setdefault(folder, [])
        try:
            with os.scandir(f"{root}/{folder}" if folder else root) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    if name.lower() in _IGNORED:
                        continue
                    if entry.is_dir():
                        open_folders.append((prefix + name, _extend_chain(entry, chain, n_ways)))
                    elif entry.is_file() or _is_dangling(entry):
                        content.add(folder, name)
                    else:
                        content.others[_SPECIAL].append(prefix + name)
        except OSError as error:
            msg = f"{printable(f'{root}/{folder}')}: expected a folder that can be read, got {in_words(error)}. Check its permissions and links."
            raise DataError(msg) from error
    content.add_by_content(lambda path: _head_of(f"{root}/{path}"))
    return content


def _head_of(path: str) -> bytes:
    """Read the first bytes of a file; none if it cannot be read, or is no ordinary one."""
    try:
        check_picture_file(path, "picture")
        with open(path, "rb") as file:  # noqa: PTH123  a Path each costs seconds
            return file.read(HEAD_BYTES)
    except (OSError, DataError):
        return b""


def walk_names(names: Iterable[str], head_of: Callable[[str], bytes] | None = None) -> FolderContent:
    """List the pictures among the paths of an archive, by the rules of `walk`; folders end in ``/``.

    Args:
        names: of its files and folders.
        head_of: returns the first bytes of a file; None: endings alone count.
    """
    content = FolderContent({"": []})
    for path in names:
        *folders, name = path.split("/")
        if any(part[:1] == "." or part.lower() in _IGNORED for part in (*folders, name)):
            continue
        for depth in range(1, len(folders) + 1):
            content.pictures.setdefault("/".join(folders[:depth]), [])
        if name:
            content.add("/".join(folders), name)
    if head_of is not None:
        content.add_by_content(head_of)
    return content


def _extend_chain(entry: os.DirEntry[str], chain: tuple[str, ...], n_ways: Counter[str]) -> tuple[str, ...]:
    """Add a folder to the chain of real folders that lead to it, and count the ways to each of them."""
    real = os.path.realpath(entry.path) if entry.is_symlink() else f"{chain[-1]}/{entry.name}"
    if entry.is_symlink() and any(above == real or above.startswith(f"{real.rstrip('/')}/") for above in chain):
        msg = f"{printable(entry.path)}: expected a folder below its parent, got a link back to {printable(real)}. Remove the link: it runs in a circle."
        raise DataError(msg)
    n_ways[real] += 1
    if n_ways[real] > _MOST_WAYS:
        msg = f"{printable(entry.path)}: expected at most {_MOST_WAYS} ways to one folder, got more to {printable(real)}. Remove links: each level of them multiplies the pictures."
        raise DataError(msg)
    return (*chain, real)


def _is_dangling(entry: os.DirEntry[str]) -> bool:
    """Return whether a link leads nowhere: such a picture is broken, not absent."""
    return entry.is_symlink() and not os.path.exists(entry.path)  # noqa: PTH110


def _split_folders(content: FolderContent, location: str) -> dict[str, str]:
    """Return the split of each top folder; empty if the top folders are classes.

    They are splits when all of them that hold pictures spell one; or, beside other folders or with words before
    the spelling (``seg_train``), when a training and another split share a class. Otherwise a class called "train"
    stays a class.

    Raises:
        LabelError: when folders look like splits but share no class.
    """
    classes: dict[str, set[str]] = defaultdict(set)
    for folder, names in content.pictures.items():
        if names and folder:
            top, *below = folder.split("/")
            classes[top].update(composed(name) for name in below[:1])
    spelled = {top: split for top in classes if (split := split_of(top)) is not None}
    if len(spelled) == len(classes):
        return spelled
    loose = {top: split for top in classes if (split := split_of(re.split(r"[\s._-]+", top)[-1])) is not None} | spelled
    train_folders = [top for top, split in loose.items() if split == "train"]
    other_folders = [top for top, split in loose.items() if split != "train"]
    if _union(classes[top] for top in train_folders) & _union(classes[top] for top in other_folders):
        return loose
    if train_folders and other_folders:
        msg = f"{location}: expected splits that share classes (train/class, test/class), or classes, got {printable(train_folders[0])}/ and {printable(other_folders[0])}/ without a class in common. Put the class folders right into the splits, or rename what is no split."
        raise LabelError(msg)
    return {}


def _union(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


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


def foreign_splits(groups: Iterable[tuple[str, Any]]) -> frozenset[str]:
    """Return the splits that share no class with training: what is measured on them is no error of these classes.

    Args:
        groups: pairs of a split and a class in it.
    """
    classes: dict[str, set[Any]] = defaultdict(set)
    for split, name in groups:
        classes[split].add(name)
    train = classes.get("train")
    return frozenset(split for split, names in classes.items() if train and not names & train)


def rows_without_foreign_splits(
    rows: Sequence[int], labels: Sequence[Any], spelled: Sequence[str | None], location: str
) -> list[int]:
    """Leave out the rows of splits that share no class with training, with a warning.

    Args:
        rows: `n` rows of a table.
        labels: label of each row of the table.
        spelled: split of each row of the table.
        location: for the warning.
    """
    foreign = frozenset[str]() if None in spelled else foreign_splits((str(spelled[row]), labels[row]) for row in rows)
    for split in sorted(foreign):
        n = sum(spelled[row] == split for row in rows)
        msg = f"{location}: left out {plural(n, 'picture')} of the split {split!r}, without a class of the training pictures."
        warnings.warn(msg, DatasetWarning, stacklevel=6)
    return [row for row in rows if spelled[row] not in foreign]


def _ask_about_classes(content: FolderContent, location: str) -> None:
    """Warn if top folders hold several folders: of the same names, as datasets do, or of the name of a split."""
    inner: dict[str, set[str]] = defaultdict(set)
    for folder, names in content.pictures.items():
        if names and "/" in folder:
            inner[folder.split("/")[0]].add(folder.rpartition("/")[2])
    counts = Counter(name for below in inner.values() for name in below)
    alike = [top for top, below in inner.items() if sum(counts[name] > 1 for name in below) > 1]
    splits = [top for top, below in inner.items() if len(below) > 1 and split_of(top) is not None]
    if len(alike) > 1 or splits:
        named = ", ".join(printable(top) for top in sorted(alike)[:_MAX_NAMED])
        asked = f"are {named} classes? They hold folders of the same names, as datasets do"
        if len(alike) < 2:
            asked = f"is {printable(splits[0])} a class? It holds several folders, as a split does"
        msg = f"{location}: {asked}. If those are the classes, give one of the folders."
        warnings.warn(msg, DatasetWarning, stacklevel=7)


def _warn_left_out(
    left_out: Mapping[str, int],
    strange: Mapping[tuple[str, str], Sequence[str]],
    groups: Mapping[tuple[str, str], Sequence[str]],
    content: FolderContent,
    location: str,
) -> None:
    """Warn of pictures outside class folders, of splits without a class of training, of empty folders and other files."""
    folders = [folder for _, folder in groups]
    filled = {folder for (_, folder), files in groups.items() if files}
    parts = [
        f"{plural(n, 'picture')} in {printable(folder or '.')}/ outside every class folder"
        for folder, n in sorted(left_out.items())[:_MAX_NAMED]
    ]
    parts += [
        f"{plural(len(files), 'picture')} in {printable(posixpath.commonpath(list(map(posixpath.dirname, files))))}/ without a class of the training pictures"
        for files in list(filter(None, strange.values()))[:_MAX_NAMED]
    ]
    if empty := sorted(set(folders) - filled, key=natural_key):
        named = ", ".join(printable(folder) for folder in empty[:5])
        parts.append(f"{plural(len(empty), 'folder')} without pictures ({named})")
    parts += content.describe_others()
    if parts:
        warnings.warn(f"{location}: left out {'; '.join(parts)}.", DatasetWarning, stacklevel=7)


def _no_pictures_message(content: FolderContent, location: str) -> str:
    if not content.n_other_files:
        held = (
            "an empty folder"
            if len(content.pictures) == 1
            else f"{plural(len(content.pictures) - 1, 'folder')} without files"
        )
        return f"{location}: expected pictures in class folders, got {held}. Check the path."
    example = printable(content.other_file)
    step = "Check the path, or save the pictures as PNG or JPEG."
    if (unpacked := unpacking(content.other_file)) is not None:
        step = unpacked
    elif example.lower().endswith((".zip", ".tar", ".parquet", ".arrow", ".npz", ".h5", ".npy")):
        step = "Give the path of the file itself."
    return f"{location}: expected pictures in class folders, got {plural(content.n_other_files, 'other file')} such as {example}. {step}"


def labels_hint(root: str) -> str:
    """Suggest a table in a folder of pictures, beside it or in its splits as their labels; empty if there is none."""
    try:
        splits = [folder for folder in sorted(Path(root).iterdir()) if split_of(folder.name) is not None]
    except OSError:
        return ""
    for candidate in (Path(root), *splits, Path(root).absolute().parent):
        try:
            names = sorted(file.name for file in candidate.iterdir() if file.suffix.lower() in TABLES)
        except OSError:
            continue
        if names:
            named = next((name for name in names if "label" in name.lower()), names[0])
            return f"Does {printable(named)} hold their labels? Then add it with `labels`, or give {printable(f'{root}::labels={named}')}."
    return ""


def _unlabelled_message(left_out: Mapping[str, int], location: str, hint: str) -> str:
    folder, n = max(left_out.items(), key=lambda item: item[1])
    phrase = f" directly in {printable(folder)}/" if folder else ""
    return f"{location}: expected one folder a class (root/class/picture.png), got {plural(n, 'picture')}{phrase} without class folders. {hint or 'Sort the pictures into one folder a class: the similarity rests on labels.'}"
