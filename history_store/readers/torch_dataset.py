"""Map-style torch Datasets, recognised by their methods; torch itself is not imported."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from warmstart.history_store.errors import DataError, LabelError, UsageError, WarmstartError
from warmstart.history_store.fingerprint import SAMPLED_FILES
from warmstart.history_store.images import BrokenImage, FingerprintKind
from warmstart.history_store.picture import opaque, plain, square, square_arrays, to_uint8
from warmstart.history_store.readers.arrays import check_shape
from warmstart.history_store.readers.base import Canvas, Source
from warmstart.history_store.readers.labels import encode_labels


class TorchSource(Source):
    """Items (picture, label) of a Dataset, fetched one by one.

    Where the Dataset's transform is random, so are pixels and fingerprint.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._kind = type(dataset).__name__
        n = _length(dataset)
        raw = _labels_of(dataset, n)
        self._raw = [_scalar(label, self._kind) for label in (raw if raw is not None else self._fetch_labels(n))]
        names = getattr(dataset, "classes", None)
        labelling = encode_labels(
            self._raw, f"{self._kind} labels", n=n, class_names=names if isinstance(names, list | tuple) else None
        )
        super().__init__(f"{self._kind} in memory", "torch", labels=labelling.labels, class_names=labelling.class_names)

    def fingerprint(self, kind: FingerprintKind) -> str:
        """Fingerprint the items in their order; `listing` fetches at most 400 of them."""
        chosen = list(range(len(self)))
        if kind == "listing":
            chosen = sorted(sorted(chosen, key=lambda index: (zlib.crc32(b"%d" % index), index))[:SAMPLED_FILES])
        whole = hashlib.sha256(f"warmstart items {kind} 1\0{len(self)}\0".encode())
        whole.update("\0".join(self.class_names).encode("utf-8", "surrogatepass"))
        whole.update(self.labels.astype("<i8").tobytes())
        for index in chosen:
            try:
                pixels = self._pixels(index, None)
            except OSError:
                whole.update(b"unreadable")
                continue
            whole.update(f"{index} {pixels.shape}\0".encode() + pixels.tobytes())
        return f"{kind}:{whole.hexdigest()[:40]}"

    def side(self, index: int) -> int | None:
        """Return the shorter side of a picture, in pixels; None if it cannot be read."""
        try:
            return int(min(self._pixels(index, None).shape[:2]))
        except (OSError, WarmstartError):
            return None

    def _decode(self, indices: NDArray[np.int64], size: int | None) -> tuple[NDArray[np.uint8], dict[int, BrokenImage]]:
        canvas = Canvas(len(indices), self.location)
        broken: dict[int, BrokenImage] = {}
        for row, index in enumerate(indices.tolist()):
            try:
                pixels = self._pixels(index, size)
            except OSError as error:  # what Pillow raises inside a Dataset for a damaged file
                broken[row] = BrokenImage(f"item {index}", " ".join(str(error).split())[:120])
            else:
                canvas.put(row, pixels)
        return canvas.images(), broken

    def _pixels(self, index: int, size: int | None) -> NDArray[np.uint8]:
        picture, label = _item(self._dataset, index, self._kind)
        location = f"{self._kind} item {index}"
        if _scalar(label, self._kind) != self._raw[index]:
            msg = f"{location}: expected label {self._raw[index]!r}, as the dataset lists it, got {label!r}. Make its targets agree with its items."
            raise LabelError(msg)
        if isinstance(picture, Image.Image):
            flat = plain(picture, location)
            return np.asarray(flat if size is None else square(flat, size))
        array = _array(picture, location)
        check_shape((1, *array.shape), array.dtype, location)
        rows = array[np.newaxis] if array.ndim == 3 else array[np.newaxis, ..., np.newaxis]
        pixels = opaque(
            to_uint8(
                rows, f"{location} (is a Normalize among its transforms?)" if array.dtype.kind == "f" else location
            )
        )
        squares = pixels if size is None else square_arrays(pixels, size)
        return np.asarray(squares[0])

    def _fetch_labels(self, n: int) -> list[Any]:
        labels = []
        for index in range(n):
            try:
                labels.append(_item(self._dataset, index, self._kind)[1])
            except OSError as error:
                msg = f"{self._kind} item {index}: expected (picture, label), got {' '.join(str(error).split())[:120]}. Repair the file, or give the Dataset `targets`: with them broken pictures can be left out."
                raise DataError(msg) from error
        return labels


