"""Time limit of one call whose runs a workload plans itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from ConfigSpace import ConfigurationSpace

from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config, Value
from warmstart.studies.execution.pace import Pace, PacedRun, has_result
from warmstart.studies.state.attributes import OUTCOME, RUN
from warmstart.studies.state.trial_queue import Run, TrialQueue
from warmstart.training.workloads.run_plan import EndedRun, RunPlan


def planned_key(config: Config) -> frozenset[tuple[str, Value]]:
    """Return the identity of a configuration, up to Optuna's rounding of floats."""
    return config_key(
        {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in config.items()}
    )


@dataclass(frozen=True, slots=True)
class PlannedPace(Pace):
    """The end of a call, and the workload's plan for it.

    Attributes:
        run_plan: of the call.
        earlier: numbers of the trials of earlier calls.
        unusable: indices of planned configurations that the space of the study lacks.
        began: `time.monotonic` at the beginning of each trial of this call.
        took: wall seconds of each ended trial of this call.
    """

    run_plan: RunPlan | None = None
    earlier: frozenset[int] = frozenset()
    unusable: frozenset[int] = frozenset()
    began: dict[int, float] = field(default_factory=dict)
    took: dict[int, float] = field(default_factory=dict)

    def of(self, run_plan: RunPlan, queue: TrialQueue) -> Self:
        """Return the pace of a study that begins or goes on with a plan."""
        known = {planned_key(design.config) for design in queue.plan.configs}
        lacking = (index for index, config in enumerate(run_plan.configs) if planned_key(config) not in known)
        earlier = (trial.number for trial in queue.trials() if trial.state.is_finished())
        return replace(self, run_plan=run_plan, earlier=frozenset(earlier), unusable=frozenset(lacking))

    def fits(self, queue: TrialQueue, space: ConfigurationSpace, configs: Sequence[Config]) -> list[bool]:  # noqa: ARG002  the space is for forecasts
        """Tell for each configuration whether it is the plan's next one; a trial that lost its worker goes on."""
        assert self.run_plan is not None  # noqa: S101  of `of`
        runs, running = self._runs(queue)
        keys = [planned_key(config) for config in configs]
        if len(keys) == 1 and keys[0] in running:
            return [self.left > 0]
        chosen = self.run_plan.next(runs, left=self.left) if self.left > 0 else None
        wanted = None if chosen is None else planned_key(self.run_plan.configs[chosen])
        return [key == wanted for key in keys]

    def watch(self, queue: TrialQueue, space: ConfigurationSpace, run: Run) -> PacedRun:
        """Return the observer of a trial that begins now; the first may use the time of saving, as it is all there is to save."""
        self.began[run.number] = time.monotonic()
        pace = self if has_result(queue.trials()) else replace(self, ends=self.over)
        return PacedRun(pace, queue, space, run, None, float("inf"))

    def _runs(self, queue: TrialQueue) -> tuple[Mapping[int, EndedRun], set[object]]:
        """Return the plan's runs so far by index, and the keys of configurations that are running."""
        from warmstart.integrations.optuna.problem import is_uninformative

        assert self.run_plan is not None  # noqa: S101
        indices = {planned_key(config): index for index, config in enumerate(self.run_plan.configs)}
        runs = {index: EndedRun(None, 0.0, is_earlier=True) for index in self.unusable}
        running: set[object] = set()
        for trial in queue.trials():
            if RUN not in trial.user_attrs:
                continue
            key, number = planned_key(trial.user_attrs[RUN]["config"]), trial.number
            if not trial.state.is_finished():
                running.add(key)
            elif number in self.began and number not in self.took:
                self.took[number] = time.monotonic() - self.began[number]
            is_cut = number in self.earlier and is_uninformative(trial)  # by the end of its call: it is tried again
            if key in indices and not is_cut:
                outcome, is_earlier = trial.user_attrs.get(OUTCOME, {}), number in self.earlier
                took, metrics = self.took.get(number, 0.0), outcome.get("metrics", {})
                runs[indices[key]] = EndedRun(outcome.get("error"), took, is_earlier, metrics)
        return runs, running
