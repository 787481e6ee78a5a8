"""Load an objective by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.errors import UsageError
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.function import FunctionObjective
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.training.workloads import DEFAULT, get_workload


def load_objective(
    function: str | Callable[..., object] | None = None,
    *,
    names: Collection[str],
    command: str | None = None,
    dataset: str | None = None,
    workload: str = DEFAULT,
    target_budget: str | None = None,
    device: str = "auto",
    folder: Path | None = None,
) -> Objective:
    """Return the objective by its name: a function, a command, or else a workload on a dataset.

    Args:
        function: itself, or ``module:name`` or ``folder/file.py:name``.
        names: of the space's hyperparameters.
        command: with placeholders; see `CommandObjective`.
        dataset: path; needed by a workload, passed to the others.
        workload: name in `warmstart.training.workloads.WORKLOADS`.
        target_budget: name of the workload's budget; None = the usual one.
        device: of the workload.
        folder: first on the path of the function's import; None = the working folder.

    Raises:
        UsageError: both a function and a command, neither and no dataset, or a name that does not fit.
    """
    if function is not None and command is not None:
        msg = "tune: `objective` and `command` cannot be used together."
        raise UsageError(msg)
    if function is not None:
        return FunctionObjective(function, dataset, folder or Path.cwd())
    if command is not None:
        return CommandObjective(command, tuple(names), dataset)
    if dataset is None:
        raise nothing_to_tune()
    get_workload(workload).check_names(names)
    return WorkloadObjective(dataset, workload, target_budget, device)


def nothing_to_tune() -> UsageError:
    """Return the error for a call without an objective and a dataset."""
    msg = "Give your script with `command` or `objective`, or pictures, on which pretrained networks are tuned: warmstart tune photos/."
    return UsageError(msg)


def without_broken(objective: Objective, skip_broken: SkipBroken) -> Objective:
    """Return an objective that skips broken pictures, if it is a workload; a user's objective handles them itself."""
    return replace(objective, skip_broken=skip_broken) if isinstance(objective, WorkloadObjective) else objective
