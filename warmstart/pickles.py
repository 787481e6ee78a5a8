"""Load pickles of earlier versions, whose modules have moved."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO, ClassVar

MOVED = {
    "bo": "warmstart.bo",
    "bo.acquisition.cost": "warmstart.bo.acquisition.improvement_validity_cost",
    "bo.acquisition.function": "warmstart.bo.acquisition.improvement_validity_cost",
    "bo.calibration": "warmstart.bo.transfer.calibration",
    "bo.constraints.logistic_head": "warmstart.bo.constraints.network_classifier",
    "bo.designs": "warmstart.bo.transfer.designs",
    "bo.paper_spaces": "warmstart.bo.space.papers",
    "bo.space.axes": "warmstart.history_store.axes",
    "bo.space.clauses": "warmstart.history_store.clauses",
    "bo.surrogates.gp.metric": "warmstart.bo.surrogates.gp.arc_and_warping",
    "bo.surrogates.info": "warmstart.bo.surrogates.base",
    "bo.transfer.duration_forecast": "warmstart.timing.forecast",
    "bo.strategies": "warmstart.bo.transfer.strategies",
    "history_store": "warmstart.history_store",
    "history_store.foreign_import": "warmstart.history_store.external_import",
    "metafeat": "warmstart.metafeat",
    "metafeat.class_signal": "warmstart.metafeat.sample_statistics",
    "training": "warmstart.training",
    "training.budget": "warmstart.training.workloads.cnn.budget",
    "training.collect": "warmstart.training.collection.collect",
    "training.enrol": "warmstart.training.collection.add_sources",
    "training.executor": "warmstart.training.processes.executor",
    "warmstart.exit_codes": "warmstart.status",
    "warmstart.metafeat.class_signal": "warmstart.metafeat.sample_statistics",
    "warmstart.importing": "warmstart.histories.import_runs",
    "warmstart.integrations.optuna_space": "warmstart.integrations.optuna.space",
    "warmstart.suggestions.durations": "warmstart.timing.durations",
    "warmstart.suggestions.norms": "warmstart.suggestions.references",
    "warmstart.suggestions.own_pixels": "warmstart.suggestions.other_sizes",
    "warmstart.suggestions.row_memory": "warmstart.suggestions.embedded_history",
    "warmstart.suggestions.short_run": "warmstart.timing.short_run",
    "warmstart.suggestions.tuned_before": "warmstart.suggestions.location",
    "warmstart.suggestions.smaller_parts": "warmstart.suggestions.other_sizes",
    "warmstart.suggestions.time_plan": "warmstart.timing.plan",
    "warmstart.studies.kinds": "warmstart.studies.objectives.load",
    "warmstart.studies.network": "warmstart.training.workloads.cnn.classifier",
    "warmstart.studies.runner": "warmstart.studies.execution.trial_process",
}
"""Modules of 0.1 to 0.3, or packages above them, and their present names."""

RENAMED = {
    "bo.restarts.Elsewhere": "FreshProcess",
    "bo.surrogates.gp.coregionalised._Last": "_CachedCorrelation",
    "warmstart.integrations.optuna.problem.Known": "TrialData",
}
"""Classes that pickles of 0.2 hold, and their present names."""
ATTRIBUTES = {
    "bo.constraints.gp_classifier.GPClassifier": {"_kept": "_latent_samples", "_shown": "_train_inputs"},
    "bo.evaluation_log.EvaluationLog": {"told": "observations"},
    "bo.forecasts.Forecasts": {"_known": "_forecasts"},
    "bo.models.SurrogateModels": {"_kept": "_models"},
    "bo.optimizer.Optimizer": {"_asked": "_ask_count"},
    "bo.restarts.Elsewhere": {"own": "keys"},
    "bo.restarts.Restarts": {"elsewhere": "fresh"},
    "bo.surrogates.gp.coregionalised.Coregionalised": {"_own": "_target_shape", "_places": "_positions"},
    "bo.surrogates.gp.coregionalised._Last": {"_known": "_cache"},
    "bo.surrogates.gp.coregionalised._Points": {"own": "target"},
}
"""Attributes of these classes, in pickles of 0.2, and their present names."""


def load_pickle(file: BinaryIO) -> Any:
    """Load a pickle of this or an earlier version: of a sampler, a pruner, an optimiser or a result.

    As with `pickle.load`, the file can run code: load only what you trust.

    Args:
        file: opened in binary mode.

    Raises:
        pickle.UnpicklingError, EOFError: not a whole pickle.
        ModuleNotFoundError, AttributeError: it names something that no longer exists.
    """
    try:
        return _Unpickler(file).load()
    except IndexError as error:
        raise pickle.UnpicklingError(str(error)) from error


class _Unpickler(pickle._Unpickler):  # noqa: SLF001  the one in Python, whose steps can be overridden
    """An unpickler that finds classes in their present modules and attributes under their present names."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001
    stack: list[Any]

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._attributes: dict[type, Mapping[str, str]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a module and a name."""
        old = f"{module}.{name}"
        target = super().find_class(current_module(module), RENAMED.get(old, name))
        if old in ATTRIBUTES:
            self._attributes[target] = ATTRIBUTES[old]
        return _imports_current(target) if (module, name) == ("cloudpickle.cloudpickle", "subimport") else target

    def load_build(self) -> None:
        """Set the state of an object: the top of the stack, the object below it."""
        *_, instance, state = self.stack
        if names := self._attributes.get(type(instance)):
            # With slots the state is a pair: attributes without slots, attributes with slots.
            parts = state if isinstance(state, tuple) else (state,)
            renamed = [part and {names.get(name, name): value for name, value in part.items()} for part in parts]
            self.stack[-1] = tuple(renamed) if isinstance(state, tuple) else renamed[0]
        super().load_build()  # type: ignore[misc]  # its stub lacks it
        _add_new_fields(instance)

    dispatch[pickle.BUILD[0]] = load_build


def _add_new_fields(instance: object) -> None:
    """Give a record of an earlier version the defaults of the fields that it had not."""
    if not is_dataclass(instance) or not type(instance).__module__.startswith("warmstart."):
        return
    for item in fields(instance):
        if hasattr(instance, item.name):
            continue
        if item.default is not MISSING:
            object.__setattr__(instance, item.name, item.default)
        elif item.default_factory is not MISSING:
            object.__setattr__(instance, item.name, item.default_factory())


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
