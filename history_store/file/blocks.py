"""Parts of large elements: they are mapped, and the blocks that a reader reaches compared with checksums of their own."""

import zlib
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from warmstart.history_store.errors import HistoryDamagedError
from warmstart.history_store.file import layout
from warmstart.history_store.file.layout import (
    check_version,
    get_element,
    map_array,
    map_bytes,
    read_bytes,
    read_element,
    restore_hint,
    write_array,
)

BLOCK = 2048
"""Bytes of a block."""


class CheckedBytes:
    """The bytes of an element, whose blocks are compared with their checksums at their first use.

    Args:
        data: of the element, mapped.
        checksums: CRC-32 of each `BLOCK` bytes, uint32; None = all are compared already.
        at: location of the element, for errors.
    """

    def __init__(self, data: bytes | memoryview, checksums: NDArray[np.uint32] | None = None, at: str = "") -> None:
        self._data, self._checksums, self._at = data, checksums, at
        self._is_checked = np.zeros(0 if checksums is None else len(checksums), np.bool_)

    def __len__(self) -> int:
        return len(self._data)

    def read(self, start: int, stop: int) -> bytes:
        """Return some bytes; raises as `check`."""
        if self._checksums is not None:
            self._compare(range(start // BLOCK, max(stop - 1, start) // BLOCK + 1))
        return bytes(self._data[start:stop])

    def check(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        """Compare the blocks of stretches of bytes.

        Raises:
            HistoryDamagedError: one was altered.
        """
        if self._checksums is None or not len(starts):
            return
        first, last = starts // BLOCK, np.maximum(stops - 1, starts) // BLOCK
        reached = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
        self._compare(np.unique(reached[~self._is_checked[reached]]).tolist())

    def _compare(self, blocks: Iterable[int]) -> None:
        assert self._checksums is not None  # noqa: S101  the callers look
        for block in blocks:
            if self._is_checked[block]:
                continue
            if zlib.crc32(self._data[block * BLOCK : (block + 1) * BLOCK]) != self._checksums[block]:
                msg = f"{self._at}: expected checksum {self._checksums[block]} of block {block}, got another: the bytes were altered. {restore_hint(self._at)}"
                raise HistoryDamagedError(msg)
            self._is_checked[block] = True


class StoredRows:
    """The rows of a large array of a file, compared with their checksums at their first use.

    Args:
        values: `m x d`, mapped.
        content: its bytes.
        order: `n` rows of it that this object shows; None = all.

    Attributes:
        shape: `n x d`.
        dtype: of the numbers.
    """

    ndim = 2

    def __init__(self, values: NDArray[Any], content: CheckedBytes, order: NDArray[np.int64] | None = None) -> None:
        self._values, self._content, self._order = values, content, order
        self.shape = (len(values) if order is None else len(order), values.shape[1])
        self.dtype = values.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        places = np.asarray(rows, np.int64)
        places = np.where(places < 0, places + len(self), places)
        if self._order is not None:
            places = self._order[places]
        starts = np.atleast_1d(places) * self._values.strides[0]
        self._content.check(starts, starts + self._values.strides[0])
        chosen: NDArray[Any] = self._values[places]
        return chosen

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001  numpy's
        """Return all rows, compared with their checksums; a view of the file unless they have another order."""
        self._content.check(np.array([0]), np.array([self._values.nbytes]))
        whole = self._values if self._order is None else self._values[self._order]
        return np.array(whole, dtype, copy=copy)

    def in_order(self, order: NDArray[np.int64]) -> "StoredRows":
        """Return some of the rows, in another order."""
        return StoredRows(self._values, self._content, order if self._order is None else self._order[order])


Matrix = NDArray[Any] | StoredRows
"""`m x d` numbers, in memory or in the file of a history, whose rows are read at their first use."""


def in_order(matrix: Matrix, order: NDArray[np.int64]) -> Matrix:
    """Return some rows of a matrix, in another order."""
    return matrix.in_order(order) if isinstance(matrix, StoredRows) else matrix[order]


def open_rows(parent: h5py.Group, key: str, location: str) -> Matrix:
    """Open an array whose rows are read at their first use; one without checksums of blocks is read whole.

    Raises: as `read_element`.
    """
    blocks, at = f"{key}_blocks", f"{location}:{parent.name.rstrip('/')}/{key}"
    values = None
    if blocks in parent and key in parent:
        element = get_element(parent, key, at)
        check_version(element, "array", at)
        values = map_array(element)
    if values is None or values.ndim != 2:
        whole: NDArray[Any] = read_element(parent, key, "array", location)
        return whole
    values.setflags(write=False)
    data = values.reshape(-1).view(np.uint8).data
    return StoredRows(values, CheckedBytes(data, _read_blocks(parent, blocks, len(data), location), at))


def open_bytes(element: h5py.Dataset, parent: h5py.Group, key: str, location: str) -> CheckedBytes:
    """Open a long JSON text whose parts are read at their first use, with the checksums `key` of its blocks in `parent`.

    Without them, or where the file cannot be mapped, the text is read whole.

    Raises: as `read_element`.
    """
    at = f"{location}:{element.name}"
    if key not in parent or (data := map_bytes(element)) is None:
        return CheckedBytes(read_bytes(element, at))
    return CheckedBytes(data, _read_blocks(parent, key, len(data), location), at)


def _read_blocks(parent: h5py.Group, key: str, n_bytes: int, location: str) -> NDArray[np.uint32]:
    checksums: NDArray[np.uint32] = read_element(parent, key, "array", location)
    if checksums.dtype != np.uint32 or checksums.shape != (-(-n_bytes // BLOCK),):
        msg = f"{location}:{parent.name}/{key}: expected a checksum for each {BLOCK} of {n_bytes} bytes, got {checksums.dtype} of {checksums.shape}. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    return checksums


def write_blocks(parent: h5py.Group, key: str, data: bytes | memoryview) -> None:
    """Write the checksums of the blocks of an element."""
    write_array(parent, key, np.array([zlib.crc32(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)], "<u4"))


def write_rows(parent: h5py.Group, key: str, array: NDArray[Any]) -> None:
    """Write an array whose rows are read one by one, with the checksums of its blocks if it is large."""
    write_array(parent, key, array)
    if array.nbytes >= layout.MAPPED:
        values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        write_blocks(parent, f"{key}_blocks", values.reshape(-1).view(np.uint8).data)
