"""Shards of webdataset: tars of samples that share a key, ``0001.jpg`` beside ``0001.cls``; no index is needed."""

from __future__ import annotations

import re
import tarfile
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.picture import SUFFIXES, is_picture
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.labels import LABELS, encode_labels, read_labels
from warmstart.history_store.readers.parts import check_parts, warn_of_other_parts
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.tar_members import TarFolderSource, TarPicture, tar_members
from warmstart.history_store.readers.tree import rows_without_foreign_splits, split_of, splits_of

CLASSES = ("cls", "cls.txt", "cls2", "label", "label.txt", "index", "class.txt", "class")
"""Endings of members that hold a label as text."""
_SHARD = re.compile(r"^(?P<stem>.*?)[-_.]?\d*\.tar$", re.IGNORECASE)
_LABEL_BYTES = 1 << 20
_MAX_FILES = 200


@dataclass(frozen=True, slots=True)
class _Shard:
    """Content of a tar.

    Attributes:
        samples: the picture of each sample.
        cells: the labels of the samples, None where there is none.
        files: all files, in the order of the tar.
        pictures: all pictures, those of one sample too.
        n_with_others: samples with something but pictures.
        unread: names of labelled samples without a picture that can be read, each by its first file.
    """

    samples: tuple[TarPicture, ...]
    cells: tuple[Any, ...]
    files: tuple[TarPicture, ...]
    pictures: tuple[TarPicture, ...]
    n_with_others: int
    unread: tuple[str, ...]

    @property
    def is_class_folders(self) -> bool:
        """Return whether the pictures are in class folders: no labels beside them, few other files."""
        in_folders = any("/" in picture.name.removeprefix("./") for picture in self.pictures)
        is_labelled = any(cell is not None for cell in self.cells)
        return in_folders and not is_labelled and self.n_with_others <= len(self.samples) // 2


class TarSource(BlobSource):
    """The pictures of shards; headers and labels are read once, pictures when they are needed."""

    def __init__(self, location: str, paths: Sequence[Path], shards: Sequence[_Shard]) -> None:
        printable_location = printable(location)
        samples = [sample for shard in shards for sample in shard.samples]
        cells = [cell for shard in shards for cell in shard.cells]
        splits = [_split_of_shard(path) for path, shard in zip(paths, shards, strict=True) for _ in shard.samples]
        if not samples:
            msg = f"{printable_location}: expected samples such as 0001.jpg beside 0001.cls, or class folders, got no picture. Check that it is a dataset of pictures."
            raise DataError(msg)
        if not any(cell is not None for cell in cells):
            raise LabelError(_unlabelled_message(printable_location, len(samples), n_shards=len(paths)))
        values, has = read_labels(cells, printable_location)
        rows = [row for row in range(len(samples)) if has[row]]
        if len(rows) < len(samples):
            warnings.warn(f"{printable_location}: left out {plural(len(samples) - len(rows), 'picture')} without a label.", DatasetWarning, stacklevel=4)  # fmt: skip
        if unread := [name for shard in shards for name in shard.unread]:
            warnings.warn(f"{printable_location}: left out {plural(len(unread), 'sample')} without a picture that can be read (such as {printable(unread[0])}).", DatasetWarning, stacklevel=4)  # fmt: skip
        rows = rows_without_foreign_splits(rows, values, splits, printable_location)
        encoding = encode_labels([values[row] for row in rows], printable_location, n=len(rows))
        self._paths = tuple(str(path) for path in paths)
        self._samples = tuple(samples[row] for row in rows)
        super().__init__(
            location,
            "webdataset",
            names=[f"{Path(sample.path).name}/{sample.name}" for sample in self._samples],
            labels=encoding.labels,
            class_names=encoding.class_names,
            splits=splits_of([splits[row] for row in rows]),
        )  # fmt: skip

    def size_of(self, index: int) -> int:
        """Return the bytes of a picture."""
        return self._samples[index].size

    def signature(self) -> str:
        """Return a signature of the shards by path, size and time of change."""
        return "".join(file_signature(path, [""]) for path in self._paths)

    def blob(self, index: int) -> bytes:
        """Read one picture from its position in the shard."""
        return self._samples[index].read()


def is_shards(names: Sequence[str]) -> bool:
    """Return whether a folder holds tars and no picture beside them."""
    return any(name.lower().endswith(".tar") for name in names) and not any(
        name[name.rfind(".") :].lower() in SUFFIXES for name in names if "." in name
    )


