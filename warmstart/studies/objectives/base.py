"""Interface of an objective, and the outcome of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from warmstart.history_store.records import Config

Report = Callable[[float, float], None]
"""Tells (step, error so far); raises `Pruned` where the study says that this is enough."""


class Pruned(Exception):  # noqa: N818  a decision, no error
    """The study stops a trial early."""


class TrialStatus(StrEnum):
    """How a trial ended; the first two carry an error."""

    OK = "ok"
    DIVERGED = "diverged"
    """The loss left the finite numbers: its error is that of a constant prediction."""
    FAILED = "failed"
    """It came back without an error that could be used: NaN, text, several values."""
    CRASHED = "crashed"
    """It raised, or its process ended itself."""
    TIMEOUT = "timeout"
    OOM = "oom"
    KILLED = "killed"
    """A signal that was not ours ended its process."""
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one trial came to.

    Attributes:
        error: what is minimised, finite; None exactly where the status carries none.
        status: how the trial ended.
        duration: seconds, as the objective gives them, else of wall time.
        note: one line on what went wrong, empty where nothing did.
        curve: pairs (step, error) in the order in which they were reported, finite.
        metrics: whatever other numbers the objective gave.
        constraints: by name; met where ≤ 0.
        whole: seconds that all of it takes, at least, where it was ended with the time of a command; else None.
    """

    error: float | None
    status: TrialStatus
    duration: float
    note: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)
    whole: float | None = None


class Objective(Protocol):
    """What a child process evaluates; it must be picklable.

    One with a method ``prepare()`` has it called once a child, before the first trial: what is loaded there costs no
    trial's time, and an error raised there is the caller's, not a trial's. One with a true attribute ``single_use``
    gets a child of its own for each trial that it prunes.
    """

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Evaluate a configuration.

        Args:
            config: hyperparameter values by name; an inactive hyperparameter is absent.
            seed: of everything random.
            budget: how much may be spent, in the objective's own unit; None = all.
            report: to be called with (step, error so far).

        Returns: the error, or a mapping with ``error`` and, if wanted, ``duration`` in seconds, ``constraints``
        (truth values, or numbers that are met where ≤ 0), ``status`` and other numbers.
        """
        ...
