"""What a study came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from history_store.records import Value
from history_store.space import natural
from warmstart.studies.ledger import OUTCOME, RUN, Ledger
from warmstart.studies.objective import TrialStatus
from warmstart.studies.plan import WarmConfig

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial that ended.

    Attributes:
        number: in the study, from 0 on.
        config: hyperparameter values by name.
        error: None where it gave none that counts.
        status: see `warmstart.studies.objective.TrialStatus`.
        duration: seconds; None = unknown.
        seed: that it ran with.
        note: one line on what went wrong.
        feasible: whether it meets its constraints.
        curve: pairs (step, error).
    """

    number: int
    config: Mapping[str, Value]
    error: float | None
    status: TrialStatus
    duration: float | None
    seed: int
    note: str = ""
    feasible: bool = True
    curve: tuple[tuple[float, float], ...] = ()


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
        seconds: wall time of this call.
        notes: what a person should hear besides.
    """

    study: str
    storage: str
    dataset: str | None
    best: Trial | None
    trials: tuple[Trial, ...]
    warm: tuple[WarmConfig, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=(), compare=False)

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
            "warm": [asdict(each) for each in self.warm],
            "seconds": self.seconds,
        }


def ended_trials(trials: Sequence[FrozenTrial]) -> tuple[Trial, ...]:
    """Read the trials that ended, in order of their numbers."""
    return tuple(_read(trial) for trial in trials if trial.state.is_finished())


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Find the trial with the least error of those that meet their constraints."""
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    return min(valid, key=lambda trial: trial.error or 0.0, default=None)


def summarise(ledger: Ledger, *, seconds: float = 0.0, notes: Sequence[str] = ()) -> TuneResult:
    """Read what a study came to so far.

    Raises:
        StorageError: when the storage does not answer.
    """
    trials = ended_trials(ledger.trials())
    plan = ledger.plan
    return TuneResult(
        ledger.study.study_name,
        ledger.store.shown,
        plan.dataset,
        best_of(trials),
        trials,
        plan.configs,
        seconds,
        tuple(notes),
    )


def _read(trial: FrozenTrial) -> Trial:
    run: Mapping[str, Any] = trial.user_attrs.get(RUN, {"config": dict(trial.params), "seed": 0})
    # Other programs may end a trial too: a dashboard, say.
    lost = {"error": trial.value, "status": "ok" if trial.value is not None else "failed"}
    outcome: Mapping[str, Any] = {"duration": None, "note": "", "curve": ()} | trial.user_attrs.get(OUTCOME, lost)
    return Trial(
        trial.number,
        run["config"],
        outcome["error"],
        TrialStatus(outcome["status"]),
        outcome["duration"],
        run["seed"],
        outcome["note"],
        all(bound <= 0 for bound in trial.constraints.values()),
        tuple((step, error) for step, error in outcome["curve"]),
    )
