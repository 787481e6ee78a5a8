"""Objective with a metric of one's own: the study gets the error that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.studies.objectives.base import Objective, Report, TrialStatus
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.metric import ContradictionError, Metric
from warmstart.studies.objectives.workload import WorkloadObjective


@dataclass(slots=True)
class MeasuredObjective:
    """Turns what an objective gives and reports into errors.

    Attributes:
        objective: whose result is, or holds, the metric.
        metric: see there.
    """

    objective: Objective
    metric: Metric

    @property
    def single_use(self) -> bool:
        """As the objective has it."""
        return bool(getattr(self.objective, "single_use", False))

    def prepare(self) -> None:
        """Let the objective prepare; raises what that does."""
        prepare = getattr(self.objective, "prepare", None)
        if prepare is not None:
            prepare()

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Evaluate a configuration; a value that contradicts the metric fails the trial."""

        def told(step: float, value: float) -> None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                report(step, value)  # it says what is wrong
            else:
                report(step, self.metric.to_error(number))

        try:
            found = self.objective(config, seed=seed, budget=budget, report=told)
        except ContradictionError as problem:
            return {"status": TrialStatus.FAILED, "note": str(problem)}
        # A command reads its metric from all that it prints, and gives the error already.
        return found if isinstance(self.objective, CommandObjective) else self.metric.result(found)


def measured(objective: Objective, metric: Metric) -> Objective:
    """Return an objective that gives errors, whatever its metric is.

    Raises:
        UsageError: when the objective has no such metric.
    """
    if metric.is_plain:
        return objective
    if isinstance(objective, WorkloadObjective):
        msg = "expected an objective or a command of your own, got the built-in network, which gives its validation error. Leave it out."
        raise UsageError(msg, param="metric" if metric.spec is not None else "maximize" if metric.maximize else "scale")
    if isinstance(objective, CommandObjective):
        return MeasuredObjective(replace(objective, metric=metric), metric)
    if metric.spec is not None and metric.key is None:
        msg = f"expected the key of a number in what the function returns, got {metric.spec!r}, which is for commands. Return the number, or a mapping."
        raise UsageError(msg, param="metric")
    return MeasuredObjective(objective, metric)
