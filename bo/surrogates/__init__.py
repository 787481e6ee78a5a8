"""Surrogates: models of the error over the unit cube, all with `fit` and `predict` of `bo.surrogates.base.Surrogate`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from bo.surrogates.base import Prediction, Surrogate
from bo.surrogates.gp import GaussianProcess

SURROGATES: Mapping[str, Callable[[], Surrogate]] = MappingProxyType(
    {"gp": GaussianProcess, "gp-map": lambda: GaussianProcess(inference="evidence")}
)
"""Every surrogate by name, at its defaults."""

__all__ = ["SURROGATES", "GaussianProcess", "Prediction", "Surrogate"]
