"""Optuna: sampler, pruner by a history's learning curves, warm starts of studies, conversion of spaces and trials."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.integrations.optuna.fitting_sampler import FittingSampler as FittingSampler
    from warmstart.integrations.optuna.pruner import HistoryPruner as HistoryPruner
    from warmstart.integrations.optuna.pruner import history_pruner as history_pruner
    from warmstart.integrations.optuna.sampler import WarmStartSampler as WarmStartSampler
    from warmstart.integrations.optuna.warm_trials import warm_start as warm_start

_MODULES = {
    "FittingSampler": "fitting_sampler",
    "HistoryPruner": "pruner",
    "WarmStartSampler": "sampler",
    "history_pruner": "pruner",
    "warm_start": "warm_trials",
}
__all__ = ["FittingSampler", "HistoryPruner", "WarmStartSampler", "history_pruner", "warm_start"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
