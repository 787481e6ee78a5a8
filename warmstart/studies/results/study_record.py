"""A study for display: objective, trials, expectations; read from a storage or from a report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from warmstart.history_store.canonical import without_arrangement
from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.quoting import with_config
from warmstart.history_store.space import dump_space, load_space
from warmstart.history_store.wording import in_short
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.studies.results.expectations import StudyExpectations, expectation_line
from warmstart.studies.results.expected_errors import expectations_of
from warmstart.studies.results.trial import Trial, best_of, count_statuses, ended_trials, failures, say_counts
from warmstart.studies.results.trial_span import TrialSpan, spans_of
from warmstart.studies.state.attributes import ARCHIVED, OWNER, RUN, WORKER
from warmstart.studies.state.metric_storage import in_errors
from warmstart.studies.state.reported_steps import as_reported
from warmstart.studies.state.spec import StudySpec, WarmConfig, objective_name_of, warm_of
from warmstart.studies.state.sqlite_file import SQLITE
from warmstart.studies.state.trial_queue import interrupted_numbers, plan_of
from warmstart.studies.state.trial_tables import TrialTables

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.studies.state.storage import Store


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study at the time of reading.

    Attributes:
        name: of the study.
        storage: path or URL of its storage, for people.
        evaluated: name of its objective; empty for a study of another program.
        trials: that ended, in order of their numbers.
        running: number of running trials, without interrupted ones.
        space_json: its space as ConfigSpace JSON; empty if the trials do not show it.
        dataset: path, or None.
        warm: configurations that the history suggested or a person gave, best first.
        metric: of the trials.
        settings: of the search, by name.
        updated: end of the last trial, ISO 8601 in UTC; None if unknown.
        expected: expected errors; None without an expectation by the history.
        interrupted: number of trials that lost their worker, to run again in the next call.
        is_classifier: whether the error is the share of pictures that a network names wrongly.
        spans: when and where each trial ran, those under way among them; empty for a study of a report.
        owner: who began it; None if unknown.
        is_archived: whether it is out of sight.
        plan: its specification; None for another program's study, and for one of a report.
    """

    name: str
    storage: str
    evaluated: str
    trials: tuple[Trial, ...]
    running: int = 0
    space_json: str = ""
    dataset: str | None = None
    warm: tuple[WarmConfig, ...] = ()
    metric: Metric = PLAIN
    settings: Mapping[str, Any] | None = None
    updated: str | None = None
    expected: StudyExpectations | None = None
    interrupted: int = 0
    is_classifier: bool = False
    spans: tuple[TrialSpan, ...] = ()
    owner: str | None = None
    is_archived: bool = False
    plan: StudySpec | None = None

    @property
    def space(self) -> ConfigurationSpace | None:
        """Return the space; None if the trials do not show it."""
        return load_space(self.space_json) if self.space_json else None

    @property
    def shown_metric(self) -> Metric:
        """Return the metric as people read it."""
        return self.metric.shown(is_classifier=self.is_classifier)

    @property
    def expected_line(self) -> str:
        """Return a line on the promised, best and expected errors; empty without an expectation."""
        return "" if self.expected is None else expectation_line(self.expected, self.best, self.shown_metric)

    @property
    def best(self) -> Trial | None:
        """Return the trial with the least error of those that meet their constraints."""
        return best_of(self.trials)

    @property
    def pruned_line(self) -> str:
        """Return a line on the pruned trials and the best report of one; empty if none reported."""
        pruned = [trial for trial in self.trials if trial.status is TrialStatus.PRUNED]
        best = min((trial for trial in pruned if trial.curve), key=lambda trial: trial.curve[-1][1], default=None)
        if best is None:
            return ""
        step, error = best.curve[-1]
        value = self.metric.to_value(error)
        return f"{len(pruned)} pruned, the best at {self.metric.name} {in_short(value)} after step {step:.12g}, trial {best.number}."

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of trials by status."""
        unended = {"running": self.running, "interrupted": self.interrupted}
        return count_statuses(self.trials) | {status: n for status, n in unended.items() if n}

    @property
    def counts_line(self) -> str:
        """Return the numbers of trials by status as text; empty without trials."""
        return say_counts(self.counts, self.trials)

    def value(self, trial: Trial) -> float | None:
        """Return the metric of a trial; None without one."""
        return None if trial.error is None else self.metric.to_value(trial.error)

    def warm_of(self, trial: Trial) -> WarmConfig | None:
        """Return the warm configuration of a trial; None if it is no warm trial."""
        return warm_of(trial.config, self.warm)

    def row(self) -> dict[str, Any]:
        """Return a row for a table of studies, native types only."""
        best = self.best
        return {
            "study": self.name,
            "dataset": None if self.dataset is None else without_arrangement(self.dataset),
            "objective": self.evaluated or None,
            "trials": len(self.trials) + self.running,
            "running": self.running,
            "interrupted": self.interrupted,
            "failed": len(failures(self.trials)),
            "warm": len(self.warm),
            "metric": self.metric.name,
            "best": None if best is None else self.value(best),
            "trial": None if best is None else best.number,
            "updated": self.updated,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row a trial, native types only: settings, promised error, result."""
        return [self._row(trial) for trial in self.trials]

    def _row(self, trial: Trial) -> dict[str, Any]:
        warm = self.warm_of(trial)
        promised = None if warm is None else warm.promised
        metric = {} if self.metric.is_plain else {self.metric.name: self.value(trial)}
        return {
            "trial": trial.number,
            "status": trial.status.value,
            "error": trial.error,
            **metric,
            "duration": trial.duration,
            "seed": trial.seed,
            "feasible": trial.feasible,
            "warm": warm is not None,
            "source": None if warm is None else warm.source,
            "promised": promised,
            "note": trial.note,
            "metrics": _in_json(trial.metrics),
            "constraints": _in_json(trial.constraints),
            "config": _in_json(trial.config),
            "curve": [list(point) for point in trial.curve],
        }


