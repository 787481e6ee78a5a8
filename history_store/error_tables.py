"""Target distance between datasets, and centre of errors (CCoV) of hyperparameters, from a table of errors.

Both follow [Kim2017warmstart]. Two datasets are alike when the same configurations have the same errors on them (Eq.
1). A hyperparameter's centre of errors says towards which end of its range they gather (Eq. 3).
"""

import hashlib
import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.history_store.errors import DataError, UsageError

TargetKind = Literal["mean_l1", "l1", "sqrt_l1", "normalised", "rank", "sqrt_normalised"]
_FEW = 256
_KINDS: tuple[TargetKind, ...] = get_args(TargetKind)


class UndefinedCCoVWarning(UserWarning):
    """Warning that a centre of errors is 0 / 0: no error anywhere, or a hyperparameter that never changes."""


def fill_failed(errors: ArrayLike, failed: ArrayLike) -> NDArray[np.float64]:
    """Replace failed runs by the error 1, so that datasets also differ by the configurations that fail.

    Args:
        errors: `m x n`, NaN = not run or failed.
        failed: `m x n` bool; a cell that has an error all the same (another seed went well) keeps it.

    Returns: `m x n` float64; only cells that were not run are NaN.

    Raises:
        UsageError: when the shapes differ.
    """
    table, mask = _error_table(errors, "fill_failed"), np.asarray(failed, dtype=bool)
    if mask.shape != table.shape:
        msg = f"fill_failed: expected a mask of shape {table.shape}, got {mask.shape}. Give one truth value a cell."
        raise UsageError(msg)
    return np.where(mask & np.isnan(table), 1.0, table)


