"""Optuna: a sampler over our optimiser, a pruner by a history's learning curves, warm starts of its studies, spaces and trials as ours."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.integrations.optuna.pruner import HistoryPruner as HistoryPruner
    from warmstart.integrations.optuna.pruner import history_pruner as history_pruner
    from warmstart.integrations.optuna.sampler import WarmStartSampler as WarmStartSampler
    from warmstart.integrations.optuna.sampler import warm_start as warm_start

__all__ = ["HistoryPruner", "WarmStartSampler", "history_pruner", "warm_start"]


def __getattr__(name: str) -> Any:
    if name not in __all__:  # the rest of the package needs neither
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from warmstart.integrations.optuna import pruner, sampler

    return getattr(pruner if "runer" in name else sampler, name)
