"""Shards of webdataset: tars of samples that share a key, ``0001.jpg`` beside ``0001.cls``; no index is needed."""

from __future__ import annotations

import re
import tarfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from history_store.errors import DataError, LabelError
from history_store.fingerprint import file_signature
from history_store.images import DatasetWarning
from history_store.json_text import parse_json
from history_store.limits import ARCHIVE_FILES
from history_store.picture import SUFFIXES
from history_store.readers.base import plural, printable
from history_store.readers.blobs import BlobSource, check_blob
from history_store.readers.labels import encode_labels
from history_store.readers.registry import Place, Reader
from history_store.readers.table_labels import LABELS, read_labels
from history_store.readers.tree import split_of

CLASSES = ("cls", "cls.txt", "cls2", "label", "label.txt", "index", "class.txt", "class")
"""Endings of members that hold a label as text."""
_SHARD = re.compile(r"^(?P<stem>.*?)[-_.]?\d*\.tar$", re.IGNORECASE)
_LABEL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Sample:
    """One picture: where its bytes lie in a tar."""

    shard: int
    name: str
    offset: int
    size: int


class TarSource(BlobSource):
    """The pictures of shards; headers and labels are read once, pictures when they are asked for."""

    def __init__(self, location: str, paths: Sequence[Path]) -> None:
        samples: list[_Sample] = []
        cells: list[Any] = []
        names: list[str] | None = None
        splits: list[str | None] = []
        for number, path in enumerate(paths):
            found, texts, listed = _scan(path, number)
            samples += found
            cells += texts
            names = names or listed
            splits += [_split_of_shard(path)] * len(found)
        if not samples:
            msg = f"{printable(location)}: expected samples such as 0001.jpg beside 0001.cls, got no picture. Check that these are shards of webdataset."
            raise DataError(msg)
        if not any(cell is not None for cell in cells):
            msg = f"{printable(location)}: expected a label beside each picture ({', '.join(f'.{end}' for end in CLASSES[:3])} or .json with {LABELS[0]!r}), got {plural(len(samples), 'unlabelled picture')}. The similarity of datasets rests on labels."
            raise LabelError(msg)
        values, has = read_labels(cells, printable(location))
        kept = [row for row in range(len(samples)) if has[row]]
        if len(kept) < len(samples):
            warnings.warn(f"{printable(location)}: left out {plural(len(samples) - len(kept), 'picture')} without a label.", DatasetWarning, stacklevel=4)  # fmt: skip
        encoding = encode_labels([values[row] for row in kept], printable(location), n=len(kept), class_names=names)
        self._paths = tuple(str(path) for path in paths)
        self._samples = tuple(samples[row] for row in kept)
        spelled = [splits[row] for row in kept]
        super().__init__(
            location,
            "webdataset",
            names=[f"{Path(self._paths[sample.shard]).name}/{sample.name}" for sample in self._samples],
            labels=encoding.labels,
            class_names=encoding.class_names,
            splits=None if None in spelled else {s: np.flatnonzero(np.array(spelled) == s).astype(np.int64) for s in dict.fromkeys(spelled) if s},
        )  # fmt: skip

    def size_of(self, index: int) -> int:
        """Return the bytes of a picture."""
        return self._samples[index].size

    def signature(self) -> str:
        """Name the shards by path, size and time of change."""
        return "".join(file_signature(path, [""]) for path in self._paths)

    def blob(self, index: int) -> bytes:
        """Read one picture where it lies."""
        sample = self._samples[index]
        check_blob(sample.size, "picture")
        try:
            with Path(self._paths[sample.shard]).open("rb") as file:
                file.seek(sample.offset)
                data = file.read(sample.size)
        except OSError as error:
            msg = f"cannot be read any more ({error.strerror})"
            raise DataError(msg) from error
        if len(data) < sample.size:
            msg = "cut off: the shard ends before the picture does"
            raise DataError(msg)
        return data


def is_shards(names: Sequence[str]) -> bool:
    """Tell whether a folder holds tars and no folder or picture beside them."""
    return any(name.lower().endswith(".tar") for name in names) and not any(
        name[name.rfind(".") :].lower() in SUFFIXES for name in names if "." in name
    )


def _scan(path: Path, number: int) -> tuple[list[_Sample], list[Any], list[str] | None]:
    """List the pictures of a shard with the labels of their samples, and class names where a JSON tells them."""
    pictures: dict[str, _Sample] = {}
    labels: dict[str, Any] = {}
    where = printable(str(path))
    try:
        with tarfile.open(path, "r:") as archive:
            for count, member in enumerate(archive, start=1):
                if not member.isfile():
                    continue
                ARCHIVE_FILES.check(count, where)
                folder, _, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                if not stem:
                    continue
                key, ending = f"{folder}/{stem}", ending.lower()
                if f".{ending.rpartition('.')[2]}" in SUFFIXES:
                    if key in pictures and not _is_first(ending):
                        continue
                    pictures[key] = _Sample(number, member.name, member.offset_data, member.size)
                elif (ending in CLASSES or ending == "json") and key not in labels:
                    labels[key] = _label(archive, member, ending, where)
    except (tarfile.TarError, OSError, EOFError) as error:
        msg = f"{where}: expected a tar that is not compressed, got a damaged, truncated or compressed one ({error}). Unpack .tar.gz with gunzip, or download it again."
        raise DataError(msg) from error
    return list(pictures.values()), [labels.get(key) for key in pictures], None


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
    return place.file.endswith(".tar") or (place.is_folder and is_shards(place.entries))


def _open(place: Place) -> TarSource:
    assert place.path is not None  # noqa: S101  matched
    names = [entry for entry in place.entries if entry.lower().endswith(".tar")]
    return TarSource(place.text, [place.path / name for name in names] if place.is_folder else [place.path])


READER = Reader(_matches, _open)