def _read_shard(path: Path) -> _Shard:
    """List the pictures of a shard with the labels of their samples.

    A sample's key ends at the first point of a name; where that gives no label, at the last one (`a.1.jpg` beside `a.1.cls`).
    """
    shard = _scan(path, last_point=False)
    if shard.pictures and not any(cell is not None for cell in shard.cells):
        other = _scan(path, last_point=True)
        return other if any(cell is not None for cell in other.cells) else shard
    return shard


def _scan(path: Path, *, last_point: bool) -> _Shard:
    files: list[TarPicture] = []
    pictures: list[TarPicture] = []
    samples: dict[str, TarPicture] = {}
    labels: dict[str, Any] = {}
    others: dict[str, list[TarPicture]] = defaultdict(list)
    text, location = str(path), printable(str(path))
    for archive, member in tar_members(path):
        folder, _, base = member.name.rpartition("/")
        stem, _, ending = base.rpartition(".") if last_point else base.partition(".")
        files.append(TarPicture.of(text, member))
        if not stem:
            continue
        key, ending = f"{folder}/{stem}", ending.lower()
        if f".{ending.rpartition('.')[2]}" in SUFFIXES:
            pictures.append(files[-1])
            if key not in samples or _is_first(ending):
                samples[key] = pictures[-1]
            continue
        others[key].append(files[-1])
        if (ending in CLASSES or ending == "json") and labels.get(key) is None and member.isfile():
            labels[key] = _label(archive, member, ending, location)
    unread = []
    for key in [key for key, label in labels.items() if label is not None and key not in samples]:
        if picture := next((file for file in others[key] if is_picture(file.head())), None):
            samples[key] = picture
            pictures.append(picture)
        else:
            unread.append(others[key][0].name)
    cells = tuple(labels.get(key) for key in samples)
    n_with_others = len(others.keys() & samples.keys())
    return _Shard(tuple(samples.values()), cells, tuple(files), tuple(pictures), n_with_others, tuple(unread))


def _unlabelled_message(location: str, n: int, *, n_shards: int) -> str:
    step = "The similarity of datasets rests on labels."
    if n_shards > 1:
        step = "Are they class folders, or one tar a class? Unpack them into one folder a class."
    return f"{location}: expected a label beside each picture ({', '.join(f'.{end}' for end in CLASSES[:3])} or .json with {LABELS[0]!r}), got {plural(n, 'unlabelled picture')}. {step}"


def _is_first(ending: str) -> bool:
    """Return whether an ending is the plain one, of the picture that counts among several of a sample."""
    return "." not in ending


def _label(archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str, location: str) -> Any:
    if member.size > _LABEL_BYTES:
        msg = f"{location}: expected a label in {printable(member.name)}, got {member.size:,} bytes. Check the shard."
        raise DataError(msg)
    file = archive.extractfile(member)
    data = b"" if file is None else file.read()
    try:
        text = data.decode("utf-8").strip()
        if ending != "json":
            return text or None
        value = parse_json(text)
    except ValueError as error:
        msg = f"{location}: expected text in {printable(member.name)}, got something else ({error}). Check the shard."
        raise DataError(msg) from error
    if not isinstance(value, dict):
        return value if isinstance(value, int | str) else None
    return next((value[name] for name in LABELS if name in value), None)


def _split_of_shard(path: Path) -> str | None:
    """Return the split that a word of a shard's name spells, or its folder's name."""
    match = _SHARD.match(path.name)
    words = re.split(r"[\W_]+", match["stem"]) if match else []
    return next((split for word in (*reversed(words), path.parent.name) if (split := split_of(word)) is not None), None)


def _matches(location: Place) -> bool:
    if location.path is None or not location.is_folder:
        return location.file.endswith(".tar")
    return is_shards(location.entries) and not any(_has_pictures(location.path / entry) for entry in location.entries)


def _has_pictures(folder: Path) -> bool:
    """Return whether a folder holds pictures, or folders with pictures: then tars beside it are no dataset."""
    entries = islice(chain(folder.glob("*"), folder.glob("*/*")), _MAX_FILES)
    return folder.is_dir() and any(path.suffix.lower() in SUFFIXES for path in entries)


def _open_location(location: Place) -> TarSource | TarFolderSource:
    assert location.path is not None  # noqa: S101  matched
    if location.is_folder:
        paths = [location.path / entry for entry in location.entries if entry.lower().endswith(".tar")]
        check_parts(paths, printable(location.text))
    else:
        paths = [location.path]
        warn_of_other_parts(location.path)
    shards = [_read_shard(path) for path in paths]
    if len(shards) == 1 and shards[0].is_class_folders:
        return TarFolderSource(location.text, shards[0].files)
    return TarSource(location.text, paths, shards)


READER = Reader(_matches, _open_location)
