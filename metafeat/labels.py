"""Label codes: how the classes of the images in a sample enter an encoder.

- `none`: not at all.
- `scalar`: class index / 256 as one more number, as in the paper.
- `onehot`: one of 256 columns.
- `rank` (default): one-hot of the class's frequency rank inside the sample. It does not change when classes are
  renumbered. Its mean is the sorted class histogram: number and balance of the classes.

The width 256 is fixed so that datasets of any number of classes share one network. With more than 256 classes, `onehot`
takes the index modulo 256, ranks from 255 on share the last column, and `scalar` exceeds 1.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError, UsageError

LabelCode = Literal["none", "scalar", "onehot", "rank"]
LABEL_CODES: tuple[LabelCode, ...] = get_args(LabelCode)
C_MAX = 256


def code_width(code: LabelCode) -> int:
    """Return the number of columns of a label code: 0, 1 or 256."""
    _check_code(code)
    return {"none": 0, "scalar": 1}.get(code, C_MAX)


def check_labels(labels: NDArray[np.int64], n_images: int) -> NDArray[np.int64]:
    """Return labels as int64 after checking that there is one whole number ≥ 0 an image.

    Raises:
        LabelError: another length, shape or kind, or a negative class.
    """
    array = np.asarray(labels)
    if array.shape != (n_images,) or array.dtype.kind not in "iu":
        msg = f"labels: expected {n_images} integers, got shape {array.shape} of {array.dtype}. Give one class index an image."
        raise LabelError(msg)
    if n_images and array.min() < 0:
        msg = f"labels: expected class indices ≥ 0, got {array.min()}. Number the classes from 0."
        raise LabelError(msg)
    return array.astype(np.int64, copy=False)


def check_contrast(labels: NDArray[np.int64], location: str) -> None:
    """Check that a collection has two images and two classes or more.

    Raises:
        LabelError: fewer than two images or one class only.
    """
    if len(labels) < 2:
        msg = f"{location}: expected at least two images, got {len(labels)}. Check the path; the layout is folder/class/picture."
        raise LabelError(msg)
    if np.all(labels == labels[0]):
        msg = (
            f"{location}: expected at least two classes, got one. Check the labels; the layout is folder/class/picture."
        )
        raise LabelError(msg)


def frequency_ranks(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Replace each label by its class's rank by frequency in the sample, 0 = most frequent.

    Equally frequent classes are ordered by number, so that the order of the sample does not matter; the
    average of the codes does not depend on the numbering even then.

    Args:
        labels: `tau` int64.

    Returns: `tau` int64 in 0 .. classes − 1.
    """
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks[inverse]


def label_codes(labels: NDArray[np.int64], code: LabelCode) -> NDArray[np.float32]:
    """Encode the labels of one sample.

    Args:
        labels: `tau` int64 ≥ 0.
        code: see the module.

    Returns: `tau x w` float32, w = `code_width(code)`.
    """
    width = code_width(code)
    if code == "scalar":
        return (labels / C_MAX).astype(np.float32)[:, None]
    codes = np.zeros((len(labels), width), dtype=np.float32)
    if code == "onehot":
        codes[np.arange(len(labels)), labels % C_MAX] = 1
    elif code == "rank":
        codes[np.arange(len(labels)), np.minimum(frequency_ranks(labels), C_MAX - 1)] = 1
    return codes


def _check_code(code: str) -> None:
    if code not in LABEL_CODES:
        msg = f"label code: expected one of {', '.join(LABEL_CODES)}, got {code!r}. Choose one of them."
        raise UsageError(msg)
