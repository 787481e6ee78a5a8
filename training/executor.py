"""The old path of `training.processes.executor`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, Executor="training.processes.executor:Executor")
