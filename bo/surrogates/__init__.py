"""Surrogates: models of the error over the unit cube. All implement `warmstart.bo.surrogates.base.Surrogate`.

| name | use it when | not when |
|---|---|---|
| `gp` | up to some hundred evaluations: the default | thousands: cost is cubic |
| `gp-map` | as `gp`, with quick suggestions | very few points: it is over-confident |
| `dngo` | hundreds to thousands of evaluations: cost is linear | a few dozen: `gp` is exact and affordable |
| `bohamiann` | between the two, without a choice of kernel | seconds count: sampling has a fixed cost |
| `mt-gp`, `mt-dngo`, `mt-bohamiann` | evaluations of related tasks exist | there are none: use the form without `mt-` |

To add a surrogate, write a class with these methods in one file, and one line in your package's metadata:
`[project.entry-points."warmstart.surrogates"]`, `mine = "package.module:INFO"`, where `INFO` is a `SurrogateInfo`.
`Optimizer` also takes an instance.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from warmstart.bo.surrogates.base import Conditioned, Prediction, Surrogate, SurrogateInfo, Task
from warmstart.bo.surrogates.bohamiann.model import Bohamiann
from warmstart.bo.surrogates.dngo.model import DNGO
from warmstart.bo.surrogates.dngo.multitask import MultiTaskDNGO
from warmstart.bo.surrogates.gp.model import GaussianProcess
from warmstart.bo.surrogates.gp.multitask import MultiTaskGaussianProcess
from warmstart.history_store.errors import UsageError
from warmstart.history_store.registry import Registry

SURROGATES: Registry[SurrogateInfo] = Registry(
    "warmstart.surrogates",
    "surrogate",
    {
        info.name: info
        for info in (
            SurrogateInfo("gp", GaussianProcess, min_points=2, growth="cubic"),
            SurrogateInfo("gp-map", partial(GaussianProcess, inference="evidence"), min_points=2, growth="cubic"),
            SurrogateInfo("dngo", DNGO),
            SurrogateInfo("bohamiann", Bohamiann),
            SurrogateInfo("mt-bohamiann", Bohamiann, multitask=True, alone="bohamiann"),
            SurrogateInfo("mt-dngo", MultiTaskDNGO, multitask=True, alone="dngo"),
            SurrogateInfo("mt-gp", MultiTaskGaussianProcess, multitask=True, min_points=2, growth="cubic", alone="gp"),
        )
    },
    check=lambda found: isinstance(found, SurrogateInfo),
    requirement="a warmstart.bo.surrogates.SurrogateInfo",
)
"""Every surrogate by name; an entry is called with the keywords of its constructor."""


def find_surrogate(
    surrogate: str | SurrogateInfo | Surrogate, label: str = "surrogate", *, param: str = ""
) -> SurrogateInfo:
    """Return the description of a surrogate from its name, its description or an instance.

    Raises:
        UsageError: when the name is unknown.
    """
    if isinstance(surrogate, SurrogateInfo):
        return surrogate
    if isinstance(surrogate, str):
        return SURROGATES.find(surrogate, label, param=param)
    if not hasattr(surrogate, "fit") or not hasattr(surrogate, "sample_joint"):
        msg = f"expected a name, a SurrogateInfo or a surrogate with the methods of warmstart.bo.surrogates.Surrogate, got {type(surrogate).__name__}. Name one of {', '.join(SURROGATES)}."
        raise UsageError(msg, param=param) if param else UsageError(f"{label}: {msg}")
    return SurrogateInfo.of(surrogate)


def check_named(record: Mapping[str, Any], label: str, step: str) -> None:
    """Check that the surrogate of a saved run is registered by name, and was not an instance.

    Raises:
        UsageError: when the name is unknown.
    """
    settings = record.get("settings")
    name = settings.get("surrogate") if isinstance(settings, Mapping) else None
    if isinstance(name, str) and name not in SURROGATES:
        msg = f"{label}: expected a run whose surrogate is one of {', '.join(SURROGATES)}, got {name!r}, a surrogate of your own or of a package that is not installed. {step}"
        raise UsageError(msg)


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
    "SurrogateInfo",
    "Task",
    "check_named",
    "find_surrogate",
]
