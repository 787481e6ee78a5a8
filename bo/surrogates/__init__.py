"""Surrogates: models of the error over the unit cube, all with `fit` and `predict` of `bo.surrogates.base.Surrogate`."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from bo.surrogates.base import Conditioned, Prediction, Surrogate, Task
from bo.surrogates.gp import GaussianProcess

SURROGATES: Mapping[str, Callable[..., Surrogate]] = MappingProxyType(
    {"gp": GaussianProcess, "gp-map": partial(GaussianProcess, inference="evidence")}
)
"""Every surrogate by name; takes the keywords of its constructor."""

__all__ = ["SURROGATES", "Conditioned", "GaussianProcess", "Prediction", "Surrogate", "Task"]
