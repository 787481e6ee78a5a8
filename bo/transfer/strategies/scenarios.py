"""Scenarios of missing errors: each incomplete row is completed in several ways.

A gap that is filled with one expected value can never be the best configuration, so whatever happened to be measured
would win. Here a gap takes, in turn, the values of the most similar datasets that have the cell.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import min_max_normalised

Matrix = NDArray[np.float64]
MOST = 12
"""Ways in which an incomplete row is completed, at most: one for each of its most similar datasets."""
ROUNDS = 20
"""Of fitting levels and spreads to the profile that all rows share."""
FEW_CELLS = 3.0
"""Two rows count as so many cells of average difference more alike or unlike than what they share says."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenarios:
    """Completed rows of a table of errors; a complete row is its own only scenario.

    Attributes:
        errors: `n x c`; NaN only where a configuration was measured on no dataset.
        regrets: `n x c`, each scenario's errors scaled to [0, 1] between its best and its worst; what was never
            measured counts as the worst.
        dataset: `n` rows of the table.
        share: `n` > 0, sum 1 over the scenarios of a dataset.
    """

    errors: Matrix
    regrets: Matrix
    dataset: NDArray[np.int64]
    share: Matrix

    def read_only(self) -> Self:
        """Return itself, whose arrays can no longer be changed: it is kept for whoever asks next."""
        for array in (self.errors, self.regrets, self.dataset, self.share):
            array.flags.writeable = False
        return self

    def expected_errors(self, m: int) -> Matrix:
        """Return the average over the scenarios of each dataset: `m x c`, NaN where nothing is known."""
        total = np.full((m, self.errors.shape[1]), np.nan)
        total[self.dataset] = 0.0
        np.add.at(total, self.dataset, self.share[:, None] * self.errors)
        return total


def make_scenarios(errors: Matrix) -> Scenarios:
    """Complete the rows of a table of errors.

    Each row is modelled as a level plus a spread times a profile that all rows share, plus a rest of its own. A gap in
    row i takes row j's value on the profile's scale, and then the level and spread of row i. In the first scenario j is
    the row most similar to i of those that have the cell, in the second the next, and so on. Scenarios are weighted by
    the inverse square of the dissimilarity. A value that few rows have measured is shrunk towards the profile's mean,
    the more so the more rows disagree on configurations and the less configurations differ. Nothing is random.

    Args:
        errors: `m x c`, NaN = missing; rows without any known cell have no scenario.

    Returns: the scenarios, by row.
    """
    return _completed(np.ascontiguousarray(errors, dtype=np.float64).tobytes(), errors.shape[1])


@lru_cache(maxsize=4)
def _completed(table: bytes, c: int) -> Scenarios:
    """Complete the rows of a table, given as the bytes of its cells; several strategies ask about the same one."""
    errors = np.frombuffer(table).reshape(-1, c)
    known = ~np.isnan(errors)
    kept = np.flatnonzero(known.any(axis=1))
    if not (known.any(axis=0) & ~known[kept]).any():
        return Scenarios(errors[kept], _regrets(errors[kept]), kept, np.ones(len(kept))).read_only()
    measured = known.sum(axis=0) > 0
    gaps = (measured & ~known).any(axis=1)
    level, spread = _levels(errors)
    values = _on_profile(errors, level, spread)
    completed: list[Matrix] = []
    shares: list[Matrix] = []
    for row in kept.tolist():
        lent, share = _lent(values, row) if gaps[row] else (values[row][None], np.ones(1))
        guess = level[row] + spread[row] * np.nan_to_num(lent)
        completed.append(np.where(known[row], errors[row], np.where(measured, guess, np.nan)))
        shares.append(share)
    every = np.concatenate(completed)
    which = np.repeat(kept, [len(share) for share in shares])
    return Scenarios(every, _regrets(every), which, np.concatenate(shares)).read_only()


def _regrets(errors: Matrix) -> Matrix:
    """Scale each row to [0, 1]; what is missing counts as the worst."""
    scaled = min_max_normalised(errors)
    scaled[np.isnan(scaled)] = 1.0
    return scaled