def _in_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON; infinite and NaN numbers, which a study of Optuna may have, become text."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def study_names(store: Store) -> list[str]:
    """Return the names of the studies of a storage, oldest first.

    Raises:
        StorageError: the storage does not answer.
    """
    with store.guard():
        return optuna.get_all_study_names(store.optuna)


def choose_study(store: Store, name: str | None) -> str:
    """Check the name of a study; without a name, return the only study's.

    Raises:
        DataError: the storage has no study.
        UsageError: several studies and no name, or a name of none.
    """
    names = study_names(store)
    if not names:
        msg = f"{store.display_name}: expected a storage with a study, got none in it. `warmstart tune` begins one."
        raise DataError(msg)
    if name is None and len(names) > 1:
        msg = f"{store.display_name}: expected the name of one of {len(names)} studies, got none. Name one of {', '.join(names)}."
        raise UsageError(msg, param="study")
    if name is not None and name not in names:
        msg = f"{store.display_name}: expected one of the studies {', '.join(names)}, got {name!r}. Check the name."
        raise UsageError(msg, param="study", given=name, choices=names)
    return name or names[0]


def read_study_record(store: Store, name: str, tables: TrialTables | None = None) -> StudyRecord:
    """Read a study from a storage, also another program's; nothing is written.

    Args:
        store: the storage.
        name: of the study.
        tables: of its trials, to read it again; those that ended are not read twice.

    Raises:
        DataError: a study with several objectives.
        StorageError: the storage does not answer, or the study is damaged.
    """
    with store.guard():
        study = optuna.load_study(study_name=name, storage=store.optuna)
        directions, plan = study.directions, plan_of(store, study)
        if len(directions) > 1:
            msg = f"{store.display_name}:{name}: expected a study of one objective, got {len(directions)}. Optuna's own pictures show it."
            raise DataError(msg)
        tables = tables or TrialTables(store.optuna, study._study_id)  # noqa: SLF001  the tables know it by that
        metric = plan.measure if plan is not None and plan.has_metric_values else None
        trials = tables.read(lambda trial: as_reported(trial if metric is None else in_errors(trial, metric)))
        user_attrs = study.user_attrs
    ends = [trial.datetime_complete for trial in trials if trial.datetime_complete is not None]
    updated = max(ends).astimezone().isoformat(timespec="seconds") if ends else None
    lost = [] if plan is None else interrupted_numbers(store, study, plan, trials)
    owner = user_attrs.get(OWNER)
    record = StudyRecord(
        name,
        store.display_name,
        "" if plan is None else plan.objective_label,
        ended_trials(trials),
        sum(not trial.state.is_finished() for trial in trials) - len(lost),
        updated=updated,
        interrupted=len(lost),
        spans=spans_of(trials, lost),
        owner=None if owner is None else str(owner),
        is_archived=user_attrs.get(ARCHIVED) is True,
        plan=plan,
    )
    if plan is None:
        return _with_foreign_trials(record, study, trials)
    return replace(
        record,
        space_json=plan.space,
        dataset=plan.dataset,
        warm=plan.configs,
        metric=plan.measure,
        settings=settings_of_search(plan),
        expected=expectations_of(plan, record.trials),
        is_classifier=plan.workload is not None,
    )


