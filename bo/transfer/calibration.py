"""Calibration of distances and of expected regret.

The history is asked about its own datasets: how far can the distances be trusted, and how much regret is left?
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
from warmstart.bo.transfer.strategies.query import UNCALIBRATED, Query, Reach
from warmstart.bo.transfer.strategies.scenarios import Scenarios, make_scenarios
from warmstart.bo.transfer.strategies.sources import number_groups
from warmstart.history_store.errors import DataError, UsageError

REACHES = (0.3, 1.0, 3.0, 10.0, 30.0, math.inf)
LENGTH = 20
"""Designs for which a promise is calibrated; what comes later is promised no more than they are."""
SLOPE_SD = 0.5
"""How far the slope of a promise is thought to lie from 1: some tens of datasets alone say little about it."""
JUDGED = 5
"""A reach is judged by its mean regret over the first so many designs."""
CAUTION = 3
"""The mixture of reaches counts by this power of the confidence that it wins: half sure is not sure enough."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of one history and its distances.

    Attributes:
        shares: weight of each of `REACHES`, ≥ 0 with sum 1.
        intercepts: observed regret after 1, 2, ... designs where none is expected.
        slopes: factor of the expected regret on top of it, ≥ 0.
        groups: number of sibling groups that it is based on.
    """

    shares: tuple[float, ...]
    intercepts: tuple[float, ...]
    slopes: tuple[float, ...]
    groups: int

    @property
    def reach(self) -> Reach:
        """Return the reaches that have a share."""
        return tuple((reach, share) for reach, share in zip(REACHES, self.shares, strict=True) if share > 0)

    def promise(self, expected: ArrayLike) -> NDArray[np.float64]:
        """Return the regrets to expect, in [0, 1], from the uncorrected ones after 1, 2, ... designs."""
        given = np.asarray(expected, dtype=np.float64)[: len(self.slopes)]
        lines = np.array(self.intercepts)[: given.size] + np.array(self.slopes)[: given.size] * given
        promised = np.minimum.accumulate(np.clip(lines, 0.0, 1.0))
        longer: NDArray[np.float64] = np.pad(promised, (0, np.size(expected) - given.size), mode="edge")
        return longer

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
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
            DataError: when it is not what `to_dict` gives.
        """
        try:
            found = cls(
                tuple(float(share) for share in fields["shares"]),
                tuple(float(value) for value in fields["intercepts"]),
                tuple(float(value) for value in fields["slopes"]),
                int(fields["groups"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = f"calibration: expected shares, intercepts, slopes and groups, got {dict(fields)}. Calibrate the history again."
            raise DataError(msg) from error
        if len(found.shares) != len(REACHES) or not 0 < len(found.slopes) == len(found.intercepts):
            msg = f"calibration: expected {len(REACHES)} shares and as many slopes as intercepts, got {dict(fields)}. Calibrate the history again."
            raise DataError(msg)
        return found


def can_calibrate(errors: NDArray[np.float64], groups: Sequence[str]) -> bool:
    """Tell whether there are three groups, and a configuration that two of them measured: what `calibrate` needs of `m x c` errors."""
    codes = number_groups(groups)
    known = np.array([~np.isnan(errors[codes == code]).all(axis=0) for code in set(codes.tolist())])
    return len(known) >= 3 and bool((known.sum(axis=0) >= 2).any())


def calibrate(errors: ArrayLike, distances: ArrayLike, groups: Sequence[Hashable]) -> Calibration:
    """Compute the calibration: the history answers each of its datasets without that dataset's group.

    Only configurations that were measured on a dataset can be chosen for it.

    Reaches are compared by the mean regret over the first designs. A reach that is z standard errors (over groups)
    behind the best has a share proportional to exp(-z²/2). So good distances give weight to the nearest datasets,
    misleading ones give nearly the portfolio, and chance makes no sharp choice. A few tens of groups can still mislead.
    So each group is also answered by the reach that is best on all others. The shares count by the third power of the
    confidence (Student's t over groups, from 0 for even odds to 1) that this beats the uncalibrated reach
    (`UNCALIBRATED`), which keeps the rest of the weight.

    Args:
        errors: `m x c`, NaN = missing.
        distances: `m x m` ≥ 0, row i from dataset i as a query, by a model that never saw i's group; otherwise the
            expected regret is too low. Entries within a group are not read.
        groups: `m` groups of siblings.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when there are fewer than three groups, none that measured what another did, or a distance between groups is
            no finite number ≥ 0.
    """
    table, matrix = np.asarray(errors, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    codes = number_groups(groups)
    if table.ndim != 2 or matrix.shape != (len(table), len(table)) or len(codes) != len(table):
        msg = f"calibrate: expected `m x c` errors, `m x m` distances and m groups, got shapes {table.shape}, {matrix.shape} and {len(codes)} groups. Give one row a dataset."
        raise UsageError(msg)
    others = codes[:, None] != codes[None, :]
    if len(set(codes.tolist())) < 3:
        msg = f"calibrate: expected at least three groups of datasets, got {len(set(codes.tolist()))}. Collect more sources."
        raise DataError(msg)
    if not np.all(np.isfinite(matrix[others]) & (matrix[others] >= 0)):
        msg = "calibrate: expected finite distances of 0 or more between groups, got others. Leave datasets without an embedding out."
        raise DataError(msg)
    length = min(LENGTH, table.shape[1])
    asked = [case for row in range(len(table)) if (case := _case(table, matrix, codes, row, length)) is not None]
    if not asked:
        msg = "calibrate: expected a dataset whose configurations another group measured too, got none. Measure shared configurations."
        raise DataError(msg)
    rows = [case.row for case in asked]
    seen = np.array([[_pair(case, ((reach, 1.0),), length)[1] for reach in REACHES] for case in asked])
    shares = _shares(seen[:, :, :JUDGED].mean(axis=2), codes[rows])
    found = Calibration(tuple(shares.tolist()), (0.0,) * length, (1.0,) * length, len(set(codes[rows].tolist())))
    # Expected and seen under the weights that will be used.
    pairs = [_pair(case, found.reach, length) for case in asked]
    expected, came = (_group_means(np.array(part), codes[rows]) for part in zip(*pairs, strict=True))
    intercepts, slopes = _lines(expected, came)
    return replace(found, intercepts=tuple(intercepts.tolist()), slopes=tuple(slopes.tolist()))


def _lines(expected: NDArray[np.float64], came: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a line to what came for each number of designs: intercepts and slopes over groups, slopes drawn towards 1.

    The best of several noisy promises is never as good as it looks; after many designs nothing is expected any more,
    and the intercept alone speaks.
    """
    x, y = expected - expected.mean(axis=0), came - came.mean(axis=0)
    doubt = ((y - x) ** 2).mean(axis=0) / SLOPE_SD**2
    weight = (x**2).sum(axis=0) + doubt
    slopes = np.maximum(((x * y).sum(axis=0) + doubt) / np.where(weight > 0, weight, np.inf), 0.0)
    return came.mean(axis=0) - slopes * expected.mean(axis=0), slopes


@dataclass(frozen=True, slots=True)
class _Case:
    """A dataset that asks the others: its row, its measured errors, its query, what the others' gaps may be."""

    row: int
    errors: NDArray[np.float64]
    query: Query
    scenarios: Scenarios


def _case(
    table: NDArray[np.float64], matrix: NDArray[np.float64], codes: NDArray[np.int64], row: int, length: int
) -> _Case | None:
    """Let a dataset ask about what was measured on it, its group left out; None where no other has measured any of it."""
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
    """Return the expected and the seen regret curve of one dataset; a short one keeps its last value."""
    query = replace(case.query, reach=reach)
    rows = portfolio_rows(query.errors, query.k, weights=query_weights(query), scenarios=case.scenarios)
    pad = length - len(rows)
    expected, seen = expected_regrets(query, rows, scenarios=case.scenarios), regret_curve(case.errors, rows)
    return np.pad(expected, (0, pad), mode="edge"), np.pad(seen, (0, pad), mode="edge")


def _shares(losses: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weigh reaches by how far their loss lies behind the best one's, as far as groups left out confirm it; see `calibrate`.

    Args:
        losses: `n x len(REACHES)` of the datasets that asked.
        codes: `n` numbers of their groups.

    Returns: `len(REACHES)` ≥ 0 with sum 1.
    """
    units = _group_means(losses, codes)
    n = len(units)
    plain = REACHES.index(UNCALIBRATED[0][0])
    shares: NDArray[np.float64] = np.eye(len(REACHES))[plain]
    chosen = (units.sum(axis=0) - units).argmin(axis=1)
    weight = _confidence(units[:, plain] - units[np.arange(n), chosen]) ** CAUTION
    if not weight:
        return shares
    behind = units - units[:, [int(units.mean(axis=0).argmin())]]
    error = behind.std(axis=0, ddof=1) / math.sqrt(n)
    z = behind.mean(axis=0) / np.maximum(error, 1e-12)
    likely = np.exp(-0.5 * z**2)
    mixed: NDArray[np.float64] = weight * likely / likely.sum() + (1.0 - weight) * shares
    return mixed


def _confidence(wins: NDArray[np.float64]) -> float:
    """Return the confidence that the mean of what groups win is above 0: from 0 (even odds, or worse) to 1."""
    from scipy.stats import t as student

    if len(wins) < 2 or not wins.mean() > 0:
        return 0.0
    error = float(wins.std(ddof=1)) / math.sqrt(len(wins))
    return 1.0 if error == 0 else float(2.0 * student.cdf(wins.mean() / error, len(wins) - 1) - 1.0)


def _group_means(values: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average rows by group."""
    return np.array([values[codes == code].mean(axis=0) for code in np.unique(codes)])
