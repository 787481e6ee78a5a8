"""Noise of measured errors: what a table of errors might be, had every run had another seed and other validation images.

A configuration that leads by less than the noise may lead by luck. The later members of a portfolio of one table follow
such leads. Those of a portfolio of many noisy tables help in most of them.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from warmstart.bo.transfer.strategies.scenarios import Scenarios

USUAL_NOISE = 0.05
"""Standard deviation of an error, as a share of its dataset's range: of the shipped history 0.03 between seeds and 0.04 by validation images, together 0.05."""
MOST_CELLS = 2**18
"""Of all drawn tables together, at most: more draws change choices little and cost time."""


@lru_cache(maxsize=2)
def with_noise(worlds: Scenarios, noise: float) -> Scenarios:
    """Draw each scenario many times with independent normal noise.

    Draws come in pairs of opposite signs. So the mean regrets of all configurations on a dataset move by one amount, and
    the first choice of a portfolio stays. The draws are fixed: equal tables get equal answers. Datasets whose errors are
    all equal get no noise. A table with no room for a pair is returned as it is: many datasets average their own noise.
    The last tables are kept, as the datasets of a history are asked about again and again.

    Args:
        worlds: `n x c` scenarios of a table.
        noise: standard deviation of an error as a share of its dataset's range, ≥ 0.

    Returns: `r x c` scenarios, r a multiple of n; regrets are ≥ 0, the best of a row is 0, the worst may be above 1.
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
    ).read_only()