def settings_of_search(plan: StudySpec) -> dict[str, Any]:
    """Return the main settings of a search, by name."""
    return {
        "surrogate": plan.surrogate,
        "acquisition": plan.acquisition,
        "seed": plan.seed,
        "pruner": plan.pruner,
        "warm": plan.warm,
    }


def _with_foreign_trials(record: StudyRecord, study: optuna.Study, trials: Sequence[FrozenTrial]) -> StudyRecord:
    """Return the record of a study of another program, with the space from its trials."""
    from warmstart.integrations.optuna.problem import Problem
    from warmstart.integrations.optuna.space import space_of_trials, to_space

    metric = Metric(None, True, "any") if study.direction == StudyDirection.MAXIMIZE else PLAIN  # noqa: FBT003
    finished = [trial for trial in trials if trial.state.is_finished()]
    distributions, conditions = space_of_trials(finished)
    space = to_space(distributions, conditions) if distributions else None
    problem = None if space is None else Problem(space, distributions, is_given=False)
    read = []
    for trial, ended in zip(finished, record.trials, strict=True):
        config = None if problem is None else problem.config(trial)
        seconds = None if trial.duration is None else max(trial.duration.total_seconds(), 0.0)
        error = None if ended.error is None else metric.to_error(ended.error)
        reports = sorted(trial.intermediate_values.items())
        curve = tuple((float(step), metric.to_error(value)) for step, value in reports if math.isfinite(value))
        read.append(replace(ended, config=config or ended.config, error=error, duration=seconds, seed=0, curve=curve))
    text = "" if space is None else dump_space(space)
    return replace(record, trials=tuple(read), space_json=text, metric=metric)


def unended_rows(store: Store, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows of running trials and of interrupted ones: number, worker, configuration."""
    with store.guard():
        study = optuna.load_study(study_name=name, storage=store.optuna)
        trials = study.get_trials(deepcopy=False)
    plan = plan_of(store, study)
    lost = [] if plan is None else interrupted_numbers(store, study, plan, trials)
    rows = {
        trial.number: with_config(
            {"trial": trial.number, "worker": trial.user_attrs.get(WORKER)},
            _in_json(trial.user_attrs.get(RUN, {"config": trial.params})["config"]),
        )
        for trial in trials
        if not trial.state.is_finished()
    }
    return [row for number, row in rows.items() if number not in lost], [rows[number] for number in lost]


def records_of_report(document: Any, source: str) -> list[StudyRecord]:
    """Read the studies of a report, the JSON of `warmstart tune`.

    Raises:
        DataError: it is no such report.
    """
    entries = document.get("studies", [document]) if isinstance(document, Mapping) else []
    try:
        return [_from_entry(entry, document.get("storage", source)) for entry in entries]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"{source}: expected a report of `warmstart tune`, got other JSON ({type(error).__name__}: {error}). Give the JSON beside the Markdown."
        raise DataError(msg) from error


def is_report(document: Any) -> bool:
    """Tell whether JSON is a report of `tune`, on one dataset or on several."""
    if not isinstance(document, Mapping):
        return False
    entries = document.get("studies", [document])
    return bool(isinstance(entries, list) and entries) and all(
        isinstance(entry, Mapping) and {"study", "all", "settings"} <= entry.keys() for entry in entries
    )


def _from_entry(entry: Mapping[str, Any], storage: str) -> StudyRecord:
    settings, metric = entry["settings"], entry.get("metric")
    space = json.dumps(settings["space"])
    load_space(space)  # raises if it is no space
    trials = tuple(
        Trial(**{**trial, "status": TrialStatus(trial["status"]), "curve": tuple(map(tuple, trial["curve"]))})
        for trial in entry["all"]
    )
    return StudyRecord(
        entry["study"],
        storage,
        objective_name_of(settings["objective"]),
        trials,
        space_json=space,
        dataset=entry["dataset"],
        warm=tuple(WarmConfig(**config) for config in entry["warm"]),
        metric=PLAIN if metric is None else Metric(metric["spec"], metric["maximize"], metric["scale"]),
        settings={key: settings.get(key) for key in ("surrogate", "acquisition", "seed", "pruner", "warm")},
        expected=StudyExpectations.from_dict(entry["expectation"]) if entry.get("expectation") else None,
    )


def file_stem(name: str) -> str:
    """Return the name of a study for file names."""
    return re.sub(r"[^\w.-]+", "-", name)


def is_storage(path: Path) -> bool:
    """Tell by its first bytes whether a file is a storage of studies: SQLite, or a journal of Optuna."""
    with path.open("rb") as file:
        head = file.read(65_536)
    return head.startswith(SQLITE) or (head.startswith(b"{") and b'"op_code"' in head.splitlines()[0])
