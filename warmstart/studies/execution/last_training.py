"""The last training of a study: which networks are saved, and which of them gets the time that is kept for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from warmstart.history_store.records import Config
from warmstart.training.workloads import DEFAULT, get_workload

if TYPE_CHECKING:
    from warmstart.studies.state.spec import StudySpec
    from warmstart.training.workloads import Budget, Workload

_SURE = 0.8
"""Share of the time that is surely there once the networks have been joined and the heads are fitted again."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that ended well.

    Attributes:
        config: of its network.
        error: that it reached.
        seconds: that it took; 0 = unknown.
        steps: that it made; 0 = unknown.
    """

    config: Config
    error: float
    seconds: float
    steps: float


@dataclass(frozen=True, slots=True)
class LastTraining:
    """How the networks of a study are trained once more before they are saved.

    Attributes:
        workload: that trains them.
        budget: of the trials.
    """

    workload: Workload
    budget: Budget

    @classmethod
    def of(cls, plan: StudySpec) -> Self:
        """Return that of a study of a workload."""
        workload = get_workload(plan.workload or DEFAULT)
        return cls(workload, workload.budget(plan.objective["target_budget"], amount=plan.budget))

    def steps(self, trial: Candidate) -> int:
        """Return for how many steps a network is trained once more; 0 = it is not."""
        return self.workload.steps_again(trial.config, self.budget)

    def choose(self, candidates: Sequence[Candidate], k: int, *, seconds: float) -> list[int]:
        """Choose the networks that are saved: those of the least errors.

        Where none of these is trained once more, and several are saved, the last place is for the one that is, if its error is then
        expected to be less than that of the network whose place it takes.

        Args:
            candidates: all trials that ended well.
            k: networks; fewer where there are fewer.
            seconds: that there are for training one once more; infinite = no time is kept for that.

        Returns: their places, best first; equal ones as they stand.
        """
        order = sorted(range(len(candidates)), key=lambda place: candidates[place].error)
        chosen, rest = order[:k], order[k:]
        if k < 2 or math.isinf(seconds) or any(self.steps(candidates[place]) for place in chosen):
            return chosen
        later = {place: self._error(candidates[place], seconds) for place in rest}
        best = min(later, key=lambda place: later[place], default=None)
        if best is not None and later[best] < candidates[chosen[-1]].error:
            chosen[-1] = best
        return chosen

    def leading(self, chosen: Sequence[Candidate], *, seconds: float) -> int | None:
        """Return the place of the first network that gains by being trained once more in a limited time; None where none does."""
        if math.isinf(seconds):
            return None
        gain = (place for place, each in enumerate(chosen) if self._error(each, _SURE * seconds) < each.error)
        return next(gain, None)

    def _error(self, trial: Candidate, seconds: float) -> float:
        """Return the error that is expected after so many seconds; infinite where a network is not trained once more."""
        if not (self.steps(trial) and trial.seconds > 0 and trial.steps > 0):
            return math.inf
        longer = seconds / trial.seconds
        return self.workload.error_again(
            trial.config, trial.error, budget=self.budget, steps=trial.steps, longer=longer
        )
