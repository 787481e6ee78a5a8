"""The datasets of a history: names and groups of all at once, and a record where it is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Self, overload

import h5py
import numpy as np

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.codec import decode_info, encode_info
from warmstart.history_store.file.layout import hint, read, read_bytes, write_array, write_json, write_text
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import DatasetInfo

INDEXED = 4096
"""From so many datasets on, a file says where in it the record of each begins, and records are decoded one by one."""
INDEX = "dataset_index"


class DatasetList(Sequence[DatasetInfo]):
    """Datasets in order.

    Args:
        items: records, or where in `text` the JSON of each stands: where the one before ends, and where it ends.
        names: of the datasets; taken from the records when left out.
        groups: likewise.
        where: file name, for errors.
        text: JSON of many records.

    Attributes:
        names: of all.
        groups: of all.
    """

    def __init__(
        self,
        items: Iterable[DatasetInfo | tuple[int, int]] = (),
        *,
        names: list[str] | None = None,
        groups: list[str] | None = None,
        where: str = "",
        text: bytes | memoryview = b"",
    ) -> None:
        self._items, self._where, self._text = list(items), where, text
        self.names = [info.name for info in self] if names is None else names
        self.groups = [info.group for info in self] if groups is None else groups

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> DatasetInfo: ...
    @overload
    def __getitem__(self, index: slice) -> list[DatasetInfo]: ...
    def __getitem__(self, index: int | slice) -> DatasetInfo | list[DatasetInfo]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        item = self._items[index]
        if isinstance(item, tuple):
            item = self._items[index] = decode_info(parse_stored_json(self._json(item)), self._where)
            if (item.name, item.group) != (self.names[index], self.groups[index]):
                msg = f"{self._where}: expected dataset {self.names[index]!r} as the index of datasets has it, got {item.name!r}. {hint(self._where)}"
                raise HistoryDamagedError(msg)
        return item

    def __iter__(self) -> Iterator[DatasetInfo]:
        return (self[i] for i in range(len(self)))

    def copy(self) -> Self:
        """Copy the list; records are shared."""
        names, groups = list(self.names), list(self.groups)
        return type(self)(self._items, names=names, groups=groups, where=self._where, text=self._text)

    def append(self, info: DatasetInfo) -> None:
        """Add one at the end."""
        self._items.append(info)
        self.names.append(info.name)
        self.groups.append(info.group)

    def __setitem__(self, index: int, info: DatasetInfo) -> None:
        self._items[index], self.names[index], self.groups[index] = info, info.name, info.group

    def __delitem__(self, index: int) -> None:
        del self._items[index], self.names[index], self.groups[index]

    def _json(self, place: tuple[int, int]) -> bytes:
        return bytes(self._text[place[0] + 2 : place[1]])

    def texts(self) -> list[bytes]:
        """Return the JSON of each record."""
        return [
            self._json(item) if isinstance(item, tuple) else json.dumps(encode_info(item), allow_nan=False, ensure_ascii=False).encode()
            for item in self._items
        ]  # fmt: skip


def write_datasets(file: h5py.File, datasets: DatasetList) -> None:
    """Write all records, and where there are many, the index of them."""
    texts = datasets.texts()
    write_text(file, "datasets", "[" + b", ".join(texts).decode() + "]")
    if len(datasets) < INDEXED:
        return
    group = file.create_group(INDEX)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(datasets.groups))}
    write_json(group, "names", datasets.names)
    write_json(group, "groups", list(numbers))
    write_array(group, "group", np.array([numbers[name] for name in datasets.groups], dtype="<i4"))
    write_array(group, "end", np.cumsum([len(text) + 2 for text in texts], dtype="<i8") - 1)


def read_datasets(file: h5py.File, where: str, *, lazy: bool) -> DatasetList:
    """Read the records; with `lazy` and an index, each when it is looked at.

    Raises:
        HistoryDamagedError: missing, altered, or an index that does not fit.
    """
    if not (lazy and INDEX in file):
        found = DatasetList([decode_info(info, where) for info in read(file, "datasets", "json", where)], where=where)
        if INDEX in file:
            _check_same(read_datasets(file, where, lazy=True), found, where)
        return found
    group = file[INDEX]
    text = read_bytes(file["datasets"], f"{where}:/datasets")
    names, groups = read(group, "names", "json", where), read(group, "groups", "json", where)
    numbers, ends = read(group, "group", "array", where), read(group, "end", "array", where)
    inside = len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < len(groups))
    grow = bool(np.all(np.diff(ends, prepend=-1) > 0)) and (not len(ends) or int(ends[-1]) == len(text) - 1)
    if not (len(names) == len(numbers) == len(ends) and inside and grow and all(isinstance(n, str) for n in names)):
        msg = f"{where}:/{INDEX}: expected the place of each dataset, got {len(names)} names, {len(numbers)} groups and {len(ends)} places that do not fit. {hint(where)}"
        raise HistoryDamagedError(msg)
    # Records stand in brackets, with a comma and a space between them.
    items = list(pairwise([-1, *ends.tolist()]))
    in_order = [groups[number] for number in numbers.tolist()]
    return DatasetList(items, names=names, groups=in_order, where=where, text=text)


def _check_same(found: DatasetList, expected: DatasetList, where: str) -> None:
    if list(found) != list(expected):
        msg = f"{where}:/{INDEX}: expected the place of each dataset, got other datasets there. {hint(where)}"
        raise HistoryDamagedError(msg)