class ErrorDistances:
    """Target distances of datasets, computed where they are asked for: `m` datasets have `m²` of them.

    Args:
        errors: `m x n` in [0, 1]; NaN = not run (see `fill_failed` for failures).
        kind: of the distance, see `target_distance`.

    Raises:
        UsageError: when the kind is unknown or the table is not two-dimensional.
        DataError: when there is no configuration.
    """

    def __init__(self, errors: ArrayLike, kind: TargetKind = "mean_l1") -> None:
        if kind not in _KINDS:
            msg = f"target_distance: expected kind {', '.join(_KINDS)}, got {kind!r}. Use 'mean_l1'."
            raise UsageError(msg)
        table = _error_table(errors, "target_distance")
        if table.shape[1] == 0:
            msg = "target_distance: expected at least one configuration, got none. Add evaluations to the history."
            raise DataError(msg)
        self.kind = kind
        self.is_measured = ~np.isnan(table)
        if kind in ("normalised", "sqrt_normalised"):
            table = min_max_normalised(table)
        elif kind == "rank":
            table = unit_ranks(table)
        self._values = np.where(self.is_measured, table, 0.0)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def n_configs(self) -> int:
        """Return n."""
        return int(self._values.shape[1])

    def n_common(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float32]:
        """Count the configurations that are measured on both of each two datasets: `len(a) x len(b)`."""
        counts: NDArray[np.float32] = self.is_measured[a].astype(np.float32) @ self.is_measured[b].T.astype(np.float32)
        return counts

    def has_target(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which pairs have a distance: two datasets with at least n / 2 configurations in common."""
        is_pair: NDArray[np.bool_] = (self.n_common(a, b) >= self.n_configs / 2) & (a[:, None] != b)
        return is_pair

    def alone(self) -> NDArray[np.int64]:
        """Return the datasets that are in no pair."""
        everyone = np.arange(len(self))
        few = everyone[:_FEW]
        blocks = [everyone[at : at + _FEW] for at in range(0, len(self), _FEW)]
        # Nearly all have a partner among the first ones.
        rare = np.concatenate([block[~self.has_target(block, few).any(axis=1)] for block in blocks])
        return np.array([row for row in rare if not self.has_target(everyone[row : row + 1], everyone).any()], np.int64)

    def between(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the distances of rows `a` from rows `b`: `len(a) x len(b)`, NaN where too few are in common."""
        both = self.is_measured[a][:, None] & self.is_measured[b]
        sums = np.sum(np.abs(self._values[a][:, None] - self._values[b]) * both, axis=2)
        shared = both.sum(axis=2)
        distances: NDArray[np.float64] = np.where(shared < self.n_configs / 2, np.nan, sums / np.maximum(shared, 1))
        distances[a[:, None] == b] = 0
        if self.kind in ("l1", "sqrt_l1"):
            distances *= self.n_configs
        return np.sqrt(distances) if self.kind in ("sqrt_l1", "sqrt_normalised") else distances

    def vectors(self) -> NDArray[np.float32]:
        """Return `m x n` values whose Euclidean distances order neighbours much alike; the mean fills what is missing."""
        n_measured = np.maximum(self.is_measured.sum(axis=0), 1)
        filled: NDArray[np.float32] = np.where(self.is_measured, self._values, self._values.sum(axis=0) / n_measured)
        return filled.astype(np.float32)

    def digest(self) -> bytes:
        """Return a digest of the kind and all values."""
        digest = hashlib.sha256(self.kind.encode())
        for part in (self.is_measured, self._values):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.digest()


def target_distance(
    errors: ArrayLike, kind: TargetKind = "mean_l1", *, names: Sequence[str] | None = None, partial: bool = False
) -> NDArray[np.float64]:
    """Compute the distance of each two datasets: how differently configurations do [Kim2017warmstart] Eq. 1.

    `l1` is the paper's sum of |J_i - J_j| over the n configurations; `mean_l1` is that sum / n, whose scale does
    not depend on n; `sqrt_l1` is √l1. All three rank neighbours alike. No Euclidean embedding reproduces `l1`
    in general (the corners of the unit square leave an RMS residual of 0.239); `sqrt_l1` always has an exact one.
    Those three call an easy and a hard dataset far apart even where the same configurations win. `normalised` is the
    mean difference of `min_max_normalised` errors, which forgets the level and the spread of a dataset's errors, and
    `sqrt_normalised` its root; `rank` is that of `unit_ranks`, which keeps their order alone.
    Pairs are compared over the configurations that both have: their mean difference stands for all n.

    Args:
        errors: `m x n` in [0, 1]; NaN = not run (see `fill_failed` for failures).
        kind: of the distance.
        names: `m` dataset names, for messages.
        partial: a pair with fewer than n / 2 configurations in common is NaN, not refused.

    Returns: `m x m` float64, symmetric, zero diagonal; with complete data a metric between what is compared; at most
        n (`l1`), √n (`sqrt_l1`), 1 (all others).

    Raises:
        UsageError: when the kind is unknown or the table is not two-dimensional.
        DataError: when there is no configuration, or a pair has fewer than n / 2 in common, unless `partial`.
    """
    target = ErrorDistances(errors, kind)
    rows = np.arange(len(target))
    common = target.n_common(rows, rows)
    few = np.argwhere(np.triu(common < target.n_configs / 2, k=1))
    if len(few) and not partial:
        i, j = (int(row) for row in few[0])
        pair = f"{names[i]!r} and {names[j]!r}" if names is not None else f"dataset rows {i} and {j}"
        msg = (
            f"target distance of {pair}: expected at least half of the {target.n_configs} configurations measured on both, "
            f"got {int(common[i, j])}. Measure more of them, or leave a dataset out."
        )
        raise DataError(msg)
    return np.concatenate([target.between(rows[i : i + 1], rows) for i in rows]) if len(rows) else np.zeros((0, 0))


def min_max_normalised(errors: ArrayLike) -> NDArray[np.float64]:
    """Scale each dataset's errors to [0, 1] by its lowest and highest known error; a constant row becomes 0.

    A positive affine map of a dataset's errors changes nothing.

    Args:
        errors: `m x n`; NaN = missing, stays so.

    Returns: `m x n` float64.
    """
    table = _error_table(errors, "min_max_normalised")
    low = np.fmin.reduce(table, axis=1, keepdims=True)
    width = np.fmax.reduce(table, axis=1, keepdims=True) - low
    scaled: NDArray[np.float64] = (table - low) / np.where(width > 0, width, 1.0)
    return scaled


def unit_ranks(errors: ArrayLike) -> NDArray[np.float64]:
    """Replace each dataset's known errors by their ranks scaled to [0, 1], 0 = the lowest; ties share their mean rank.

    A strictly increasing map of a dataset's errors changes nothing. A constant row, or one cell, becomes 0.5.

    Args:
        errors: `m x n`; NaN = missing, stays so.

    Returns: `m x n` float64.
    """
    table = _error_table(errors, "unit_ranks")
    ranks = np.full(table.shape, np.nan)
    for row, row_errors in zip(ranks, table, strict=True):
        is_known = ~np.isnan(row_errors)
        _, inverse, counts = np.unique(row_errors[is_known], return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts + 1) / 2
        row[is_known] = middle[inverse] / (is_known.sum() - 1) if is_known.sum() > 1 else 0.5
    return ranks


def least_error(errors: ArrayLike) -> float | None:
    """Return the lowest known error; None if there is none."""
    values = np.asarray(errors, dtype=np.float64)
    return None if np.isnan(values).all() else float(np.nanmin(values))


def ccov(configs: ArrayLike, errors: ArrayLike) -> NDArray[np.float64]:
    """Compute CCoV, the centre of the errors' mass along each hyperparameter [Kim2017warmstart] Eq. 3.

    θ_i^c = Σ_s θ̃_si J_s / Σ_s J_s with θ̃ scaled to [0, 1] over the n configurations. It is a centre of *errors*:
    a high value means that high values of the hyperparameter do badly. Errors that are all equal give the mean of
    θ̃_i, which is 0.5 for a symmetric grid but not for a random sample. Multiplying the errors changes nothing.

    Args:
        configs: `n x d` raw or unit values; NaN = inactive, left out of its own column.
        errors: `m x n`, ≥ 0; NaN = missing, left out of its own row.

    Returns: `m x d` in [0, 1]; NaN, with an `UndefinedCCoVWarning`, where a dataset's errors sum to 0 or a
        hyperparameter is constant.

    Raises:
        UsageError: when the shapes do not fit.
        DataError: when an error is negative.
    """
    table, values = _error_table(errors, "ccov"), np.asarray(configs, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != table.shape[1]:
        msg = f"ccov: expected `n x d` configurations for errors of shape {table.shape}, got shape {values.shape}. Give one row a column of errors."
        raise UsageError(msg)
    if np.any(table < 0):
        msg = f"ccov: expected errors of 0 or more, got {np.nanmin(table)}. A centre of mass needs weights ≥ 0."
        raise DataError(msg)
    active = np.isfinite(values)
    low = np.min(np.where(active, values, np.inf), axis=0, initial=np.inf)
    high = np.max(np.where(active, values, -np.inf), axis=0, initial=-np.inf)
    width = np.where(high > low, high - low, np.nan)
    scaled = np.where(active, (values - np.where(np.isfinite(low), low, 0.0)) / width, np.nan)
    mass = np.nan_to_num(table) @ active
    centre = np.full((table.shape[0], values.shape[1]), np.nan)
    np.divide(np.nan_to_num(table) @ np.where(active, scaled, 0.0), mass, out=centre, where=mass > 0)
    if np.isnan(centre).any():
        constant, empty = np.flatnonzero(np.isnan(width)).tolist(), np.flatnonzero(np.any(mass == 0, axis=1)).tolist()
        warnings.warn(
            f"ccov: NaN for constant hyperparameter columns {constant} and for dataset rows {empty} whose errors sum to 0.",
            UndefinedCCoVWarning,
            stacklevel=2,
        )
    return centre


def _error_table(errors: ArrayLike, location: str) -> NDArray[np.float64]:
    """Check a table of errors: `m x n`, finite or NaN."""
    table = np.asarray(errors, dtype=np.float64)
    if table.ndim != 2:
        msg = f"{location}: expected `m x n` errors (datasets x configurations), got shape {table.shape}. Give one row a dataset."
        raise UsageError(msg)
    if np.isinf(table).any():
        msg = f"{location}: expected errors that are numbers or NaN, got an infinite one. Record a run without an error as NaN."
        raise DataError(msg)
    return table


def ccov_by_chance(configs: ArrayLike, errors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute mean and standard deviation of CCoV for errors that do not depend on a hyperparameter.

    A centre of errors is Σ w_s θ̃_s with weights w = J / ΣJ [Kim2017warmstart] Eq. 3. Over all orders in which the same
    errors could have been dealt to the n configurations, its mean is that of θ̃ (0.5 for a symmetric grid alone) and
    its variance Σ(w - 1/n)² Σ(θ̃ - mean θ̃)² / (n - 1), exactly.

    Args:
        configs: `c x d` raw or unit values; NaN = inactive.
        errors: `m x c`, ≥ 0; NaN = missing. Both as `warmstart.history_store.error_tables.ccov` takes them.

    Returns: `m x d` means and `m x d` standard deviations (not variances); NaN where CCoV is not defined or fewer than
        two configurations are known.
    """
    table, values = np.asarray(errors, dtype=np.float64), np.asarray(configs, dtype=np.float64)
    means = np.full((table.shape[0], values.shape[1]), np.nan)
    stds = means.copy()
    for column, theta in enumerate(values.T):
        active = np.isfinite(theta)
        width = np.ptp(theta[active]) if active.any() else 0.0
        if width == 0:
            continue
        scaled = (theta - theta[active].min()) / width
        for row, losses in enumerate(table):
            cells = active & np.isfinite(losses)
            count, total = int(cells.sum()), losses[cells].sum()
            if count < 2 or total == 0:
                continue
            weights, places = losses[cells] / total, scaled[cells]
            means[row, column] = places.mean()
            stds[row, column] = np.sqrt(np.sum((weights - 1 / count) ** 2) * places.var() * count / (count - 1))
    return means, stds
