"""The last training of a study: choose the networks to save, and the one that is retrained in the reserved time."""

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
"""Share of the time that surely remains after joining the networks and refitting the heads."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial whose network may be saved.

    Attributes:
        config: of its network.
        error: of the trial.
        seconds: of the trial; 0 = unknown.
        steps: of the trial; 0 = unknown.
    """

    config: Config
    error: float
    seconds: float
    steps: float


@dataclass(frozen=True, slots=True)
class LastTraining:
    """The retraining of a study's networks before they are saved.

    Attributes:
        workload: that trains them.
        budget: of the trials.
    """

    workload: Workload
    budget: Budget

    @classmethod
    def of(cls, plan: StudySpec) -> Self:
        """Return the last training of a workload's study."""
        workload = get_workload(plan.workload or DEFAULT)
        return cls(workload, workload.budget(plan.objective["target_budget"], amount=plan.budget))

    def steps(self, trial: Candidate) -> int:
        """Return the steps of retraining a network; 0 = it is not retrained."""
        return self.workload.steps_again(trial.config, self.budget)

    def choose(self, candidates: Sequence[Candidate], k: int, *, seconds: float) -> list[int]:
        """Choose the networks to save: those with the least errors.

        If several are saved and none of them is retrained, the last one is replaced by the best retrained one, if that
        is expected to have the smaller error.

        Args:
            candidates: all candidates.
            k: number of networks; fewer if there are fewer.
            seconds: for retraining one network; infinite = no limited time.

        Returns: their indices, best first; ties in the order of the candidates.
        """
        order = sorted(range(len(candidates)), key=lambda index: candidates[index].error)
        chosen, remainder = order[:k], order[k:]
        if k < 2 or math.isinf(seconds) or any(self.steps(candidates[index]) for index in chosen):
            return chosen
        later = {index: self._error(candidates[index], seconds) for index in remainder}
        best = min(later, key=lambda index: later[index], default=None)
        if best is not None and later[best] < candidates[chosen[-1]].error:
            chosen[-1] = best
        return chosen

    def leading(self, chosen: Sequence[Candidate], *, seconds: float) -> int | None:
        """Return the index of the first network that retraining in a limited time improves, or None."""
        if math.isinf(seconds):
            return None
        gain = (
            index for index, candidate in enumerate(chosen) if self._error(candidate, _SURE * seconds) < candidate.error
        )
        return next(gain, None)

    def _error(self, trial: Candidate, seconds: float) -> float:
        """Return the expected error after so many seconds of retraining; infinite for a network without retraining."""
        if not (self.steps(trial) and trial.seconds > 0 and trial.steps > 0):
            return math.inf
        longer = seconds / trial.seconds
        return self.workload.error_again(
            trial.config, trial.error, budget=self.budget, steps=trial.steps, longer=longer
        )
