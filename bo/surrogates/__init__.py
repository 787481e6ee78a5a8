"""Surrogates: models of the error over the unit cube, all with `fit` and `predict` of `bo.surrogates.base.Surrogate`."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from bo.surrogates.base import Conditioned, Prediction, Surrogate, Task
from bo.surrogates.bohamiann import Bohamiann
from bo.surrogates.dngo import DNGO
from bo.surrogates.gp import GaussianProcess
from bo.surrogates.mt_dngo import MultiTaskDNGO
from bo.surrogates.mt_gp import MultiTaskGaussianProcess

SURROGATES: Mapping[str, Callable[..., Surrogate]] = MappingProxyType(
    {
        "gp": GaussianProcess,
        "gp-map": partial(GaussianProcess, inference="evidence"),
        "dngo": DNGO,
        "bohamiann": Bohamiann,
        "mt-bohamiann": Bohamiann,
        "mt-dngo": MultiTaskDNGO,
        "mt-gp": MultiTaskGaussianProcess,
    }
)
"""Every surrogate by name; takes the keywords of its constructor."""

__all__ = [
    "DNGO",
    "SURROGATES",
    "Bohamiann",
    "Conditioned",
    "GaussianProcess",
    "MultiTaskDNGO",
    "MultiTaskGaussianProcess",
    "Prediction",
    "Surrogate",
    "Task",
]
