"""What stops hopeless trials of a study, whatever the steps at which they report."""

from __future__ import annotations

import copy
import math
from collections.abc import Container, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from warmstart.studies.state.reported_steps import as_reported, is_whole

if TYPE_CHECKING:
    import optuna
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial, TrialState

    from warmstart.studies.state.spec import StudySpec

PARTS = 10_000
"""Steps are taken for fractions of so many parts at most, where that is what they are: 0.1 + 0.2 is 3/10."""
FINEST = 1_000_000
"""Parts of a step that are told apart at most."""


class StepPruner:
    """The pruner of a study. Optuna's count in whole steps: they get the steps in units in which all are whole.

    Where all steps are whole the unit is 1, and all is as Optuna has it.
    """

    def __init__(self, plan: StudySpec, usual: BasePruner) -> None:
        """Take a study's plan, and the pruner that it makes for whole steps."""
        self._plan, self._usual = plan, usual
        self._parts, self._fine = 1, usual
        self._are_whole, self._looked = True, set[int]()

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial should stop, after what it reported last.

        Args:
            study: of the trial.
            trial: as the storage has it.
        """
        from optuna.trial import TrialState

        if self._are_whole and self._is_whole(study, trial):
            return self._usual.prune(study, trial)
        trial, trials = as_reported(trial), [as_reported(each) for each in study.get_trials(deepcopy=False)]
        if self._plan.pruner == "history":
            return self._usual.prune(_with(study, trials), trial)
        ended = [each for each in trials if each.state == TrialState.COMPLETE]
        parts = _parts([trial, *ended])
        if parts == 1:
            return self._usual.prune(_with(study, trials), trial)
        trials, ended = [_in_parts(each, parts) for each in trials], [_in_parts(each, parts) for each in ended]
        if parts != self._parts:
            told = [step for each in ended for step in each.intermediate_values if step]
            if not told:
                return False
            # As Optuna does, a hundredth of the longest trial; but none is judged several times by its first report.
            self._parts, self._fine = parts, self._plan.make_pruner(least=max(min(told), max(told) // 100))
        return self._fine.prune(_with(study, trials), _in_parts(trial, parts))

    def _is_whole(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Tell whether all steps are whole; of others' trials that is looked at once a trial."""
        self._are_whole = is_whole(trial)
        if self._are_whole and trial.number not in self._looked:
            self._looked.add(trial.number)
            self._are_whole = all(map(is_whole, study.get_trials(deepcopy=False)))
        return self._are_whole


class _Read:
    """A storage whose trials are as they were read; all else it leaves to the storage itself."""

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
        found = [trial for trial in self._trials if states is None or trial.state in states]
        return copy.deepcopy(found) if deepcopy else found


def _with(study: optuna.Study, trials: Sequence[FrozenTrial]) -> optuna.Study:
    """Return a study that has these trials."""
    found = copy.copy(study)
    found._storage = _Read(study._storage, trials)  # type: ignore[assignment]  # noqa: SLF001  so that Hyperband's parts of it have them too
    return found


def _in_parts(trial: FrozenTrial, parts: int) -> FrozenTrial:
    """Return a trial whose steps are counted in parts of one."""
    found = copy.copy(trial)
    found.intermediate_values = {round(step * parts): error for step, error in trial.intermediate_values.items()}
    return found


def _parts(trials: Sequence[FrozenTrial]) -> int:
    """Count the parts of a step in which all steps are whole."""
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
    """Return the parts of a step that is a fraction, more than are told apart where it is none."""
    found = Fraction(step).limit_denominator(PARTS)
    return found.denominator if math.isclose(found, step, rel_tol=1e-9, abs_tol=1e-12) else FINEST + 1
