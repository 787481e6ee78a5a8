"""Forecast of the final error of a training run, from its reports and the learning curves of the history.

The square roots of errors of runs on one dataset, by share of the run and configuration, are a Gaussian vector. Its
mean is the forecast of `warmstart.bo.transfer.expected_error` from features of the dataset; its covariance is that of
the residuals of the history's datasets. Kriging interpolates configurations that the history did not measure, with an
extra residual. Reports of the run, and other runs that ended, condition the vector. Intervals are widened to cover the
history's cases, as tails are heavier than a Gaussian's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from warmstart.bo.transfer.expected_error import LEVEL, ExpectedError, completed, fit_forecaster

Floats = NDArray[np.float64]

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of a run at which curves are compared."""
OTHERS = 64
"""Largest number of ended runs in a forecast, the last ones."""
_ALONE = 0.3
"""Share of a residual's variance that is specific to its cell: noise of the seed and of the configuration."""
_FACTORS = 16
"""Principal directions of the differences between datasets."""
_FREEDOM = 4.0
"""Degrees of freedom of the tails (Student's t)."""
_CHECKED, _ENOUGH = 12, 3
"""Largest and least number of ended runs whose forecasts are checked."""
_SAME = 1e-4  # stored configurations have five digits
_JITTER = 1e-6


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Configuration and reports of one run.

    Attributes:
        config: `p` coordinates in [0, 1], like those of the history's configurations.
        shares: `n` rising shares of the run, in (0, 1].
        errors: `n` errors in [0, 1] there.
    """

    config: Floats
    shares: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def final(self) -> float | None:
        """Return the error at the end; None for a running one."""
        return self.errors[-1] if self.shares and self.shares[-1] >= 1.0 else None


@dataclass(frozen=True, slots=True)
class RunForecast:
    """Forecast of the end of a run.

    Attributes:
        error: the final error and its interval.
        centre: of the distribution of the square root of the final error, a Student's t.
        scale: of this distribution.
    """

    error: ExpectedError
    centre: float
    scale: float

    def chance_below(self, error: float) -> float:
        """Compute the probability that the run ends below an error."""
        return float(stdtr(_FREEDOM, (math.sqrt(max(error, 0.0)) - self.centre) / self.scale))


@dataclass(frozen=True, slots=True, eq=False)
class CurveForecaster:
    """Forecaster of the learning curves of one dataset.

    Attributes:
        configs: `c x p` configurations of the history, in the unit cube.
        lengths: `p` lengthscales between configurations.
        nugget: share of a configuration's error that its neighbours do not predict.
        mean: `s x c` expected square roots of errors, at `SHARES`.
        factors: `r x s x c`; the sum of their products is the covariance that runs share.
        own: `s x s` covariance specific to a run of one of `configs`.
        between: `s x s` covariance specific to a run of another configuration.
        widths: `s` factors of the standard deviation after a report at each share; the last one before any report.
    """

    configs: Floats
    lengths: Floats
    nugget: float
    mean: Floats
    factors: Floats
    own: Floats
    between: Floats
    widths: Floats
    _kriging: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Invert the correlations of the history's configurations once for all forecasts."""
        object.__setattr__(self, "_kriging", _inverse(self.configs, self.lengths, self.nugget))

    def forecast(self, run: TrainingRun, others: Sequence[TrainingRun] = ()) -> RunForecast:
        """Forecast the end of a run.

        Args:
            run: the run; without reports, the forecast is the one before its start.
            others: runs on the same dataset; only ended ones count.
        """
        ended = [past for past in others[-OTHERS:] if past.final is not None]
        reports = [(past, 1.0, past.errors[-1]) for past in ended]
        reports += [(run, run.shares[n], run.errors[n]) for n in _informative(run.shares)]
        weights, shared = self._weights(run.config)
        mean, latent = self._at(weights, 1.0)
        covariance = self.own if shared else self.between
        last = _basis(1.0)
        variance = float(latent @ latent + last @ covariance @ last)
        if reports:
            mean, variance = self._conditioned(reports, run, mean, latent, variance)
        reached = run.shares[-1] if run.shares else 0.0
        stage = (
            int(np.searchsorted(SHARES, reached, side="right")) - 1
        )  # -1 without a report: the last width is the one before a run
        spread = math.sqrt(max(variance, 1e-6)) * float(self.widths[stage])
        return _forecast(mean, spread * max(self._surprise(ended), self._oddness(run, weights, covariance)))

    def _oddness(self, run: TrainingRun, weights: Floats, covariance: Floats) -> float:
        """Return the miss of a run's first report in units of two stated standard deviations; at least 1."""
        first = next((n for n, share in enumerate(run.shares) if share >= SHARES[0]), None)
        if first is None:
            return 1.0
        basis = _basis(run.shares[first])
        expected, latent = self._at(weights, run.shares[first])
        spread = math.sqrt(float(latent @ latent + basis @ covariance @ basis)) * float(self.widths[-1])
        return max(1.0, abs(math.sqrt(run.errors[first]) - expected) / (2 * spread))

    def _surprise(self, ended: Sequence[TrainingRun]) -> float:
        """Return the typical miss of the forecasts of ended runs, relative to their stated spread; at least 1.

        It widens the forecasts of a training job unlike the history's, so that they stop no run.
        """
        missed = []
        for run in ended[-_CHECKED:]:
            early = [n for n, share in enumerate(run.shares) if SHARES[0] <= share <= SHARES[1]]
            if not early:
                continue
            upto = early[0] + 1
            forecast = self.forecast(TrainingRun(run.config, run.shares[:upto], run.errors[:upto]))
            missed.append(abs(math.sqrt(run.errors[-1]) - forecast.centre) / forecast.scale)
        usual = float(stdtrit(_FREEDOM, 0.75))
        return max(1.0, float(np.median(missed)) / usual) if len(missed) >= _ENOUGH else 1.0

    def _conditioned(
        self,
        reports: Sequence[tuple[TrainingRun, float, float]],
        run: TrainingRun,
        mean: float,
        latent: Floats,
        variance: float,
    ) -> tuple[float, float]:
        """Condition the end of a run on reports: the new mean and variance."""
        means, rows, owns = np.empty(len(reports)), np.empty((len(reports), len(self.factors))), []
        bases = np.stack([_basis(share) for _, share, _ in reports])
        for n, (reported, share, _) in enumerate(reports):
            weights, shared = self._weights(reported.config)
            means[n], rows[n] = self._at(weights, share)
            owns.append(self.own if shared else self.between)
        deviations = np.sqrt([error for _, _, error in reports]) - means
        same = np.array([[a is b for b, _, _ in reports] for a, _, _ in reports])
        alone = np.array([[bases[i] @ owns[i] @ bases[j] for j in range(len(reports))] for i in range(len(reports))])
        inner = rows @ rows.T + np.where(same, alone, 0.0) + _JITTER * np.eye(len(reports))
        end = _basis(1.0)
        cross = rows @ latent + np.array(
            [bases[n] @ owns[n] @ end if reported is run else 0.0 for n, (reported, _, _) in enumerate(reports)]
        )
        gain = np.linalg.solve(inner, cross)
        return mean + float(gain @ deviations), variance - float(gain @ cross)

    def _at(self, weights: Floats, share: float) -> tuple[float, Floats]:
        """Return the mean and the factors `r` of a configuration, by its weights, at a share of its run."""
        basis = _basis(share)
        return float(basis @ self.mean @ weights), (self.factors @ weights) @ basis

    def _weights(self, config: Floats) -> tuple[Floats, bool]:
        """Return the kriging weights `c` of the history's configurations, and whether they contain this one."""
        apart = np.abs(self.configs - config).max(axis=1)
        nearest = int(apart.argmin())
        if apart[nearest] < _SAME:
            return np.eye(len(self.configs))[nearest], True
        weights = self._kriging @ _correlations(self.configs, config[None], self.lengths)[:, 0]
        sums = self._kriging.sum(axis=1)
        return weights + (1 - weights.sum()) / sums.sum() * sums, False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types, rounded."""
        arrays = {item.name: getattr(self, item.name) for item in fields(self) if item.init and item.name != "nugget"}
        return {"nugget": self.nugget, **{name: np.round(array, 5).tolist() for name, array in arrays.items()}}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Read a record of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: when the record is damaged.
        """
        arrays = {name: np.asarray(value, np.float64) for name, value in record.items() if name != "nugget"}
        return cls(nugget=float(record["nugget"]), **arrays)


