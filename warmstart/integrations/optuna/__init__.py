"""Optuna: a sampler over our optimiser, warm starts of its studies, spaces and trials as ours."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.integrations.optuna.sampler import WarmStartSampler as WarmStartSampler
    from warmstart.integrations.optuna.sampler import warm_start as warm_start

__all__ = ["WarmStartSampler", "warm_start"]


def __getattr__(name: str) -> Any:
    if name not in __all__:  # the rest of the package needs neither
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from warmstart.integrations.optuna import sampler

    return getattr(sampler, name)
