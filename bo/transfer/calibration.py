"""Calibration of distances and of expected regret.

Each dataset of the history is a query to the rest: the results measure how reliable distances are, and the regret left.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.regret import regret_curve
from warmstart.bo.transfer.strategies.joint import expected_regrets, query_weights
from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.bo.transfer.strategies.query import UNCALIBRATED, Query, Reach, number_groups
from warmstart.bo.transfer.strategies.scenarios import Scenarios, make_scenarios
from warmstart.history_store.errors import DataError, UsageError

REACHES = (0.3, 1.0, 3.0, 10.0, 30.0, math.inf)
LENGTH = 20
"""Designs with a calibrated promise; later ones repeat the last."""
SLOPE_SD = 0.5
"""Prior standard deviation of the slope of a promise around 1: some tens of datasets determine it badly."""
JUDGED = 5
"""First designs whose mean regret compares reaches."""
CAUTION = 3
"""Power of the confidence that the mixture of reaches wins, by which it counts: half sure is not enough."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of one history and its distances.

    Attributes:
        shares: weight of each of `REACHES`, ≥ 0 with sum 1.
        intercepts: observed regret after 1, 2, ... designs at an expected regret of 0.
        slopes: factor of the expected regret, ≥ 0.
        groups: number of sibling groups behind it.
    """

    shares: tuple[float, ...]
    intercepts: tuple[float, ...]
    slopes: tuple[float, ...]
    groups: int

    @property
    def reach(self) -> Reach:
        """Return the reaches with a share above 0."""
        return tuple((reach, share) for reach, share in zip(REACHES, self.shares, strict=True) if share > 0)

    def promise(self, expected: ArrayLike) -> NDArray[np.float64]:
        """Correct expected regrets after 1, 2, ... designs: results in [0, 1], never increasing."""
        uncorrected = np.asarray(expected, dtype=np.float64)[: len(self.slopes)]
        lines = np.array(self.intercepts)[: uncorrected.size] + np.array(self.slopes)[: uncorrected.size] * uncorrected
        promised = np.minimum.accumulate(np.clip(lines, 0.0, 1.0))
        longer: NDArray[np.float64] = np.pad(promised, (0, np.size(expected) - uncorrected.size), mode="edge")
        return longer

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return {
            "shares": list(self.shares),
            "intercepts": list(self.intercepts),
            "slopes": list(self.slopes),
            "groups": self.groups,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Calibration":
        """Read a record of `to_dict`.

        Raises:
            DataError: when the record is damaged.
        """
        try:
            calibration = cls(
                tuple(float(share) for share in fields["shares"]),
                tuple(float(value) for value in fields["intercepts"]),
                tuple(float(value) for value in fields["slopes"]),
                int(fields["groups"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = f"calibration: expected shares, intercepts, slopes and groups, got {dict(fields)}. Calibrate the history again."
            raise DataError(msg) from error
        if len(calibration.shares) != len(REACHES) or not 0 < len(calibration.slopes) == len(calibration.intercepts):
            msg = f"calibration: expected {len(REACHES)} shares and as many slopes as intercepts, got {dict(fields)}. Calibrate the history again."
            raise DataError(msg)
        return calibration


def can_calibrate(errors: NDArray[np.float64], groups: Sequence[str]) -> bool:
    """Tell whether `m x c` errors suffice for `calibrate`: three groups, two of them with a common configuration."""
    codes = number_groups(groups)
    measured = np.array([~np.isnan(errors[codes == code]).all(axis=0) for code in set(codes.tolist())])
    return len(measured) >= 3 and bool((measured.sum(axis=0) >= 2).any())


def calibrate(errors: ArrayLike, distances: ArrayLike, groups: Sequence[Hashable]) -> Calibration:
    """Calibrate distances and expected regret: each dataset is a query to the history without its group.

    Only measured configurations of a dataset can be chosen for it.

    Reaches are compared by the mean regret over the first designs. A reach that is z standard errors (over groups)
    behind the best has a share proportional to exp(-z²/2). So good distances give weight to the nearest datasets,
    misleading ones give nearly the portfolio, and chance makes no sharp choice. A few tens of groups can still mislead.
    So each group is also answered by the reach that is best on all other groups. The shares count by the third power of
    the confidence (Student's t over groups, from 0 for even odds to 1) that this beats the uncalibrated reach
    (`UNCALIBRATED`), which keeps the rest of the weight.

    Args:
        errors: `m x c`, NaN = missing.
        distances: `m x m` ≥ 0, row i from dataset i as a query, by a model trained without i's group; otherwise the
            expected regret is too low. Entries within a group are not read.
        groups: `m` groups of siblings.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when there are fewer than three groups, no configuration that two groups measured, or a distance
            between groups that is no finite number ≥ 0.
    """
    table, matrix = np.asarray(errors, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    codes = number_groups(groups)
    if table.ndim != 2 or matrix.shape != (len(table), len(table)) or len(codes) != len(table):
        msg = f"calibrate: expected `m x c` errors, `m x m` distances and m groups, got shapes {table.shape}, {matrix.shape} and {len(codes)} groups. Give one row a dataset."
        raise UsageError(msg)
    is_between = codes[:, None] != codes[None, :]
    if len(set(codes.tolist())) < 3:
        msg = f"calibrate: expected at least three groups of datasets, got {len(set(codes.tolist()))}. Collect more sources."
        raise DataError(msg)
    if not np.all(np.isfinite(matrix[is_between]) & (matrix[is_between] >= 0)):
        msg = "calibrate: expected finite distances of 0 or more between groups, got NaN, inf or negative ones. Leave datasets without an embedding out."
        raise DataError(msg)
    length = min(LENGTH, table.shape[1])
    cases = [case for row in range(len(table)) if (case := _case(table, matrix, codes, row, length)) is not None]
    if not cases:
        msg = "calibrate: expected a dataset whose configurations another group measured too, got none. Measure shared configurations."
        raise DataError(msg)
    rows = [case.row for case in cases]
    regrets = np.array([[_pair(case, ((reach, 1.0),), length)[1] for reach in REACHES] for case in cases])
    shares = _shares(regrets[:, :, :JUDGED].mean(axis=2), codes[rows])
    uncorrected = Calibration(tuple(shares.tolist()), (0.0,) * length, (1.0,) * length, len(set(codes[rows].tolist())))
    # Expected and observed regrets under the weights that queries will use.
    pairs = [_pair(case, uncorrected.reach, length) for case in cases]
    expected, observed = (_group_means(np.array(part), codes[rows]) for part in zip(*pairs, strict=True))
    intercepts, slopes = _lines(expected, observed)
    return replace(uncorrected, intercepts=tuple(intercepts.tolist()), slopes=tuple(slopes.tolist()))


def _lines(
    expected: NDArray[np.float64], observed: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a line of observed to expected regrets for each number of designs: intercepts, and slopes shrunk towards 1.

    The best of several noisy promises is never as good as it looks. After many designs the expected regret is 0, and
    only the intercept is left.
    """
    x, y = expected - expected.mean(axis=0), observed - observed.mean(axis=0)
    doubt = ((y - x) ** 2).mean(axis=0) / SLOPE_SD**2
    weight = (x**2).sum(axis=0) + doubt
    slopes = np.maximum(((x * y).sum(axis=0) + doubt) / np.where(weight > 0, weight, np.inf), 0.0)
    return observed.mean(axis=0) - slopes * expected.mean(axis=0), slopes


@dataclass(frozen=True, slots=True)
class _Case:
    """Dataset as a query: its row, its measured errors, the query, and scenarios of the other datasets."""

    row: int
    errors: NDArray[np.float64]
    query: Query
    scenarios: Scenarios


def _case(
    table: NDArray[np.float64], matrix: NDArray[np.float64], codes: NDArray[np.int64], row: int, length: int
) -> _Case | None:
    """Build the query of a dataset over its measured configurations, without its group; None if no other has them."""
    measured = ~np.isnan(table[row])
    rest = (codes != codes[row]) & ~np.isnan(table[:, measured]).all(axis=1)
    if not rest.any():
        return None
    errors = table[np.ix_(rest, measured)]
    k = min(length, int(measured.sum()))
    return _Case(
        row, table[row, measured], Query(errors, matrix[row, rest], k, groups=codes[rest]), make_scenarios(errors)
    )


def _pair(case: _Case, reach: Reach, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected and the observed regret curve of one dataset; a short curve repeats its last value."""
    query = replace(case.query, reach=reach)
    rows = portfolio_rows(query.errors, query.k, weights=query_weights(query), scenarios=case.scenarios)
    pad = length - len(rows)
    expected, observed = expected_regrets(query, rows, scenarios=case.scenarios), regret_curve(case.errors, rows)
    return np.pad(expected, (0, pad), mode="edge"), np.pad(observed, (0, pad), mode="edge")


def _shares(losses: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the shares of reaches from their losses, shrunk by leave-one-group-out confidence; see `calibrate`.

    Args:
        losses: `n x len(REACHES)` of the queries.
        codes: `n` numbers of their groups.

    Returns: `len(REACHES)` ≥ 0 with sum 1.
    """
    units = _group_means(losses, codes)
    n = len(units)
    uncalibrated = REACHES.index(UNCALIBRATED[0][0])
    shares: NDArray[np.float64] = np.eye(len(REACHES))[uncalibrated]
    # For each group, the reach that is best on all others.
    best_elsewhere = (units.sum(axis=0) - units).argmin(axis=1)
    weight = _confidence(units[:, uncalibrated] - units[np.arange(n), best_elsewhere]) ** CAUTION
    if not weight:
        return shares
    excess = units - units[:, [int(units.mean(axis=0).argmin())]]
    error = excess.std(axis=0, ddof=1) / math.sqrt(n)
    z = excess.mean(axis=0) / np.maximum(error, 1e-12)
    likely = np.exp(-0.5 * z**2)
    mixed: NDArray[np.float64] = weight * likely / likely.sum() + (1.0 - weight) * shares
    return mixed


def _confidence(wins: NDArray[np.float64]) -> float:
    """Return the confidence that the mean gain of groups is above 0: from 0 (even odds, or worse) to 1."""
    from scipy.stats import t as student

    if len(wins) < 2 or not wins.mean() > 0:
        return 0.0
    error = float(wins.std(ddof=1)) / math.sqrt(len(wins))
    return 1.0 if error == 0 else float(2.0 * student.cdf(wins.mean() / error, len(wins) - 1) - 1.0)


def _group_means(values: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average rows by group."""
    return np.array([values[codes == code].mean(axis=0) for code in np.unique(codes)])