def _length(dataset: Any) -> int:
    kind = type(dataset).__name__
    try:
        n = len(dataset)
    except TypeError as error:
        msg = f"{kind}: expected a map-style Dataset with len(), got one without. Collect the items of an iterable dataset in a list."
        raise DataError(msg) from error
    if n == 0 or not hasattr(dataset, "__getitem__"):
        msg = f"{kind}: expected a Dataset with items, got {n} of them. Check how it was made."
        raise DataError(msg)
    return n


def _item(dataset: Any, index: int, kind: str) -> tuple[Any, Any]:
    try:
        item = dataset[index]
    except OSError:  # a damaged file, which may be left out
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}".rstrip(": ")
        msg = f"{kind} item {index}: expected (picture, label), got {text}. Correct the Dataset or its transforms; items are fetched by number."
        raise DataError(msg) from error
    if not isinstance(item, tuple | list) or len(item) < 2:
        msg = f"{kind} item {index}: expected (picture, label), got {type(item).__name__}. Give a Dataset whose items are such pairs."
        raise LabelError(msg)
    return item[0], item[1]


def _labels_of(dataset: Any, n: int) -> Sequence[Any] | None:
    """Return the labels that a Dataset stores; None if there are none."""
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is not None and indices is not None:  # Subset
        labels = _labels_of(inner, len(inner))
        return None if labels is None else [labels[int(index)] for index in indices]
    if (parts := getattr(dataset, "datasets", None)) is not None:  # ConcatDataset
        labels_by_part = [_labels_of(part, len(part)) for part in parts]
        return (
            None
            if any(part is None for part in labels_by_part)
            else [label for part in labels_by_part for label in part or ()]
        )
    tensors = getattr(dataset, "tensors", None)  # TensorDataset
    candidates = [tensors[1]] if tensors is not None and len(tensors) > 1 else []
    candidates += [getattr(dataset, name, None) for name in ("targets", "labels")]
    for labels in candidates:
        if labels is not None and hasattr(labels, "__len__") and len(labels) == n:
            transform: Callable[[Any], Any] | None = getattr(dataset, "target_transform", None)
            listed: list[Any] = labels.tolist() if hasattr(labels, "tolist") else list(labels)
            return listed if transform is None else [transform(label) for label in listed]
    return None


def _scalar(label: Any, kind: str) -> int | float | str:
    """Turn one label into a Python value, also a tensor or numpy scalar of one element."""
    value = label.item() if hasattr(label, "item") and getattr(label, "ndim", 0) == 0 else label
    if isinstance(value, int | float | str):
        return value
    msg = (
        f"{kind}: expected one integer or string as the label, got {type(value).__name__}. Choose one label a picture."
    )
    raise LabelError(msg)


def _array(picture: Any, location: str) -> NDArray[Any]:
    """Return the pixels as `h x w` or `h x w x c`; tensors come channels first."""
    is_tensor = hasattr(picture, "detach")
    array = np.asarray(picture.detach().cpu() if is_tensor else picture)
    if array.dtype.kind not in "uifb" or array.ndim not in (2, 3):
        msg = f"{location}: expected a picture (PIL, tensor c x h x w or array h x w x c), got {type(picture).__name__} of shape {array.shape}. Put the picture first in the item."
        raise UsageError(msg)
    return array.transpose(1, 2, 0) if is_tensor and array.ndim == 3 and array.shape[0] in (1, 3, 4) else array
