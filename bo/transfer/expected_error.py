"""Forecast of errors on a new dataset before any training, of each shared configuration and of the best of them.

It averages two ridge regressions on features of datasets, one on all, one on a few. Their penalties and residuals come
from leaving each group of datasets out. The regressions predict square roots of errors, for which 2 % and 40 % vary on
similar scales. An unknown feature (NaN) counts as the mean. An interval is the prediction plus quantiles of the
residuals, so it holds for any shape. Small datasets are harder to predict: with known sizes, residuals of datasets of
similar size count more. With fewer validation images than in the history, the interval grows by their sampling
variance. Evaluations update the other predictions through the covariance of residuals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.8
"""Probability that the truth lies in the interval."""
LEAST_GROUPS = 12
"""Least number of groups of datasets for a forecast: quantiles of fewer residuals are unreliable."""
_PENALTIES = np.logspace(-1, 4, 26)
_ALONE = 0.2
"""Share of a residual's variance that is specific to its configuration."""


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error in [0, 1] and the interval in which the truth lies with probability `level`."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def to_dict(self) -> dict[str, float]:
        """Return the fields, rounded."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class DatasetExpectation:
    """Forecast for one dataset, of square roots of errors of `c` configurations and of the best, the last entry.

    Attributes:
        mean: `c + 1` expected square roots.
        low: `c + 1`, lower end of the interval less the mean, ≤ 0.
        high: `c + 1`, upper end less the mean, ≥ 0.
        covariance: `(c + 1) x (c + 1)` of the residuals.
    """

    mean: Floats
    low: Floats
    high: Floats
    covariance: Floats

    @property
    def n_configs(self) -> int:
        """Return the number of configurations, c."""
        return len(self.mean) - 1

    def errors(
        self, measured: Mapping[int, float] | None = None, *, others: Sequence[float] = ()
    ) -> list[ExpectedError]:
        """Return the expected errors, updated by measured ones.

        Args:
            measured: measured errors in [0, 1], by the index of the configuration.
            others: measured errors of further configurations, which bound the best.

        Returns: `c + 1` expectations: of each configuration, then of the best of a search over all.
        """
        measured = measured or {}
        mean, low, high = self.mean, self.low, self.high
        if measured:
            mean, shrunk = self._sharpened(measured)
            low, high = low * shrunk, high * shrunk
        value, below, above = (np.square(np.clip(part, 0.0, 1.0)) for part in (mean, mean + low, mean + high))
        best_measured = min([*measured.values(), *others], default=1.0)
        for part in (value, below, above):  # a measured error bounds the best
            part[-1] = min(float(part[-1]), best_measured)
        for column, error in measured.items():  # a measured error replaces its forecast
            value[column] = below[column] = above[column] = error
        for part in (value, below, above):  # no configuration beats the best, whose forecast is more certain
            free = [column for column in range(len(part) - 1) if column not in measured]
            part[free] = np.maximum(part[free], part[-1])
        return [ExpectedError(*map(float, ends)) for ends in zip(value, below, above, strict=True)]

    def of(self, columns: Sequence[int]) -> "DatasetExpectation":
        """Return the forecast for a subset of configurations, and of the best of all."""
        entries = [*columns, self.n_configs]
        return DatasetExpectation(
            self.mean[entries], self.low[entries], self.high[entries], self.covariance[np.ix_(entries, entries)]
        )

    def wider(self, factor: float) -> "DatasetExpectation":
        """Return the forecast with intervals `factor` times as wide."""
        return replace(self, low=self.low * factor, high=self.high * factor, covariance=self.covariance * factor**2)

    def to_dict(self) -> dict[str, list[float]]:
        """Return the fields in JSON types, rounded; of the covariance the lower triangle."""
        lower = self.covariance[np.tril_indices(len(self.mean))]
        parts = {"mean": self.mean, "low": self.low, "high": self.high, "covariance": lower}
        return {name: [float(f"{value:.6g}") for value in part] for name, part in parts.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Sequence[float]]) -> Self:
        """Read a record of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: when the record is damaged.
        """
        mean, low, high, lower = (
            np.asarray(record[name], np.float64) for name in ("mean", "low", "high", "covariance")
        )
        covariance = np.zeros((len(mean), len(mean)))
        covariance[np.tril_indices(len(mean))] = lower
        return cls(mean, low, high, covariance + np.tril(covariance, -1).T)

    def _sharpened(self, measured: Mapping[int, float]) -> tuple[Floats, Floats]:
        """Condition on measured errors: the new mean, and the factors by which intervals shrink."""
        columns = np.array(list(measured))
        variances = np.diag(self.covariance) + 1e-9
        covariance = self.covariance * (1 - _ALONE)
        covariance[np.diag_indices_from(covariance)] = variances
        deviations = np.sqrt(np.array([measured[column] for column in columns.tolist()])) - self.mean[columns]
        gain = np.linalg.solve(covariance[np.ix_(columns, columns)], covariance[columns])
        left = variances - np.einsum("kc,kc->c", gain, covariance[columns])
        return self.mean + deviations @ gain, np.sqrt(np.clip(left / variances, 0.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorForecaster:
    """Fitted forecaster of the errors of `c` configurations and of the best of them, the last column.

    Attributes:
        models: the regressions on wide and on narrow features.
        residuals: `m x (c + 1)`, square roots of errors less predictions without the dataset's group; NaN = not
            measured.
        sampling: mean of 1 / validation images over the datasets; None = unknown.
        sizes: `m` training images; None = residuals of all sizes count alike.
    """

    models: "tuple[_Ridge, _Ridge]"
    residuals: Floats
    sampling: float | None = None
    sizes: Floats | None = None

    def expect(
        self, wide: Floats, narrow: Floats, *, n_val: int | None = None, size: float | None = None
    ) -> DatasetExpectation:
        """Return the forecast for one dataset.

        Args:
            wide: `p` features, as in `fit_forecaster`.
            narrow: `q` of them.
            n_val: validation images; None = about as many as in the history.
            size: training images; used if the forecaster has the sizes of its datasets.
        """
        mean = np.mean([model.predict(x) for model, x in zip(self.models, (wide, narrow), strict=True)], axis=0)
        shift, low, high = self._missed(size)
        mean = mean + shift
        if n_val and self.sampling is not None:
            # The variance of an error e of n images is e (1 - e) / n, that of its square root a quarter of (1 - e) / n.
            more = max(0.0, 1 / n_val - self.sampling) * (1 - np.square(np.clip(mean, 0.0, 1.0))) / 4
            reach = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2 * more
            low, high = -np.sqrt(low**2 + reach), np.sqrt(high**2 + reach)
        measured = (~np.isnan(self.residuals)).sum(axis=0)  # a missing residual is not 0
        scaled = np.nan_to_num(self.residuals) / np.sqrt(np.maximum(measured, 1))
        return DatasetExpectation(mean, low, high, scaled.T @ scaled)

    def predict(
        self, wide: Floats, narrow: Floats, *, measured: Mapping[int, float] | None = None
    ) -> list[ExpectedError]:
        """Predict the errors of one dataset, by `expect` and `DatasetExpectation.errors`."""
        return self.expect(wide, narrow).errors(measured)

    def _missed(self, size: float | None) -> tuple[Floats, Floats, Floats]:
        """Return the mean residual at a size, and the ends of the interval around it: `c + 1` square roots each.

        The mean is 0 without sizes. The ends are quantiles of the residuals, corrected for their number, and clipped to
        contain 0: nearly all residuals may have one sign.
        """
        residuals = self.residuals
        shift, weights = np.zeros(residuals.shape[1]), np.ones(len(residuals))
        if size is not None and self.sizes is not None:  # a dataset half or twice as large counts half
            weights = np.minimum(size / self.sizes, self.sizes / size)
            shift = np.ma.filled(np.ma.average(np.ma.masked_invalid(residuals), axis=0, weights=weights), 0.0)
            residuals = residuals - shift
        low, high = _tails(residuals, weights)
        return shift, np.minimum(low, 0.0), np.maximum(high, 0.0)


def fit_forecaster(
    wide: Floats,
    narrow: Floats,
    errors: Floats,
    groups: Sequence[object],
    *,
    n_val: Sequence[int] = (),
    sizes: Floats | None = None,
    best: Floats | None = None,
) -> ErrorForecaster | None:
    """Fit a forecaster of errors to features of datasets.

    Args:
        wide: `m x p` features of datasets, known before any training; NaN = unknown.
        narrow: `m x q`, the few most informative ones, such as errors of simple classifiers.
        errors: `m x c` in [0, 1], NaN = not measured; every row has one.
        groups: `m`; residuals are of predictions without the dataset's group.
        n_val: `m` numbers of validation images, 0 = unknown; or none.
        sizes: `m` numbers of training images, for intervals by size; None = the same intervals for all.
        best: `m` errors that a search came to; None, or NaN = the least of the configurations'.

    Returns: the forecaster; None for fewer than `LEAST_GROUPS` groups.
    """
    if len(set(groups)) < LEAST_GROUPS:
        return None
    least = np.nanmin(errors, axis=1)
    with_best = np.column_stack([errors, least if best is None else np.where(np.isnan(best), least, best)])
    targets = completed(np.sqrt(with_best))
    parts = [np.array(rows) for rows in _members(groups)]
    first, left_out = _Ridge.fit(wide, targets, parts)
    second, also_left_out = _Ridge.fit(narrow, _logit(targets), parts, is_logit=True)
    residuals = np.sqrt(with_best) - (left_out + also_left_out) / 2
    counts = [n for n in n_val if n]
    sampling = float(np.mean([1 / n for n in counts])) if counts else None
    return ErrorForecaster((first, second), residuals, sampling, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Ridge:
    """Ridge regression of several targets on standardised features."""

    centre: Floats
    scale: Floats
    weights: Floats
    offset: Floats
    is_logit: bool = False

    @classmethod
    def fit(
        cls, features: Floats, targets: Floats, parts: Sequence[NDArray[np.int64]], *, is_logit: bool = False
    ) -> "tuple[_Ridge, Floats]":
        """Fit with the penalty that predicts left-out parts best.

        Returns: the regression, and its predictions of square roots `m x targets` for left-out parts, by the block
            form of the leave-one-out identity.
        """
        centre = np.ma.filled(np.ma.masked_invalid(features).mean(axis=0), 0.0)
        features = np.where(np.isnan(features), centre, features)
        spread = features.std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        offset = targets.mean(axis=0)
        left, values, right = np.linalg.svd((features - centre) / scale, full_matrices=False)
        rotated = left.T @ (targets - offset)
        by_size: dict[int, list[NDArray[np.int64]]] = {}
        for part in parts:
            by_size.setdefault(len(part), []).append(part)
        alike = [np.stack(same_size) for same_size in by_size.values()]  # parts of one size are solved in one batch
        best, chosen, residuals = np.inf, _PENALTIES[-1], targets
        for penalty in _PENALTIES:
            hat = (left * (values**2 / (values**2 + penalty))) @ left.T + 1 / len(targets)
            wrong = targets - hat @ targets
            for rows in alike:
                left_in = np.eye(rows.shape[1]) - hat[rows[:, :, None], rows[:, None]]
                wrong[rows] = np.linalg.solve(left_in, wrong[rows])
            if (loss := float(np.square(wrong).sum())) < best:
                best, chosen, residuals = loss, penalty, wrong
        weights = right.T @ ((values / (values**2 + chosen))[:, None] * rotated)
        regression = cls(centre, scale, weights, offset, is_logit)
        return regression, regression.roots(targets - residuals)

    def roots(self, values: Floats) -> Floats:
        """Convert outputs of the regression to square roots of errors."""
        return np.sqrt(1 / (1 + np.exp(-values))) if self.is_logit else values

    def predict(self, features: Floats) -> Floats:
        """Predict square roots of errors, `... x targets`."""
        deviations = np.nan_to_num((features - self.centre) / self.scale)
        return self.roots(deviations @ self.weights + self.offset)


def _tails(residuals: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the quantiles around `LEVEL` of the weighted residuals of each column, corrected for their number.

    Args:
        residuals: `m x c`, NaN = not measured; a column without any gets -1 to 1.
        weights: `m`, > 0.
    """
    order = np.argsort(residuals, axis=0, kind="stable")  # NaN last
    values = np.take_along_axis(residuals, order, axis=0)
    worth = np.where(np.isnan(values), 0.0, weights[order])
    measured = (~np.isnan(values)).sum(axis=0)
    middles = np.cumsum(worth, axis=0) - worth / 2
    low, high = np.full(len(measured), -1.0), np.ones(len(measured))
    for column, count in enumerate(measured):
        if not count:
            continue
        column_weights, middle, column_values = worth[:count, column], middles[:count, column], values[:count, column]
        n = (
            column_weights.sum() ** 2 / np.square(column_weights).sum()
        )  # effective number; with equal weights, quantiles are numpy's
        tail = (1 - LEVEL) / 2 * (n - 1) / n
        places = (middle - middle[0]) / (middle[-1] - middle[0]) if count > 1 else np.zeros(1)
        low[column], high[column] = np.interp((tail, 1 - tail), places, column_values)
    return low, high


