"""A study whose values are those of its metric, for its own programs: they read and write errors to minimise."""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from optuna.study import Study, StudyDirection

from warmstart.studies.state.attributes import ACTUAL, PROMISED

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState

    from warmstart.studies.objectives.metric import Metric
    from warmstart.studies.state.spec import StudySpec


def study_of_errors(study: Study, plan: StudySpec) -> Study:
    """Return a study whose values are errors; the same one where they are stored so."""
    if not plan.has_metric_values:
        return study
    view: Any = MetricStorage(study._storage, plan.measure)  # noqa: SLF001  the storage that it was opened with
    return Study(study.study_name, view)


def in_errors(trial: FrozenTrial, metric: Metric) -> FrozenTrial:
    """Return a trial that is stored with values of a metric with errors instead."""
    if not trial.values and not trial.intermediate_values:
        return trial
    shown = copy.copy(trial)
    _convert(shown, metric.error_of)
    return shown


class MetricStorage:
    """Storage of a study with values of a metric; everything but values is delegated to it."""

    def __init__(self, storage: BaseStorage, metric: Metric) -> None:
        self._storage, self._metric = storage, metric
        self._ended: dict[int, FrozenTrial] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_study_directions(self, _study_id: int) -> list[StudyDirection]:
        """Return the direction of errors."""
        return [StudyDirection.MINIMIZE]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial with errors."""
        return self._with_errors(self._storage.get_trial(trial_id))

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """Return the best trial with errors."""
        return self._with_errors(self._storage.get_best_trial(study_id))

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,  # noqa: FBT001, FBT002  as Optuna has it
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return all trials with errors."""
        trials = [self._with_errors(t) for t in self._storage.get_all_trials(study_id, deepcopy=False, states=states)]
        return copy.deepcopy(trials) if deepcopy else trials

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Store a new trial, with values of the metric for its errors."""
        if template_trial is not None:
            template_trial = copy.copy(template_trial)
            _convert(template_trial, self._metric.to_value)
        return self._storage.create_new_trial(study_id, template_trial)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Store state and values of the metric for errors."""
        stored = None if values is None else [self._metric.to_value(error) for error in values]
        return self._storage.set_trial_state_values(trial_id, state, stored)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Store an attribute; of promised and actual errors the metric, since people read them beside it."""
        is_error = key in (PROMISED, ACTUAL) and value is not None
        self._storage.set_trial_user_attr(trial_id, key, self._metric.to_value(value) if is_error else value)

    def _with_errors(self, trial: FrozenTrial) -> FrozenTrial:
        """Return a trial with errors; of an ended one the same object each time."""
        if not trial.values and not trial.intermediate_values:
            return trial
        number = trial._trial_id  # noqa: SLF001  storages know trials by it
        if number not in self._ended:
            shown = copy.copy(trial)
            _convert(shown, self._metric.error_of)
            if not trial.state.is_finished():
                return shown
            self._ended[number] = shown
        return self._ended[number]


def _convert(trial: FrozenTrial, convert: Any) -> None:
    """Convert the value and the reports of a trial in place."""
    if trial.values:
        trial.values = [convert(value) for value in trial.values]
    trial.intermediate_values = {step: convert(value) for step, value in trial.intermediate_values.items()}