def fit_curves(
    features: tuple[Floats, Floats],
    curves: Floats,
    groups: Sequence[object],
    configs: Floats,
    *,
    query: tuple[Floats, Floats],
) -> CurveForecaster | None:
    """Fit a forecaster of the learning curves of one dataset.

    Args:
        features: `m x p` and `m x q` features of the history's datasets, as in
            `warmstart.bo.transfer.expected_error.fit_forecaster`.
        curves: `m x c x s` errors at `SHARES`, NaN = not measured; each row has one at least.
        groups: `m` sibling groups.
        configs: `c x d` configurations in the unit cube.
        query: the same features, `p` and `q`, of the dataset in question.

    Returns: the forecaster; None for too few groups.
    """
    m, c, s = curves.shape
    columns = curves.transpose(0, 2, 1).reshape(m, s * c)
    fitted = fit_forecaster(*features, columns, groups)
    if fitted is None:
        return None
    mean = np.mean([model.predict(x) for model, x in zip(fitted.models, query, strict=True)], axis=0)[: s * c].reshape(
        s, c
    )
    residuals = fitted.residuals[:, : s * c]
    expected = completed(np.sqrt(columns)).reshape(m, s, c)
    lengths, nugget = _fit_correlations(configs, expected.transpose(2, 0, 1).reshape(c, m * s))
    # Missing residuals are not 0: each column is scaled to the variance of its measured ones.
    counts = np.sum(~np.isnan(residuals), axis=0)
    _, values, directions = np.linalg.svd(
        np.nan_to_num(residuals) / np.sqrt(np.maximum(counts, 1)), full_matrices=False
    )
    leading = slice(0, min(_FACTORS, len(values)))
    factors = (values[leading, None] * directions[leading]).reshape(-1, s, c) * math.sqrt(1 - _ALONE)
    cells = residuals.reshape(m, s, c)
    specific = _ALONE * _products(cells)
    missed = expected @ _leave_one_out(configs, lengths, nugget)
    between = _products(np.where(np.isnan(cells), np.nan, missed))
    forecaster = CurveForecaster(
        configs, lengths, nugget, np.clip(mean, 0.0, 1.0), factors, specific, between, np.ones(s)
    )
    return _calibrated(forecaster, cells)


