"""Remove, rename and begin studies anew."""

from __future__ import annotations

import optuna
from optuna.trial import TrialState

from warmstart.history_store.errors import UsageError
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.state.storage import Store, quiet_optuna
from warmstart.studies.state.trial_queue import interrupted_numbers, plan_of


def begins_anew(store: Store, name: str, plan: StudySpec) -> bool:
    """Tell whether a study may be begun anew under its name: no trial has a result, none is running."""
    study = _load(store, name)
    with store.guard():
        trials = study.get_trials(deepcopy=False)
    if any(trial.state == TrialState.COMPLETE or trial.intermediate_values for trial in trials):
        return False
    return not _running(store, study, plan)


def count_trials(store: Store, name: str) -> int:
    """Return the number of a study's trials."""
    study = _load(store, name)
    with store.guard():
        return len(study.get_trials(deepcopy=False))


def remove_study(store: Store, name: str) -> int:
    """Remove a study and its trials; return their number.

    Raises:
        UsageError: a trial of it is running.
        StorageError: the storage does not answer.
    """
    study = _load(store, name)
    _check_idle(store, study)
    with store.guard():
        n_trials = len(study.get_trials(deepcopy=False))
        optuna.delete_study(study_name=name, storage=store.optuna)
    return n_trials


def rename_study(store: Store, name: str, new: str) -> int:
    """Rename a study; return the number of its trials.

    Optuna's storages cannot rename: the study is copied, then removed. After a kill in between there are both.

    Raises:
        UsageError: a trial of it is running, it is tuned together with others, or there is a study of the new name.
        StorageError: the storage does not answer.
    """
    study = _load(store, name)
    plan = _check_idle(store, study)
    if plan is not None and plan.members:
        msg = f"{name}: expected a study of its own, got one of {len(plan.members)} that are tuned together and know each other by name. Keep the name."
        raise UsageError(msg)
    with store.guard():
        names = optuna.get_all_study_names(store.optuna)
    if new in names:
        msg = f"expected a name that no study has, got {new!r}. Take another, or delete that one first."
        raise UsageError(msg)
    with store.guard(), quiet_optuna():
        optuna.copy_study(from_study_name=name, from_storage=store.optuna, to_storage=store.optuna, to_study_name=new)
        optuna.delete_study(study_name=name, storage=store.optuna)
        return len(optuna.load_study(study_name=new, storage=store.optuna).get_trials(deepcopy=False))


def _load(store: Store, name: str) -> optuna.Study:

    with store.guard():
        return optuna.load_study(study_name=name, storage=store.optuna)


def _check_idle(store: Store, study: optuna.Study) -> StudySpec | None:
    """Check that no trial of a study is running; return its plan.

    Raises:
        UsageError: one is.
    """
    with store.guard():
        plan = plan_of(store, study)
    if running := _running(store, study, plan):
        numbers = ", ".join(map(str, running[:5]))
        msg = f"{study.study_name}: expected a study at rest, got trials under way ({numbers}). Stop them first."
        raise UsageError(msg)
    return plan


def _running(store: Store, study: optuna.Study, plan: StudySpec | None) -> list[int]:
    """Return the numbers of the trials that a worker is running."""
    with store.guard():
        trials = study.get_trials(deepcopy=False)
    unended = [trial.number for trial in trials if not trial.state.is_finished()]
    if plan is None or not unended:
        return [] if plan is None else unended
    lost = interrupted_numbers(store, study, plan, trials)
    return [number for number in unended if number not in lost]
