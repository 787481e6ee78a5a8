"""Images inside a history: written contiguous, read through one memory map, each checked against its checksum once."""

import mmap
import zlib
from dataclasses import dataclass, field
from typing import Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store import system
from warmstart.history_store.errors import DataError, HistoryDamagedError, UsageError
from warmstart.history_store.file.layout import (
    array_checksum,
    check_version,
    get_element,
    get_text,
    mark_element,
    read_element,
    register_reader,
    restore_hint,
    write_array,
    write_json,
)
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.splits import SPLIT_NAMES

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredImages:
    """The images of one dataset of a history.

    The arrays stay valid and unchanged as long as they are referenced, also when the history is written meanwhile: a
    file is replaced, never changed.

    An image is compared with its checksum at its first read, and not again as long as the file stays open.
    Files of version 0.1 have no checksums of single images.

    Attributes:
        name: of the dataset.
        labels: `n` int64, index into `class_names`.
        split: `n` int8; 0 train, 1 val, 2 test.
        class_names: by label.
    """

    name: str
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    class_names: tuple[str, ...]
    _pixels: NDArray[np.uint8]
    _checks: "PixelChecks"
    _rows: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def array(self) -> NDArray[np.uint8]:
        """Return all images, `n x s x s x c` uint8, memory-mapped and read-only; the first call checks them all.

        Raises:
            HistoryDamagedError: an image does not match its checksum.
        """
        self._checks.check_all(self._pixels)
        return self._pixels

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the shape of `array` without reading it."""
        n, height, width, channels = self._pixels.shape
        return n, height, width, channels

    @property
    def has_checksums(self) -> bool:
        """Return whether the file has checksums of single images, so that reading finds altered pixels."""
        return self._checks.expected is not None

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read some images, `k x s x s x c` uint8, copied from the map.

        Args:
            rows: `k` indices.

        Raises:
            HistoryDamagedError: one of them does not match its checksum.
        """
        images: NDArray[np.uint8] = self._pixels[rows]
        self._checks.check(rows, images)
        return images

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, split: Split) -> NDArray[np.int64]:
        """Return the sorted indices of the images of one part.

        Raises:
            UsageError: the part is none of train, val, test.
        """
        if split not in SPLIT_NAMES:
            msg = f"images of {self.name!r}: expected split 'train', 'val' or 'test', got {split!r}. Name one of the three."
            raise UsageError(msg)
        if split not in self._rows:
            self._rows[split] = np.flatnonzero(self.split == SPLIT_NAMES.index(split))
        return self._rows[split]

    def sample(
        self, rng: np.random.Generator, tau: int, *, split: Split = "train"
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Draw images without replacement, in random order.

        Args:
            rng: the only source of randomness.
            tau: number of images; all of a smaller part.
            split: the part drawn from.

        Returns: `t x s x s x c` uint8 and `t` int64 labels, t = min(tau, size of the part), copied from the map.

        Raises:
            UsageError: tau < 1, or an unknown part.
            HistoryDamagedError: an image of the sample does not match its checksum.
        """
        if tau < 1:
            msg = f"images of {self.name!r}: expected a sample of at least 1, got tau={tau}. The papers use 200."
            raise UsageError(msg)
        rows = self.rows(split)
        chosen = rows[rng.choice(len(rows), size=min(tau, len(rows)), replace=False)]
        return self.take(chosen), self.labels[chosen]


class PixelChecks:
    """Checksums of a dataset's images, and which images have been compared with them.

    Args:
        expected: `n` CRC-32; None = the file has none.
        location: element and file, for errors.
    """

    def __init__(self, expected: NDArray[np.uint32] | None, location: str) -> None:
        self.expected, self._location = expected, location
        self._is_verified = np.zeros(0 if expected is None else len(expected), dtype=np.bool_)
        self._all_verified = expected is None

    def check(self, rows: NDArray[np.int64], images: NDArray[np.uint8]) -> None:
        """Compare the images at `rows` with their checksums, unless that was done.

        Raises:
            HistoryDamagedError: one does not match.
        """
        if self._all_verified or self._is_verified[rows].all():
            return
        fresh = np.flatnonzero(~self._is_verified[rows])
        self._compare(rows[fresh], images, fresh.tolist())

    def check_all(self, images: NDArray[np.uint8]) -> None:
        """Compare all images with their checksums, unless that was done.

        Raises:
            HistoryDamagedError: one does not match.
        """
        if not self._all_verified:
            rows = np.flatnonzero(~self._is_verified)
            self._compare(rows, images, rows.tolist())
            self._all_verified = True

    def _compare(self, rows: NDArray[np.int64], images: NDArray[np.uint8], positions: list[int]) -> None:
        assert self.expected is not None  # noqa: S101 - else nothing is left to compare
        flat, size, crc32 = images.reshape(-1).data, images[0].size, zlib.crc32
        checksums = [crc32(flat[i * size : i * size + size]) for i in positions]
        altered = rows[np.array(checksums, dtype=np.uint32) != self.expected[rows]]
        if len(altered):
            numbers = ", ".join(map(str, altered[:5].tolist())) + ", …" * (len(altered) > 5)
            msg = f"{self._location}: expected images that match their checksums, got {len(altered)} with altered bytes (number {numbers}). {restore_hint(self._location)}"
            raise HistoryDamagedError(msg)
        self._is_verified[rows] = True


def image_checksums(images: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the CRC-32 of each image, `n` uint32."""
    return np.fromiter((zlib.crc32(np.ascontiguousarray(image).data) for image in images), np.uint32, len(images))


def check_images(
    info: DatasetInfo,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    split: NDArray[np.int8],
    size: int,
    location: str,
) -> None:
    """Check that images fit the description of their dataset and the history.

    Args:
        info: description of the dataset.
        images: `n x size x size x c`.
        labels: `n`.
        split: `n` codes.
        size: stored size of the history.
        location: file name, for errors.

    Raises:
        DataError: shapes, channels, labels or counts of the parts do not agree.
    """
    at = f"{location}: images of {info.name!r}"
    expected = (info.n_images, size, size, info.channels)
    if images.dtype != np.uint8 or images.shape != expected or not len(images):
        msg = f"{at}: expected uint8 of shape {expected}, got {images.dtype} of shape {images.shape}. Read them at the history's stored size."
        raise DataError(msg)
    if labels.shape != (len(images),) or split.shape != (len(images),):
        msg = f"{at}: expected {len(images)} labels and split codes, got shapes {labels.shape} and {split.shape}. Give one an image."
        raise DataError(msg)
    parts = tuple(int((split == code).sum()) for code in range(3))
    if parts != (info.n_train, info.n_val, info.n_test):
        msg = f"{at}: expected {info.n_train}/{info.n_val}/{info.n_test} images for training/validation/test, got {'/'.join(map(str, parts))}. Give the split that the dataset describes."
        raise DataError(msg)
    if labels.min() < 0 or labels.max() >= info.n_classes:
        msg = f"{at}: expected labels in 0 .. {info.n_classes - 1}, got {labels.min()} .. {labels.max()}. Number the classes from 0."
        raise DataError(msg)


def write_images(
    parent: h5py.Group,
    key: str,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    split: NDArray[np.int8],
    class_names: tuple[str, ...],
) -> None:
    """Write the images of one dataset as one element."""
    group = parent.create_group(key)
    mark_element(group, "images")
    write_array(group, "array", images)
    write_array(group, "checksums", image_checksums(images))
    write_array(group, "labels", labels.astype("<i8"))
    write_array(group, "split", split.astype("i1"))
    write_json(group, "class_names", list(class_names))


def add_checksums(group: h5py.Group) -> None:
    """Add checksums to the images of one dataset, if they were copied from a file of version 0.1."""
    images = group["array"][()] if get_text(group, "encoding-version") == "1" else None
    # Altered images get none: fresh checksums would hide the fault.
    if images is not None and array_checksum(images) == int(group["array"].attrs["crc32"]):
        write_array(group, "checksums", image_checksums(images))
        for name in ("encoding-type", "encoding-version"):
            del group.attrs[name]
        mark_element(group, "images")


@register_reader("images", "1")
@register_reader("images", "2")
def _open_images(
    group: h5py.Group, at: str
) -> tuple[h5py.Dataset, NDArray[np.uint32] | None, NDArray[np.int64], NDArray[np.int8], tuple[str, ...]]:
    location = at.split(":/")[0]
    array = get_element(group, "array", f"{at}/array")
    check_version(array, "array", f"{at}/array")
    labels, split = read_element(group, "labels", "array", location), read_element(group, "split", "array", location)
    names = tuple(read_element(group, "class_names", "json", location))
    sums = None if get_text(group, "encoding-version") == "1" else read_element(group, "checksums", "array", location)
    n = array.shape[0]
    plain = array.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS and array.dtype == np.uint8
    is_summed = sums is None or (sums.shape == (n,) and sums.dtype == np.uint32)
    fits = array.ndim == 4 and labels.shape == (n,) and split.shape == (n,) and array.id.get_offset() is not None
    if not plain or not fits or not is_summed:
        msg = f"{at}: expected contiguous uint8 images with one label, split code and checksum each, got {array.dtype} {array.shape}, {labels.shape}, {split.shape}, {None if sums is None else sums.shape}. {restore_hint(at)}"
        raise HistoryDamagedError(msg)
    return array, sums, labels, split, names


def map_images(
    file: h5py.File,
    key: str,
    name: str,
    location: str,
    mapped: mmap.mmap | None,
    checks_by_key: dict[str, PixelChecks] | None = None,
) -> StoredImages:
    """Read one dataset's labels, and view its images through the map of the file.

    Args:
        file: open for reading.
        key: of the group under `/images`.
        name: of the dataset.
        location: file name, for errors.
        mapped: the whole file; None = the images are read at once.
        checks_by_key: checks of this very file by key; a new one is added.

    Raises:
        HistoryDamagedError: the labels are altered, or the images reach beyond the file.
    """
    array, sums, labels, split, names = read_element(file["images"], key, "images", location)
    offset = array.id.get_offset()
    if mapped is not None and offset + array.nbytes > len(mapped):
        msg = f"{location}:/images/{key}: expected {array.nbytes:,} bytes of images, got a file that ends before. {restore_hint(location)}"
        raise HistoryDamagedError(msg)
    pixels: NDArray[np.uint8] = (
        array[()] if mapped is None else np.ndarray(array.shape, np.uint8, buffer=mapped, offset=offset)
    )
    new_checks = PixelChecks(sums, f"{location}:/images/{key}")
    checks = new_checks if checks_by_key is None else checks_by_key.setdefault(key, new_checks)
    return StoredImages(name, labels, split, names, pixels, checks)


def map_file(file: h5py.File) -> mmap.mmap | None:
    """Map an open file, even if another has replaced it since; None where no other could replace it then."""
    if not system.CAN_REPLACE_OPEN_FILES:
        return None
    return mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ)
