"""What a study came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from warmstart.history_store.space import natural, shown
from warmstart.history_store.wording import in_short
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import PLAIN, Metric
from warmstart.studies.related_dataset import RelatedDataset
from warmstart.studies.results.comparison import Comparison
from warmstart.studies.results.expectations import StudyExpectations, expectations_of, promised_beside_came
from warmstart.studies.results.trial import Trial, best_of, count_statuses, ended_trials, say_counts
from warmstart.studies.state.lease import is_extra
from warmstart.studies.state.spec import WarmConfig
from warmstart.studies.state.split import Split
from warmstart.studies.state.trial_queue import TrialQueue

if TYPE_CHECKING:
    from warmstart.suggestions.time_plan import TimePlan

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A file of the best networks of a study.

    Attributes:
        path: of the file.
        trials: whose networks it has, best first.
        validation_error: of them together, in [0, 1].
        retrained: whether they were trained on the validation images too, after these had judged them.
    """

    path: str
    trials: tuple[int, ...]
    validation_error: float
    retrained: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**asdict(self), "trials": list(self.trials)}


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """What a study came to so far.

    Attributes:
        study: its name.
        storage: where it is kept.
        dataset: path, or None.
        best: the trial with the least error of those that meet their constraints; None where there is none.
        trials: those that ended, in order of their numbers.
        warm: the configurations that the history suggested, best first.
        related: datasets of the history that it learnt from.
        comparison: with uniform configurations; None where it was not made.
        report: path of the report, where one was written.
        seconds: wall time of this call.
        exhausted: whether every configuration of the space had its trial, so that there are no more.
        metric: what the trials are judged by; their errors are what it stands for.
        plan: what the history planned for the time of this call; None where it planned nothing.
        expected: what error was promised, and what is expected after each trial; None where the history knows too little.
        n_extra: trials among them that nobody asked for: results that came too late for their own trials.
        saved_model: the file of its best networks; None where none was written.
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

    @property
    def expected_line(self) -> str:
        """Say in one line what was promised, what came, and what is expected still; empty where nothing was promised."""
        return "" if self.expected is None else promised_beside_came(self.expected, self.best, self.metric)

    @property
    def counts(self) -> dict[str, int]:
        """Count the trials by status."""
        return count_statuses(self.trials)

    @property
    def counts_line(self) -> str:
        """Say how many trials ended in which way; empty where none has."""
        return say_counts(self.counts, self.trials)

    @property
    def unfinished(self) -> Trial | None:
        """Return, while no trial has ended with an error, the one that reported the least error last before it was ended; else None."""
        reported = [trial for trial in self.trials if trial.status is TrialStatus.PRUNED and trial.curve]
        return min(reported, key=lambda trial: trial.curve[-1][1], default=None) if self.best is None else None

    @property
    def unfinished_line(self) -> str:
        """Say what an unfinished trial reported last; empty where there is none, or a better answer."""
        trial = self.unfinished
        if trial is None:
            return ""
        (step, error), value = trial.curve[-1], self.metric.to_value
        return f"The best that a trial reported before it was ended: {self.metric.name} {in_short(value(error))} at step {step:.12g}, trial {trial.number}."

    @property
    def best_value(self) -> float | None:
        """Return the metric of the best trial, on its own scale; its error where there is no metric."""
        return None if self.best is None else self.value(self.best)

    @property
    def comparison_line(self) -> str:
        """Say in one line how the search compares with uniform configurations; empty where that was not asked."""
        if self.comparison is None:
            return ""
        if self.comparison.gain is None:
            breaks_one = any(trial.error is not None and not trial.feasible for trial in self.trials)
            return self.comparison.line + (" Those that break a constraint do not count." if breaks_one else "")
        of_metric = f" These are errors that {self.metric.name} stands for." if self.metric.maximize else ""
        as_fractions = " These are errors as fractions." if not of_metric and self.metric.scale == "percent" else ""
        return self.comparison.line + of_metric + as_fractions

    def value(self, trial: Trial) -> float | None:
        """Return the metric of a trial; None where it has none."""
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
        """Return what a notebook shows: the best trials as a table."""
        from warmstart.studies.results.html import tune_html

        return tune_html(self)

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
            "warm": [each.to_dict() for each in self.warm],
            "related": [each.summary() for each in self.related],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "report": self.report,
            "saved_model": None if self.saved_model is None else self.saved_model.to_dict(),
            "seconds": self.seconds,
            "expected_error": None if self.expected is None else self.expected.best.to_dict(),
            "expectation": None if self.expected is None else self.expected.to_dict(),
            **({} if self.plan is None else {"plan": self._plan_record(self.plan)}),
            **({} if self.unfinished is None else {"unfinished": self._unfinished_record(self.unfinished)}),
        }

    def _unfinished_record(self, trial: Trial) -> dict[str, Any]:
        """Return what a trial reported before it was ended."""
        step, error = trial.curve[-1]
        config = {"config": dict(trial.config), "natural": natural(trial.config)}
        return {**config, "error": error, "value": self.metric.to_value(error), "step": step, "trial": trial.number}

    def _plan_record(self, plan: TimePlan) -> dict[str, Any]:
        """Return a plan, with the errors that were promised of its runs."""
        return plan.to_dict([each.expected_error for each in self.warm])


@dataclass(frozen=True, slots=True, repr=False)
class JointResult:
    """What several datasets that were tuned together came to so far.

    Attributes:
        storage: where their studies are kept.
        split: how they shared the trials.
        studies: one a dataset.
        designs: trials of each before the surrogate decided.
        report: path of the report, where one was written.
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
        """Count the trials of all datasets by status."""
        return count_statuses(trial for found in self.studies for trial in found.trials)

    @property
    def counts_line(self) -> str:
        """Say how many trials ended in which way; empty where none has."""
        return say_counts(self.counts, [trial for found in self.studies for trial in found.trials])

    def __repr__(self) -> str:
        """Return a few lines a study."""
        return "\n".join([f"JointResult: {len(self.studies)} studies", *map(repr, self.studies)])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a table a dataset."""
        from warmstart.studies.results.html import joint_html

        return joint_html(self)

    @property
    def gains(self) -> tuple[float | None, ...]:
        """Return by how much the best error of each dataset is below the best of its design; None where one of them is not known."""
        return tuple(_gain(found, design) for found, design in zip(self.studies, self.designs, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``warmstart tune --format json`` for several datasets, native types only."""
        own = ("schema_version", "storage", "report", "seconds")
        return {
            "schema_version": SCHEMA_VERSION,
            "storage": self.storage,
            "split": self.split,
            "trials": self.counts,
            "exhausted": all(found.exhausted for found in self.studies),
            "studies": [
                {**{key: value for key, value in found.to_dict().items() if key not in own}, "gain": gain}
                for found, gain in zip(self.studies, self.gains, strict=True)
            ],
            "report": self.report,
            "seconds": self.seconds,
        }


def _gain(found: TuneResult, design: int) -> float | None:
    first = best_of([trial for trial in found.trials if trial.number < design])
    if first is None or first.error is None or found.best is None or found.best.error is None:
        return None
    return first.error - found.best.error


def summarise(queue: TrialQueue) -> TuneResult:
    """Read what a study came to so far.

    Raises:
        StorageError: when the storage does not answer.
    """
    known = queue.trials()
    trials = ended_trials(known)
    plan = queue.plan
    return TuneResult(
        queue.study.study_name,
        queue.store.shown,
        plan.dataset,
        best_of(trials),
        trials,
        plan.configs,
        plan.tasks,
        exhausted=queue.is_exhausted(known),
        metric=plan.measure,
        expected=expectations_of(plan, trials),
        n_extra=sum(map(is_extra, known)),
    )
