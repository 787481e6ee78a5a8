"""Splits of a source into training, validation and test part: its own, or drawn class by class."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError
from warmstart.history_store.subsample import SPLIT_NAMES, TEST, TRAIN, VAL, stratified_split
from warmstart.history_store.wording import some_of

UNUSED = np.int8(-1)


FRACTIONS = (0.6, 0.2, 0.2)
"""Shares of training, validation and test images where a source has no parts of its own."""


def count_parts(n: int, source_parts: Mapping[str, NDArray[np.int64]] | None = None) -> tuple[int, int]:
    """Return about how many training and validation images `split_codes` makes of n images."""
    parts = {name: len(rows) for name, rows in (source_parts or {}).items() if len(rows)}
    train, val, _ = FRACTIONS
    if set(parts) <= {"train"}:
        return round(train * n), round(val * n)
    if "val" in parts or "train" not in parts:
        return parts.get("train", 0), parts.get("val", 0)
    n_train = round(parts["train"] * train / (train + val))
    return n_train, parts["train"] - n_train


def split_codes(
    labels: NDArray[np.int64],
    source_parts: Mapping[str, NDArray[np.int64]] | None = None,
    *,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
    location: str = "splits",
) -> tuple[NDArray[np.int8], int | None]:
    """Assign images to training, validation and test.

    A source with one part only is split by `stratified_split`. A source with parts of its own keeps them; if it has no
    validation part, one is taken from its training part in the proportion of `fractions`.

    Args:
        labels: `n` int64.
        source_parts: indices of the source's ``train``, ``val`` and ``test`` parts; None or training alone: no parts.
        fractions: shares of training, validation and test images.
        seed: of the drawing.
        location: of the images, for messages.

    Returns: `n` int8 codes 0 training, 1 validation, 2 test, and the seed where anything was drawn, else None.

    Raises:
        LabelError: when fewer than two images would train or none would validate.
    """
    parts = {name: rows for name, rows in (source_parts or {}).items() if len(rows)}
    drawn: int | None = seed
    if set(parts) <= {"train"}:
        codes = stratified_split(labels, fractions, seed=seed)
    else:
        codes = np.full(labels.shape, UNUSED, dtype=np.int8)
        for code, name in enumerate(SPLIT_NAMES):
            codes[parts.get(name, np.empty(0, dtype=np.int64))] = code
        train = np.flatnonzero(codes == TRAIN)
        if "val" in parts or not len(train):
            drawn = None
        elif not fractions[0] + fractions[1]:
            msg = f"{location}: expected fractions for training and validation, got {fractions} and images without a part for validation. Correct them."
            raise LabelError(msg)
        else:
            share = fractions[0] / (fractions[0] + fractions[1])
            codes[train] = stratified_split(labels[train], (share, 1 - share, 0.0), seed=seed)
        if (codes == UNUSED).any():
            msg = f"{location}: expected parts that cover all {len(labels)} images, got {(codes == UNUSED).sum()} images in none. Give every image a part."
            raise LabelError(msg)
    n_train, n_val = int((codes == TRAIN).sum()), int((codes == VAL).sum())
    if n_train < 2 or n_val < 1:
        msg = f"{location}: expected at least 2 training images and 1 validation image, got {n_train} and {n_val} (and {(codes == TEST).sum()} for testing). Give more images of each class."
        raise LabelError(msg)
    return codes, drawn


def lacking_classes(
    labels: NDArray[np.int64], source_parts: Mapping[str, NDArray[np.int64]] | None, class_names: Sequence[str]
) -> tuple[str, ...]:
    """Describe the classes without training or without validation pictures, a sentence each.

    Args:
        labels: `n` int64.
        source_parts: indices of the source's parts, as in `split_codes`; None or training alone: drawn class by class.
        class_names: by label.
    """
    if not {name for name, rows in (source_parts or {}).items() if len(rows)} - {"train"}:
        return ()
    try:
        codes, _ = split_codes(labels, source_parts)
    except LabelError:  # training on it raises this error
        return ()
    notes = []
    for code, part, then in (
        (TRAIN, "training", "no network learns of it"),
        (VAL, "validation", "no error tells of it"),
    ):
        counts = np.bincount(labels[codes == code], minlength=len(class_names))
        names = [str(class_names[label]) for label in np.flatnonzero(counts == 0).tolist()]
        if names:
            subject = f"Class {names[0]} has" if len(names) == 1 else f"Classes {some_of(names)} have"
            notes.append(f"{subject} no {part} pictures: {then if len(names) == 1 else then.replace(' it', ' them')}.")
    return tuple(notes)
