"""The old path of `training.collection.collect`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, collect="training.collection.collect:collect")
