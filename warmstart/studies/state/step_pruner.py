"""Pruning for reports at any steps, also fractions."""

from __future__ import annotations

import copy
import math
from collections.abc import Container, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.reported_steps import as_reported, is_whole
from warmstart.studies.state.sampling import make_pruner

if TYPE_CHECKING:
    import optuna
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial, TrialState

    from warmstart.studies.state.spec import StudySpec

PARTS = 10_000
"""Largest denominator with which steps are read as fractions: 0.1 + 0.2 is 3/10."""
FINEST = 1_000_000
"""Finest unit of steps: so many parts of 1."""


class StepPruner:
    """Pruner of a study that scales steps for Optuna's pruners, which need integers.

    If all steps are integers, nothing is scaled, and Optuna's pruner decides as usual.
    """

    def __init__(self, plan: StudySpec, usual: BasePruner) -> None:
        """Create the pruner from a study's plan and its pruner for integer steps."""
        self._plan, self._pruner = plan, usual
        self._parts, self._scaled_pruner = 1, usual
        self._are_whole, self._checked = True, set[int]()

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial should stop after its last report.

        Args:
            study: of the trial.
            trial: as stored.
        """
        from optuna.trial import TrialState

        if self._are_whole and self._is_whole(study, trial):
            return self._pruner.prune(study, trial)
        trial, trials = as_reported(trial), [as_reported(item) for item in study.get_trials(deepcopy=False)]
        if self._plan.pruner == "history":
            return self._pruner.prune(_study_with(study, trials), trial)
        ended = [item for item in trials if item.state == TrialState.COMPLETE]
        parts = _parts([trial, *ended])
        if parts == 1:
            return self._pruner.prune(_study_with(study, trials), trial)
        trials, ended = [_scaled(item, parts) for item in trials], [_scaled(item, parts) for item in ended]
        if parts != self._parts:
            steps = [step for item in ended for step in item.intermediate_values if step]
            if not steps:
                return False
            # As in Optuna, a hundredth of the longest trial; but not below the first step, which would be judged twice.
            self._parts, self._scaled_pruner = parts, make_pruner(self._plan, least=max(min(steps), max(steps) // 100))
        return self._scaled_pruner.prune(_study_with(study, trials), _scaled(trial, parts))

    def _is_whole(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Tell whether all steps are integers; the trials of other workers are checked once for each trial."""
        self._are_whole = is_whole(trial)
        if self._are_whole and trial.number not in self._checked:
            self._checked.add(trial.number)
            self._are_whole = all(map(is_whole, study.get_trials(deepcopy=False)))
        return self._are_whole


class _TrialsView:
    """Storage with fixed trials; everything else is delegated to the real storage."""

    def __init__(self, storage: Any, trials: Sequence[FrozenTrial]) -> None:
        self._storage, self._trials = storage, trials

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_all_trials(
        self,
        study_id: int,  # noqa: ARG002  there is one
        deepcopy: bool = True,  # noqa: FBT001, FBT002  as Optuna has it
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials."""
        trials = [trial for trial in self._trials if states is None or trial.state in states]
        return copy.deepcopy(trials) if deepcopy else trials


def _study_with(study: optuna.Study, trials: Sequence[FrozenTrial]) -> optuna.Study:
    """Return a copy of a study with these trials."""
    view = copy.copy(study)
    view._storage = _TrialsView(study._storage, trials)  # type: ignore[assignment]  # noqa: SLF001  so that Hyperband's parts of it have them too
    return view


def _scaled(trial: FrozenTrial, parts: int) -> FrozenTrial:
    """Return a copy of a trial with its steps in units of 1 / `parts`."""
    scaled = copy.copy(trial)
    scaled.intermediate_values = {round(step * parts): error for step, error in trial.intermediate_values.items()}
    return scaled


def _parts(trials: Sequence[FrozenTrial]) -> int:
    """Return the smallest number of parts of 1 in which all steps are integers, at most `FINEST`."""
    parts = 1
    for trial in trials:
        for step in trial.intermediate_values:
            if step != int(step):
                parts = math.lcm(parts, _denominator(step))
                if parts > FINEST:
                    return FINEST
    return parts


@lru_cache(maxsize=4096)
def _denominator(step: float) -> int:
    """Return the denominator of a step; more than `FINEST` if it is no fraction with a denominator up to `PARTS`."""
    fraction = Fraction(step).limit_denominator(PARTS)
    return fraction.denominator if math.isclose(fraction, step, rel_tol=1e-9, abs_tol=1e-12) else FINEST + 1
