"""How many seconds a configuration takes on a new dataset and machine, from the durations of a history and of the first runs.

The logarithm of a duration is a level, which the dataset and the machine share, plus an effect of the configuration, plus noise. The history
tells the effects well, and the level only where dataset and machine are alike: one run, or a short part of one, tells that. Configurations that
the history never measured lie between those that it did (kriging with a lengthscale for each hyperparameter). All is one Gaussian, so that runs
condition it at once. Without a history the same Gaussian starts from wide priors, and runs alone tell.
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
"""Share of the cases in which a duration is to lie in its interval."""
SHORTEST = 1e-3
"""Seconds that a run takes at least."""
MACHINES = math.log(2.0)
"""Standard deviation of the logarithm of how much slower one machine is than another."""
UNKNOWN = 5.0
"""The same of a level of which nothing is known."""
_EFFECT, _LENGTH, _NOISE = 1.0, 0.7, 0.15
"""Priors without a history: spread of effects, lengthscale in the unit cube, noise of a run."""
_MOMENT, _SHARES = 0.15, 200
"""Noise of a short moment, as a standard deviation of the logarithm of its seconds; shares of what grows with a run that are tried."""
_LEAST_NOISE = 0.03
_PENALTY = 1.0
_ROUNDS = 20
_SHRINK = 3.0
"""Told runs as which the prior of the noise counts."""


@dataclass(frozen=True, slots=True)
class ExpectedSeconds:
    """Seconds of a run, above 0, and the interval in which the truth lies with probability `LEVEL`."""

    value: float
    low: float
    high: float

    def after(self, seconds: float) -> Self:
        """Return the seconds of the run together with some that come before it."""
        return replace(self, value=self.value + seconds, low=self.low + seconds, high=self.high + seconds)

    def to_dict(self) -> dict[str, float]:
        """Return the fields, rounded."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run whose duration is known.

    Attributes:
        config: `p` coordinates in [0, 1].
        seconds: that it took, above 0.
        spread: standard deviation of the logarithm that the measurement adds, as that of a part of a run does.
    """

    config: Floats
    seconds: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class DurationForecaster:
    """What is known of durations before any run on the dataset.

    Attributes:
        configs: `c x p` configurations of the history, in the unit cube; none without a history.
        effects: `c` logarithms of their seconds, less the level.
        lengths: `p` lengthscales.
        effect_spread: standard deviation of an effect of which nothing is known.
        level: expected logarithm of seconds where the effect is 0.
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
        own = self._kernel(self.configs, self.configs)
        own[np.diag_indices_from(own)] += _nugget(self.noise)
        object.__setattr__(self, "_inverse", np.linalg.inv(own))

    @property
    def knows_level(self) -> bool:
        """Tell whether the history says how long runs take, not only which take longer."""
        return self.level_spread < UNKNOWN

    def forecast(self, configs: ArrayLike, told: Sequence[TimedRun] = ()) -> list[ExpectedSeconds]:
        """Forecast the seconds of configurations.

        Args:
            configs: `n x p` coordinates in [0, 1].
            told: runs on the same dataset and machine.
        """
        return _expected(*self._conditioned(np.atleast_2d(np.asarray(configs, dtype=np.float64)), told))

    def chance_within(self, configs: ArrayLike, seconds: float, told: Sequence[TimedRun] = ()) -> Floats:
        """Compute the probability that runs of `n` configurations end within some seconds: `n` in [0, 1]."""
        points = np.atleast_2d(np.asarray(configs, dtype=np.float64))
        if not seconds > 0:
            return np.zeros(len(points))
        mean, spread = self._conditioned(points, told)
        from scipy.special import ndtr

        chances: Floats = ndtr((math.log(seconds) - mean) / spread)
        return chances

    def _conditioned(self, points: Floats, told: Sequence[TimedRun]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the logarithms of seconds: `n` each."""
        known = np.stack([run.config for run in told]) if told else points[:0]
        both = np.vstack([known, points])
        across = self._kernel(both, self.configs)
        mean = self.level + across @ self._inverse @ self.effects
        covariance = self._kernel(both, both) - across @ self._inverse @ across.T + self.level_spread**2
        n = len(known)
        came = np.log(np.maximum([run.seconds for run in told], SHORTEST)) - mean[:n]
        added = np.square([run.spread for run in told])
        noise = self._noise(covariance[:n, :n], came, added)
        left = covariance[:n, :n] + np.diag(added + noise**2)
        gain = np.linalg.solve(left, covariance[:n, n:])
        variance = np.diag(covariance)[n:] - np.einsum("kn,kn->n", gain, covariance[:n, n:])
        return mean[n:] + came @ gain, np.sqrt(np.maximum(variance, 0.0) + noise**2)

    def _noise(self, covariance: Floats, came: Floats, added: Floats) -> float:
        """Return the noise of runs here: wider than the history's where those that came scatter more, as on a busy machine."""
        n = len(came)
        if n < 2:
            return self.noise
        left = covariance + np.diag(added + self.noise**2)
        surprise = float(came @ np.linalg.solve(left, came)) / n  # 1 where all is as stated
        return self.noise * math.sqrt(max(1.0, (_SHRINK + n * surprise) / (_SHRINK + n)))

    def _kernel(self, one: Floats, other: Floats) -> Floats:
        apart = (one[:, None] - other[None]) / self.lengths
        found: Floats = self.effect_spread**2 * np.exp(-0.5 * np.square(apart).sum(axis=-1))
        return found


def whole_seconds(moments: Sequence[tuple[float, float]], amount: float) -> tuple[float, float]:
    """Extrapolate the seconds of a whole run from short ones, each an amount and its seconds.

    What a run takes is a part that its length does not change, and a part in proportion to it. Each moment has the noise of a machine that
    others use too.

    Returns: the seconds, and the standard deviation of their logarithm.
    """
    lengths, seconds = np.array(moments, np.float64).T
    # Jeffreys' prior of a share, of what the longest moment takes: nearly none and nearly all are common.
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
    """Return what is known of durations over `p` hyperparameters where no history tells."""
    return DurationForecaster(np.zeros((0, p)), np.zeros(0), np.full(p, _LENGTH))


def fit_durations(
    seconds: Floats,
    groups: Sequence[Hashable],
    configs: Floats,
    *,
    sizes: Floats,
    query: Floats,
) -> DurationForecaster | None:
    """Fit a forecast of durations to a history.

    Args:
        seconds: `m x c`, NaN = not known.
        groups: `m`; how well the level of a dataset is told is measured on datasets of other groups.
        configs: `c x p` coordinates in [0, 1].
        sizes: `m x q` features of the datasets, such as logarithms of numbers of images and classes.
        query: `q`, of the new dataset.

    Returns: the forecast; None where no duration is known.
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
    """Forecast the seconds of a history's own configurations, by their columns, on another machine; without runs there, a fit takes no time.

    Args: as `fit_durations`.

    Returns: those of the configurations whose durations are known.
    """
    parts = _parts(seconds, groups, sizes, query)
    if parts is None:
        return {}
    spread = np.full(len(parts.columns), math.hypot(parts.level_spread, parts.noise))
    return dict(zip(parts.columns.tolist(), _expected(parts.level + parts.effects, spread), strict=True))


def _expected(mean: Floats, spread: Floats) -> list[ExpectedSeconds]:
    """Return seconds and their intervals by mean and standard deviation of logarithms, `n` each."""
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * spread
    parts = np.exp(np.stack([mean, mean - reach, mean + reach]))
    return [ExpectedSeconds(*map(float, each)) for each in np.maximum(parts, SHORTEST).T]


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Logarithms of seconds as a level on a new dataset and machine, effects of the configurations of some columns, and noise."""

    columns: NDArray[np.intp]
    effects: Floats
    noise: float
    level: float
    level_spread: float


def _parts(seconds: Floats, groups: Sequence[Hashable], sizes: Floats, query: Floats) -> _Parts | None:
    """Split what a history knows of durations; None where it knows none."""
    logs = np.log(np.maximum(seconds, SHORTEST))
    known = ~np.isnan(logs)
    rows, columns = np.flatnonzero(known.any(axis=1)), np.flatnonzero(known.any(axis=0))
    if not len(rows):
        return None
    levels, effects, noise = _additive(logs[np.ix_(rows, columns)])
    level, spread = _level(levels, sizes[rows], [groups[row] for row in rows.tolist()], query)
    return _Parts(columns, effects, noise, level, math.hypot(spread, MACHINES))


def _additive(logs: Floats) -> tuple[Floats, Floats, float]:
    """Split logarithms `m x c` into levels `m`, effects `c` with median 0, and the noise around their sum; by medians."""
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
    """Predict the level of a dataset by its size where that helps on groups left out; return it and its standard deviation."""
    centre, scale = sizes.mean(axis=0), sizes.std(axis=0)
    used = scale > 1e-9
    standard = ((sizes - centre) / np.where(used, scale, 1.0))[:, used]
    asked = ((query - centre) / np.where(used, scale, 1.0))[used]
    parts = [np.array([each == group for each in groups]) for group in dict.fromkeys(groups)]
    if len(parts) < 3:
        return float(np.mean(levels)), MACHINES
    best: tuple[float, float] | None = None
    for penalty in (_PENALTY, math.inf):
        wrong = np.concatenate(
            [levels[part] - _ridge(standard[~part], levels[~part], standard[part], penalty) for part in parts]
        )
        spread = math.sqrt(float(np.mean(wrong**2)))
        if best is None or spread < best[1]:
            best = float(_ridge(standard, levels, np.clip(asked, -3.0, 3.0)[None], penalty)[0]), spread
    assert best is not None  # noqa: S101  there are two penalties
    return best


def _ridge(features: Floats, targets: Floats, asked: Floats, penalty: float) -> Floats:
    """Predict by a ridge regression with an intercept; an infinite penalty is the mean."""
    mean = targets.mean()
    if math.isinf(penalty) or not features.shape[1]:
        return np.full(len(asked), mean)
    centre = features.mean(axis=0)
    apart = features - centre
    weights = np.linalg.solve(apart.T @ apart + penalty * np.eye(apart.shape[1]), apart.T @ (targets - mean))
    predicted: Floats = mean + (asked - centre) @ weights
    return predicted


def _kriging(configs: Floats, effects: Floats, noise: float) -> tuple[Floats, float]:
    """Find lengthscales and spread of effects by their marginal likelihood, weakly drawn to the priors."""
    from scipy.optimize import minimize

    p = configs.shape[1]
    usual = np.log(np.append(np.full(p, _LENGTH), max(float(np.std(effects)), 0.1)))
    if len(effects) < 4:
        return np.exp(usual[:-1]), _EFFECT
    squares = np.square(configs[:, None] - configs[None])

    def loss(logs: Floats) -> float:
        own = np.exp(2 * logs[-1] - 0.5 * squares @ np.exp(-2 * logs[:-1]))
        own[np.diag_indices_from(own)] += _nugget(noise)
        lower = np.linalg.cholesky(own)
        white = np.linalg.solve(lower, effects)
        return float(0.5 * white @ white + np.log(np.diag(lower)).sum() + 0.125 * np.square(logs - usual).sum())

    bounds = [*[(math.log(0.1), math.log(30.0))] * p, (math.log(0.05), math.log(5.0))]
    found = minimize(loss, np.clip(usual, *np.array(bounds).T), method="L-BFGS-B", bounds=bounds).x
    return np.exp(found[:-1]), float(math.exp(found[-1]))


def _nugget(noise: float) -> float:
    """Return the variance with which the history's effects are known: each is a median over datasets."""
    return noise**2 / 10 + 1e-8
