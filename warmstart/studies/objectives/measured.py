"""Objectives with a metric other than an error, which is converted to an error."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.studies.objectives.base import Objective, Report, TrialStatus
from warmstart.studies.objectives.command import CommandObjective
from warmstart.studies.objectives.metric import ContradictionError, Metric
from warmstart.studies.objectives.workload import WorkloadObjective


@dataclass(slots=True)
class MetricObjective:
    """Objective that converts the metric of another objective's results and reports to errors.

    Attributes:
        objective: whose result is or contains the metric.
        metric: to read.
    """

    objective: Objective
    metric: Metric

    @property
    def single_use(self) -> bool:
        """Tell whether the objective is `single_use`."""
        return bool(getattr(self.objective, "single_use", False))

    def prepare(self) -> None:
        """Prepare the objective; its exceptions pass through."""
        prepare = getattr(self.objective, "prepare", None)
        if prepare is not None:
            prepare()

    def __call__(self, config: Config, *, seed: int, budget: float | None, report: Report) -> object:
        """Evaluate a configuration; a value that contradicts the metric fails the trial."""

        def report_error(step: float, value: float) -> None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                report(step, value)  # it says what is wrong
            else:
                report(step, self.metric.to_error(number))

        try:
            result = self.objective(config, seed=seed, budget=budget, report=report_error)
        except ContradictionError as problem:
            return {"status": TrialStatus.FAILED, "note": str(problem)}
        # A command reads its metric from all that it prints, and gives the error already.
        return result if isinstance(self.objective, CommandObjective) else self.metric.result(result)


def with_metric(objective: Objective, metric: Metric) -> Objective:
    """Return an objective whose results are errors, by its metric.

    Raises:
        UsageError: the objective cannot have such a metric.
    """
    if metric.is_plain:
        return objective
    if isinstance(objective, WorkloadObjective):
        msg = "expected an objective or a command of your own, got the built-in network, which gives its validation error. Leave it out."
        raise UsageError(msg, param="metric" if metric.spec is not None else "maximize" if metric.maximize else "scale")
    if isinstance(objective, CommandObjective):
        return MetricObjective(replace(objective, metric=metric), metric)
    if metric.spec is not None and metric.key is None:
        msg = f"expected the key of a number in what the function returns, got {metric.spec!r}, which is for commands. Return the number, or a mapping."
        raise UsageError(msg, param="metric")
    return MetricObjective(objective, metric)
