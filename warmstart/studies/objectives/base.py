"""Interface of an objective, and the outcome of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from warmstart.bo.constraints import MEMORY
from warmstart.history_store.records import Config

TRIAL, FOLDER, SEED = "WARMSTART_TRIAL", "WARMSTART_DIR", "WARMSTART_SEED"
"""Environment variables of a trial: its number, its folder and its seed."""
Report = Callable[[float, float], None]
"""Called with (step, error so far); raises `Pruned` if the study stops the trial."""


class Pruned(Exception):  # noqa: N818  a decision, no error
    """Raised in a trial that the study stops early."""


class TrialStatus(StrEnum):
    """How a trial ended; the first two carry an error."""

    OK = "ok"
    DIVERGED = "diverged"
    """The loss left the finite numbers: its error is that of a constant prediction."""
    FAILED = "failed"
    """The result is no error: NaN, text, several values."""
    CRASHED = "crashed"
    """It raised an exception, or its process exited."""
    TIMEOUT = "timeout"
    OOM = "oom"
    KILLED = "killed"
    """A signal from outside ended its process."""
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one trial.

    Attributes:
        error: to minimise, finite; None exactly if the status carries none.
        status: how the trial ended.
        duration: seconds, as the objective returns them, else of wall time.
        note: one line on the failure; empty without one.
        curve: pairs (step, error) in the order of the reports, finite.
        metrics: other numbers that the objective returned.
        constraints: by name; met if ≤ 0.
        whole: lower bound of the trial's full seconds, if it ended with the time of a command; else None.
    """

    error: float | None
    status: TrialStatus
    duration: float
    note: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)
    whole: float | None = None

    def __post_init__(self) -> None:
        """Add the constraint that a lack of memory misses."""
        if self.status is TrialStatus.OOM:
            object.__setattr__(self, "constraints", {**self.constraints, MEMORY: 1.0})


class Objective(Protocol):
    """A function of a configuration that a child process calls; picklable.

    An optional method ``prepare()`` is called once a child, before the first trial: loading there costs no trial's
    time, and an error there goes to the caller, not to a trial. With a true attribute ``single_use`` a pruned trial
    ends its child.
    """

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Evaluate a configuration.

        Args:
            config: hyperparameter values by name; an inactive hyperparameter is absent.
            seed: of everything random.
            budget: how much may be spent, in the objective's own unit; None = all.
            report: to be called with (step, error so far).

        Returns: the error, or a mapping with ``error`` and optionally ``duration`` in seconds, ``constraints``
        (truth values, or numbers that are met if ≤ 0), ``status`` and other numbers.
        """
        ...
