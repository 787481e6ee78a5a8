"""The old path of the CNN's budgets; see `training.workloads.cnn.budget`."""

from history_store.deprecation import forward

__getattr__ = forward(
    __name__, **{name: f"training.workloads.cnn.budget:{name}" for name in ("BUDGETS", "COMPACT", "PAPER", "Budget")}
)
