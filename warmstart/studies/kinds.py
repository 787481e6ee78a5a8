"""The old path of `warmstart.studies.objectives.load`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, load_objective="warmstart.studies.objectives.load:load_objective")
