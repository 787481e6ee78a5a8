"""Sampler and pruner of a study, by its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from warmstart.history_store.space import load_space

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

    from warmstart.bo.related import RelatedTask
    from warmstart.integrations.optuna.sampler import WarmStartSampler
    from warmstart.studies.state.spec import StudySpec


def make_sampler(
    plan: StudySpec, observations: Sequence[RelatedTask] = (), *, acquisition: str | None = None
) -> WarmStartSampler:
    """Return the sampler, which learns from the related datasets and from other studies of a group.

    Args:
        plan: of the study.
        observations: observations of the other studies.
        acquisition: instead of the study's.
    """
    from warmstart.integrations.optuna.sampler import WarmStartSampler

    related = [*(dataset.task() for dataset in plan.tasks), *observations]
    is_placed = plan.meta_feature is not None and all(task.meta_feature is not None for task in related)
    return WarmStartSampler(
        space=load_space(plan.space),
        surrogate=f"mt-{plan.surrogate}" if related else plan.surrogate,
        acquisition=acquisition or plan.acquisition,
        initial=[warm.config for warm in plan.configs],
        related=related if is_placed else [replace(task, meta_feature=None) for task in related],
        meta_feature=plan.meta_feature if is_placed else None,
        n_startup_trials=plan.design,
        seed=plan.seed,
    )


def make_pruner(plan: StudySpec, *, least: int | None = None) -> BasePruner:
    """Return the pruner.

    Args:
        plan: of the study.
        least: first step at which Hyperband and ASHA stop trials; None = Optuna's default.
    """
    from optuna import pruners

    match plan.pruner:
        case "none":
            return pruners.NopPruner()
        case "median":
            return pruners.MedianPruner()
        case "asha":
            return pruners.SuccessiveHalvingPruner(min_resource=least or "auto")
        case "hyperband":
            return pruners.HyperbandPruner(min_resource=least or 1)
        case "history":
            return _history_pruner(plan)


def _history_pruner(plan: StudySpec) -> BasePruner:
    from warmstart.integrations.optuna.pruner import HistoryPruner
    from warmstart.suggestions.run_forecasts import RunForecasts

    return HistoryPruner(RunForecasts.from_dict(plan.curves), load_space(plan.space), length=plan.length)
