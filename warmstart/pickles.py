"""Load pickles of earlier versions, whose modules have moved."""

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
"""Modules of 0.1 and 0.2, or packages above them, and their present names."""


def load_pickle(file: BinaryIO) -> Any:
    """Load a pickle of this or an earlier version: of a sampler, a pruner, an optimiser or a result.

    As with `pickle.load`, the file can run code: load only what you trust.

    Args:
        file: opened in binary mode.

    Raises:
        pickle.UnpicklingError, EOFError: not a whole pickle.
        ModuleNotFoundError, AttributeError: it names something that no longer exists.
    """
    return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    """An unpickler that finds classes in their present modules."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a module and a name."""
        target = super().find_class(current_module(module), name)
        return _imports_current(target) if (module, name) == ("cloudpickle.cloudpickle", "subimport") else target


def current_module(module: str) -> str:
    """Return the present name of a module; a user's own, as `training.own`, keeps its name."""
    # The longest prefix counts.
    for old in sorted(MOVED, key=len, reverse=True):
        if f"{module}.".startswith(f"{old}."):
            present = MOVED[old] + module[len(old) :]
            return present if _exists(present) else module
    return module


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above
        return False


def _imports_current(subimport: Callable[[str], object]) -> Callable[[str], object]:
    """Wrap cloudpickle's import of a function's modules to use present names."""
    assert callable(subimport)  # noqa: S101  cloudpickle's
    return lambda module: import_module(current_module(module))
