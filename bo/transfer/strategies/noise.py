"""Noise of measured errors: tables that other seeds and validation images might have given.

A configuration that leads by less than the noise may lead by luck. The later members of a portfolio of one table follow
such leads. Those of a portfolio of many noisy tables help in most of them.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from warmstart.bo.transfer.strategies.scenarios import Scenarios

USUAL_NOISE = 0.05
"""Standard deviation of an error, as a share of its dataset's range. In the shipped history, seeds give 0.03 and
validation images 0.04, together 0.05."""
MOST_CELLS = 2**18
"""Largest number of cells in all drawn tables: more draws change choices little and cost time."""


@lru_cache(maxsize=2)
def with_noise(worlds: Scenarios, noise: float) -> Scenarios:
    """Draw each scenario many times with independent normal noise.

    Draws come in pairs of opposite signs. So the mean regrets of all configurations on a dataset move by one amount,
    and the first choice of a portfolio stays. The draws are fixed: equal tables get equal answers. Datasets with equal
    errors get no noise. A table too large for a pair is returned unchanged: many datasets average their noise. The last
    results are cached, since queries to one history repeat its table.

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
