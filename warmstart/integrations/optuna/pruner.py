"""Stop runs that have little chance to beat the best, by the learning curves of a history."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import TrialState

from warmstart.arguments import check_positive
from warmstart.bo.transfer.curve_forecast import OTHERS, SHARES
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.suggestions.run_forecasts import RunForecasts

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from warmstart.bo.transfer.curve_forecast import RunForecast, TrainingRun
    from warmstart.locations import PathLike
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.query import Dataset

_log = logging.getLogger("warmstart")
CHANCE = 0.02
"""A run stops where its chance to end below the best so far is smaller."""


class HistoryPruner(BasePruner):
    """Stops a run whose final error, as its reports and a history's learning curves foretell it, has little chance to be the best.

    Use it where a run reports its validation error as it goes, and the history was measured with a training job of its kind. A run that
    starts badly goes on where the history says that such runs come back. Where forecasts turn out wrong on the runs that ended, they get
    vague, and nothing is stopped: use Optuna's median pruner there.

        study = optuna.create_study(pruner=history_pruner("photos/", space=space))

    Args:
        forecasts: of runs on the study's dataset.
        space: of its configurations.
        length: tells the steps of a whole run, or None; then, and left out, the longest run that ended tells.
        chance: below which a run stops, in (0, 0.5).

    Raises:
        UsageError: the chance is outside.
    """

    def __init__(
        self,
        forecasts: RunForecasts,
        space: ConfigurationSpace,
        *,
        length: Callable[[Config], float | None] | None = None,
        chance: float = CHANCE,
    ) -> None:
        _check_chance(chance)
        self._forecasts, self._space, self._chance = forecasts, space, chance
        self._length = length or partial(_same_length, None)
        self._has_told = False

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial should stop, after what it reported last."""
        self._tell_of_scale(trial)
        others = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        forecast = self.forecast(trial, others, maximize=study.direction == StudyDirection.MAXIMIZE)
        ended = [error for error in (_error(t.value, study.direction) for t in others) if error is not None]
        return forecast is not None and bool(ended) and forecast.chance_below(min(ended)) < self._chance

    def _tell_of_scale(self, trial: FrozenTrial) -> None:
        """Say once that reports are no errors in [0, 1], and nothing will be stopped."""
        found = [value for value in trial.intermediate_values.values() if not 0.0 <= value <= 1.0]
        if found and not self._has_told:
            self._has_told = True
            _log.warning(
                "trial %d reported %g, which is no error in [0, 1]: the pruner stops nothing. Report fractions (percent divided by 100), or choose the pruner median.",
                trial.number,
                found[0],
            )

    def forecast(
        self, trial: FrozenTrial, trials: Sequence[FrozenTrial], *, maximize: bool = False
    ) -> RunForecast | None:
        """Forecast the final error of a trial.

        Args:
            trial: under way.
            trials: of the study; those that ended well count.
            maximize: values are accuracies, not errors.

        Returns: None before a quarter of the run, and where values are no errors in [0, 1] or nothing tells how long a run is.
        """
        ended = [each for each in trials if each.state == TrialState.COMPLETE and each.number != trial.number]
        longest = max((max(each.intermediate_values) for each in ended if each.intermediate_values), default=None)
        direction = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
        run = self._run(trial, longest, direction)
        if run is None or not run.shares or run.shares[-1] < SHARES[0] or run.final is not None:
            return None
        others = [self._run(each, longest, direction) for each in ended[-OTHERS:]]
        return self._forecasts.forecast(
            run, [other for other in others if other is not None and other.final is not None]
        )

    def _run(self, trial: FrozenTrial, longest: float | None, direction: StudyDirection) -> TrainingRun | None:
        """Read a trial as a run; one that ended has its value at the end."""
        length = self._length(trial.params) or longest
        reports: dict[float, float | None] = {
            step: _error(value, direction) for step, value in trial.intermediate_values.items()
        }
        if trial.state == TrialState.COMPLETE:
            length = length or 1.0
            reports = {step: error for step, error in reports.items() if step < length} | {
                length: _error(trial.value, direction)
            }
        known = {step: error for step, error in reports.items() if error is not None and step > 0}
        if length is None or len(known) < len(reports) - (0 in reports):
            return None
        return self._forecasts.run(self._space, trial.params, known, length=length)


def history_pruner(
    dataset: Dataset,
    *,
    space: SpaceLike | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    rename: Mapping[str, str] | None = None,
    n_steps: float | None = None,
    chance: float = CHANCE,
) -> HistoryPruner:
    """Make a pruner for studies of one dataset.

    Args:
        dataset: as in `warmstart.suggest`.
        space: of the study; None = the history's.
        history: whose learning curves count; None = the one that is shipped.
        model: of the meta-features.
        rename: the history's names by those of the space.
        n_steps: last step that a whole run reports; None = the longest run that ended tells.
        chance: below which a run stops.

    Raises:
        UsageError: the history has too few learning curves, or nothing in common with the space, or an argument does not fit.
        WarmstartError: as in `warmstart.suggest`.
    """
    from warmstart.history_store.space import load_space
    from warmstart.spaces import read_space
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.run_forecasts import fit_run_forecasts

    _check_chance(chance)
    if n_steps is not None:
        check_positive("n_steps", n_steps)
    place = Advisor(history=history, model=model).locate(dataset)
    opened = load_space(place.embedded.space_json) if space is None else read_space(space)
    found = fit_run_forecasts(place, opened, rename=rename or {})
    if found is None:
        raise no_curves(str(place.embedded.path))
    return HistoryPruner(found, opened, length=partial(_same_length, n_steps), chance=chance)


def _check_chance(chance: Any) -> None:
    """Check that a chance is one below which a run may stop."""
    if isinstance(chance, bool) or not isinstance(chance, numbers.Real) or not 0.0 < float(chance) < 0.5:
        msg = f"expected a chance above 0 and below 0.5, got {chance!r}. Leave it out for {CHANCE}."
        raise UsageError(msg, param="chance")


def _same_length(n_steps: float | None, _: Config) -> float | None:
    """Return the steps of a whole run, whatever its configuration; a function by name, for pruners are pickled."""
    return n_steps


def no_curves(path: str) -> UsageError:
    """Make the error of a history that cannot forecast."""
    msg = f"expected a history with learning curves of at least 12 groups of datasets over hyperparameters of your space, got {path} without. Choose the pruner median."
    return UsageError(msg, param="pruner", given="history")


def _error(value: float | None, direction: StudyDirection) -> float | None:
    """Return the error in [0, 1] that a value says; None where it says none."""
    if value is None or not 0.0 <= value <= 1.0:
        return None
    return 1.0 - value if direction == StudyDirection.MAXIMIZE else value
