"""The old path of `warmstart.integrations.optuna.space`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__,
    **{
        name: f"warmstart.integrations.optuna.space:{name}"
        for name in ("Presence", "shown", "snapped", "to_distributions", "to_space")
    },
)
