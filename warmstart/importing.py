"""The old path of `warmstart.histories.import_runs`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, read_source="warmstart.histories.import_runs:read_source")
