"""Comparison of a search with uniform sampling of as many configurations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from ConfigSpace import ConfigurationSpace
from numpy.typing import NDArray

from warmstart.bo.error_units import MANY_FAIL, WARPING, ErrorUnits, preferred_logarithms
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import SURROGATES
from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.wording import counted
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.trial import Trial

LEAST = 10
"""Smallest number of trials with an error for a comparison."""
SETS = 40
"""Sets of uniform configurations; fewer large ones, at least `SETS // 10`."""
POINTS = 8000
"""Uniform configurations of all sets together."""
DRAWS = 8
"""Function draws per set and posterior sample."""
LEVEL = 0.9
Verdict = Literal["better", "worse", "unknown"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors of the search and of as many uniform configurations, predicted by the final surrogate.

    Attributes:
        n: trials with an error, and uniform configurations of a set.
        found: median predicted error of the best configuration, without noise; None with too few trials.
        uniform: the same of the best of n uniform configurations; None with too few trials.
        gain: 90 % interval of uniform - found; None with too few trials.
        verdict: ``better`` or ``worse`` than uniform if the interval excludes 0, else ``unknown``.
    """

    n: int
    found: float | None
    uniform: float | None
    gain: tuple[float, float] | None
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the line, for JSON."""
        return asdict(self) | {"gain": None if self.gain is None else list(self.gain), "line": self.line}

    @property
    def line(self) -> str:
        """Return the comparison as a sentence."""
        if self.gain is None or self.found is None or self.uniform is None:
            return f"Against uniform configurations: cannot tell from {counted(self.n, 'result')}; {LEAST} are needed."
        relation = {"better": "is better than", "worse": "is worse than", "unknown": "cannot be told from"}[
            self.verdict
        ]
        low, high = self.gain
        return f"Under the final surrogate the best found {relation} the best of {self.n} uniform configurations: {self.found:.4g} against {self.uniform:.4g}, a gain of {low:.2g} to {high:.2g} (90 %)."


def compare_with_uniform(
    space: ConfigurationSpace, trials: Sequence[Trial], *, surrogate: str, seed: int, least: float = -math.inf
) -> Comparison:
    """Compare the best trial with the best of as many uniform configurations.

    The surrogate is fitted to all errors, or to their logarithms if the search prefers these. Each joint draw has an
    error of the best configuration and of a set of uniform ones. Of these the one with the least noisy error counts,
    with its error without noise. Failures are not modelled: all uniform configurations count.

    Args:
        space: of the study.
        trials: that ended.
        surrogate: a name in `warmstart.bo.surrogates.SURROGATES`.
        seed: of everything random.
        least: lower bound of the error; draws are clipped to it.
    """
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    n = len(valid)
    if n < LEAST:
        return Comparison(n, None, None, None, "unknown")
    n_failed = sum(trial.status is not TrialStatus.PRUNED for trial in trials) - n
    with one_thread():
        draws = _draw_best_errors(space, valid, n_failed, surrogate, seed)
    best_errors, uniform_errors = (np.maximum(errors, least) for errors in draws)
    low, high = np.quantile(uniform_errors - best_errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    verdict: Verdict = "better" if low > 0 else "worse" if high < 0 else "unknown"
    return Comparison(n, float(np.median(best_errors)), float(np.median(uniform_errors)), (low, high), verdict)


def _draw_best_errors(
    space: ConfigurationSpace, valid: Sequence[Trial], n_failed: int, surrogate: str, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw errors of the best trial and of the best of as many uniform configurations from the surrogate."""
    n = len(valid)
    rng = np.random.default_rng([seed, 1])
    encoding = Encoding(space)
    X = encoding.columns(encoding.encode([trial.config for trial in valid]))
    y = np.array([trial.error for trial in valid])
    warps = surrogate in WARPING and n_failed <= MANY_FAIL * (n + n_failed)  # as in the search
    z, units = (warps and preferred_logarithms(X, y, encoding.conditional)) or ErrorUnits.standard(y)
    model = SURROGATES[surrogate](conditional=encoding.conditional).fit(X, z, rng=rng)
    best = X[y.argmin()][None]
    noise_sd = np.sqrt(model.predict(best).noise)[:, None, None]
    best_draws, uniform_draws = [], []
    for _ in range(max(SETS // 10, min(SETS, POINTS // n))):
        points = encoding.columns(encoding.sample(n, design="uniform", rng=rng))
        draws = model.sample_joint(np.vstack([best, points]), DRAWS, rng=rng)
        candidates = draws[:, :, 1:]
        # Chosen by the noisy error, as a search does, and judged without the noise.
        chosen = (candidates + noise_sd * rng.standard_normal(candidates.shape)).argmin(axis=2)
        best_draws.append(draws[:, :, 0].ravel())
        uniform_draws.append(np.take_along_axis(candidates, chosen[:, :, None], axis=2).ravel())
    return units.errors(np.concatenate(best_draws)), units.errors(np.concatenate(uniform_draws))