def _products(cells: Floats) -> Floats:
    """Return the mean products `s x s` of the values of `m x s x c` cells, over measured pairs."""
    present = (~np.isnan(cells)).astype(np.float64)
    filled = np.nan_to_num(cells)
    counts = np.einsum("msc,mtc->st", present, present)
    products: Floats = np.einsum("msc,mtc->st", filled, filled) / np.maximum(counts, 1)
    return products


def resample(curve: Sequence[tuple[float, float]], length: float) -> Floats:
    """Interpolate a curve at `SHARES` of a run's length, NaN beyond its end.

    Args:
        curve: pairs (step, error) in rising steps.
        length: steps of a whole run.
    """
    if not curve or length <= 0:
        return np.full(len(SHARES), np.nan)
    steps, errors = np.array([step for step, _ in curve], float) / length, np.array([error for _, error in curve])
    resampled: Floats = np.interp(SHARES, steps, errors, left=np.nan, right=np.nan)
    return resampled


def _calibrated(forecaster: CurveForecaster, residuals: Floats) -> CurveForecaster:
    """Return a forecaster whose intervals cover a share `LEVEL` of the history's cases, each without its group."""
    s = len(SHARES)
    shared = np.einsum("rsc,rtc->cst", forecaster.factors, forecaster.factors) + forecaster.own
    normal = float(ndtri((1 + LEVEL) / 2))
    widths = np.ones(s)
    for stage in range(s):
        reported = list(range(max(0, stage - 1), stage + 1)) if stage < s - 1 else []
        inner = shared[:, reported][:, :, reported] + _JITTER * np.eye(len(reported))
        cross = shared[:, reported, -1]
        gain = np.linalg.solve(inner, cross[..., None])[..., 0] if reported else cross
        left = np.sqrt(np.maximum(shared[:, -1, -1] - (gain * cross).sum(axis=1), 1e-6))
        off = np.abs(residuals[:, -1] - np.einsum("mec,ce->mc", residuals[:, reported], gain)) / left
        widths[stage] = np.nanquantile(off, LEVEL) / normal
    return replace(forecaster, widths=widths)


