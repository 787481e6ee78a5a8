"""What error to expect on a new dataset, before any training: of each shared configuration, and of the best of them.

Two ridge regressions on what is known of datasets before training are averaged: one on all features, one on a few. Their penalties, and
how far they are off, are found by leaving each group of datasets out. Errors are square roots inside: what doubles an error of 2 % moves one of
40 % by little. An interval is the prediction plus the quantiles of those residuals, so it holds whatever their shape. Small datasets are harder to
foresee, so residuals of datasets of about the same size count for more, where the sizes are given; where fewer images validate than in the
history, the interval is wider by what their number adds to the variance. Evaluations that came in move the rest of the predictions by how
residuals went together in the history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.8
"""Share of the cases in which the truth is to lie in the interval."""
LEAST_GROUPS = 12
"""Groups of datasets below which nothing is promised: a quantile of fewer residuals says little."""
_PENALTIES = np.logspace(-1, 4, 26)
_ALONE = 0.2
"""Share of a residual's variance that is taken to be its own, shared with no other configuration."""


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
    """What to expect on one dataset of `c` configurations and of the best of them, the last entry; as square roots of errors.

    Attributes:
        mean: `c + 1` expected square roots.
        low: `c + 1`, how far below them the truth may lie, at most 0.
        high: `c + 1`, how far above.
        covariance: `(c + 1) x (c + 1)` of what such predictions miss.
    """

    mean: Floats
    low: Floats
    high: Floats
    covariance: Floats

    @property
    def n_configs(self) -> int:
        """Return c."""
        return len(self.mean) - 1

    def errors(self, told: Mapping[int, float] | None = None, *, others: Sequence[float] = ()) -> list[ExpectedError]:
        """Return what to expect after errors that came.

        Args:
            told: errors in [0, 1] that came, by the configuration's place.
            others: errors that came of other configurations: the best is no worse than these.

        Returns: `c + 1` expectations: one a configuration, then the best of a search over all of them.
        """
        told = told or {}
        mean, low, high = self.mean, self.low, self.high
        if told:
            mean, shrunk = self._sharpened(told)
            low, high = low * shrunk, high * shrunk
        value, below, above = (np.square(np.clip(part, 0.0, 1.0)) for part in (mean, mean + low, mean + high))
        known = min([*told.values(), *others], default=1.0)
        for part in (value, below, above):  # the best is no worse than the best that came
            part[-1] = min(float(part[-1]), known)
        for column, error in told.items():  # what came is no forecast
            value[column] = below[column] = above[column] = error
        for part in (value, below, above):  # no configuration beats the best, whose forecast is the surer one
            free = [column for column in range(len(part) - 1) if column not in told]
            part[free] = np.maximum(part[free], part[-1])
        return [ExpectedError(*map(float, each)) for each in zip(value, below, above, strict=True)]

    def of(self, columns: Sequence[int]) -> "DatasetExpectation":
        """Return the same of some configurations, and of the best of all."""
        kept = [*columns, self.n_configs]
        return DatasetExpectation(self.mean[kept], self.low[kept], self.high[kept], self.covariance[np.ix_(kept, kept)])

    def to_dict(self) -> dict[str, list[float]]:
        """Return the fields as JSON has them, rounded to what counts; of the covariance the lower triangle."""
        lower = self.covariance[np.tril_indices(len(self.mean))]
        parts = {"mean": self.mean, "low": self.low, "high": self.high, "covariance": lower}
        return {name: [float(f"{value:.6g}") for value in part] for name, part in parts.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Sequence[float]]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        mean, low, high, lower = (
            np.asarray(record[name], np.float64) for name in ("mean", "low", "high", "covariance")
        )
        covariance = np.zeros((len(mean), len(mean)))
        covariance[np.tril_indices(len(mean))] = lower
        return cls(mean, low, high, covariance + np.tril(covariance, -1).T)

    def _sharpened(self, told: Mapping[int, float]) -> tuple[Floats, Floats]:
        """Condition on errors that came: the new mean, and by how much intervals shrink."""
        known = np.array(list(told))
        own = np.diag(self.covariance) + 1e-9
        covariance = self.covariance * (1 - _ALONE)
        covariance[np.diag_indices_from(covariance)] = own
        came = np.sqrt(np.array([told[column] for column in known.tolist()])) - self.mean[known]
        gain = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
        left = own - np.einsum("kc,kc->c", gain, covariance[known])
        return self.mean + came @ gain, np.sqrt(np.clip(left / own, 0.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorForecaster:
    """A fitted forecast of the errors of `c` configurations and of the best of them, the last column.

    Attributes:
        models: the two regressions: of which features, and how.
        residuals: `m x (c + 1)` square roots of what came less those predicted with the dataset's group left out; NaN = not measured.
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
        """Return what to expect of one dataset.

        Args:
            wide: `p` features, as in `fit_forecaster`.
            narrow: `q` of them.
            n_val: images that validate; None = about as many as in the history.
            size: training images, where the forecast knows those of its datasets.
        """
        mean = np.mean([model.predict(x) for model, x in zip(self.models, (wide, narrow), strict=True)], axis=0)
        shift, low, high = self._missed(size)
        mean = mean + shift
        if n_val and self.sampling is not None:
            # The variance of an error e of n images is e (1 - e) / n, that of its square root a quarter of (1 - e) / n.
            more = max(0.0, 1 / n_val - self.sampling) * (1 - np.square(np.clip(mean, 0.0, 1.0))) / 4
            reach = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2 * more
            low, high = -np.sqrt(low**2 + reach), np.sqrt(high**2 + reach)
        measured = (~np.isnan(self.residuals)).sum(axis=0)  # what is missing is no residual of 0
        scaled = np.nan_to_num(self.residuals) / np.sqrt(np.maximum(measured, 1))
        return DatasetExpectation(mean, low, high, scaled.T @ scaled)

    def predict(self, wide: Floats, narrow: Floats, *, told: Mapping[int, float] | None = None) -> list[ExpectedError]:
        """Predict the errors of one dataset; `expect`, then `DatasetExpectation.errors`."""
        return self.expect(wide, narrow).errors(told)

    def _missed(self, size: float | None) -> tuple[Floats, Floats, Floats]:
        """Return the mean residual at a size, and the ends of the interval around the forecast that it moves: `c + 1` square roots each.

        The mean is 0 where sizes are not known. The ends are quantiles of the residuals, corrected for their number. The forecast lies between
        them, also where all but a few residuals have one sign.
        """
        residuals = self.residuals
        shift, weights = np.zeros(residuals.shape[1]), np.ones(len(residuals))
        if size is not None and self.sizes is not None:  # of a dataset half or twice as large, half
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
) -> ErrorForecaster | None:
    """Fit a forecast of errors to what datasets are like.

    Args:
        wide: `m x p` features of datasets, known before any training.
        narrow: `m x q`, a few that tell most, such as what simple classifiers reach.
        errors: `m x c` in [0, 1], NaN = not measured; every row has one.
        groups: `m`; datasets of one group say nothing of how well another of it can be predicted.
        n_val: `m` numbers of images that validated, 0 = unknown; or none.
        sizes: `m` numbers of training images, by which intervals are told apart; None = the same for all.

    Returns: the forecast; None for fewer than `LEAST_GROUPS` groups.
    """
    if len(set(groups)) < LEAST_GROUPS:
        return None
    known = np.column_stack([errors, np.nanmin(errors, axis=1)])
    targets = completed(np.sqrt(known))
    parts = [np.array(rows) for rows in _members(groups)]
    first, left_out = _Ridge.fit(wide, targets, parts)
    second, also_left_out = _Ridge.fit(narrow, _logit(targets), parts, is_logit=True)
    residuals = np.sqrt(known) - (left_out + also_left_out) / 2
    known_n = [n for n in n_val if n]
    sampling = float(np.mean([1 / n for n in known_n])) if known_n else None
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
        """Fit with the penalty that predicts parts left out best.

        Returns: the regression, and the square roots `m x targets` that it gives for rows whose part is left out, by the identity that holds
            for blocks as the one of leave-one-out does for points.
        """
        centre, spread = features.mean(axis=0), features.std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        offset = targets.mean(axis=0)
        left, values, right = np.linalg.svd((features - centre) / scale, full_matrices=False)
        rotated = left.T @ (targets - offset)
        by_size: dict[int, list[NDArray[np.int64]]] = {}
        for part in parts:
            by_size.setdefault(len(part), []).append(part)
        alike = [np.stack(some) for some in by_size.values()]  # parts of one size are solved at once
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
        found = cls(centre, scale, weights, offset, is_logit)
        return found, found.roots(targets - residuals)

    def roots(self, values: Floats) -> Floats:
        """Return the square roots of errors of which the regression gives these values."""
        return np.sqrt(1 / (1 + np.exp(-values))) if self.is_logit else values

    def predict(self, features: Floats) -> Floats:
        """Return square roots of errors, `... x targets`."""
        return self.roots((features - self.centre) / self.scale @ self.weights + self.offset)


def _tails(residuals: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the quantiles between which `LEVEL` of the weighted residuals of each column lie, corrected for their number.

    Args:
        residuals: `m x c`, NaN = not measured; a column without any may be off by all, -1 to 1.
        weights: `m`, > 0.
    """
    order = np.argsort(residuals, axis=0, kind="stable")  # NaN last
    values = np.take_along_axis(residuals, order, axis=0)
    worth = np.where(np.isnan(values), 0.0, weights[order])
    measured = (~np.isnan(values)).sum(axis=0)
    middles = np.cumsum(worth, axis=0) - worth / 2
    low, high = np.full(len(measured), -1.0), np.ones(len(measured))
    for column, known in enumerate(measured):
        if not known:
            continue
        own, middle, told = worth[:known, column], middles[:known, column], values[:known, column]
        n = own.sum() ** 2 / np.square(own).sum()  # with equal weights their number, as numpy's quantiles have it
        tail = (1 - LEVEL) / 2 * (n - 1) / n
        places = (middle - middle[0]) / (middle[-1] - middle[0]) if known > 1 else np.zeros(1)
        low[column], high[column] = np.interp((tail, 1 - tail), places, told)
    return low, high


def _logit(roots: Floats) -> Floats:
    """Return logits of errors whose square roots are given."""
    errors = np.clip(np.square(roots), 0.003, 0.997)
    logits: Floats = np.log(errors / (1 - errors))
    return logits


def completed(values: Floats) -> Floats:
    """Fill what is missing by the sum of its row's and its column's effect."""
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
    """List the rows of each group."""
    order = sorted(range(len(groups)), key=lambda row: (str(groups[row]), row))
    return [list(rows) for _, rows in groupby(order, key=lambda row: str(groups[row]))]
