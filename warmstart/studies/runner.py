"""The old path of `warmstart.studies.execution.trial_process`; it goes with the next release."""

from history_store.deprecation import forward

__getattr__ = forward(__name__, TrialRunner="warmstart.studies.execution.trial_process:TrialRunner")
