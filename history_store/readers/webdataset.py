"""Shards of webdataset: tars of samples that share a key, ``0001.jpg`` beside ``0001.cls``; no index is needed."""

from __future__ import annotations

import re
import tarfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, LabelError
from warmstart.history_store.fingerprint import file_signature
from warmstart.history_store.images import DatasetWarning
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers.base import plural, printable
from warmstart.history_store.readers.blobs import BlobSource
from warmstart.history_store.readers.labels import encode_labels
from warmstart.history_store.readers.parts import check_parts, tell_of_others
from warmstart.history_store.readers.registry import Place, Reader
from warmstart.history_store.readers.table_labels import LABELS, read_labels
from warmstart.history_store.readers.tar_folder import TarFolderSource
from warmstart.history_store.readers.tar_members import TarPicture, tar_members
from warmstart.history_store.readers.tree import split_of, splits_of

CLASSES = ("cls", "cls.txt", "cls2", "label", "label.txt", "index", "class.txt", "class")
"""Endings of members that hold a label as text."""
_SHARD = re.compile(r"^(?P<stem>.*?)[-_.]?\d*\.tar$", re.IGNORECASE)
_LABEL_BYTES = 1 << 20
_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class _Shard:
    """What a tar holds.

    Attributes:
        samples: the picture of each sample.
        cells: the labels of the samples, None where there is none.
        pictures: all pictures, those of one sample too.
        n_others: samples with something but pictures.
    """

    samples: tuple[TarPicture, ...]
    cells: tuple[Any, ...]
    pictures: tuple[TarPicture, ...]
    n_others: int

    @property
    def is_class_folders(self) -> bool:
        """Tell whether pictures lie in folders, with no label beside them, and next to most of them nothing: a caption is none."""
        in_folders = any("/" in picture.name.removeprefix("./") for picture in self.pictures)
        is_labelled = any(cell is not None for cell in self.cells)
        return in_folders and not is_labelled and self.n_others <= len(self.samples) // 2


class TarSource(BlobSource):
    """The pictures of shards; headers and labels are read once, pictures when they are asked for."""

    def __init__(self, location: str, paths: Sequence[Path], shards: Sequence[_Shard]) -> None:
        where = printable(location)
        samples = [sample for shard in shards for sample in shard.samples]
        cells = [cell for shard in shards for cell in shard.cells]
        splits = [_split_of_shard(path) for path, shard in zip(paths, shards, strict=True) for _ in shard.samples]
        if not samples:
            msg = f"{where}: expected samples such as 0001.jpg beside 0001.cls, or class folders, got no picture. Check that it is a dataset of pictures."
            raise DataError(msg)
        if not any(cell is not None for cell in cells):
            raise LabelError(_unlabelled(where, len(samples), n_shards=len(paths)))
        values, has = read_labels(cells, where)
        kept = [row for row in range(len(samples)) if has[row]]
        if len(kept) < len(samples):
            warnings.warn(f"{where}: left out {plural(len(samples) - len(kept), 'picture')} without a label.", DatasetWarning, stacklevel=4)  # fmt: skip
        encoding = encode_labels([values[row] for row in kept], where, n=len(kept))
        self._paths = tuple(str(path) for path in paths)
        self._samples = tuple(samples[row] for row in kept)
        super().__init__(
            location,
            "webdataset",
            names=[f"{Path(sample.path).name}/{sample.name}" for sample in self._samples],
            labels=encoding.labels,
            class_names=encoding.class_names,
            splits=splits_of([splits[row] for row in kept]),
        )  # fmt: skip

    def size_of(self, index: int) -> int:
        """Return the bytes of a picture."""
        return self._samples[index].size

    def signature(self) -> str:
        """Name the shards by path, size and time of change."""
        return "".join(file_signature(path, [""]) for path in self._paths)

    def blob(self, index: int) -> bytes:
        """Read one picture where it lies."""
        return self._samples[index].read()


