"""The old path of `warmstart.integrations.optuna.space`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__,
    to_distributions="warmstart.integrations.optuna.space:to_distributions",
    from_distributions="warmstart.integrations.optuna.space:from_distributions",
)
