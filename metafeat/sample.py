"""Sample of the images that a meta-feature is computed from."""

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.subsample import stratified_subsample

SAMPLE = 400
"""Images of the training part that a meta-feature is computed from, at most."""
SHARP_SIDE, SHARP_SIZE, SHARP_SAMPLE = 96, 128, 150
"""Pixels of a shorter side from which pictures are looked at once more, then at so many pixels a side, at most so many."""


def sample_rows(
    labels: NDArray[np.int64], rows: NDArray[np.int64], *, seed: int, most: int = SAMPLE
) -> NDArray[np.int64]:
    """Choose at most so many rows at random, every class in proportion.

    Args:
        labels: `n` of the whole collection.
        rows: of the collection, to choose from.
        seed: of the choice.
        most: rows.

    Returns: sorted rows; all where there are few.
    """
    if len(rows) <= most:
        return rows
    chosen = rows[stratified_subsample(labels[rows], most / len(rows), seed=seed)]
    # One a class is more than the sample holds: there are more classes than places.
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    return chosen
