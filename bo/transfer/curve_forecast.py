"""Where a training run is heading: its final error, told from what it reported and from the history's learning curves.

The errors that runs pass through on one dataset are a Gaussian vector: square roots of errors, by share of the run and configuration. Its mean is
what `warmstart.bo.transfer.expected_error` expects of a dataset with such features; its covariance is that of what the history's datasets differ from
theirs. A configuration that the history never measured lies between those that it did (kriging), and has a part of its own. A run that reports,
and others that ended, condition the vector. Tails are heavier than a Gaussian's: intervals are as wide as the history's own cases ask for.
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
"""Runs that ended and count for a forecast at most: the last ones."""
_ALONE = 0.3
"""Share of a residual's variance that is a cell's own: noise of its seed, and what no other configuration shares."""
_FACTORS = 16
"""Directions in which datasets differ that are kept."""
_FREEDOM = 4.0
"""Degrees of freedom of the tails (Student's t)."""
_CHECKED, _ENOUGH = 12, 3
"""Runs that ended whose forecasts are looked back at, at most and at least."""
_SAME = 1e-4  # configurations are kept with five digits
_JITTER = 1e-6


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What is known of one run.

    Attributes:
        config: `p` coordinates in [0, 1], as those of the history's configurations.
        shares: `n` rising shares of the run, in (0, 1].
        errors: `n` errors in [0, 1] there.
    """

    config: Floats
    shares: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def final(self) -> float | None:
        """Return the error at the end; None while the run goes on."""
        return self.errors[-1] if self.shares and self.shares[-1] >= 1.0 else None


@dataclass(frozen=True, slots=True)
class RunForecast:
    """What to expect of a run's end.

    Attributes:
        error: the final error and its interval.
        centre: of the distribution of the final error's square root.
        scale: of Student's t around it.
    """

    error: ExpectedError
    centre: float
    scale: float

    def chance_below(self, error: float) -> float:
        """Compute the probability that the run ends below an error."""
        return float(stdtr(_FREEDOM, (math.sqrt(max(error, 0.0)) - self.centre) / self.scale))


@dataclass(frozen=True, slots=True, eq=False)
class CurveForecaster:
    """What training runs on one dataset are expected to pass through.

    Attributes:
        configs: `c x p` configurations of the history, in the unit cube.
        lengths: `p` lengthscales between configurations.
        nugget: share of a configuration's error that its neighbours do not tell.
        mean: `s x c` expected square roots of errors, at `SHARES`.
        factors: `r x s x c`; their products, summed, are the covariance that runs share.
        own: `s x s` covariance that a run of one of `configs` has for itself.
        between: `s x s`, the same of a run of another configuration.
        widths: `s`, what a standard deviation is multiplied by after a report at each share; the last one before any report.
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
        """Invert the correlations of the history's configurations once: forecasts of a study ask for them again and again."""
        object.__setattr__(self, "_kriging", _inverse(self.configs, self.lengths, self.nugget))

    def forecast(self, run: TrainingRun, others: Sequence[TrainingRun] = ()) -> RunForecast:
        """Forecast the end of a run.

        Args:
            run: the run; with no report yet, what is expected before it begins.
            others: runs on the same dataset; those that ended count.
        """
        ended = [each for each in others[-OTHERS:] if each.final is not None]
        known = [(each, 1.0, each.errors[-1]) for each in ended]
        known += [(run, run.shares[n], run.errors[n]) for n in _telling(run.shares)]
        weights, shared = self._weights(run.config)
        mean, latent = self._at(weights, 1.0)
        covariance = self.own if shared else self.between
        last = _basis(1.0)
        variance = float(latent @ latent + last @ covariance @ last)
        if known:
            mean, variance = self._conditioned(known, run, mean, latent, variance)
        reached = run.shares[-1] if run.shares else 0.0
        stage = int(np.searchsorted(SHARES, reached, side="right")) - 1  # none yet: the last, as if before the run
        spread = math.sqrt(max(variance, 1e-6)) * float(self.widths[stage])
        return _forecast(mean, spread * max(self._surprise(ended), self._oddness(run, weights, covariance)))

    def _oddness(self, run: TrainingRun, weights: Floats, covariance: Floats) -> float:
        """Return by how much the first report of a run is further off than twice what was stated; at least 1."""
        first = next((n for n, share in enumerate(run.shares) if share >= SHARES[0]), None)
        if first is None:
            return 1.0
        basis = _basis(run.shares[first])
        expected, latent = self._at(weights, run.shares[first])
        spread = math.sqrt(float(latent @ latent + basis @ covariance @ basis)) * float(self.widths[-1])
        return max(1.0, abs(math.sqrt(run.errors[first]) - expected) / (2 * spread))

    def _surprise(self, ended: Sequence[TrainingRun]) -> float:
        """Return by how much runs that ended miss what their first reports promised, beyond what was stated; at least 1.

        A training job unlike the history's is so found out: what is told of it gets vague, and stops nothing.
        """
        missed = []
        for each in ended[-_CHECKED:]:
            early = [n for n, share in enumerate(each.shares) if SHARES[0] <= share <= SHARES[1]]
            if not early:
                continue
            upto = early[0] + 1
            told = self.forecast(TrainingRun(each.config, each.shares[:upto], each.errors[:upto]))
            missed.append(abs(math.sqrt(each.errors[-1]) - told.centre) / told.scale)
        usual = float(stdtrit(_FREEDOM, 0.75))
        return max(1.0, float(np.median(missed)) / usual) if len(missed) >= _ENOUGH else 1.0

    def _conditioned(
        self,
        known: Sequence[tuple[TrainingRun, float, float]],
        run: TrainingRun,
        mean: float,
        latent: Floats,
        variance: float,
    ) -> tuple[float, float]:
        """Condition the end of a run on errors that came: the new mean and variance."""
        means, rows, owns = np.empty(len(known)), np.empty((len(known), len(self.factors))), []
        bases = np.stack([_basis(share) for _, share, _ in known])
        for n, (each, share, _) in enumerate(known):
            weights, shared = self._weights(each.config)
            means[n], rows[n] = self._at(weights, share)
            owns.append(self.own if shared else self.between)
        came = np.sqrt([error for _, _, error in known]) - means
        same = np.array([[a is b for b, _, _ in known] for a, _, _ in known])
        alone = np.array([[bases[i] @ owns[i] @ bases[j] for j in range(len(known))] for i in range(len(known))])
        inner = rows @ rows.T + np.where(same, alone, 0.0) + _JITTER * np.eye(len(known))
        end = _basis(1.0)
        cross = rows @ latent + np.array(
            [bases[n] @ owns[n] @ end if each is run else 0.0 for n, (each, _, _) in enumerate(known)]
        )
        gain = np.linalg.solve(inner, cross)
        return mean + float(gain @ came), variance - float(gain @ cross)

    def _at(self, weights: Floats, share: float) -> tuple[float, Floats]:
        """Return the mean and the factors `r` of a configuration with these weights at a share of its run."""
        basis = _basis(share)
        return float(basis @ self.mean @ weights), (self.factors @ weights) @ basis

    def _weights(self, config: Floats) -> tuple[Floats, bool]:
        """Return the weights `c` of the history's configurations for one, and whether it is one of them."""
        apart = np.abs(self.configs - config).max(axis=1)
        nearest = int(apart.argmin())
        if apart[nearest] < _SAME:
            return np.eye(len(self.configs))[nearest], True
        found = self._kriging @ _correlations(self.configs, config[None], self.lengths)[:, 0]
        ones = self._kriging.sum(axis=1)
        return found + (1 - found.sum()) / ones.sum() * ones, False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them, rounded to what counts."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self) if each.init and each.name != "nugget"}
        return {"nugget": self.nugget, **{name: np.round(array, 5).tolist() for name, array in arrays.items()}}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
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
    """Fit what runs on one dataset are expected to pass through.

    Args:
        features: `m x p` and `m x q` features of the history's datasets, as in `warmstart.bo.transfer.expected_error.fit_forecaster`.
        curves: `m x c x s` errors at `SHARES`, NaN = not measured; each row holds some.
        groups: `m` sibling groups.
        configs: `c x d` configurations in the unit cube.
        query: the same features, `p` and `q`, of the dataset in question.

    Returns: the forecast; None for too few groups to learn from.
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
    # What is missing is no residual of 0: each column is scaled to the variance of its known ones.
    known = np.sum(~np.isnan(residuals), axis=0)
    _, values, directions = np.linalg.svd(np.nan_to_num(residuals) / np.sqrt(np.maximum(known, 1)), full_matrices=False)
    kept = slice(0, min(_FACTORS, len(values)))
    factors = (values[kept, None] * directions[kept]).reshape(-1, s, c) * math.sqrt(1 - _ALONE)
    cells = residuals.reshape(m, s, c)
    own = _ALONE * _products(cells)
    missed = expected @ _leave_one_out(configs, lengths, nugget)
    between = _products(np.where(np.isnan(cells), np.nan, missed))
    found = CurveForecaster(configs, lengths, nugget, np.clip(mean, 0.0, 1.0), factors, own, between, np.ones(s))
    return _widened(found, cells)


def _products(cells: Floats) -> Floats:
    """Return the mean products `s x s` of the `s` values of each of `m x s x c` cells, over those that are known."""
    known = (~np.isnan(cells)).astype(np.float64)
    filled = np.nan_to_num(cells)
    counts = np.einsum("msc,mtc->st", known, known)
    products: Floats = np.einsum("msc,mtc->st", filled, filled) / np.maximum(counts, 1)
    return products


def resample(curve: Sequence[tuple[float, float]], length: float) -> Floats:
    """Return the errors of a curve at `SHARES` of a run's length, NaN where it does not reach.

    Args:
        curve: pairs (step, error) in rising steps.
        length: steps of a whole run.
    """
    if not curve or length <= 0:
        return np.full(len(SHARES), np.nan)
    steps, errors = np.array([step for step, _ in curve], float) / length, np.array([error for _, error in curve])
    found: Floats = np.interp(SHARES, steps, errors, left=np.nan, right=np.nan)
    return found


def _widened(found: CurveForecaster, residuals: Floats) -> CurveForecaster:
    """Choose the widths with which the history's own cases, each with its group left out, lie in their intervals as often as promised."""
    s = len(SHARES)
    shared = np.einsum("rsc,rtc->cst", found.factors, found.factors) + found.own
    normal = float(ndtri((1 + LEVEL) / 2))
    widths = np.ones(s)
    for stage in range(s):
        seen = list(range(max(0, stage - 1), stage + 1)) if stage < s - 1 else []
        inner = shared[:, seen][:, :, seen] + _JITTER * np.eye(len(seen))
        cross = shared[:, seen, -1]
        gain = np.linalg.solve(inner, cross[..., None])[..., 0] if seen else cross
        left = np.sqrt(np.maximum(shared[:, -1, -1] - (gain * cross).sum(axis=1), 1e-6))
        off = np.abs(residuals[:, -1] - np.einsum("mec,ce->mc", residuals[:, seen], gain)) / left
        widths[stage] = np.nanquantile(off, LEVEL) / normal
    return replace(found, widths=widths)


def _forecast(centre: float, spread: float) -> RunForecast:
    """Make the forecast of a root with this mean, and a spread that is to a normal's as its interval is."""
    half = float(ndtri((1 + LEVEL) / 2)) * spread
    value, low, high = (float(np.clip(root, 0.0, 1.0)) ** 2 for root in (centre, centre - half, centre + half))
    return RunForecast(ExpectedError(value, low, high), centre, half / float(stdtrit(_FREEDOM, (1 + LEVEL) / 2)))


def _telling(shares: Sequence[float]) -> list[int]:
    """Return which reports of a run count: the last, and the latest one at least as far before it as `SHARES` are apart.

    Between `SHARES` a curve is taken for a line, which two reports close to each other would tell too surely.
    """
    known = [n for n, share in enumerate(shares) if share >= SHARES[0]]
    before = [n for n in known if shares[n] <= shares[known[-1]] - SHARES[0] + _SAME]
    return [*before[-1:], *known[-1:]]


def _basis(share: float) -> Floats:
    """Return the weights of `SHARES` that interpolate at a share of a run."""
    share = min(max(share, SHARES[0]), 1.0)
    return np.array([np.interp(share, SHARES, row) for row in np.eye(len(SHARES))])


def _correlations(one: Floats, other: Floats, lengths: Floats) -> Floats:
    """Compute the Matérn-3/2 correlations of configurations, `n x d` and `m x d`."""
    apart = math.sqrt(3) * np.sqrt((((one[:, None] - other[None]) / lengths) ** 2).sum(axis=2))
    values: Floats = (1 + apart) * np.exp(-apart)
    return values


def _inverse(configs: Floats, lengths: Floats, nugget: float) -> Floats:
    """Invert the correlations `c x c` of configurations."""
    return np.asarray(
        np.linalg.inv(_correlations(configs, configs, lengths) + nugget * np.eye(len(configs))), np.float64
    )


def _leave_one_out(configs: Floats, lengths: Floats, nugget: float) -> Floats:
    """Return the matrix `c x c` that takes values at configurations to what is missed where each is left out and kriged from the rest."""
    inverse = _inverse(configs, lengths, nugget)
    ones = inverse.sum(axis=1)
    centred = inverse - np.outer(ones, ones) / ones.sum()
    return np.asarray(centred / np.diag(centred), np.float64)


def _fit_correlations(configs: Floats, values: Floats) -> tuple[Floats, float]:
    """Find the lengthscales and the nugget with which each configuration is told best by the others.

    Args:
        configs: `c x d`.
        values: `c x n`, columns that are told.
    """
    from scipy.optimize import minimize  # which takes longer to load than all that needs no fit

    d = configs.shape[1]

    def loss(logarithms: Floats) -> float:
        missed = values.T @ _leave_one_out(configs, np.exp(logarithms[:d]), math.exp(logarithms[d]))
        return math.log(float(np.mean(missed**2)) + 1e-12)

    found = minimize(
        loss, np.r_[np.zeros(d), math.log(0.05)], method="L-BFGS-B", bounds=[(-2.0, 3.0)] * d + [(-6.0, 1.0)]
    )
    return np.exp(found.x[:d]), float(math.exp(found.x[d]))
