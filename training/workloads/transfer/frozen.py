"""Measurement of all heads on frozen features of one dataset, a part of the collection in research/transfer-protocol.md."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.splits import stratified_split, stratified_subsample
from warmstart.metafeat.pretrained.depths import DEPTHS, Features
from warmstart.metafeat.pretrained.heads import HeadSearch, HeadSpec, TrainingFeatures, head_specs

POOL = 700
"""Most images of a dataset; 4/7 of them train, 3/7 measure."""
PARTS = (400, 100)
"""Most training images of each part; the first part has all of them and contains the smaller ones."""
SPLITS = 5
COUNTS = ("left_out", "first_half", "second_half")
"""Sets of images for counts of wrong answers: left-out training images, and two halves of the measuring images."""


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of a pool in one random split.

    Attributes:
        train: by part; empty if a dataset has too few images for it.
        halves: two halves of the measuring images.
    """

    train: tuple[NDArray[np.int64], ...]
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """Wrong answers of all heads on all feature sets of one backbone at one image size.

    Attributes:
        wrong: `splits x parts x depths x flips x heads x 3` uint16, the last axis as `COUNTS`.
        totals: `splits x parts x 3` uint16, numbers of images; 0 if a dataset has too few images for a part.
        seconds: CPU seconds of all heads, `parts x depths x flips`, one split.
    """

    wrong: NDArray[np.uint16]
    totals: NDArray[np.uint16]
    seconds: NDArray[np.float64] = field(repr=False)


def draw_pool(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw at most `POOL` images, class by class, with seed 0."""
    return stratified_subsample(labels, min(1.0, POOL / len(labels)))


def draw_split(labels: NDArray[np.int64], seed: int, *, parts: Sequence[int] = PARTS) -> Split:
    """Draw training images for each part and two halves of left-out images, stratified by label.

    Args:
        labels: `n` int64 of the pool.
        seed: number of the split.
        parts: training images of each part.
    """
    codes = stratified_split(labels, (4 / 7, 3 / 7, 0.0), seed=seed)
    train, rest = np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)

    def part(limit: int) -> NDArray[np.int64]:
        if limit >= PARTS[0]:
            return train
        enough = limit <= 0.9 * len(train)
        return train[stratified_subsample(labels[train], limit / len(train), seed=seed)] if enough else train[:0]

    halves = stratified_split(labels[rest], (0.5, 0.5, 0.0), seed=seed)
    return Split(tuple(map(part, parts)), (rest[halves == 0], rest[halves == 1]))


def by_chosen_heads(wrong: NDArray[Any]) -> NDArray[Any]:
    """Return the wrong answers of the head with the fewest left-out errors, for each feature set.

    Args:
        wrong: `... x heads x 3`, the last axis as `COUNTS`.

    Returns: `... x 3`.
    """
    chosen = wrong[..., 0].argmin(-1)
    counts: NDArray[Any] = np.take_along_axis(wrong, chosen[..., None, None], axis=-2)[..., 0, :]
    return counts


def measure_frozen(
    features: Features,
    flipped: Features,
    labels: NDArray[np.int64],
    *,
    n_classes: int,
    parts: Sequence[int] = PARTS,
) -> FrozenTable:
    """Count the wrong answers of all heads on all feature sets.

    Args:
        features: of the pool.
        flipped: of the pool's images, mirrored.
        labels: `n` int64 in 0 .. n_classes - 1.
        n_classes: number of classes.
        parts: training images of each.
    """
    specs = head_specs()
    wrong = np.zeros((SPLITS, len(parts), len(DEPTHS), 2, len(specs), len(COUNTS)), np.uint16)
    totals = np.zeros((SPLITS, len(parts), len(COUNTS)), np.uint16)
    seconds = np.zeros((len(parts), len(DEPTHS), 2))
    for seed in range(SPLITS):
        split = draw_split(labels, seed, parts=parts)
        for p, train in enumerate(split.train):
            if not len(train):
                continue
            totals[seed, p] = len(train), *(len(half) for half in split.halves)
            for d, depth in enumerate(DEPTHS):
                rows, mirrored = features.at(depth), flipped.at(depth)
                for copies in (0, 1):
                    before = time.process_time()
                    used = np.vstack([rows[train], mirrored[train]]) if copies else rows[train]
                    data = TrainingFeatures(used, labels[train], n_classes)
                    wrong[seed, p, d, copies] = _count(data, rows, labels, split.halves, specs)
                    seconds[p, d, copies] += (time.process_time() - before) / SPLITS
    return FrozenTable(wrong, totals, seconds)


def _count(
    data: TrainingFeatures,
    rows: NDArray[np.float32],
    labels: NDArray[np.int64],
    halves: tuple[NDArray[np.int64], NDArray[np.int64]],
    specs: Sequence[HeadSpec],
) -> NDArray[np.uint16]:
    search = HeadSearch(data, specs)
    measured = np.concatenate(halves)
    measured_rows, n_first = rows[measured], len(halves[0])
    misses = np.array([search.scores(spec, measured_rows).argmax(1) != labels[measured] for spec in specs])
    return np.stack([search.error_counts(), misses[:, :n_first].sum(1), misses[:, n_first:].sum(1)], axis=1).astype(
        np.uint16
    )
