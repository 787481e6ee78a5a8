"""Ray: a cluster, an executor over its nodes, workers of studies as its tasks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.integrations.ray.cluster import Cluster as Cluster
    from warmstart.integrations.ray.cluster import RayExecutor as RayExecutor

__all__ = ["Cluster", "RayExecutor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from warmstart.integrations.ray import cluster

    return getattr(cluster, name)
