"""When and where trials ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.attributes import OUTCOME, RUN
from warmstart.studies.state.lease import worker_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

RUNNING, INTERRUPTED = "running", "interrupted"
"""States of a trial without an end, beside the statuses of those that ended."""


@dataclass(frozen=True, slots=True)
class TrialSpan:
    """When and where a trial ran, and what one under way has come to.

    Attributes:
        number: of the trial.
        state: its status, `RUNNING` or `INTERRUPTED`.
        start: seconds since 1970; None before it began.
        end: likewise; None of a trial under way.
        worker: who runs it or ran it last; None if unknown.
        config: of a trial under way; empty of others.
        curve: its reports so far, pairs (step, error); empty of others.
    """

    number: int
    state: str
    start: float | None
    end: float | None
    worker: str | None
    config: Mapping[str, Any]
    curve: tuple[tuple[float, float], ...] = ()


def spans_of(trials: Sequence[FrozenTrial], interrupted: Collection[int]) -> tuple[TrialSpan, ...]:
    """Return the spans of trials; those in `interrupted` lost their worker."""
    return tuple(_span(trial, INTERRUPTED if trial.number in interrupted else trial_state(trial)) for trial in trials)


def trial_state(trial: FrozenTrial) -> str:
    """Return the state of a trial: running, or its status."""
    if not trial.state.is_finished():
        return RUNNING
    if (outcome := trial.user_attrs.get(OUTCOME)) is not None:
        return str(outcome["status"])
    # Without an outcome, another program ended the trial.
    return {"COMPLETE": "ok", "PRUNED": "pruned"}.get(trial.state.name, "failed")


def _span(trial: FrozenTrial, state: str) -> TrialSpan:
    start, end = (
        None if time is None else time.timestamp() for time in (trial.datetime_start, trial.datetime_complete)
    )
    if trial.state.is_finished():
        return TrialSpan(trial.number, state, start, end, worker_of(trial), {})
    config = trial.user_attrs.get(RUN, {"config": trial.params})["config"]
    curve = tuple((float(step), error) for step, error in sorted(trial.intermediate_values.items()))
    return TrialSpan(trial.number, state, start, None, worker_of(trial), config, curve)
