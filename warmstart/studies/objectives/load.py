"""Loading of an objective by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

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
    """Make the objective that a person named: a function, a command, or else a workload on their dataset.

    Args:
        function: itself, or ``module:name`` or ``folder/file.py:name``.
        names: of the space's hyperparameters.
        command: with placeholders; see `CommandObjective`.
        dataset: path; a workload needs it, the others are given it.
        workload: name in `warmstart.training.workloads.WORKLOADS`.
        target_budget: name of the workload's budget; None = the usual one.
        device: of the workload.
        folder: first on the path of the function's import; None = the working folder.

    Raises:
        UsageError: both a function and a command, or neither and no dataset; or what was named does not fit.
    """
    if function is not None and command is not None:
        msg = f"tune: expected either `objective` or `command`, got {function!r} and {command!r}. Give one of them."
        raise UsageError(msg)
    if function is not None:
        return FunctionObjective(function, dataset, folder or Path.cwd())
    if command is not None:
        return CommandObjective(command, tuple(names), dataset)
    if dataset is None:
        msg = "tune: expected `dataset`, `objective` or `command`, got none of them. Give `dataset` to tune a network of a workload on it."
        raise UsageError(msg)
    get_workload(workload).check_names(names)
    return WorkloadObjective(dataset, workload, target_budget, device)


def without_broken(objective: Objective) -> Objective:
    """Let a workload go on without pictures that cannot be decoded; an objective of a person's own sees to that itself."""
    return replace(objective, skip_broken=True) if isinstance(objective, WorkloadObjective) else objective
