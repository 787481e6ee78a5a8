"""Images inside a history: written contiguous, read through one memory map, each compared with its checksum once."""

import mmap
import zlib
from dataclasses import dataclass, field
from typing import Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError, HistoryDamagedError, UsageError
from warmstart.history_store.file.layout import (
    child,
    crc,
    get_text,
    hint,
    mark,
    read,
    reader,
    version,
    write_array,
    write_json,
)
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.subsample import SPLIT_NAMES

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredImages:
    """The images of one dataset of a history.

    The arrays stay valid and unchanged for as long as they are referenced, whatever is written to the history
    meanwhile: a file is replaced, never changed.

    An image is compared with its checksum when it is read first, and no more for as long as the file stays open.
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
        """All images, `n x s x s x c` uint8, memory-mapped, read-only; the first time, all are read and compared.

        Raises:
            HistoryDamagedError: an image does not match its checksum.
        """
        self._checks.check_all(self._pixels)
        return self._pixels

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of `array`, without reading it."""
        n, height, width, channels = self._pixels.shape
        return n, height, width, channels

    @property
    def has_checksums(self) -> bool:
        """Tell whether altered pixels are noticed when they are read."""
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
            tau: how many; a part with fewer gives all it has.
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
    """Which images of a dataset are known to match their checksums.

    Args:
        expected: `n` CRC-32; None = the file has none.
        where: element and file, for errors.
    """

    def __init__(self, expected: NDArray[np.uint32] | None, where: str) -> None:
        self.expected, self._where = expected, where
        self._known = np.zeros(0 if expected is None else len(expected), dtype=np.bool_)
        self._all = expected is None

    def check(self, rows: NDArray[np.int64], images: NDArray[np.uint8]) -> None:
        """Compare those of the images that have not been; `images` are those at `rows`.

        Raises:
            HistoryDamagedError: one does not match.
        """
        if self._all or self._known[rows].all():
            return
        fresh = np.flatnonzero(~self._known[rows])
        self._compare(rows[fresh], images, fresh.tolist())

    def check_all(self, images: NDArray[np.uint8]) -> None:
        """Compare all images that have not been.

        Raises:
            HistoryDamagedError: one does not match.
        """
        if not self._all:
            rows = np.flatnonzero(~self._known)
            self._compare(rows, images, rows.tolist())
            self._all = True

    def _compare(self, rows: NDArray[np.int64], images: NDArray[np.uint8], at: list[int]) -> None:
        assert self.expected is not None  # noqa: S101 - else nothing is left to compare
        flat, size, crc32 = images.reshape(-1).data, images[0].size, zlib.crc32
        found = [crc32(flat[i * size : i * size + size]) for i in at]
        wrong = rows[np.array(found, dtype=np.uint32) != self.expected[rows]]
        if len(wrong):
            named = ", ".join(map(str, wrong[:5].tolist())) + ", …" * (len(wrong) > 5)
            msg = f"{self._where}: expected images that match their checksums, got {len(wrong)} with altered bytes (number {named}). {hint(self._where)}"
            raise HistoryDamagedError(msg)
        self._known[rows] = True


def image_checksums(images: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the CRC-32 of each image, `n` uint32."""
    return np.fromiter((zlib.crc32(np.ascontiguousarray(image).data) for image in images), np.uint32, len(images))


def check_images(
    info: DatasetInfo,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    split: NDArray[np.int8],
    size: int,
    where: str,
) -> None:
    """Check that images fit the dataset and the history.

    Args:
        info: what the dataset says of itself.
        images: `n x size x size x c`.
        labels: `n`.
        split: `n` codes.
        size: stored size of the history.
        where: file name, for errors.

    Raises:
        DataError: shapes, channels, labels or counts of the parts do not agree.
    """
    at = f"{where}: images of {info.name!r}"
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
    mark(group, "images")
    write_array(group, "array", images)
    write_array(group, "checksums", image_checksums(images))
    write_array(group, "labels", labels.astype("<i8"))
    write_array(group, "split", split.astype("i1"))
    write_json(group, "class_names", list(class_names))


def add_checksums(group: h5py.Group) -> None:
    """Bring the images of one dataset, copied from a file of version 0.1, up to date."""
    images = group["array"][()] if get_text(group, "encoding-version") == "1" else None
    if images is not None and crc(images) == int(group["array"].attrs["crc32"]):  # altered ones stay known as such
        write_array(group, "checksums", image_checksums(images))
        for name in ("encoding-type", "encoding-version"):
            del group.attrs[name]
        mark(group, "images")


@reader("images", "1")
@reader("images", "2")
def _open_images(
    group: h5py.Group, at: str
) -> tuple[h5py.Dataset, NDArray[np.uint32] | None, NDArray[np.int64], NDArray[np.int8], tuple[str, ...]]:
    where = at.split(":/")[0]
    array = child(group, "array", f"{at}/array")
    version(array, "array", f"{at}/array")
    labels, split = read(group, "labels", "array", where), read(group, "split", "array", where)
    names = tuple(read(group, "class_names", "json", where))
    sums = None if get_text(group, "encoding-version") == "1" else read(group, "checksums", "array", where)
    n = array.shape[0]
    plain = array.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS and array.dtype == np.uint8
    is_summed = sums is None or (sums.shape == (n,) and sums.dtype == np.uint32)
    fits = array.ndim == 4 and labels.shape == (n,) and split.shape == (n,) and array.id.get_offset() is not None
    if not plain or not fits or not is_summed:
        msg = f"{at}: expected contiguous uint8 images with one label, split code and checksum each, got {array.dtype} {array.shape}, {labels.shape}, {split.shape}, {None if sums is None else sums.shape}. {hint(at)}"
        raise HistoryDamagedError(msg)
    return array, sums, labels, split, names


def map_images(
    file: h5py.File, key: str, name: str, where: str, mapped: mmap.mmap, known: dict[str, PixelChecks] | None = None
) -> StoredImages:
    """Read one dataset's labels and lay its images over the map of the file.

    Args:
        file: open for reading.
        key: of the group under `/images`.
        name: of the dataset.
        where: file name, for errors.
        mapped: the whole file.
        known: what is known to match in this very file, by key; grows.

    Raises:
        HistoryDamagedError: the labels are altered, or the images reach beyond the file.
    """
    array, sums, labels, split, names = read(file["images"], key, "images", where)
    offset = array.id.get_offset()
    if offset + array.nbytes > len(mapped):
        msg = f"{where}:/images/{key}: expected {array.nbytes:,} bytes of images, got a file that ends before. {hint(where)}"
        raise HistoryDamagedError(msg)
    pixels: NDArray[np.uint8] = np.ndarray(array.shape, np.uint8, buffer=mapped, offset=offset)
    fresh = PixelChecks(sums, f"{where}:/images/{key}")
    checks = fresh if known is None else known.setdefault(key, fresh)
    return StoredImages(name, labels, split, names, pixels, checks)


def map_file(file: h5py.File) -> mmap.mmap:
    """Map the very file that is open, even where another has taken its place since."""
    return mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ)
