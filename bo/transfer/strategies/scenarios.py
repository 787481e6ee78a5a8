"""Scenarios of missing errors: each incomplete row is completed in several ways.

A gap filled with its expected value is never the best configuration, so measured cells would win. Here a gap takes, in
turn, the values of the most similar datasets that have the cell.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import min_max_normalised

Matrix = NDArray[np.float64]
MOST = 12
"""Most scenarios of an incomplete row, one for each of its most similar datasets."""
DONORS = 128
"""Most rows that lend values, evenly spread over a larger table, and with those that have gaps make the profile."""
ROUNDS = 20
"""Rounds of the fit of levels and spreads to the common profile of all rows."""
AT_ONCE = 32
"""Rows that are completed together: few enough to stay in a processor's cache."""
FEW_CELLS = 3.0
"""Prior weight of the average difference in the dissimilarity of two rows, in cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenarios:
    """Completed rows of a table of errors; a complete row has one scenario, itself.

    Attributes:
        errors: `n x c`; NaN only for configurations without any measurement.
        regrets: `n x c`, each scenario's errors scaled to [0, 1] between its best and its worst; unmeasured
            configurations count as the worst.
        dataset: `n` rows of the table.
        share: `n` > 0, sum 1 over the scenarios of a dataset.
    """

    errors: Matrix
    regrets: Matrix
    dataset: NDArray[np.int64]
    share: Matrix

    def read_only(self) -> Self:
        """Return itself with read-only arrays, as the cache shares it."""
        for array in (self.errors, self.regrets, self.dataset, self.share):
            array.flags.writeable = False
        return self

    def expected_errors(self, m: int) -> Matrix:
        """Return the average over the scenarios of each dataset: `m x c`, NaN for unmeasured configurations."""
        total = np.full((m, self.errors.shape[1]), np.nan)
        total[self.dataset] = 0.0
        np.add.at(total, self.dataset, self.share[:, None] * self.errors)
        return total


def make_scenarios(errors: Matrix) -> Scenarios:
    """Complete the rows of a table of errors.

    Each row is a level plus a spread times a common profile of all rows, plus a residual. A gap in row i takes row j's
    value on the profile's scale, and then the level and spread of row i. In the first scenario j is the row most
    similar to i of those that have the cell, in the second the next, and so on. The weight of a scenario is the inverse
    square of the dissimilarity. A value from few rows is shrunk towards the profile's mean, the more so the more rows
    disagree on configurations and the less configurations differ. Nothing is random.

    Args:
        errors: `m x c`, NaN = missing; rows without any known cell have no scenario.

    Returns: the scenarios, by row.
    """
    return _completed(np.ascontiguousarray(errors, dtype=np.float64).tobytes(), errors.shape[1])


@lru_cache(maxsize=4)
def _completed(table: bytes, c: int) -> Scenarios:
    """Complete the rows of a table from its bytes, which can be hashed; several strategies share a table."""
    errors = np.frombuffer(table).reshape(-1, c)
    present = ~np.isnan(errors)
    rows = np.flatnonzero(present.any(axis=1))
    if not (present.any(axis=0) & ~present[rows]).any():
        return Scenarios(errors[rows], _regrets(errors[rows]), rows, np.ones(len(rows))).read_only()
    measured = present.sum(axis=0) > 0
    gaps = (measured & ~present).any(axis=1)
    # Of a large table a part: rows without gaps need no profile.
    part = np.arange(len(errors))
    if len(rows) > DONORS:
        part = np.union1d(rows[np.linspace(0, len(rows) - 1, DONORS).astype(np.int64)], np.flatnonzero(gaps))
    level, spread = _levels(errors[part])
    values = _on_profile(errors[part], level, spread)
    donors = np.flatnonzero(~np.isnan(values).all(axis=1))
    if len(donors) > DONORS:
        donors = donors[np.linspace(0, len(donors) - 1, DONORS).astype(np.int64)]
    positions = np.flatnonzero(gaps[rows])
    numbers = np.searchsorted(part, rows[positions])
    batches = [
        (positions[start : start + AT_ONCE], *_borrowed_values(values, numbers[start : start + AT_ONCE], donors))
        for start in range(0, len(positions), AT_ONCE)
    ]
    n_scenarios = np.ones(len(rows), np.int64)
    for batch, _, shares in batches:
        n_scenarios[batch] = np.maximum((shares > 0).sum(axis=1), 1)
    ends = np.cumsum(n_scenarios)
    all_rows, all_shares = np.repeat(errors[rows], n_scenarios, axis=0), np.ones(ends[-1])
    for batch, borrowed, shares in batches:
        starts, is_one = ends[batch] - n_scenarios[batch], np.arange(shares.shape[1]) < n_scenarios[batch, None]
        at = (starts[:, None] + np.arange(shares.shape[1]))[is_one]
        number, measured_errors = np.searchsorted(part, rows[batch]), errors[rows[batch], None]
        guesses = level[number, None, None] + spread[number, None, None] * np.where(np.isnan(borrowed), 0.0, borrowed)
        guesses[..., ~measured] = np.nan
        all_rows[at], all_shares[at] = (
            np.where(np.isnan(measured_errors), guesses, measured_errors)[is_one],
            shares[is_one],
        )
    return Scenarios(all_rows, _regrets(all_rows), np.repeat(rows, n_scenarios), all_shares).read_only()


def _regrets(errors: Matrix) -> Matrix:
    """Scale each row to [0, 1]; missing cells count as the worst."""
    scaled = min_max_normalised(errors)
    scaled[np.isnan(scaled)] = 1.0
    return scaled


def _levels(errors: Matrix) -> tuple[Matrix, Matrix]:
    """Fit level and spread of each row, `m` each, to mean and deviation of the profile in its known cells.

    A row with equal or too few known cells gets the median spread.
    """
    present = ~np.isnan(errors)
    measured = present.sum(axis=0) > 0
    counts = np.maximum(present.sum(axis=1), 1)
    filled = np.where(present, errors, 0.0)
    mean = filled.sum(axis=1) / counts
    deviation = np.sqrt((np.where(present, errors - mean[:, None], 0.0) ** 2).sum(axis=1) / counts)
    is_varied = (deviation > 1e-12 * (1 + np.abs(mean))) & (present.sum(axis=1) > 2)
    typical = float(np.median(deviation[is_varied])) if is_varied.any() else 0.0
    level, spread = mean, np.where(is_varied, deviation, typical)
    for _ in range(ROUNDS):
        if not spread.any():
            break
        donors = present & (spread > 0)[:, None]
        values = np.where(donors, (filled - level[:, None]) / np.where(spread > 0, spread, 1.0)[:, None], 0.0)
        profile = values.sum(axis=0) / np.maximum(donors.sum(axis=0), 1)
        profile[measured] -= profile[measured].mean()
        width = float(np.sqrt(np.mean(profile[measured] ** 2)))
        if not width > 0:
            break
        profile = np.where(measured, profile / width, 0.0)
        centre = (present * profile).sum(axis=1) / counts
        wide = np.sqrt((np.where(present, profile - centre[:, None], 0.0) ** 2).sum(axis=1) / counts)
        is_fit = is_varied & (wide > 1e-9)
        ratio = deviation / np.where(is_fit, wide, 1.0)
        spread = np.where(is_fit, ratio, float(np.median(ratio[is_fit])) if is_fit.any() else typical)
        level = mean - spread * centre
    return level, spread


def _on_profile(errors: Matrix, level: Matrix, spread: Matrix) -> Matrix:
    """Convert known cells to the scale of the profile, `m x c`; NaN = missing, or in a row without any spread.

    The mean of a column is shrunk towards the mean of all by n / (n + variance within columns ÷ variance between their
    means), as the mean of few rows is unreliable.
    """
    present = ~np.isnan(errors) & (spread > 0)[:, None]
    values = np.where(
        present, (np.nan_to_num(errors) - level[:, None]) / np.where(spread > 0, spread, 1.0)[:, None], 0.0
    )
    counts = present.sum(axis=0)
    means = values.sum(axis=0) / np.maximum(counts, 1)
    several = counts > 1
    trust = np.where(counts > 0, 0.5, 0.0)
    if several.any():
        within = np.where(present, values - means, 0.0)[:, several]
        variance = float((within**2).sum() / (counts[several] - 1).sum())
        between = float(np.var(means[several]) - variance * np.mean(1.0 / counts[several]))
        trust = counts / (counts + variance / max(between, 1e-3 * variance, 1e-300))
    scaled: Matrix = np.where(present, values - (1.0 - trust) * means, np.nan)
    return scaled


def _borrowed_values(values: Matrix, rows: NDArray[np.int64], donors: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    """Return values for the cells of `n` rows from other rows, for each the most similar ones first.

    Args:
        values: `m x c` of `_on_profile`.
        rows: of the datasets with gaps.
        donors: rows that lend values, in order; none to itself.

    Returns: `n x s x c`, NaN where no other row has a cell; `n x s` shares, whose sums are 1, 0 = no scenario.
    """
    n, c, d = len(rows), values.shape[1], len(donors)
    if not d:
        return np.full((n, 1, c), np.nan), np.ones((n, 1))
    lent, borrowers, is_other = values[donors], values[rows], donors != rows[:, None]
    present, is_measured = ~np.isnan(lent), ~np.isnan(borrowers)
    n_shared = (is_measured.astype(np.float64) @ present.T) * is_other
    apart = np.where(present, lent, 0.0) - np.where(is_measured, borrowers, 0.0)[:, None]
    np.abs(apart, out=apart)
    apart *= present & is_measured[:, None]
    gaps = apart.sum(axis=2) * is_other
    average_gap = (gaps.sum(axis=1) / np.maximum(n_shared.sum(axis=1), 1))[:, None]
    # Rounded, so that equally similar rows keep their order on every machine.
    dissimilarity = np.round((gaps + FEW_CELLS * average_gap) / (n_shared + FEW_CELLS), 12)
    dissimilarity[~is_other] = np.inf
    ranking = np.argsort(dissimilarity, axis=1, kind="stable")
    nearest = np.take_along_axis(dissimilarity, ranking[:, :MOST], axis=1)
    nearness = 1.0 / np.maximum(nearest, np.maximum(1e-3 * average_gap, 1e-9)) ** 2
    # For each rank, the first row at or after it that has the cell; after the last one, from the top again. Nearly always
    # one of the first has it.
    for width in (4 * MOST, d):
        order = ranking[:, :width]
        has_cell = present[order] & np.take_along_axis(is_other, order, axis=1)[..., None]
        ranks = np.where(has_cell, np.arange(order.shape[1], dtype=np.int16)[:, None], np.int16(d))
        donor_ranks = np.minimum.accumulate(ranks[:, ::-1], axis=1)[:, ::-1][:, :MOST]
        if order.shape[1] == d or not (donor_ranks == d).any():
            break
    donor_ranks = np.where(donor_ranks == d, donor_ranks[:, :1], donor_ranks)
    lenders = np.append(ranking, np.zeros((n, 1), np.int64), axis=1)[np.arange(n)[:, None, None], donor_ranks]
    borrowed: Matrix = lent[lenders, np.arange(c)]
    borrowed[donor_ranks == d] = np.nan
    has_donor = is_other.any(axis=1)
    nearness[~has_donor, 0] = 1.0
    return borrowed, nearness / nearness.sum(axis=1, keepdims=True)


USUAL_NOISE = 0.05
"""Standard deviation of an error, as a share of its dataset's range. In the shipped history, seeds give 0.03 and
validation images 0.04, together 0.05."""
MOST_CELLS = 2**18
"""Largest number of cells in all drawn tables: more draws change choices little and cost time."""


@lru_cache(maxsize=2)
def with_noise(worlds: Scenarios, noise: float) -> Scenarios:
    """Draw each scenario many times with independent normal noise.

    A configuration that leads by less than the noise of its errors may lead by luck, and the later members of a
    portfolio of one table follow such leads. Those of a portfolio of many noisy tables help in most of them.

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