def _logit(roots: Floats) -> Floats:
    """Compute the logits of errors from their square roots."""
    errors = np.clip(np.square(roots), 0.003, 0.997)
    logits: Floats = np.log(errors / (1 - errors))
    return logits


def completed(values: Floats) -> Floats:
    """Fill missing values by the sum of row effect and column effect."""
    missing = np.isnan(values)
    if not missing.any():
        return values
    rows, columns = np.zeros((len(values), 1)), np.zeros((1, values.shape[1]))
    measured = ~missing
    filled = np.nan_to_num(values)
    for _ in range(30):
        columns = (np.where(measured, filled - rows, 0).sum(axis=0) / np.maximum(measured.sum(axis=0), 1))[None]
        columns[:, ~measured.any(axis=0)] = columns[:, measured.any(axis=0)].mean()
        rows = (np.where(measured, filled - columns, 0).sum(axis=1) / np.maximum(measured.sum(axis=1), 1))[:, None]
    return np.where(missing, np.clip(rows + columns, 0.0, 1.0), values)


def _members(groups: Sequence[object]) -> list[list[int]]:
    """Return the rows of each group."""
    order = sorted(range(len(groups)), key=lambda row: (str(groups[row]), row))
    return [list(rows) for _, rows in groupby(order, key=lambda row: str(groups[row]))]
