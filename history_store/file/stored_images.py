"""Images inside a history: written contiguous, read through one memory map."""

import mmap
from dataclasses import dataclass
from typing import Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from history_store.errors import DataError, HistoryDamagedError, UsageError
from history_store.file.layout import hint, mark, read, reader, version, write_array, write_json
from history_store.records import DatasetInfo
from history_store.subsample import SPLIT_NAMES

Split = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredImages:
    """The images of one dataset of a history.

    The arrays stay valid and unchanged for as long as they are referenced, whatever is written to the history
    meanwhile: a file is replaced, never changed.

    Attributes:
        name: of the dataset.
        array: `n x s x s x c` uint8, memory-mapped, read-only.
        labels: `n` int64, index into `class_names`.
        split: `n` int8; 0 train, 1 val, 2 test.
        class_names: by label.
    """

    name: str
    array: NDArray[np.uint8]
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    class_names: tuple[str, ...]
    _rows: dict[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, split: Split) -> NDArray[np.int64]:
        """Give the sorted indices of the images of one part.

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
        """
        if tau < 1:
            msg = f"images of {self.name!r}: expected a sample of at least 1, got tau={tau}. The papers use 200."
            raise UsageError(msg)
        rows = self.rows(split)
        chosen = rows[rng.choice(len(rows), size=min(tau, len(rows)), replace=False)]
        return self.array[chosen], self.labels[chosen]


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
    write_array(group, "labels", labels.astype("<i8"))
    write_array(group, "split", split.astype("i1"))
    write_json(group, "class_names", list(class_names))


@reader("images", "1")
def _open_images(
    group: h5py.Group, at: str
) -> tuple[h5py.Dataset, NDArray[np.int64], NDArray[np.int8], tuple[str, ...]]:
    where = at.split(":/")[0]
    array = group["array"]
    version(array, "array", f"{at}/array")
    labels, split = read(group, "labels", "array", where), read(group, "split", "array", where)
    names = tuple(read(group, "class_names", "json", where))
    n = array.shape[0]
    plain = array.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS and array.dtype == np.uint8
    if not plain or array.ndim != 4 or labels.shape != (n,) or split.shape != (n,) or array.id.get_offset() is None:
        msg = f"{at}: expected contiguous uint8 images with one label and split code each, got {array.dtype} {array.shape}, {labels.shape}, {split.shape}. {hint(at)}"
        raise HistoryDamagedError(msg)
    return array, labels, split, names


def map_images(file: h5py.File, key: str, name: str, where: str, mapped: mmap.mmap) -> StoredImages:
    """Read one dataset's labels and lay its images over the map of the file; their checksum is left to `verify`.

    Args:
        file: open for reading.
        key: of the group under `/images`.
        name: of the dataset.
        where: file name, for errors.
        mapped: the whole file.
    """
    array, labels, split, names = read(file["images"], key, "images", where)
    pixels: NDArray[np.uint8] = np.ndarray(array.shape, np.uint8, buffer=mapped, offset=array.id.get_offset())
    return StoredImages(name, pixels, labels, split, names, {})


def map_file(file: h5py.File) -> mmap.mmap:
    """Map the very file that is open, even where another has taken its place since."""
    return mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ)
