"""Ended trials of a study."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import AllTrialsFailedError
from warmstart.history_store.records import Value
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.state.attributes import OUTCOME, RUN
from warmstart.tables import frame_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, slots=True)
class Trial:
    """An ended trial.

    Attributes:
        number: in the study, from 0 on.
        config: hyperparameter values by name.
        error: None without a valid one.
        status: see `warmstart.studies.objectives.base.TrialStatus`.
        duration: seconds; None = unknown.
        seed: that it ran with.
        note: one line on what went wrong.
        feasible: whether it meets its constraints.
        curve: pairs (step, error).
        metrics: other numbers that the objective returned.
        constraints: bounds by name; above 0 = broken.
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
    metrics: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)


class Trials(tuple[Trial, ...]):
    """Ended trials, in order of their numbers."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Return them as a table of pandas: a row a trial, a column a hyperparameter.

        Raises:
            UsageError: pandas is not installed.
        """
        return frame_of(
            {
                "trial": trial.number,
                "status": trial.status.value,
                "error": trial.error,
                "seconds": trial.duration,
                **trial.config,
                **trial.metrics,
                "note": trial.note,
            }
            for trial in self
        )


def ended_trials(trials: Sequence[FrozenTrial]) -> tuple[Trial, ...]:
    """Return the ended trials, in order of their numbers."""
    return tuple(_read(trial) for trial in trials if trial.state.is_finished())


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the least error of those that meet their constraints, or None."""
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    return min(valid, key=lambda trial: trial.error or 0.0, default=None)


def failures(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials without an error, except pruned ones."""
    return [trial for trial in trials if trial.error is None and trial.status is not TrialStatus.PRUNED]


def count_statuses(trials: Iterable[Trial]) -> dict[str, int]:
    """Count trials by status."""
    return dict(Counter(trial.status.value for trial in trials))


def say_counts(counts: Mapping[str, int], trials: Iterable[Trial]) -> str:
    """Return the numbers of trials by status, and of those that break a constraint, as text."""
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    broken = sum(trial.error is not None and not trial.feasible for trial in trials)
    if not broken:
        return text
    return f"{text}; {broken} {'breaks' if broken == 1 else 'break'} a constraint"


def _read(trial: FrozenTrial) -> Trial:
    run: Mapping[str, Any] = trial.user_attrs.get(RUN, {"config": dict(trial.params), "seed": 0})
    # Other programs may end a trial too: a dashboard, say.
    stored = trial.user_attrs[OUTCOME] if OUTCOME in trial.user_attrs else _foreign_outcome(trial)
    outcome: Mapping[str, Any] = {"duration": None, "note": "", "curve": (), "metrics": {}} | stored
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
        dict(outcome["metrics"]),
        dict(trial.constraints),
    )


def _foreign_outcome(trial: FrozenTrial) -> dict[str, Any]:
    """Return the outcome of another program's trial. The value of a pruned trial is its last report, no result."""
    if trial.state.name != "COMPLETE" or trial.value is None:
        return {"error": None, "status": "pruned" if trial.state.name == "PRUNED" else "failed"}
    if not math.isfinite(trial.value):
        return {"error": None, "status": "failed", "note": f"expected one finite number, got {trial.value:g}"}
    return {"error": trial.value, "status": "ok"}


def check_any_error(name: str, trials: Sequence[Trial], *, workload: str | None) -> None:
    """Check that not all ended trials failed; raises `AllTrialsFailedError`.

    Args:
        name: of the study.
        trials: that ended.
        workload: of the objective; None = a user's objective.
    """
    failed = failures(trials)
    if failed and len(failed) == len(trials):
        counts = ", ".join(f"{count} {status}" for status, count in count_statuses(trials).items())
        note = failed[-1].note.rstrip(".") or "no note"
        step = (
            "Correct the objective"
            if workload is None
            else f"{workload} could be trained with none of its configurations here: change what the reason names, such as the images, `space`, `device`, `trial_timeout` or `trial_memory`"
        )
        msg = f"{name}: expected a trial that gives a result, got none of {len(failed)} ({counts}; the last: {note}). {step}, and do the same again."
        raise AllTrialsFailedError(msg)
