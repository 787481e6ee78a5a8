"""What a study came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from history_store.space import natural
from warmstart.studies.comparison import Comparison
from warmstart.studies.ledger import Ledger
from warmstart.studies.plan import WarmConfig
from warmstart.studies.related import RelatedDataset
from warmstart.studies.trial import Trial, best_of, ended_trials

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
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

    @property
    def counts(self) -> dict[str, int]:
        """Count the trials by status."""
        return dict(Counter(trial.status.value for trial in self.trials))

    def to_dict(self) -> dict[str, Any]:
        """Give the document of ``warmstart tune --format json``, native types only."""
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
                "trial": best.number,
            },
            "trials": self.counts,
            "exhausted": self.exhausted,
            "warm": [asdict(each) for each in self.warm],
            "related": [each.summary() for each in self.related],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "report": self.report,
            "seconds": self.seconds,
        }


def summarise(ledger: Ledger) -> TuneResult:
    """Read what a study came to so far.

    Raises:
        StorageError: when the storage does not answer.
    """
    known = ledger.trials()
    trials = ended_trials(known)
    plan = ledger.plan
    return TuneResult(
        ledger.study.study_name,
        ledger.store.shown,
        plan.dataset,
        best_of(trials),
        trials,
        plan.configs,
        plan.tasks,
        exhausted=ledger.is_exhausted(known),
    )