def _forecast(centre: float, spread: float) -> RunForecast:
    """Build a forecast from the mean and the standard deviation of a square root."""
    half = float(ndtri((1 + LEVEL) / 2)) * spread
    value, low, high = (float(np.clip(root, 0.0, 1.0)) ** 2 for root in (centre, centre - half, centre + half))
    return RunForecast(ExpectedError(value, low, high), centre, half / float(stdtrit(_FREEDOM, (1 + LEVEL) / 2)))


def _informative(shares: Sequence[float]) -> list[int]:
    """Return the indices of the reports to use: the last, and the latest at least one step of `SHARES` before it.

    Between `SHARES` a curve counts as a line, of which two close reports would be too certain.
    """
    eligible = [n for n, share in enumerate(shares) if share >= SHARES[0]]
    before = [n for n in eligible if shares[n] <= shares[eligible[-1]] - SHARES[0] + _SAME]
    return [*before[-1:], *eligible[-1:]]


def _basis(share: float) -> Floats:
    """Return the weights of `SHARES` that interpolate at a share of a run."""
    share = min(max(share, SHARES[0]), 1.0)
    return np.array([np.interp(share, SHARES, row) for row in np.eye(len(SHARES))])


def _correlations(first: Floats, second: Floats, lengths: Floats) -> Floats:
    """Compute the Matérn-3/2 correlations of configurations, `n x d` and `m x d`."""
    apart = math.sqrt(3) * np.sqrt((((first[:, None] - second[None]) / lengths) ** 2).sum(axis=2))
    values: Floats = (1 + apart) * np.exp(-apart)
    return values


def _inverse(configs: Floats, lengths: Floats, nugget: float) -> Floats:
    """Return the inverse of the correlation matrix `c x c` of configurations, with a nugget."""
    return np.asarray(
        np.linalg.inv(_correlations(configs, configs, lengths) + nugget * np.eye(len(configs))), np.float64
    )


def _leave_one_out(configs: Floats, lengths: Floats, nugget: float) -> Floats:
    """Return the matrix `c x c` from values at configurations to their leave-one-out kriging errors."""
    inverse = _inverse(configs, lengths, nugget)
    sums = inverse.sum(axis=1)
    centred = inverse - np.outer(sums, sums) / sums.sum()
    return np.asarray(centred / np.diag(centred), np.float64)


def _fit_correlations(configs: Floats, values: Floats) -> tuple[Floats, float]:
    """Fit the lengthscales and the nugget with the least leave-one-out kriging error.

    Args:
        configs: `c x d`.
        values: `c x n`, columns to predict.
    """
    from scipy.optimize import minimize  # slow to load, and needed only for a fit

    d = configs.shape[1]

    def loss(logarithms: Floats) -> float:
        missed = values.T @ _leave_one_out(configs, np.exp(logarithms[:d]), math.exp(logarithms[d]))
        return math.log(float(np.mean(missed**2)) + 1e-12)

    optimum = minimize(
        loss, np.r_[np.zeros(d), math.log(0.05)], method="L-BFGS-B", bounds=[(-2.0, 3.0)] * d + [(-6.0, 1.0)]
    )
    return np.exp(optimum.x[:d]), float(math.exp(optimum.x[d]))
