"""Pickles that earlier versions wrote: the modules that they name have moved since."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO

MOVED = {
    "bo": "warmstart.bo",
    "bo.calibration": "warmstart.bo.transfer.calibration",
    "bo.designs": "warmstart.bo.transfer.designs",
    "bo.paper_spaces": "warmstart.bo.space.papers",
    "bo.strategies": "warmstart.bo.transfer.strategies",
    "history_store": "warmstart.history_store",
    "history_store.foreign_import": "warmstart.history_store.external_import",
    "metafeat": "warmstart.metafeat",
    "training": "warmstart.training",
    "training.budget": "warmstart.training.workloads.cnn.budget",
    "training.collect": "warmstart.training.collection.collect",
    "training.enrol": "warmstart.training.collection.add_sources",
    "training.executor": "warmstart.training.processes.executor",
    "warmstart.exit_codes": "warmstart.status",
    "warmstart.importing": "warmstart.histories.import_runs",
    "warmstart.integrations.optuna_space": "warmstart.integrations.optuna.space",
    "warmstart.studies.kinds": "warmstart.studies.objectives.load",
    "warmstart.studies.network": "warmstart.training.workloads.cnn.classifier",
    "warmstart.studies.runner": "warmstart.studies.execution.trial_process",
}
"""Modules of 0.1 and 0.2, and where they or the nearest package above them are now."""


def load_pickle(file: BinaryIO) -> Any:
    """Load a pickle that this or an earlier version wrote: of a sampler, a pruner, an optimiser or a result.

    As with `pickle.load`, whoever wrote the file can run code here: load only what you trust.

    Args:
        file: opened in binary mode.

    Raises:
        pickle.UnpicklingError, EOFError: when it is no whole pickle.
        ModuleNotFoundError, AttributeError: when it names what no longer exists.
    """
    return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    """Finds classes where they are now."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a name."""
        found = super().find_class(current_module(module), name)
        return _imports_current(found) if (module, name) == ("cloudpickle.cloudpickle", "subimport") else found


def current_module(module: str) -> str:
    """Return where a module is now; one of somebody else, as `training.own`, keeps its name."""
    for old in sorted(MOVED, key=len, reverse=True):
        if f"{module}.".startswith(f"{old}."):
            now = MOVED[old] + module[len(old) :]
            return now if _exists(now) else module
    return module


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above
        return False


def _imports_current(subimport: Callable[[str], object]) -> Callable[[str], object]:
    """Return cloudpickle's import of a module that a function uses, by today's name."""
    assert callable(subimport)  # noqa: S101  cloudpickle's
    return lambda module: import_module(current_module(module))
