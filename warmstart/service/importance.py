"""Importance of a study's hyperparameters, by its surrogate; cached until further trials end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from warmstart.studies.results.trial import Trial
    from warmstart.studies.state.leased_trials import LeasedTrials

CACHE_SIZE = 100
LOW, HIGH = 5, 95


class Share(BaseModel):
    """Share of the variance of the predicted error that a hyperparameter has, in [0, 1]."""

    name: str
    total: float = Field(description="Interactions included; the median of the posterior.")
    low: float = Field(description="5 % of the posterior of the total lies below.")
    high: float = Field(description="5 % of the posterior of the total lies above.")
    alone: float = Field(description="By itself.")


class ImportanceRecord(BaseModel):
    """Importance of all hyperparameters of a study."""

    surrogate: str
    n_trials: int = Field(description="That ended, among them those without an error.")
    hyperparameters: list[Share] = Field(description="The most important first.")


@dataclass(slots=True)
class ImportanceCache:
    """A cache of the importance of studies; one is computed at a time."""

    _records: OrderedDict[str, ImportanceRecord] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, name: str, trials: LeasedTrials) -> ImportanceRecord:
        """Return a study's importance, computed anew if further trials ended; raises as `model_study`."""
        from warmstart.studies.results.trial import ended_trials

        with self._lock:
            ended = ended_trials(trials.queue.trials())
            record = self._records.get(name)
            if record is None or record.n_trials != len(ended):
                record = _compute_importance(name, trials, ended)
                self._records[name] = record
            self._records.move_to_end(name)
            if len(self._records) > CACHE_SIZE:
                self._records.popitem(last=False)
            return record


def _compute_importance(name: str, trials: LeasedTrials, ended: Sequence[Trial]) -> ImportanceRecord:
    from warmstart.studies.results.study_model import model_study
    from warmstart.studies.results.study_record import StudyRecord

    plan = trials.queue.plan
    settings = {"surrogate": plan.surrogate}
    model = model_study(StudyRecord(name, "", "", tuple(ended), space_json=plan.space, settings=settings))
    total, alone = model.importance.total, np.median(model.importance.alone, axis=0)
    low, middle, high = np.percentile(total, [LOW, 50, HIGH], axis=0)
    columns = zip(model.importance.names, middle, low, high, alone, strict=True)
    shares = [
        Share(name=hyperparameter, total=_round(a), low=_round(b), high=_round(c), alone=_round(d))
        for hyperparameter, a, b, c, d in columns
    ]
    shares.sort(key=lambda share: -share.total)
    return ImportanceRecord(surrogate=plan.surrogate, n_trials=len(ended), hyperparameters=shares)


def _round(share: float) -> float:
    return round(float(share), 4)
