"""The old path of `training.collection.add_sources`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, rebuild="training.collection.add_sources:rebuild")