def is_shards(names: Sequence[str]) -> bool:
    """Tell whether a folder holds tars and no picture beside them."""
    return any(name.lower().endswith(".tar") for name in names) and not any(
        name[name.rfind(".") :].lower() in SUFFIXES for name in names if "." in name
    )


def _scan(path: Path) -> _Shard:
    """List the pictures of a shard with the labels of their samples."""
    pictures: list[TarPicture] = []
    samples: dict[str, TarPicture] = {}
    labels: dict[str, Any] = {}
    others: set[str] = set()
    text, where = str(path), printable(str(path))
    for archive, member in tar_members(path):
        folder, _, base = member.name.rpartition("/")
        stem, _, ending = base.partition(".")
        if not stem:
            continue
        key, ending = f"{folder}/{stem}", ending.lower()
        if f".{ending.rpartition('.')[2]}" in SUFFIXES:
            pictures.append(TarPicture.of(text, member))
            if key not in samples or _is_first(ending):
                samples[key] = pictures[-1]
            continue
        others.add(key)
        if (ending in CLASSES or ending == "json") and labels.get(key) is None and member.isfile():
            labels[key] = _label(archive, member, ending, where)
    cells = tuple(labels.get(key) for key in samples)
    return _Shard(tuple(samples.values()), cells, tuple(pictures), len(others & samples.keys()))


def _unlabelled(where: str, n: int, *, n_shards: int) -> str:
    step = "The similarity of datasets rests on labels."
    if n_shards > 1:
        step = "Are they class folders, or one tar a class? Unpack them into one folder a class."
    return f"{where}: expected a label beside each picture ({', '.join(f'.{end}' for end in CLASSES[:3])} or .json with {LABELS[0]!r}), got {plural(n, 'unlabelled picture')}. {step}"


def _is_first(ending: str) -> bool:
    """Tell which of several pictures of a sample is the picture: the one of the plain ending."""
    return "." not in ending


def _label(archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str, where: str) -> Any:
    if member.size > _LABEL_BYTES:
        msg = f"{where}: expected a label in {printable(member.name)}, got {member.size:,} bytes. Check the shard."
        raise DataError(msg)
    file = archive.extractfile(member)
    data = b"" if file is None else file.read()
    try:
        text = data.decode("utf-8").strip()
        if ending != "json":
            return text or None
        found = parse_json(text)
    except ValueError as error:
        msg = f"{where}: expected text in {printable(member.name)}, got something else ({error}). Check the shard."
        raise DataError(msg) from error
    if not isinstance(found, dict):
        return found if isinstance(found, int | str) else None
    return next((found[name] for name in LABELS if name in found), None)


def _split_of_shard(path: Path) -> str | None:
    """Tell the split of a shard by a word of its name, or by its folder's."""
    match = _SHARD.match(path.name)
    words = re.split(r"[\W_]+", match["stem"]) if match else []
    return next((split for word in (*reversed(words), path.parent.name) if (split := split_of(word)) is not None), None)


def _matches(place: Place) -> bool:
    if place.path is None or not place.is_folder:
        return place.file.endswith(".tar")
    return is_shards(place.entries) and not any(_has_pictures(place.path / entry) for entry in place.entries)


def _has_pictures(folder: Path) -> bool:
    """Tell whether a folder is one of pictures, or of folders with pictures: then the tars beside it are no dataset."""
    found = islice(chain(folder.glob("*"), folder.glob("*/*")), _LOOKED_AT)
    return folder.is_dir() and any(path.suffix.lower() in SUFFIXES for path in found)


def _open(place: Place) -> TarSource | TarFolderSource:
    assert place.path is not None  # noqa: S101  matched
    if place.is_folder:
        paths = [place.path / entry for entry in place.entries if entry.lower().endswith(".tar")]
        check_parts(paths, printable(place.text))
    else:
        paths = [place.path]
        tell_of_others(place.path)
    shards = [_scan(path) for path in paths]
    if len(shards) == 1 and shards[0].is_class_folders:
        return TarFolderSource(place.text, shards[0].pictures)
    return TarSource(place.text, paths, shards)


READER = Reader(_matches, _open)
