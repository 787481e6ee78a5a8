"""Importance of hyperparameters and error profiles, by the surrogate of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo import Optimizer
from warmstart.bo.error_units import Band, ErrorUnits, all_equal
from warmstart.bo.importance import Importance, importance, profiles
from warmstart.bo.surrogates import Prediction
from warmstart.history_store.errors import DataError
from warmstart.history_store.one_thread import one_thread
from warmstart.studies.results.trial import Trial

if TYPE_CHECKING:
    from warmstart.bo.importance import Profile
    from warmstart.studies.results.study_record import StudyRecord

LEAST = 5
"""Smallest number of trials with an error for a model."""
MOST = 200
"""Largest number of trials for the model; of more, the best ones and others spread over the study."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyModel:
    """Importance and error profiles by a surrogate of a study's trials.

    Attributes:
        importance: of each hyperparameter with at least two evaluated values.
        profiles: predicted errors along each hyperparameter, the others as in the best trial.
        never_varied: the other hyperparameters: no trial informs the surrogate on them.
    """

    importance: Importance
    profiles: Sequence[Profile]
    never_varied: tuple[str, ...] = ()


def model_study(record: StudyRecord, *, seed: int = 0) -> StudyModel:
    """Fit the study's surrogate to its trials, without related datasets.

    Raises:
        DataError: fewer than `LEAST` trials with an error, errors that are all equal, or no space.
    """
    from warmstart.bo.diagnostics import read_run

    trials = [trial for trial in record.trials if trial.error is not None and trial.feasible]
    space = record.space
    if space is None or len(trials) < LEAST:
        got = "none that share a space" if space is None else f"{len(trials)}"
        msg = f"{record.name}: expected at least {LEAST} trials with a result, all constraints met, for importance and slices, got {got}. Run some more."
        raise DataError(msg)
    if all_equal(np.array([trial.error for trial in trials], dtype=np.float64)):
        msg = f"{record.name}: expected errors that differ for importance and slices, got {len(trials)} that are all equal: nothing to tell apart. Run other configurations, or a metric that is finer."
        raise DataError(msg)
    trials = _thinned(trials)
    search = record.settings or {}
    surrogate = search.get("surrogate") or "gp"
    optimizer = Optimizer(space, surrogate=surrogate, seed=seed, restarts=False)
    for trial in trials:
        optimizer.tell(trial.config, trial.error)
    run = read_run(optimizer.to_dict())
    fitted, evidence, encoding = run.fitted(), run.evidence(), run.encoding

    def predict(points: NDArray[np.float64]) -> tuple[Prediction, ErrorUnits]:
        predicted = fitted.predict(evidence, encoding.columns(points))
        if predicted is None:
            msg = f"{record.name}: expected enough trials for the surrogate {surrogate}, got {len(trials)}. Run some more."
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
        total, error_profiles = importance(means, encoding, rng=rng), profiles(band, encoding, best)
    is_varied = [len({trial.config[name] for trial in trials if name in trial.config}) > 1 for name in total.names]
    varied = Importance(tuple(compress(total.names, is_varied)), total.total[:, is_varied], total.alone[:, is_varied])
    return StudyModel(varied, error_profiles, tuple(name for name in total.names if name not in varied.names))


def _thinned(trials: Sequence[Trial]) -> list[Trial]:
    """Return at most `MOST` trials in their order: the best half, and others in equal steps of the study."""
    if len(trials) <= MOST:
        return list(trials)
    ranked = sorted(range(len(trials)), key=lambda row: trials[row].error or 0.0)[: MOST // 2]
    remainder = sorted(set(range(len(trials))) - set(ranked))
    steps = np.linspace(0, len(remainder) - 1, MOST - len(ranked)).round().astype(int)
    return [trials[row] for row in sorted({*ranked, *(remainder[step] for step in steps.tolist())})]
