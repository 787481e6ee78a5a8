"""What is tuned: an objective, and what one evaluation of it came to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from history_store.errors import UsageError
from history_store.records import Config
from training.budget import COMPACT

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
    """

    error: float | None
    status: TrialStatus
    duration: float
    note: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)


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


def load_objective(
    function: str | Callable[..., object] | None = None,
    *,
    names: Collection[str],
    command: str | None = None,
    dataset: str | None = None,
    target_budget: str | None = None,
    device: str = "auto",
    folder: Path | None = None,
) -> Objective:
    """Make the objective that a person named: a function, a command, or else the target network on their dataset.

    Args:
        function: itself, or ``module:name`` or ``folder/file.py:name``.
        names: of the space's hyperparameters.
        command: with placeholders; see `CommandObjective`.
        dataset: path; the target network needs it, the others are given it.
        target_budget: name of the target network's budget; None = that of the shipped history.
        device: of the target network.
        folder: first on the path of the function's import; None = the working folder.

    Raises:
        UsageError: both a function and a command, or neither and no dataset; or what was named does not fit.
    """
    from warmstart.studies.command_objective import CommandObjective
    from warmstart.studies.function_objective import FunctionObjective
    from warmstart.studies.target_objective import TargetObjective, check_target_names

    if function is not None and command is not None:
        msg = f"tune: expected either --objective or --command, got {function!r} and {command!r}. Give one of them."
        raise UsageError(msg)
    if function is not None:
        return FunctionObjective(function, dataset, folder or Path.cwd())
    if command is not None:
        return CommandObjective(command, tuple(names), dataset)
    if dataset is None:
        msg = "tune: expected --dataset, --objective or --command, got none of them. Give --dataset to tune the target network on it."
        raise UsageError(msg)
    check_target_names(names)
    return TargetObjective(dataset, target_budget or COMPACT.name, device)