def _levels(errors: Matrix) -> tuple[Matrix, Matrix]:
    """Fit level and spread of each row, `m` each: its known cells have the mean and the deviation that the profile has there.

    A row whose known cells are all equal, or too few to tell, has the median spread.
    """
    known = ~np.isnan(errors)
    measured = known.sum(axis=0) > 0
    counts = np.maximum(known.sum(axis=1), 1)
    filled = np.where(known, errors, 0.0)
    mean = filled.sum(axis=1) / counts
    deviation = np.sqrt((np.where(known, errors - mean[:, None], 0.0) ** 2).sum(axis=1) / counts)
    is_told = (deviation > 1e-12 * (1 + np.abs(mean))) & (known.sum(axis=1) > 2)
    typical = float(np.median(deviation[is_told])) if is_told.any() else 0.0
    level, spread = mean, np.where(is_told, deviation, typical)
    for _ in range(ROUNDS):
        if not spread.any():
            break
        donors = known & (spread > 0)[:, None]
        values = np.where(donors, (filled - level[:, None]) / np.where(spread > 0, spread, 1.0)[:, None], 0.0)
        profile = values.sum(axis=0) / np.maximum(donors.sum(axis=0), 1)
        profile[measured] -= profile[measured].mean()
        width = float(np.sqrt(np.mean(profile[measured] ** 2)))
        if not width > 0:
            break
        profile = np.where(measured, profile / width, 0.0)
        centre = (known * profile).sum(axis=1) / counts
        wide = np.sqrt((np.where(known, profile - centre[:, None], 0.0) ** 2).sum(axis=1) / counts)
        is_fit = is_told & (wide > 1e-9)
        ratio = deviation / np.where(is_fit, wide, 1.0)
        spread = np.where(is_fit, ratio, float(np.median(ratio[is_fit])) if is_fit.any() else typical)
        level = mean - spread * centre
    return level, spread


def _on_profile(errors: Matrix, level: Matrix, spread: Matrix) -> Matrix:
    """Put known cells on the scale of the profile, `m x c`; NaN = missing, or in a row without any spread.

    The mean of a column is drawn towards that of all by n / (n + variance within columns ÷ variance between their
    means): what few rows have measured is not believed to be as good, or bad, as it looks.
    """
    known = ~np.isnan(errors) & (spread > 0)[:, None]
    values = np.where(known, (np.nan_to_num(errors) - level[:, None]) / np.where(spread > 0, spread, 1.0)[:, None], 0.0)
    counts = known.sum(axis=0)
    means = values.sum(axis=0) / np.maximum(counts, 1)
    several = counts > 1
    trust = np.where(counts > 0, 0.5, 0.0)
    if several.any():
        within = np.where(known, values - means, 0.0)[:, several]
        variance = float((within**2).sum() / (counts[several] - 1).sum())
        between = float(np.var(means[several]) - variance * np.mean(1.0 / counts[several]))
        trust = counts / (counts + variance / max(between, 1e-3 * variance, 1e-300))
    scaled: Matrix = np.where(known, values - (1.0 - trust) * means, np.nan)
    return scaled


def _lent(values: Matrix, row: int) -> tuple[Matrix, Matrix]:
    """Take a row's cells from other rows, the most similar that have them first.

    Args:
        values: `m x c` of `_on_profile`.
        row: of the dataset with gaps.

    Returns: `s x c`, NaN where no other row has a cell; `s` shares with sum 1.
    """
    known = ~np.isnan(values)
    donors = np.flatnonzero(known.any(axis=1))
    donors = donors[donors != row]
    if not len(donors):
        return np.full((1, values.shape[1]), np.nan), np.ones(1)
    both = known[donors] & known[row]
    shared = both.sum(axis=1)
    gaps = np.where(both, np.abs(values[donors] - values[row]), 0.0).sum(axis=1)
    usual = gaps.sum() / max(int(shared.sum()), 1)
    unlike = np.round((gaps + FEW_CELLS * usual) / (shared + FEW_CELLS), 12)
    place = np.argsort(unlike, kind="stable")
    order, nearness = donors[place], 1.0 / np.maximum(unlike[place][:MOST], max(1e-3 * usual, 1e-9)) ** 2
    # At each place, the first at or after it that has the cell; after the last one, from the top again.
    none = len(order)
    places = np.where(known[order], np.arange(none)[:, None], none)
    found = np.minimum.accumulate(places[::-1], axis=0)[::-1]
    found = np.where(found == none, found[0], found)[:MOST]
    lent: Matrix = values[np.append(order, row)[found], np.arange(values.shape[1])]
    lent[found == none] = np.nan
    return lent, nearness / nearness.sum()
