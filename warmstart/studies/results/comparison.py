"""Was the search worth it: the best found beside the best of as many uniform configurations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.one_thread import one_thread
from warmstart.history_store.wording import counted
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.trial import Trial

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

LEAST = 10
"""Trials with an error below which nothing is said."""
SETS = 40
"""Sets of uniform configurations; fewer where they are large, at least `SETS // 10`."""
POINTS = 8000
"""Uniform configurations of all sets together."""
DRAWS = 8
"""Functions drawn a set and posterior sample."""
LEVEL = 0.9
Verdict = Literal["better", "worse", "unknown"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What as many uniform configurations would have come to, under the surrogate that saw all trials.

    Attributes:
        n: trials that gave an error, and uniform configurations of a set.
        found: error of the best configuration as the surrogate sees it, noise left out: the median.
        uniform: error of the best of n uniform ones likewise; None where nothing can be said.
        gain: by how much the uniform ones are worse: the ends of a 90 % interval; None likewise.
        verdict: ``better`` or ``worse`` than uniform where the interval leaves 0 out, else ``unknown``.
    """

    n: int
    found: float | None
    uniform: float | None
    gain: tuple[float, float] | None
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON has it."""
        return asdict(self) | {"gain": None if self.gain is None else list(self.gain), "line": self.line}

    @property
    def line(self) -> str:
        """Say it in one line."""
        if self.gain is None or self.found is None or self.uniform is None:
            trials = counted(self.n, "trial")
            return f"Against uniform configurations: cannot tell from {trials} with an error; {LEAST} are needed."
        how = {"better": "is better than", "worse": "is worse than", "unknown": "cannot be told from"}[self.verdict]
        low, high = self.gain
        return f"Under the final surrogate the best found {how} the best of {self.n} uniform configurations: {self.found:.4g} against {self.uniform:.4g}, a gain of {low:.2g} to {high:.2g} (90 %)."


def compare_with_uniform(
    space: ConfigurationSpace, trials: Sequence[Trial], *, surrogate: str, seed: int, least: float = -math.inf
) -> Comparison:
    """Compare the best found with the best of as many uniform configurations.

    The surrogate is fitted to all errors, or to their logarithms where the search prefers these. Each of its joint draws gives
    errors to the best configuration and to a set of uniform ones, of which the one with the least error, noise added as in the
    study, is taken. Configurations that would fail are not told apart: the uniform ones all count.

    Args:
        space: of the study.
        trials: that ended.
        surrogate: a name in `warmstart.bo.surrogates.SURROGATES`.
        seed: of everything random.
        least: error below which there is none; draws below it count as it.
    """
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    n = len(valid)
    if n < LEAST:
        return Comparison(n, None, None, None, "unknown")
    n_failed = sum(trial.status is not TrialStatus.PRUNED for trial in trials) - n
    with one_thread():
        drawn = _drawn(space, valid, n_failed, surrogate, seed)
    ours, theirs = (np.maximum(each, least) for each in drawn)
    low, high = np.quantile(theirs - ours, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    verdict: Verdict = "better" if low > 0 else "worse" if high < 0 else "unknown"
    return Comparison(n, float(np.median(ours)), float(np.median(theirs)), (low, high), verdict)


def _drawn(
    space: ConfigurationSpace, valid: Sequence[Trial], n_failed: int, surrogate: str, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw errors of the best trial, and of the best of as many uniform configurations, from a surrogate of all trials."""
    from warmstart.bo.error_units import MANY_FAIL, WARPING, ErrorUnits, preferred_logarithms
    from warmstart.bo.space.encoding import Encoding
    from warmstart.bo.surrogates import SURROGATES

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
    found, uniform = [], []
    for _ in range(max(SETS // 10, min(SETS, POINTS // n))):
        points = encoding.columns(encoding.sample(n, design="uniform", rng=rng))
        drawn = model.sample_joint(np.vstack([best, points]), DRAWS, rng=rng)
        others = drawn[:, :, 1:]
        chosen = (others + noise_sd * rng.standard_normal(others.shape)).argmin(axis=2)
        found.append(drawn[:, :, 0].ravel())
        uniform.append(np.take_along_axis(others, chosen[:, :, None], axis=2).ravel())
    return units.errors(np.concatenate(found)), units.errors(np.concatenate(uniform))
