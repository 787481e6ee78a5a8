"""The trials that ended, as a study keeps them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import AllTrialsFailedError
from warmstart.history_store.records import Value
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.state.trial_queue import OUTCOME, RUN

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial that ended.

    Attributes:
        number: in the study, from 0 on.
        config: hyperparameter values by name.
        error: None where it gave none that counts.
        status: see `warmstart.studies.objectives.base.TrialStatus`.
        duration: seconds; None = unknown.
        seed: that it ran with.
        note: one line on what went wrong.
        feasible: whether it meets its constraints.
        curve: pairs (step, error).
        metrics: what the objective returned beside the error.
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


def ended_trials(trials: Sequence[FrozenTrial]) -> tuple[Trial, ...]:
    """Read the trials that ended, in order of their numbers."""
    return tuple(_read(trial) for trial in trials if trial.state.is_finished())


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Find the trial with the least error of those that meet their constraints."""
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    return min(valid, key=lambda trial: trial.error or 0.0, default=None)


def failures(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that gave no error; one that the study stopped itself is none."""
    return [trial for trial in trials if trial.error is None and trial.status is not TrialStatus.PRUNED]


def count_statuses(trials: Iterable[Trial]) -> dict[str, int]:
    """Count trials by status."""
    return dict(Counter(trial.status.value for trial in trials))


def say_counts(counts: Mapping[str, int], trials: Iterable[Trial]) -> str:
    """Say how many trials ended in which way, and how many have an error and break a constraint; empty where there is none."""
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    broken = sum(trial.error is not None and not trial.feasible for trial in trials)
    if not broken:
        return said
    return f"{said}; {broken} {'breaks' if broken == 1 else 'break'} a constraint"


def _read(trial: FrozenTrial) -> Trial:
    run: Mapping[str, Any] = trial.user_attrs.get(RUN, {"config": dict(trial.params), "seed": 0})
    # Other programs may end a trial too: a dashboard, say.
    told = trial.user_attrs[OUTCOME] if OUTCOME in trial.user_attrs else _told_elsewhere(trial)
    outcome: Mapping[str, Any] = {"duration": None, "note": "", "curve": (), "metrics": {}} | told
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


def _told_elsewhere(trial: FrozenTrial) -> dict[str, Any]:
    """Return what came of a trial by its state and value. The value of a pruned one is what it reported last, and no result."""
    if trial.state.name != "COMPLETE" or trial.value is None:
        return {"error": None, "status": "pruned" if trial.state.name == "PRUNED" else "failed"}
    if not math.isfinite(trial.value):
        return {"error": None, "status": "failed", "note": f"expected one finite number, got {trial.value:g}"}
    return {"error": trial.value, "status": "ok"}


def check_any_error(name: str, trials: Sequence[Trial], *, workload: str | None) -> None:
    """Check that a trial gave an error, where any ended; raises `AllTrialsFailedError`.

    Args:
        name: of the study.
        trials: that ended.
        workload: that was trained; None = the objective is a person's own.
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
        msg = f"{name}: expected a trial that gives an error, got none of {len(failed)} ({counts}; the last: {note}). {step}; begin another study with `study`."
        raise AllTrialsFailedError(msg)
