"""Held-out evaluation: leave a group of sibling datasets out, ask the rest, measure what the answer was worth.

Two different questions, to be read together: does the distance of meta-features follow the target distance
(`rank_correlations`), and does it choose better first configurations (`regret_curves` against `shuffled_curves`,
the portfolio and random)? A better distance fit is not by itself a better warm start.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bo.designs import initial_designs
from bo.regret import Interval, paired_interval, random_curve, regret_curve
from bo.strategies import Dedupe
from bo.typicality import judge_typicality, nearest_other_group
from history_store.errors import DataError, UsageError

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fold:
    """One group held out.

    Attributes:
        group: the label held out.
        queries: rows of its datasets; `history`: rows of all others.
    """

    group: Hashable
    queries: NDArray[np.int64]
    history: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quality:
    """What distances are worth on held-out datasets; see `measure_quality`.

    Attributes:
        groups: `m` groups of siblings.
        times: numbers of evaluations at which regret is read.
        spearman: `m` rank correlations of a dataset's distances with its target distances; NaN = undefined.
        regret: strategy (`nearest`, `shuffled`, `portfolio`, `random`) to `m x len(times)` normalised regret.
    """

    groups: tuple[Hashable, ...]
    times: tuple[int, ...]
    spearman: Matrix
    regret: Mapping[str, Matrix]

    def regret_difference(self, first: str, second: str, time: int) -> Interval:
        """Estimate regret of one strategy less that of another after `time` evaluations, over groups."""
        column = self.times.index(time)
        return paired_interval(self.regret[first][:, column], self.regret[second][:, column], groups=self.groups)

    def spearman_difference(self, other: Matrix) -> Interval:
        """Estimate the rank correlation less that of other distances on the same datasets, over groups."""
        return paired_interval(self.spearman, other, groups=self.groups)


def leave_group_out(groups: Sequence[Hashable]) -> tuple[Fold, ...]:
    """Hold out each group of siblings in turn, in order of first appearance.

    Raises:
        DataError: when there are fewer than two groups.
    """
    labels = list(dict.fromkeys(groups))
    if len(labels) < 2:
        msg = f"leave_group_out: expected at least two groups, got {labels}. Add datasets from another source."
        raise DataError(msg)
    return tuple(
        Fold(
            label,
            np.array([row for row, group in enumerate(groups) if group == label], dtype=np.int64),
            np.array([row for row, group in enumerate(groups) if group != label], dtype=np.int64),
        )
        for label in labels
    )


def held_out_distances(embed: Callable[[Fold], ArrayLike], groups: Sequence[Hashable]) -> Matrix:
    """Compute Euclidean distances from each dataset to the others as they are when its group is held out.

    Args:
        embed: gives the `m x p` embeddings of all datasets by a model that never saw the fold's group.
        groups: `m` groups of siblings.

    Returns: `m x m`; row i from the model of i's own fold, so not symmetric; NaN within a group.

    Raises:
        DataError: when embeddings are not `m x p` finite numbers, or there are fewer than two groups.
    """
    m = len(groups)
    distances = np.full((m, m), np.nan)
    for fold in leave_group_out(groups):
        vectors = _embedded(embed, fold, m)
        distances[np.ix_(fold.queries, fold.history)] = _between(vectors[fold.queries], vectors[fold.history])
    return distances


def held_out_typical(embed: Callable[[Fold], ArrayLike], groups: Sequence[Hashable]) -> NDArray[np.bool_]:
    """Ask of each held-out dataset whether the rest of the history would call it typical.

    Arguments and refusals as in `held_out_distances`.

    Returns: `m` bool; see `bo.typicality.judge_typicality`.
    """
    typical = np.zeros(len(groups), dtype=np.bool_)
    for fold in leave_group_out(groups):
        vectors = _embedded(embed, fold, len(groups))
        history = vectors[fold.history]
        own = nearest_other_group(_between(history, history), [groups[row] for row in fold.history])
        nearest = _between(vectors[fold.queries], history).min(axis=1)
        typical[fold.queries] = [judge_typicality(float(distance), own).is_typical for distance in nearest]
    return typical


def rank_correlations(distances: ArrayLike, target: ArrayLike, groups: Sequence[Hashable]) -> Matrix:
    """Correlate each held-out dataset's distances with its target distances, by rank (Spearman).

    Args:
        distances: `m x m`; row i from dataset i as a query.
        target: `m x m` target distances.
        groups: `m` groups of siblings; a dataset is compared with other groups only.

    Returns: `m` in [-1, 1]; NaN where fewer than three others remain or all are equally far.
    """
    from scipy.stats import spearmanr

    given, wanted = np.asarray(distances, dtype=np.float64), np.asarray(target, dtype=np.float64)
    result = np.full(len(groups), np.nan)
    for fold, row in _queries(groups):
        a, b = given[row, fold.history], wanted[row, fold.history]
        if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            result[row] = spearmanr(a, b).statistic
    return result


def regret_curves(
    errors: ArrayLike,
    groups: Sequence[Hashable],
    t: int,
    *,
    strategy: str,
    distances: ArrayLike | None = None,
    dedupe: Dedupe = "next_best",
) -> Matrix:
    """Ask a strategy for t designs for each held-out dataset and compute their normalised regret.

    Args:
        errors: `m x c`, NaN = missing.
        groups: `m` groups of siblings.
        t: number of designs.
        strategy: a name in `bo.strategies.STRATEGIES`.
        distances: `m x m`, row i from dataset i as a query; None for strategies that need none.
        dedupe: as in `bo.designs.designs`.

    Returns: `m x t`; see `bo.regret.regret_curve`.
    """
    table = np.asarray(errors, dtype=np.float64)
    given = None if distances is None else np.asarray(distances, dtype=np.float64)
    curves = np.empty((len(table), t))
    for fold, row in _queries(groups):
        near = None if given is None else given[row, fold.history]
        rows = initial_designs(table[fold.history], near, t, strategy=strategy, dedupe=dedupe)
        curves[row] = regret_curve(table[row], rows)
    return curves


def shuffled_curves(
    errors: ArrayLike,
    groups: Sequence[Hashable],
    t: int,
    *,
    distances: ArrayLike,
    rng: np.random.Generator,
    repeats: int = 50,
) -> Matrix:
    """Do as `regret_curves` for `nearest` with the history's embeddings dealt out at random, averaged over repeats.

    What is left is what any few datasets' bests are worth; a useful distance does better.
    """
    given = np.asarray(distances, dtype=np.float64)
    total = np.zeros((len(given), t))
    for _ in range(repeats):
        dealt = given.copy()
        for fold in leave_group_out(groups):
            dealt[np.ix_(fold.queries, fold.history)] = given[np.ix_(fold.queries, rng.permutation(fold.history))]
        total += regret_curves(errors, groups, t, strategy="nearest", distances=dealt)
    return total / repeats


def measure_quality(
    errors: ArrayLike,
    target: ArrayLike,
    groups: Sequence[Hashable],
    *,
    distances: ArrayLike,
    rng: np.random.Generator,
    times: Sequence[int] = (1, 3, 5),
    repeats: int = 50,
) -> Quality:
    """Measure what distances are worth on held-out datasets, against shuffled ones, the portfolio and random.

    Args:
        errors: `m x c`, NaN = missing.
        target: `m x m` target distances.
        groups: `m` groups of siblings, each held out in turn.
        distances: `m x m`, row i from dataset i as a query, as `held_out_distances` gives them.
        rng: deals out the shuffled embeddings.
        times: numbers of evaluations at which to read regret, each in 1..c.
        repeats: of the shuffling.

    Raises:
        UsageError: when a time is not in 1..c.
    """
    table = np.asarray(errors, dtype=np.float64)
    if not times or not 1 <= min(times) <= max(times) <= table.shape[1]:
        msg = f"measure_quality: expected times in 1..{table.shape[1]}, the number of configurations, got {tuple(times)}. Read regret earlier."
        raise UsageError(msg)
    t, columns = max(times), np.asarray(times) - 1
    curves = {
        "nearest": regret_curves(table, groups, t, strategy="nearest", distances=distances),
        "shuffled": shuffled_curves(table, groups, t, distances=distances, rng=rng, repeats=repeats),
        "portfolio": regret_curves(table, groups, t, strategy="portfolio"),
        "random": np.array([random_curve(row, t) for row in table]),
    }
    return Quality(
        groups=tuple(groups),
        times=tuple(times),
        spearman=rank_correlations(distances, target, groups),
        regret={name: curve[:, columns] for name, curve in curves.items()},
    )


def _embedded(embed: Callable[[Fold], ArrayLike], fold: Fold, m: int) -> Matrix:
    """Check one fold's embeddings: `m x p` finite numbers."""
    vectors = np.asarray(embed(fold), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != m or not np.isfinite(vectors).all():
        msg = f"held-out embeddings of fold {fold.group!r}: expected {m} rows of finite numbers, got shape {vectors.shape}. Give one row a dataset."
        raise DataError(msg)
    return vectors


def _between(first: Matrix, second: Matrix) -> Matrix:
    """Compute Euclidean distances, `a x b` of `a x p` and `b x p`."""
    distances: Matrix = np.linalg.norm(first[:, None, :] - second[None, :, :], axis=2)
    return distances


def _queries(groups: Sequence[Hashable]) -> Iterator[tuple[Fold, int]]:
    """Go through the held-out datasets, each with its fold."""
    for fold in leave_group_out(groups):
        for row in fold.queries.tolist():
            yield fold, row
