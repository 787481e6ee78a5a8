"""Studies of a storage in brief, without reading their trials one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from optuna.storages._rdb import models
from optuna.study import StudyDirection
from optuna.study._constrained_optimization import _CONSTRAINTS_KEY
from optuna.trial import TrialState
from sqlalchemy import func, select

from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.studies.results.trial import best_of, ended_trials
from warmstart.studies.state.attributes import ARCHIVED, OWNER
from warmstart.studies.state.metric_storage import in_errors
from warmstart.studies.state.trial_queue import interrupted_numbers, plan_in
from warmstart.studies.state.trial_tables import database_of, reading

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.study._frozen import FrozenStudy

    from warmstart.studies.state.spec import StudySpec
    from warmstart.studies.state.storage import Store


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A study in brief.

    Attributes:
        name: of the study.
        metric: as people read it.
        error: of the best trial; None without one, and of several objectives.
        trials: number of all.
        running: number of those under way, without interrupted ones.
        changed: when a trial last began or ended; None without one.
        owner: who began it; None if unknown.
        is_archived: whether it is out of sight.
    """

    name: str
    metric: Metric
    error: float | None
    trials: int
    running: int
    changed: datetime | None
    owner: str | None
    is_archived: bool


@dataclass(slots=True)
class _Tally:
    """Numbers of a study's trials by state, the least and the greatest stored value, and the last change."""

    counts: Counter[TrialState] = field(default_factory=Counter)
    least: float | None = None
    greatest: float | None = None
    changed: datetime | None = None
    has_constraints: bool = False


def study_summaries(store: Store) -> list[StudySummary]:
    """Return all studies of a storage, in the order in which they were begun; nothing is written.

    Raises:
        StorageError: the storage does not answer, or a study is damaged.
    """
    with store.guard():
        studies = sorted(store.optuna.get_all_studies(), key=lambda study: study._study_id)  # noqa: SLF001  their order
        database = database_of(store.optuna)
        tallies = {} if database is None else _tallies(database)
        return [_summary(store, study, tallies) for study in studies]


def _summary(store: Store, study: FrozenStudy, tallies: dict[int, _Tally]) -> StudySummary:
    number = study._study_id  # noqa: SLF001  the tables know it by that
    plan = plan_in(study.user_attrs, study.system_attrs, f"{store.display_name}:{study.study_name}")
    metric = _metric(study, plan)
    tally = tallies.get(number, _Tally())
    is_error = plan is not None and not plan.has_metric_values
    error: float | None = None
    if database_of(store.optuna) is None or tally.has_constraints:
        trials = store.optuna.get_all_trials(number, deepcopy=False)
        times = (time for trial in trials for time in (trial.datetime_start, trial.datetime_complete))
        tally = _Tally(Counter(trial.state for trial in trials), changed=_latest(times))
        if len(study.directions) == 1:
            best = best_of(ended_trials([trial if is_error else in_errors(trial, metric) for trial in trials]))
            error = None if best is None else best.error
    elif len(study.directions) == 1:
        stored = tally.greatest if study.directions[0] == StudyDirection.MAXIMIZE else tally.least
        error = stored if stored is None or is_error else metric.error_of(stored)
    owner = study.user_attrs.get(OWNER)
    return StudySummary(
        study.study_name,
        metric.shown(is_classifier=plan is not None and plan.workload is not None),
        error,
        sum(tally.counts.values()),
        _count_running(store, study, plan) if tally.counts[TrialState.RUNNING] else 0,
        tally.changed,
        None if owner is None else str(owner),
        study.user_attrs.get(ARCHIVED) is True,
    )


def _count_running(store: Store, study: FrozenStudy, plan: StudySpec | None) -> int:
    """Return the number of trials under way that have their worker."""
    storage = database_of(store.optuna) or store.optuna
    trials = storage.get_all_trials(study._study_id, deepcopy=False, states=(TrialState.RUNNING,))  # noqa: SLF001
    return len(trials) - (0 if plan is None else len(interrupted_numbers(store, study, plan, trials)))


def _metric(study: FrozenStudy, plan: StudySpec | None) -> Metric:
    if plan is not None:
        return plan.measure
    is_score = study.directions[0] == StudyDirection.MAXIMIZE
    return Metric(None, maximize=True, scale="any") if is_score else PLAIN


def _tallies(database: RDBStorage) -> dict[int, _Tally]:
    """Return the tallies of all studies by their numbers: four questions to the database."""
    trial, value = models.TrialModel.__table__.c, models.TrialValueModel.__table__.c
    note = models.TrialSystemAttributeModel.__table__.c
    tallies: dict[int, _Tally] = {}
    with reading(database) as connection:
        rows: Any = select(
            trial.study_id,
            trial.state,
            func.count(),
            func.max(trial.datetime_start),
            func.max(trial.datetime_complete),
        )
        for study, state, count, start, end in connection.execute(rows.group_by(trial.study_id, trial.state)):
            tally = tallies.setdefault(study, _Tally())
            tally.counts[state] = count
            tally.changed = _latest((tally.changed, start, end))
        is_result = (trial.state == TrialState.COMPLETE) & (
            value.value_type == models.TrialValueModel.TrialValueType.FINITE
        )
        rows = select(trial.study_id, func.min(value.value), func.max(value.value))
        rows = rows.join(models.TrialModel.__table__, trial.trial_id == value.trial_id)
        rows = rows.where(is_result & (value.objective == 0)).group_by(trial.study_id)
        for study, least, greatest in connection.execute(rows):
            tallies[study].least, tallies[study].greatest = least, greatest
        rows = select(trial.study_id).join(models.TrialSystemAttributeModel.__table__, trial.trial_id == note.trial_id)
        rows = rows.where(note.key.startswith(_CONSTRAINTS_KEY, autoescape=True)).distinct()
        for (study,) in connection.execute(rows):
            tallies[study].has_constraints = True
    return tallies


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((time for time in times if time is not None), default=None)
