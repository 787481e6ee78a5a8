"""Bayesian optimisation: initial designs, transfer strategies, surrogates, acquisition functions and the optimiser.

The input is arrays and spaces, the output configurations. Names load on first use: ``import warmstart.bo`` does not
import numpy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.bo.observation import Observation
    from warmstart.bo.optimizer import Optimizer
    from warmstart.bo.related import RelatedTask

_MODULES = {
    "Observation": "warmstart.bo.observation",
    "Optimizer": "warmstart.bo.optimizer",
    "RelatedTask": "warmstart.bo.related",
}

__all__ = ["Observation", "Optimizer", "RelatedTask"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value
