"""Pruner of runs with little chance to be the best, by the learning curves of a history."""

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
from warmstart.default_workload import default_workload, is_history_named
from warmstart.history_store.errors import UsageError
from warmstart.history_store.records import Config
from warmstart.history_store.space import load_space
from warmstart.locations import history_path
from warmstart.spaces import read_space
from warmstart.suggestions.advisor import Advisor
from warmstart.suggestions.run_forecasts import RunForecasts, fit_run_forecasts

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
"""Chance to end below the best so far under which a run stops."""


class HistoryPruner(BasePruner):
    """Pruner of runs that are unlikely to be the best, by their reports and a history's learning curves.

    Use it if runs report validation errors, and the history measured a similar training job. A run that starts badly
    continues if such runs recover in the history. If forecasts are wrong for ended runs, they get uncertain, and
    nothing is stopped: use Optuna's median pruner then.

        study = optuna.create_study(pruner=history_pruner("photos/", space=space))

    Args:
        forecasts: of runs on the study's dataset.
        space: of its configurations.
        length: returns the steps of a whole run by configuration; None = the longest ended run's.
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
        self._has_told = False  # the name in pickles of 0.2

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial should stop after its last report."""
        self._warn_of_scale(trial)
        completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        forecast = self.forecast(trial, completed, maximize=study.direction == StudyDirection.MAXIMIZE)
        ended = [error for error in (_error(t.value, study.direction) for t in completed) if error is not None]
        return forecast is not None and bool(ended) and forecast.chance_below(min(ended)) < self._chance

    def _warn_of_scale(self, trial: FrozenTrial) -> None:
        """Warn once that reports are no errors in [0, 1], so nothing will be stopped."""
        outside = [value for value in trial.intermediate_values.values() if not 0.0 <= value <= 1.0]
        if outside and not self._has_told:
            self._has_told = True
            _log.warning(
                "trial %d reported %g, which is no error in [0, 1]: the pruner stops nothing. Report fractions (percent divided by 100), or choose the pruner median.",
                trial.number,
                outside[0],
            )

    def forecast(
        self, trial: FrozenTrial, trials: Sequence[FrozenTrial], *, maximize: bool = False
    ) -> RunForecast | None:
        """Forecast the final error of a trial.

        Args:
            trial: running.
            trials: of the study; completed ones count.
            maximize: whether values are accuracies, not errors.

        Returns: None before a quarter of the run, for values outside [0, 1], or if the length of a run is unknown.
        """
        ended = [
            ended_trial
            for ended_trial in trials
            if ended_trial.state == TrialState.COMPLETE and ended_trial.number != trial.number
        ]
        longest = max(
            (max(ended_trial.intermediate_values) for ended_trial in ended if ended_trial.intermediate_values),
            default=None,
        )
        direction = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
        run = self._run(trial, longest, direction)
        if run is None or not run.shares or run.shares[-1] < SHARES[0] or run.final is not None:
            return None
        ended_runs = [self._run(ended_trial, longest, direction) for ended_trial in ended[-OTHERS:]]
        return self._forecasts.forecast(
            run, [ended_run for ended_run in ended_runs if ended_run is not None and ended_run.final is not None]
        )

    def _run(self, trial: FrozenTrial, longest: float | None, direction: StudyDirection) -> TrainingRun | None:
        """Return a trial as a training run; a completed one has its value at the last step."""
        length = self._length(trial.params) or longest
        reports: dict[float, float | None] = {
            step: _error(value, direction) for step, value in trial.intermediate_values.items()
        }
        if trial.state == TrialState.COMPLETE:
            length = length or 1.0
            reports = {step: error for step, error in reports.items() if step < length} | {
                length: _error(trial.value, direction)
            }
        errors = {step: error for step, error in reports.items() if error is not None and step > 0}
        if length is None or len(errors) < len(reports) - (0 in reports):
            return None
        return self._forecasts.run(self._space, trial.params, errors, length=length)


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
    """Return a pruner for studies of one dataset.

    Args:
        dataset: as in `warmstart.suggest`.
        space: of the study; None = the history's.
        history: with learning curves; None = the shipped one that shares most hyperparameters with the space.
        model: of the meta-features.
        rename: the history's names by those of the space.
        n_steps: last step of a whole run; None = the longest ended run's.
        chance: below which a run stops.

    Raises:
        UsageError: the history has too few learning curves, or nothing in common with the space, or an argument does not fit.
        WarmstartError: as in `warmstart.suggest`.
    """
    _check_chance(chance)
    if n_steps is not None:
        check_positive("n_steps", n_steps)
    if not is_history_named(history):
        history = history_path(workload=default_workload(space, rename=rename, is_script=True, model=model).name)
    location = Advisor(history=history, model=model).locate(dataset)
    configuration_space = load_space(location.embedded.space_json) if space is None else read_space(space)
    forecasts = fit_run_forecasts(location, configuration_space, rename=rename or {})
    if forecasts is None:
        raise no_curves_error(str(location.embedded.path))
    return HistoryPruner(forecasts, configuration_space, length=partial(_same_length, n_steps), chance=chance)


def _check_chance(chance: Any) -> None:
    """Check that a chance is in (0, 0.5)."""
    if isinstance(chance, bool) or not isinstance(chance, numbers.Real) or not 0.0 < float(chance) < 0.5:
        msg = f"expected a chance above 0 and below 0.5, got {chance!r}. Leave it out for {CHANCE}."
        raise UsageError(msg, param="chance")


def _same_length(n_steps: float | None, _: Config) -> float | None:
    """Return the steps of a whole run for any configuration; a named function, since pruners are pickled."""
    return n_steps


def no_curves_error(path: str) -> UsageError:
    """Return the error for a history without enough learning curves."""
    msg = f"expected a history with learning curves of at least 12 groups of datasets over hyperparameters of your space, got {path} without. Choose the pruner median."
    return UsageError(msg, param="pruner", given="history")


def _error(value: float | None, direction: StudyDirection) -> float | None:
    """Return the error of a value; None if the value is outside [0, 1]."""
    if value is None or not 0.0 <= value <= 1.0:
        return None
    return 1.0 - value if direction == StudyDirection.MAXIMIZE else value
