"""From manifests to a measured history."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_store.errors import UsageError

if TYPE_CHECKING:
    from training.collect import Progress
    from warmstart.integrations.ray import Cluster

WORKERS = 2


def collect_into(
    path: Path,
    manifests: Sequence[Path] = (),
    *,
    space: str = "compact",
    root: str | None = None,
    download: bool = False,
    fractions: Sequence[float] = (1.0,),
    configs: int = 64,
    replicates: int = 1,
    race: float | None = None,
    seed: int = 0,
    target_budget: str = "compact-400",
    workers: int | None = None,
    cluster: "Cluster | None" = None,
    device: str = "auto",
    time_budget: str | None = None,
    cell_timeout: float = float("inf"),
    shards: str | None = None,
    progress: "Callable[[Progress], None] | None" = None,
) -> dict[str, Any]:
    """Measure shared configurations on the manifests' datasets.

    `path` is the history, made over `space` (see `warmstart.spaces`) where it is not there; `manifests` are TOML files or folders
    of them; `target_budget` is a name in `training.budget.BUDGETS`; `cluster` is where cells are measured, None = on this
    machine; `workers` are 2 here and as many as there are places on a cluster; on it, `device` ``auto`` is each node's own;
    `progress` is that of `training.collect.collect`.
    The other arguments, and what is refused, are those of `training.collect.collect`.

    Returns: the report as native types.
    """
    from history_store.history import History
    from history_store.manifest import load_manifests
    from training.budget import BUDGETS
    from training.collect import collect
    from training.measure import limit_of
    from warmstart.device import resolve_device
    from warmstart.spaces import space_text

    if target_budget not in BUDGETS:
        msg = f"expected one of {', '.join(BUDGETS)}, got {target_budget!r}. Leave it out for the first."
        raise UsageError(msg, param="target_budget")
    sources = load_manifests(manifests)
    if not path.exists():
        History.create(path, space_text(space)).close()
    with contextlib.ExitStack() as stack:
        executor, where = None, None
        if cluster is None:
            where = resolve_device(device)
        else:
            from warmstart.integrations.ray import RayExecutor

            stack.enter_context(cluster.connect())
            executor = RayExecutor(cluster, workers=workers, limit_s=limit_of(cell_timeout))
            workers = workers or cluster.places()
            where = None if device == "auto" else device
        history = stack.enter_context(History.open(path, write=True))
        report = collect(
            history,
            sources,
            root=root,
            download=download,
            fractions=fractions,
            configs=configs,
            replicates=replicates,
            race=race,
            seed=seed,
            budget=BUDGETS[target_budget],
            workers=workers or WORKERS,
            executor=executor,
            device=where,
            time_budget=time_budget,
            cell_timeout=cell_timeout,
            shards=shards,
            progress=progress,
        )
    fields = dataclasses.asdict(report)
    fields["datasets"] = list(report.datasets)
    fields["measured"] = {status.value: count for status, count in report.measured.items()}
    if report.noise is None:
        del fields["noise"], fields["settled"]
    else:
        fields["noise"] = {
            name: {"median": _finite(median), "rms": _finite(rms)} for name, (median, rms) in report.noise.items()
        }
    return fields


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
