"""Sample of the images that a meta-feature is computed from."""

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.subsample import stratified_subsample

SAMPLE = 400
"""Images of the training part that a meta-feature is computed from, at most."""


def sample_rows(labels: NDArray[np.int64], rows: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Choose at most `SAMPLE` rows at random, every class in proportion.

    Args:
        labels: `n` of the whole collection.
        rows: of the collection, to choose from.
        seed: of the choice.

    Returns: sorted rows; all where there are few.
    """
    if len(rows) <= SAMPLE:
        return rows
    chosen = rows[stratified_subsample(labels[rows], SAMPLE / len(rows), seed=seed)]
    # One a class is more than the sample holds: there are more classes than places.
    if len(chosen) > SAMPLE:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, SAMPLE, replace=False))
    return chosen
