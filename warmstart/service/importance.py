"""Models of studies, cached until further trials end, and the importance of hyperparameters by them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from warmstart.studies.results.study_model import StudyModel
    from warmstart.studies.results.study_record import StudyRecord

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
class ModelCache:
    """A cache of the models of studies; one is fitted at a time."""

    _models: OrderedDict[str, tuple[int, StudyModel]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, record: StudyRecord) -> StudyModel:
        """Return the model of a study, fitted anew if further trials ended; raises as `model_study`."""
        from warmstart.studies.results.study_model import model_study

        with self._lock:
            n_ended, model = self._models.get(record.name, (-1, None))
            if model is None or n_ended != len(record.trials):
                model = model_study(record)
                self._models[record.name] = len(record.trials), model
            self._models.move_to_end(record.name)
            if len(self._models) > CACHE_SIZE:
                self._models.popitem(last=False)
            return model

    def forget(self, name: str) -> None:
        """Remove the model of a study that is gone."""
        with self._lock:
            self._models.pop(name, None)


def importance_record(record: StudyRecord, model: StudyModel) -> ImportanceRecord:
    """Return the importance of the hyperparameters of a study by its model."""
    total, alone = model.importance.total, np.median(model.importance.alone, axis=0)
    low, middle, high = np.percentile(total, [LOW, 50, HIGH], axis=0)
    columns = zip(model.importance.names, middle, low, high, alone, strict=True)
    shares = [
        Share(name=hyperparameter, total=_round(a), low=_round(b), high=_round(c), alone=_round(d))
        for hyperparameter, a, b, c, d in columns
    ]
    shares.sort(key=lambda share: -share.total)
    surrogate = (record.settings or {}).get("surrogate", "gp")
    return ImportanceRecord(surrogate=surrogate, n_trials=len(record.trials), hyperparameters=shares)


def _round(share: float) -> float:
    return round(float(share), 4)
