"""Forecast of the seconds of a configuration on a new dataset and machine, from a history and the first runs.

The logarithm of a duration is a level of dataset and machine, plus an effect of the configuration, plus noise. The
history determines the effects well, and the level only for similar datasets and machines; one run, or a short part of
one, determines the level. Kriging, with a lengthscale for each hyperparameter, interpolates configurations that the
history did not measure. All are jointly Gaussian, so runs condition them at once. Without a history the priors are
wide.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEVEL = 0.8
"""Probability that a duration lies in its interval."""
SHORTEST = 1e-3
"""Least seconds of a run."""
MACHINES = math.log(2.0)
"""Standard deviation of the log ratio of the speeds of two machines."""
UNKNOWN = 5.0
"""Standard deviation of an unknown level."""
_EFFECT, _LENGTH, _NOISE = 1.0, 0.7, 0.15
"""Priors without a history: spread of effects, lengthscale in the unit cube, noise of a run."""
_MOMENT, _SHARES = 0.15, 200
"""Noise of a short measurement, a standard deviation of log seconds; grid size of the share in proportion to the
length."""
_LEAST_NOISE = 0.03
_PENALTY = 1.0
_ROUNDS = 20
_SHRINK = 3.0
"""Weight of the prior of the noise, in runs."""


@dataclass(frozen=True, slots=True)
class ExpectedSeconds:
    """Seconds of a run, above 0, and the interval in which the truth lies with probability `LEVEL`."""

    value: float
    low: float
    high: float

    def after(self, seconds: float) -> Self:
        """Return the forecast plus seconds before the run."""
        return replace(self, value=self.value + seconds, low=self.low + seconds, high=self.high + seconds)

    def to_dict(self) -> dict[str, float]:
        """Return the fields, rounded."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class TimedRun:
    """Run with a measured duration.

    Attributes:
        config: `p` coordinates in [0, 1].
        seconds: duration, above 0.
        spread: standard deviation of the logarithm due to the measurement, as of a part of a run.
    """

    config: Floats
    seconds: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class DurationForecaster:
    """Forecaster of durations before any run on the dataset.

    Attributes:
        configs: `c x p` configurations of the history, in the unit cube; `0 x p` without a history.
        effects: `c` logarithms of their seconds, less the level.
        lengths: `p` lengthscales.
        effect_spread: prior standard deviation of an effect.
        level: expected logarithm of seconds at an effect of 0.
        level_spread: its standard deviation.
        noise: standard deviation of a run's logarithm around level and effect.
    """

    configs: Floats
    effects: Floats
    lengths: Floats
    effect_spread: float = _EFFECT
    level: float = 0.0
    level_spread: float = UNKNOWN
    noise: float = _NOISE
    _inverse: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Invert the covariance of the history's effects once."""
        covariance = self._kernel(self.configs, self.configs)
        covariance[np.diag_indices_from(covariance)] += _nugget(self.noise)
        object.__setattr__(self, "_inverse", np.linalg.inv(covariance))

    @property
    def knows_level(self) -> bool:
        """Tell whether the history determines the level of durations, not only their order."""
        return self.level_spread < UNKNOWN

    def forecast(self, configs: ArrayLike, runs: Sequence[TimedRun] = ()) -> list[ExpectedSeconds]:
        """Forecast the seconds of configurations.

        Args:
            configs: `n x p` coordinates in [0, 1].
            runs: measured runs on the same dataset and machine.
        """
        return _expected(*self._conditioned(np.atleast_2d(np.asarray(configs, dtype=np.float64)), runs))

    def chance_within(self, configs: ArrayLike, seconds: float, runs: Sequence[TimedRun] = ()) -> Floats:
        """Compute the probability that runs of `n` configurations end within a time: `n` in [0, 1]."""
        points = np.atleast_2d(np.asarray(configs, dtype=np.float64))
        if not seconds > 0:
            return np.zeros(len(points))
        mean, spread = self._conditioned(points, runs)
        from scipy.special import ndtr

        chances: Floats = ndtr((math.log(seconds) - mean) / spread)
        return chances

    def _conditioned(self, points: Floats, runs: Sequence[TimedRun]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the logarithms of seconds: `n` each."""
        run_points = np.stack([run.config for run in runs]) if runs else points[:0]
        both = np.vstack([run_points, points])
        across = self._kernel(both, self.configs)
        mean = self.level + across @ self._inverse @ self.effects
        covariance = self._kernel(both, both) - across @ self._inverse @ across.T + self.level_spread**2
        n = len(run_points)
        deviations = np.log(np.maximum([run.seconds for run in runs], SHORTEST)) - mean[:n]
        added = np.square([run.spread for run in runs])
        noise = self._noise(covariance[:n, :n], deviations, added)
        left = covariance[:n, :n] + np.diag(added + noise**2)
        gain = np.linalg.solve(left, covariance[:n, n:])
        variance = np.diag(covariance)[n:] - np.einsum("kn,kn->n", gain, covariance[:n, n:])
        return mean[n:] + deviations @ gain, np.sqrt(np.maximum(variance, 0.0) + noise**2)

    def _noise(self, covariance: Floats, deviations: Floats, added: Floats) -> float:
        """Return the noise of runs here, above the history's if measured runs scatter more, as on a busy machine."""
        n = len(deviations)
        if n < 2:
            return self.noise
        left = covariance + np.diag(added + self.noise**2)
        surprise = float(deviations @ np.linalg.solve(left, deviations)) / n  # 1 if the stated noise is right
        return self.noise * math.sqrt(max(1.0, (_SHRINK + n * surprise) / (_SHRINK + n)))

    def _kernel(self, first: Floats, second: Floats) -> Floats:
        apart = (first[:, None] - second[None]) / self.lengths
        covariance: Floats = self.effect_spread**2 * np.exp(-0.5 * np.square(apart).sum(axis=-1))
        return covariance


def whole_seconds(moments: Sequence[tuple[float, float]], amount: float) -> tuple[float, float]:
    """Extrapolate the seconds of a whole run from short measurements, pairs of amount and seconds.

    A duration has a constant part and a part in proportion to the amount. Each measurement has the noise of a shared
    machine.

    Returns: the seconds, and the standard deviation of their logarithm.
    """
    lengths, seconds = np.array(moments, np.float64).T
    # Jeffreys' prior of the share in proportion, at the longest measurement: nearly 0 and nearly 1 are common.
    in_proportion = np.sin(np.pi / 2 * (np.arange(_SHARES) + 0.5) / _SHARES) ** 2
    shapes = 1 + in_proportion[:, None] * (lengths / lengths.max() - 1)
    levels = np.log(np.maximum(seconds, 1e-6)) - np.log(shapes)
    wrong = np.square(levels - levels.mean(axis=1, keepdims=True)).sum(axis=1)
    weights = np.exp((wrong.min() - wrong) / (2 * _MOMENT**2))
    weights /= weights.sum()
    whole = levels.mean(axis=1) + np.log(1 + in_proportion * (amount / lengths.max() - 1))
    mean = float(weights @ whole)
    variance = weights @ np.square(whole - mean) + _MOMENT**2 / len(lengths)
    return float(np.exp(mean)), float(np.sqrt(variance))


def without_history(p: int) -> DurationForecaster:
    """Return the forecaster over `p` hyperparameters without a history."""
    return DurationForecaster(np.zeros((0, p)), np.zeros(0), np.full(p, _LENGTH))


def fit_durations(
    seconds: Floats,
    groups: Sequence[Hashable],
    configs: Floats,
    *,
    sizes: Floats,
    query: Floats,
) -> DurationForecaster | None:
    """Fit a forecaster of durations to a history.

    Args:
        seconds: `m x c`, NaN = unknown.
        groups: `m`; predictions of the level are tested on datasets of other groups.
        configs: `c x p` coordinates in [0, 1].
        sizes: `m x q` features of the datasets, such as logarithms of numbers of images and classes.
        query: `q`, of the new dataset.

    Returns: the forecaster; None without any duration.
    """
    parts = _parts(seconds, groups, sizes, query)
    if parts is None:
        return None
    lengths, effect_spread = _kriging(configs[parts.columns], parts.effects, parts.noise)
    return DurationForecaster(
        configs[parts.columns], parts.effects, lengths, effect_spread, parts.level, parts.level_spread, parts.noise
    )


def measured_durations(
    seconds: Floats, groups: Sequence[Hashable], *, sizes: Floats, query: Floats
) -> dict[int, ExpectedSeconds]:
    """Forecast the seconds of a history's configurations on another machine, without runs there and without a fit.

    Args: as `fit_durations`.

    Returns: forecasts by column, of the configurations with durations.
    """
    parts = _parts(seconds, groups, sizes, query)
    if parts is None:
        return {}
    spread = np.full(len(parts.columns), math.hypot(parts.level_spread, parts.noise))
    return dict(zip(parts.columns.tolist(), _expected(parts.level + parts.effects, spread), strict=True))


def _expected(mean: Floats, spread: Floats) -> list[ExpectedSeconds]:
    """Return seconds with intervals from mean and standard deviation of their logarithms, `n` each."""
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * spread
    parts = np.exp(np.stack([mean, mean - reach, mean + reach]))
    return [ExpectedSeconds(*map(float, ends)) for ends in np.maximum(parts, SHORTEST).T]


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Parts of log seconds: level on a new dataset and machine, effects of the configurations of `columns`, noise."""

    columns: NDArray[np.intp]
    effects: Floats
    noise: float
    level: float
    level_spread: float


def _parts(seconds: Floats, groups: Sequence[Hashable], sizes: Floats, query: Floats) -> _Parts | None:
    """Split the durations of a history into parts; None without any duration."""
    logs = np.log(np.maximum(seconds, SHORTEST))
    present = ~np.isnan(logs)
    rows, columns = np.flatnonzero(present.any(axis=1)), np.flatnonzero(present.any(axis=0))
    if not len(rows):
        return None
    levels, effects, noise = _additive(logs[np.ix_(rows, columns)])
    level, spread = _level(levels, sizes[rows], [groups[row] for row in rows.tolist()], query)
    return _Parts(columns, effects, noise, level, math.hypot(spread, MACHINES))


def _additive(logs: Floats) -> tuple[Floats, Floats, float]:
    """Split logarithms `m x c` by medians into levels `m`, effects `c` with median 0, and noise."""
    levels = np.nanmedian(logs, axis=1)
    effects = np.zeros(logs.shape[1])
    for _ in range(_ROUNDS):
        effects = np.nanmedian(logs - levels[:, None], axis=0)
        effects -= np.median(effects)
        levels = np.nanmedian(logs - effects, axis=1)
    rest = logs - levels[:, None] - effects
    free = np.sum(~np.isnan(rest)) - len(levels) - len(effects) + 1
    if free < 1:
        return levels, effects, _NOISE
    return levels, effects, max(math.sqrt(np.nansum(rest**2) / free), _LEAST_NOISE)


def _level(levels: Floats, sizes: Floats, groups: Sequence[Hashable], query: Floats) -> tuple[float, float]:
    """Predict the level of a dataset, by its size if that helps on left-out groups: mean and standard deviation."""
    centre, scale = sizes.mean(axis=0), sizes.std(axis=0)
    used = scale > 1e-9
    standard = ((sizes - centre) / np.where(used, scale, 1.0))[:, used]
    query_features = ((query - centre) / np.where(used, scale, 1.0))[used]
    parts = [np.array([label == group for label in groups]) for group in dict.fromkeys(groups)]
    if len(parts) < 3:
        return float(np.mean(levels)), MACHINES
    best: tuple[float, float] | None = None
    for penalty in (_PENALTY, math.inf):
        wrong = np.concatenate(
            [levels[part] - _ridge(standard[~part], levels[~part], standard[part], penalty) for part in parts]
        )
        spread = math.sqrt(float(np.mean(wrong**2)))
        if best is None or spread < best[1]:
            best = float(_ridge(standard, levels, np.clip(query_features, -3.0, 3.0)[None], penalty)[0]), spread
    assert best is not None  # noqa: S101  there are two penalties
    return best


def _ridge(features: Floats, targets: Floats, queries: Floats, penalty: float) -> Floats:
    """Predict by a ridge regression with an intercept; an infinite penalty is the mean."""
    mean = targets.mean()
    if math.isinf(penalty) or not features.shape[1]:
        return np.full(len(queries), mean)
    centre = features.mean(axis=0)
    apart = features - centre
    weights = np.linalg.solve(apart.T @ apart + penalty * np.eye(apart.shape[1]), apart.T @ (targets - mean))
    predicted: Floats = mean + (queries - centre) @ weights
    return predicted


def _kriging(configs: Floats, effects: Floats, noise: float) -> tuple[Floats, float]:
    """Fit lengthscales and spread of effects by marginal likelihood, with weak priors."""
    from scipy.optimize import minimize

    p = configs.shape[1]
    usual = np.log(np.append(np.full(p, _LENGTH), max(float(np.std(effects)), 0.1)))
    if len(effects) < 4:
        return np.exp(usual[:-1]), _EFFECT
    squares = np.square(configs[:, None] - configs[None])

    def loss(logs: Floats) -> float:
        covariance = np.exp(2 * logs[-1] - 0.5 * squares @ np.exp(-2 * logs[:-1]))
        covariance[np.diag_indices_from(covariance)] += _nugget(noise)
        lower = np.linalg.cholesky(covariance)
        white = np.linalg.solve(lower, effects)
        return float(0.5 * white @ white + np.log(np.diag(lower)).sum() + 0.125 * np.square(logs - usual).sum())

    bounds = [*[(math.log(0.1), math.log(30.0))] * p, (math.log(0.05), math.log(5.0))]
    optimum = minimize(loss, np.clip(usual, *np.array(bounds).T), method="L-BFGS-B", bounds=bounds).x
    return np.exp(optimum[:-1]), float(math.exp(optimum[-1]))


def _nugget(noise: float) -> float:
    """Return the variance of the history's effects, each a median over datasets."""
    return noise**2 / 10 + 1e-8
