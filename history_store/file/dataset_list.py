"""The datasets of a history: names and groups are read at once, a record at its first use."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Self, overload

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file.blocks import CheckedBytes, open_bytes, write_blocks
from warmstart.history_store.file.codec import decode_info, encode_info
from warmstart.history_store.file.layout import (
    get_element,
    read_element,
    restore_hint,
    write_array,
    write_json,
    write_text,
)
from warmstart.history_store.json_text import parse_stored_json
from warmstart.history_store.records import DatasetInfo

INDEXED = 4096
"""From so many datasets on, a file has an index of the records, which are then decoded one by one."""
INDEX = "dataset_index"


class DatasetList(Sequence[DatasetInfo]):
    """Datasets in order, decoded at their first use.

    Args:
        items: records, or the numbers of those in `text`.
        names: of the datasets; None = those of the records.
        groups: likewise.
        group_numbers: of the groups, by first appearance; None = not known.
        location: file name, for errors.
        text: JSON of many records.
        ends: where each of them ends in it.

    Attributes:
        names: of all.
        groups: of all.
    """

    def __init__(
        self,
        items: Iterable[DatasetInfo | int] = (),
        *,
        names: list[str] | None = None,
        groups: list[str] | None = None,
        location: str = "",
        group_numbers: NDArray[np.int32] | None = None,
        text: CheckedBytes | None = None,
        ends: Sequence[int] | NDArray[np.int64] = (),
    ) -> None:
        self._items, self._location, self._text, self._ends = list(items), location, text, ends
        self._group_numbers = group_numbers
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
        if isinstance(item, int):
            item = self._items[index] = decode_info(parse_stored_json(self._json(item)), self._location)
            if (item.name, item.group) != (self.names[index], self.groups[index]):
                msg = f"{self._location}: expected dataset {self.names[index]!r} as the index of datasets has it, got {item.name!r}. {restore_hint(self._location)}"
                raise HistoryDamagedError(msg)
        return item

    def __iter__(self) -> Iterator[DatasetInfo]:
        return (self[i] for i in range(len(self)))

    def at(self, rows: Iterable[int]) -> list[DatasetInfo]:
        """Return the records at some rows."""
        return [self[row] for row in rows]

    def group_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the groups in order of first appearance, `m`."""
        if self._group_numbers is None or len(self._group_numbers) != len(self):
            numbers = {group: number for number, group in enumerate(dict.fromkeys(self.groups))}
            self._group_numbers = np.fromiter(map(numbers.__getitem__, self.groups), np.int32, len(self))
        return self._group_numbers.astype(np.int64)

    def part(self, rows: NDArray[np.int64]) -> Self:
        """Return the list of some rows; what is not decoded yet still waits for its first use."""
        if np.array_equal(rows, np.arange(len(self))):
            return self.copy()
        places = rows.tolist()
        return type(self)(
            map(self._items.__getitem__, places),
            names=list(map(self.names.__getitem__, places)),
            groups=list(map(self.groups.__getitem__, places)),
            location=self._location,
            text=self._text,
            ends=self._ends,
        )

    def copy(self) -> Self:
        """Copy the list; records are shared."""
        names, groups = list(self.names), list(self.groups)
        return type(self)(
            self._items,
            names=names,
            groups=groups,
            group_numbers=self._group_numbers,
            location=self._location,
            text=self._text,
            ends=self._ends,
        )

    def append(self, info: DatasetInfo) -> None:
        """Add a dataset at the end."""
        self._items.append(info)
        self.names.append(info.name)
        self.groups.append(info.group)

    def __setitem__(self, index: int, info: DatasetInfo) -> None:
        self._items[index], self.names[index], self.groups[index] = info, info.name, info.group
        self._group_numbers = None

    def __delitem__(self, index: int) -> None:
        del self._items[index], self.names[index], self.groups[index]
        self._group_numbers = None

    def _json(self, number: int) -> bytes:
        # Records stand in brackets, with a comma and a space between them.
        assert self._text is not None  # noqa: S101  a number is a place in it
        return self._text.read(int(self._ends[number - 1]) + 2 if number else 1, int(self._ends[number]))

    def texts(self) -> list[bytes]:
        """Return the JSON of each record."""
        return [
            self._json(item) if isinstance(item, int) else json.dumps(encode_info(item), allow_nan=False, ensure_ascii=False).encode()
            for item in self._items
        ]  # fmt: skip


def are_distinct(names: Sequence[str]) -> bool:
    """Tell whether no two names are equal; fast where they are sorted."""
    return is_rising(names) or len(set(names)) == len(names)


def is_rising(names: Sequence[str]) -> bool:
    """Tell whether each name comes after the one before it."""
    return all(map(operator.lt, names, islice(names, 1, None)))


def write_datasets(file: h5py.File, datasets: DatasetList) -> None:
    """Write all records, and an index if there are many."""
    texts = datasets.texts()
    text = b"[" + b", ".join(texts) + b"]"
    write_text(file, "datasets", text.decode())
    if len(datasets) < INDEXED:
        return
    group = file.create_group(INDEX)
    write_json(group, "names", datasets.names)
    write_json(group, "groups", list(dict.fromkeys(datasets.groups)))
    write_array(group, "group", datasets.group_numbers().astype("<i4"))
    write_array(group, "end", np.cumsum([len(text) + 2 for text in texts], dtype="<i8") - 1)
    write_blocks(group, "blocks", text)


def read_datasets(file: h5py.File, location: str, *, lazy: bool) -> DatasetList:
    """Read the records; with `lazy` and an index, each at its first use.

    Raises:
        HistoryDamagedError: missing, altered, or an index that does not fit.
    """
    if not (lazy and INDEX in file):
        datasets = DatasetList(
            [decode_info(info, location) for info in read_element(file, "datasets", "json", location)],
            location=location,
        )
        if INDEX in file:
            _check_index(read_datasets(file, location, lazy=True), datasets, location)
        return datasets
    group = file[INDEX]
    text = open_bytes(get_element(file, "datasets", f"{location}:/datasets"), group, "blocks", location)
    names, groups = read_element(group, "names", "json", location), read_element(group, "groups", "json", location)
    numbers, ends = read_element(group, "group", "array", location), read_element(group, "end", "array", location)
    inside = len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < len(groups))
    grow = bool(np.all(np.diff(ends, prepend=-1) > 0)) and (not len(ends) or int(ends[-1]) == len(text) - 1)
    if not (len(names) == len(numbers) == len(ends) and inside and grow and set(map(type, names)) <= {str}):
        msg = f"{location}:/{INDEX}: expected the place of each dataset, got {len(names)} names, {len(numbers)} groups and {len(ends)} places that do not fit. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    in_order = list(map(groups.__getitem__, numbers.tolist()))
    return DatasetList(
        range(len(names)),
        names=names,
        groups=in_order,
        group_numbers=numbers if len(groups) == len(set(groups)) else None,
        location=location,
        text=text,
        ends=ends,
    )


def _check_index(indexed: DatasetList, expected: DatasetList, location: str) -> None:
    if list(indexed) != list(expected):
        msg = f"{location}:/{INDEX}: expected the place of each dataset, got other datasets there. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
