"""The results of `tune` and `tune_many`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from warmstart.history_store.quoting import in_markup, with_config
from warmstart.history_store.space import natural, shown
from warmstart.history_store.wording import in_short
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.studies.related_dataset import RelatedDataset
from warmstart.studies.results.comparison import Comparison
from warmstart.studies.results.expectations import StudyExpectations, expectation_line
from warmstart.studies.results.expected_errors import expectations_of
from warmstart.studies.results.trial import Trial, Trials, best_of, count_statuses, ended_trials, say_counts
from warmstart.studies.state.lease import is_extra
from warmstart.studies.state.spec import WarmConfig
from warmstart.studies.state.split import Split
from warmstart.studies.state.trial_queue import TrialQueue
from warmstart.tables import frame_of, section, table

if TYPE_CHECKING:
    from warmstart.timing.plan import TimePlan

SCHEMA_VERSION = 1
MAX_ROWS = 10


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A file of the best networks of a study.

    Attributes:
        path: of the file.
        trials: numbers of the trials of its networks, best first.
        validation_error: of the networks together, in [0, 1].
        retrained: whether they were trained on the validation images too, after validation; not since 0.2.
        interval: of the error, 80 %; None = unknown.
    """

    path: str
    trials: tuple[int, ...]
    validation_error: float
    retrained: bool
    interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        interval = None if self.interval is None else list(self.interval)
        return {**asdict(self), "trials": list(self.trials), "interval": interval}


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The result of a study so far.

    Attributes:
        study: its name.
        storage: path or URL of its storage.
        dataset: path, or None.
        best: the trial with the least error of those that meet their constraints, or None.
        trials: that ended, in order of their numbers.
        warm: the configurations that the history suggested, best first.
        related: datasets of the history that the surrogate learns from.
        comparison: with uniform configurations, or None.
        report: path of the report, or None.
        seconds: wall time of this call.
        exhausted: whether every configuration of the space had its trial.
        metric: of the trials; their errors are computed from it.
        plan: for the time of this call, or None.
        expected: expected errors; None without an expectation by the history.
        n_extra: number of late results among the trials, stored as extra trials.
        saved_model: the file of its best networks, or None.
        is_classifier: whether the error is the share of pictures that a network names wrongly.
        tracked: where its trials are in other programs, by tracker.
    """

    study: str
    storage: str
    dataset: str | None
    best: Trial | None
    trials: tuple[Trial, ...]
    warm: tuple[WarmConfig, ...] = ()
    related: tuple[RelatedDataset, ...] = ()
    comparison: Comparison | None = None
    report: str | None = None
    seconds: float = 0.0
    exhausted: bool = False
    metric: Metric = PLAIN
    plan: TimePlan | None = None
    expected: StudyExpectations | None = None
    n_extra: int = 0
    saved_model: SavedModel | None = None
    is_classifier: bool = False
    tracked: Mapping[str, str] = field(default_factory=dict)

    @property
    def tracked_lines(self) -> list[str]:
        """Return a line a tracker: where the trials are there."""
        return [f"Tracked by {name}: {location}" for name, location in self.tracked.items()]

    @property
    def shown_metric(self) -> Metric:
        """Return the metric as people read it."""
        return self.metric.shown(is_classifier=self.is_classifier)

    @property
    def expected_line(self) -> str:
        """Return a line on the promised, best and expected errors; empty without an expectation."""
        return "" if self.expected is None else expectation_line(self.expected, self.best, self.shown_metric)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of trials by status."""
        return count_statuses(self.trials)

    @property
    def counts_line(self) -> str:
        """Return the numbers of trials by status as text; empty without trials."""
        return say_counts(self.counts, self.trials)

    @property
    def unfinished(self) -> Trial | None:
        """Return the pruned trial with the least last report, if no trial ended with an error; else None."""
        reported = [trial for trial in self.trials if trial.status is TrialStatus.PRUNED and trial.curve]
        return min(reported, key=lambda trial: trial.curve[-1][1], default=None) if self.best is None else None

    @property
    def unfinished_line(self) -> str:
        """Return a line on the last report of the unfinished trial; empty without one."""
        trial = self.unfinished
        if trial is None:
            return ""
        (step, error), value = trial.curve[-1], self.metric.to_value
        return f"The best that a trial reported before it was ended: {self.metric.name} {in_short(value(error))} at step {step:.12g}, trial {trial.number}."

    @property
    def best_value(self) -> float | None:
        """Return the metric of the best trial on its own scale; its error without a metric."""
        return None if self.best is None else self.value(self.best)

    @property
    def comparison_line(self) -> str:
        """Return the comparison with uniform configurations as a line; empty without one."""
        if self.comparison is None:
            return ""
        if self.comparison.gain is None:
            has_broken = any(trial.error is not None and not trial.feasible for trial in self.trials)
            return self.comparison.line + (" Those that break a constraint do not count." if has_broken else "")
        of_metric = f" These are errors that {self.metric.name} stands for." if self.metric.maximize else ""
        as_fractions = " These are errors as fractions." if not of_metric and self.metric.scale == "percent" else ""
        return self.comparison.line + of_metric + as_fractions

    def value(self, trial: Trial) -> float | None:
        """Return the metric of a trial; None without one."""
        return None if trial.error is None else self.metric.to_value(trial.error)

    def __repr__(self) -> str:
        """Return a few lines: the study, its trials by status, the best of them."""
        lines = [f"TuneResult: study {self.study} in {self.storage}, {self.counts_line or 'no trial yet'}"]
        if self.best is not None:
            values = ", ".join(f"{name}={in_short(value)}" for name, value in shown(self.best.config).items())
            lines.append(
                f"  best: {self.metric.name} {in_short(self.best_value)} of trial {self.best.number}, {values}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the best trials as a table."""
        return section([self.html])

    @property
    def html(self) -> str:
        """Return the paragraphs and the table of this study in HTML."""
        counts = self.counts_line or "no trial yet"
        parts = [f"<p>Study {in_markup(self.study)} in {in_markup(self.storage)}: {in_markup(counts)}.</p>"]
        if rows := self.best_rows():
            parts.append(table("Best trials", rows))
        if self.comparison is not None:
            parts.append(f"<p>{in_markup(self.comparison_line)}</p>")
        if self.expected is not None:
            parts.append(f"<p>{in_markup(self.expected_line)}</p>")
        return "".join(parts)

    def to_frame(self) -> Any:
        """Return the trials as a table of pandas; see `trials.to_frame`."""
        return Trials(self.trials).to_frame()

    def plot(self) -> Any:
        """Return a picture of the trials in their order and the best so far: a notebook shows it, `save` writes it.

        Raises:
            UsageError: matplotlib is not installed, or no trial has an error.
        """
        return import_module("warmstart.plots.picture").study_picture(self)  # a layer above this one

    def best_rows(self) -> list[dict[str, Any]]:
        """Return rows of the best trials: metric, error if that is another number, configuration."""
        trials = [trial for trial in self.trials if trial.error is not None and trial.feasible]
        trials.sort(key=lambda trial: trial.error or 0.0)
        name = self.metric.name
        rows = [
            {"trial": trial.number, **({} if name == "error" else {"error": trial.error}), name: self.value(trial)}
            for trial in trials[:MAX_ROWS]
        ]
        return [with_config(row, shown(trial.config)) for row, trial in zip(rows, trials, strict=False)]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``warmstart tune --format json``, native types only."""
        best = self.best
        return {
            "schema_version": SCHEMA_VERSION,
            "study": self.study,
            "storage": self.storage,
            "dataset": self.dataset,
            "best": None
            if best is None
            else {
                "config": dict(best.config),
                "natural": natural(best.config),
                "error": best.error,
                "value": self.best_value,
                "trial": best.number,
            },
            "metric": None if self.metric.is_plain else {"name": self.metric.name, **asdict(self.metric)},
            "trials": self.counts,
            "exhausted": self.exhausted,
            "warm": [config.to_dict() for config in self.warm],
            "related": [dataset.summary() for dataset in self.related],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "report": self.report,
            "saved_model": None if self.saved_model is None else self.saved_model.to_dict(),
            "tracked": dict(self.tracked),
            "seconds": self.seconds,
            "expected_error": None if self.expected is None else self.expected.best.to_dict(),
            "expectation": None if self.expected is None else self.expected.to_dict(),
            **({} if self.plan is None else {"plan": self._plan_record(self.plan)}),
            **({} if self.unfinished is None else {"unfinished": self._unfinished_record(self.unfinished)}),
        }

    def _unfinished_record(self, trial: Trial) -> dict[str, Any]:
        """Return the last report of a pruned trial, for JSON."""
        step, error = trial.curve[-1]
        config = {"config": dict(trial.config), "natural": natural(trial.config)}
        return {**config, "error": error, "value": self.metric.to_value(error), "step": step, "trial": trial.number}

    def _plan_record(self, plan: TimePlan) -> dict[str, Any]:
        """Return a plan with the promised errors of its runs, for JSON."""
        return plan.to_dict([config.expected_error for config in self.warm])


@dataclass(frozen=True, slots=True, repr=False)
class JointResult:
    """The results of datasets that are tuned together, so far.

    Attributes:
        storage: path or URL of their storage.
        split: how they share the trials.
        studies: one a dataset.
        designs: size of the initial design of each study.
        report: path of the report, or None.
        seconds: wall time of this call.
    """

    storage: str
    split: Split
    studies: tuple[TuneResult, ...]
    designs: tuple[int, ...]
    report: str | None = None
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of trials of all datasets by status."""
        return count_statuses(trial for study in self.studies for trial in study.trials)

    @property
    def counts_line(self) -> str:
        """Return the numbers of trials by status as text; empty without trials."""
        return say_counts(self.counts, [trial for study in self.studies for trial in study.trials])

    def __repr__(self) -> str:
        """Return a few lines a study."""
        return "\n".join([f"JointResult: {len(self.studies)} studies", *map(repr, self.studies)])

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: a table a dataset."""
        return section([study.html for study in self.studies])

    def to_frame(self) -> Any:
        """Return the trials of all studies as a table of pandas, with the study in the first column."""
        frames = [study.to_frame() for study in self.studies]
        return frame_of(
            {"study": study.study, **row}
            for study, frame in zip(self.studies, frames, strict=True)
            for row in frame.to_dict("records")
        )

    @property
    def gains(self) -> tuple[float | None, ...]:
        """Return the gain of each dataset: best error of its initial design - best error; None if one is unknown."""
        return tuple(_gain(study, design) for study, design in zip(self.studies, self.designs, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``warmstart tune --format json`` for several datasets, native types only."""
        shared_keys = ("schema_version", "storage", "report", "seconds")
        return {
            "schema_version": SCHEMA_VERSION,
            "storage": self.storage,
            "split": self.split,
            "trials": self.counts,
            "exhausted": all(study.exhausted for study in self.studies),
            "studies": [
                {**{key: value for key, value in study.to_dict().items() if key not in shared_keys}, "gain": gain}
                for study, gain in zip(self.studies, self.gains, strict=True)
            ],
            "report": self.report,
            "seconds": self.seconds,
        }


def _gain(result: TuneResult, design: int) -> float | None:
    first = best_of([trial for trial in result.trials if trial.number < design])
    if first is None or first.error is None or result.best is None or result.best.error is None:
        return None
    return first.error - result.best.error


def summarise(queue: TrialQueue) -> TuneResult:
    """Read the result of a study so far.

    Raises:
        StorageError: the storage does not answer.
    """
    all_trials = queue.trials()
    trials = ended_trials(all_trials)
    plan = queue.plan
    return TuneResult(
        queue.study.study_name,
        queue.store.display_name,
        plan.dataset,
        best_of(trials),
        Trials(trials),
        plan.configs,
        plan.tasks,
        exhausted=queue.is_exhausted(all_trials),
        metric=plan.measure,
        expected=expectations_of(plan, trials),
        n_extra=sum(map(is_extra, all_trials)),
        is_classifier=plan.workload is not None,
    )
