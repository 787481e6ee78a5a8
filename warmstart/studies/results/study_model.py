"""What the surrogate of a study makes of its trials: which hyperparameters matter, and how the error runs along each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError
from warmstart.history_store.one_thread import one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warmstart.bo.error_units import Band, ErrorUnits
    from warmstart.bo.importance import Importance, Profile
    from warmstart.bo.surrogates import Prediction
    from warmstart.studies.results.study_record import StudyRecord
    from warmstart.studies.results.trial import Trial

LEAST = 5
"""Trials with an error below which a model says nothing."""
MOST = 200
"""Trials that the model sees; of more, the best ones and others spread over the study."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyModel:
    """What a surrogate that saw this study's own trials believes.

    Attributes:
        importance: of each hyperparameter of which two values were tried.
        profiles: predicted errors along each, the others as in the best trial.
        never_varied: the other hyperparameters: what the surrogate believes of them comes from no trial.
    """

    importance: Importance
    profiles: Sequence[Profile]
    never_varied: tuple[str, ...] = ()


def model_study(found: StudyRecord, *, seed: int = 0) -> StudyModel:
    """Fit the study's surrogate to its trials; related datasets do not count.

    Raises:
        DataError: fewer than `LEAST` trials with an error, errors that are all equal, or no space.
    """
    from warmstart.bo import Optimizer
    from warmstart.bo.diagnostics import read_run
    from warmstart.bo.error_units import all_equal
    from warmstart.bo.importance import Importance, importance, profiles

    trials = [trial for trial in found.trials if trial.error is not None and trial.feasible]
    space = found.space
    if space is None or len(trials) < LEAST:
        got = "none that share a space" if space is None else f"{len(trials)}"
        msg = f"{found.name}: expected at least {LEAST} trials with an error, all constraints met, for importance and slices, got {got}. Run some more."
        raise DataError(msg)
    if all_equal(np.array([trial.error for trial in trials], dtype=np.float64)):
        msg = f"{found.name}: expected errors that differ for importance and slices, got {len(trials)} that are all equal: nothing to tell apart. Run other configurations, or a metric that is finer."
        raise DataError(msg)
    trials = _thinned(trials)
    search = found.settings or {}
    surrogate = search.get("surrogate") or "gp"
    optimizer = Optimizer(space, surrogate=surrogate, seed=seed, restarts=False)
    for trial in trials:
        optimizer.tell(trial.config, trial.error)
    run = read_run(optimizer.to_dict())
    fitted, evidence, encoding = run.fitted(), run.evidence(), run.encoding

    def predict(points: NDArray[np.float64]) -> tuple[Prediction, ErrorUnits]:
        predicted = fitted.predict(evidence, encoding.columns(points))
        if predicted is None:
            msg = (
                f"{found.name}: expected enough trials for the surrogate {surrogate}, got {len(trials)}. Run some more."
            )
            raise DataError(msg)
        return predicted

    def means(points: NDArray[np.float64]) -> NDArray[np.float64]:
        prediction, units = predict(points)
        return units.errors(prediction.mean)

    def band(points: NDArray[np.float64]) -> Band:
        prediction, units = predict(points)
        return units.band(prediction)

    best = run.points[int(np.nanargmin(run.errors))]
    rng = np.random.default_rng(seed)
    with one_thread():
        whole, cuts = importance(means, encoding, rng=rng), profiles(band, encoding, best)
    tried = [len({trial.config[name] for trial in trials if name in trial.config}) > 1 for name in whole.names]
    varied = Importance(tuple(compress(whole.names, tried)), whole.total[:, tried], whole.alone[:, tried])
    return StudyModel(varied, cuts, tuple(name for name in whole.names if name not in varied.names))


def _thinned(trials: Sequence[Trial]) -> list[Trial]:
    """Keep the best trials, and others in equal steps of the study, in their order."""
    if len(trials) <= MOST:
        return list(trials)
    ranked = sorted(range(len(trials)), key=lambda row: trials[row].error or 0.0)[: MOST // 2]
    rest = sorted(set(range(len(trials))) - set(ranked))
    steps = np.linspace(0, len(rest) - 1, MOST - len(ranked)).round().astype(int)
    return [trials[row] for row in sorted({*ranked, *(rest[step] for step in steps.tolist())})]
