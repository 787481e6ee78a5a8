"""Noise of measured errors: what a table of errors might be, had every run had another seed and other validation images.

A configuration that leads by less than the noise leads by luck. Where a portfolio is made for one table alone, its later
members are those that lucky cells name; made for many tables that might have been, they are those that help in most of them.
"""

from dataclasses import replace

import numpy as np

from bo.transfer.strategies.scenarios import Scenarios

USUAL_NOISE = 0.05
"""Standard deviation of an error, as a share of its dataset's range: of the shipped history 0.04 between seeds and 0.04 by validation images."""
MOST_CELLS = 2**18
"""Of all tables that are drawn together."""


def with_noise(worlds: Scenarios, noise: float) -> Scenarios:
    """Return scenarios of a table of errors with noise added, many of each.

    Draws come in pairs of opposite signs, so that the mean regret of a configuration over the scenarios of a dataset
    moves by what all its configurations move. They are the same for every table of one shape. Many datasets average
    their own noise: where there is no room for a pair, the scenarios stay as they are; so do datasets whose errors are
    all equal.

    Args:
        worlds: of the table.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0.
    """
    n, c = worlds.regrets.shape
    pairs = MOST_CELLS // (2 * n * c)
    if not noise > 0 or not pairs:
        return worlds
    moves = noise * np.random.default_rng(0).standard_normal((pairs, n, c))
    moves *= (np.ptp(worlds.regrets, axis=1) > 0)[:, None]
    regrets = (worlds.regrets + np.concatenate([moves, -moves])).reshape(-1, c)
    return replace(
        worlds,
        errors=np.tile(worlds.errors, (2 * pairs, 1)),
        regrets=regrets - regrets.min(axis=1, keepdims=True),
        dataset=np.tile(worlds.dataset, 2 * pairs),
        share=np.tile(worlds.share / (2 * pairs), 2 * pairs),
    )
