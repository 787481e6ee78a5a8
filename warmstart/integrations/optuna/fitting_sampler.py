"""Optuna sampler that fits the values of warm trials, around a sampler for all other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler

from warmstart.integrations.optuna.warm_values import (
    begin_warm_trial,
    end_warm_trial,
    warm_value,
    without_warm_values,
)
from warmstart.studies.state.attributes import ORIGIN

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState


class FittingSampler(BaseSampler):
    """Any sampler of Optuna, with the values of warm trials fitted to what the objective asks for.

    `warm_start` puts it around the sampler of a study. Workers in other processes that take waiting warm trials need it
    too: `study.sampler = FittingSampler(study.sampler)`.
    """

    def __init__(self, inner: BaseSampler) -> None:
        """Set up a sampler around another."""
        self.inner = inner

    def __str__(self) -> str:
        return str(self.inner)

    def reseed_rng(self) -> None:
        """Draw a new seed, as the inner sampler does."""
        self.inner.reseed_rng()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Prepare a trial."""
        self.inner.before_trial(study, trial)
        begin_warm_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that the inner sampler samples jointly."""
        return self.inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the inner sampler's values, without those for which a warm trial has one."""
        return without_warm_values(study, trial, self.inner.sample_relative(study, trial, search_space))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a warm trial's value, else the inner sampler's."""
        warm = warm_value(study, trial, param_name, param_distribution)
        if warm is not None:
            return warm.value
        return self.inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Note which values of a warm trial are others than were suggested."""
        if ORIGIN in trial.user_attrs:
            end_warm_trial(study, trial)
        self.inner.after_trial(study, trial, state, values)
