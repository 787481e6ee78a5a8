"""Parts of a source for training, validation and test, and stratified parts of these: seeded, nested, every class present."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError, UsageError
from warmstart.history_store.wording import some_of

TRAIN, VAL, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "val", "test")


def largest_remainder(
    counts: NDArray[np.int64],
    fraction: float,
    *,
    low: NDArray[np.int64] | None = None,
    high: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Divide round(fraction * total) among classes in proportion, at least one a class that has any.

    Args:
        counts: `c` images a class, each ≥ 0.
        fraction: in (0, 1].
        low: `c` smallest shares allowed; one a class that has any, unless given.
        high: `c` largest shares allowed; the counts, unless given.

    Returns: `c` int64, each at most its count. The whole is max(round(fraction * total), number of non-empty classes).
    """
    low = np.minimum(counts, 1) if low is None else low
    high = counts if high is None else high
    exact = counts * fraction
    shares: NDArray[np.int64] = np.clip(np.floor(exact).astype(np.int64), low, high)
    target = max(round(fraction * int(counts.sum())), int((counts > 0).sum()))
    while (missing := target - int(shares.sum())) != 0:
        # Largest remainder first (ties by class number); where the floor of one a class overshot, the smallest gives back.
        remainder = exact - shares
        if missing > 0:
            open_classes = np.flatnonzero(shares < high)
            order = open_classes[np.argsort(-remainder[open_classes], kind="stable")]
            shares[order[:missing]] += 1
        else:
            open_classes = np.flatnonzero(shares > low)
            order = open_classes[np.argsort(remainder[open_classes], kind="stable")]
            shares[order[:-missing]] -= 1
    return shares


def stratified_subsample(labels: NDArray[np.int64], fraction: float, *, seed: int = 0) -> NDArray[np.int64]:
    """Choose a stratified part of a dataset; smaller fractions under one seed lie inside larger ones.

    Each class is put into one seeded order and its first images are taken; the shares follow the largest-remainder
    rule. By that rule alone the share of a class may shrink while the whole grows (the Alabama paradox), so the shares
    at 10 %, 20 %, … 100 % are kept from shrinking, and any other fraction lies between the tenths around it.

    Args:
        labels: `n` int64.
        fraction: share of the images, in (0, 1].
        seed: of the order within the classes.

    Returns: sorted indices into `labels`, int64, at least one a class.

    Raises:
        UsageError: when the fraction lies outside (0, 1].
        LabelError: when there are no labels.
    """
    if not 0.0 < fraction <= 1.0:
        msg = f"stratified_subsample: expected a fraction in (0, 1], got fraction={fraction}. Use 0.1 for a tenth."
        raise UsageError(msg)
    if labels.size == 0:
        msg = "stratified_subsample: expected at least one label, got none. Check the dataset's path."
        raise LabelError(msg)
    classes, counts = np.unique(labels, return_counts=True)
    shares = _nested_shares(counts.astype(np.int64), fraction)
    orders = _class_orders(labels, classes, seed)
    return np.sort(np.concatenate([order[:share] for order, share in zip(orders, shares, strict=True)]))


def stratified_split(
    labels: NDArray[np.int64], fractions: tuple[float, float, float] = (0.6, 0.2, 0.2), *, seed: int = 0
) -> NDArray[np.int8]:
    """Split a dataset into training, validation and test parts, class by class.

    Args:
        labels: `n` int64.
        fractions: shares of training, validation and test images; they sum to 1.
        seed: of the order within the classes.

    Returns: `n` int8 codes: 0 training, 1 validation, 2 test. A class of one image goes to training; further
    images of a small class go to validation before test.

    Raises:
        UsageError: when the fractions are negative or do not sum to 1.
        LabelError: when there are no labels.
    """
    if not (min(fractions) >= 0 and abs(sum(fractions) - 1.0) <= 1e-9):
        msg = f"stratified_split: expected three shares ≥ 0 that sum to 1, got fractions={fractions}. Use (0.6, 0.2, 0.2)."
        raise UsageError(msg)
    if labels.size == 0:
        msg = "stratified_split: expected at least one label, got none. Check the dataset's path."
        raise LabelError(msg)
    classes, counts = np.unique(labels, return_counts=True)
    counts = counts.astype(np.int64)
    train = largest_remainder(counts, fractions[0]) if fractions[0] > 0 else np.zeros_like(counts)
    rest = counts - train
    held_out = fractions[1] + fractions[2]
    share = fractions[1] / held_out if held_out > 0 else 0.0
    val = largest_remainder(rest, share) if share > 0 else np.zeros_like(rest)
    codes = np.full(labels.shape, TEST, dtype=np.int8)
    for order, n_train, n_val in zip(_class_orders(labels, classes, seed), train, val, strict=True):
        codes[order[:n_train]] = TRAIN
        codes[order[n_train : n_train + n_val]] = VAL
    return codes


def _nested_shares(counts: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """Divide by largest remainder, between the shares of the tenth below and of the tenth above."""
    above, low = counts, None
    for tenth in range(9, 0, -1):
        shares = largest_remainder(counts, tenth / 10, high=above)
        if abs(fraction - tenth / 10) < 1e-9:
            return shares
        if tenth / 10 < fraction:
            low = shares
            break
        above = shares
    return largest_remainder(counts, fraction, low=low, high=above)


def _class_orders(labels: NDArray[np.int64], classes: NDArray[np.int64], seed: int) -> list[NDArray[np.int64]]:
    """Order the images of each class at random, every class from its own stream of the seed."""
    streams = np.random.SeedSequence(seed).spawn(len(classes))
    by_class = np.argsort(labels, kind="stable").astype(np.int64)
    members = np.split(by_class, np.searchsorted(labels[by_class], classes[1:]))
    return [np.random.default_rng(stream).permutation(rows) for stream, rows in zip(streams, members, strict=True)]


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
