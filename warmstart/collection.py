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
    space: str | None = None,
    root: str | None = None,
    download: bool = False,
    fractions: Sequence[float] = (1.0,),
    configs: int = 64,
    replicates: int = 1,
    race: float | None = None,
    seed: int = 0,
    workload: str = "cnn",
    target_budget: str | None = None,
    workers: int | None = None,
    cluster: "Cluster | None" = None,
    device: str = "auto",
    time_budget: str | None = None,
    cell_timeout: float = float("inf"),
    shards: str | None = None,
    progress: "Callable[[Progress], None] | None" = None,
) -> dict[str, Any]:
    """Measure shared configurations on the manifests' datasets.

    `path` is the history, made over `space` (see `space_text`; None = the workload's usual one) where it is not there; `manifests` are TOML files or folders
    of them; `workload` is a name in `training.workloads.WORKLOADS`, `target_budget` the name of one of its budgets, None = the usual
    one; `cluster` is where cells are measured, None = on this
    machine; `workers` are 2 here and as many as there are places on a cluster; on it, `device` ``auto`` is each node's own;
    `progress` is that of `training.collect.collect`.
    The other arguments, and what is refused, are those of `training.collect.collect`.

    Returns: the report as native types.
    """
    from history_store.history import History
    from history_store.manifest import load_manifests
    from history_store.space import dump_space
    from metafeat.device import resolve_device
    from training.collect import collect
    from training.measure import limit_of
    from training.workloads import get_workload

    trained = get_workload(workload)
    length = trained.budget(target_budget)
    sources = load_manifests(manifests)
    if not path.exists():
        made_over = dump_space(trained.space()) if space is None else space_text(space)
        History.create(path, made_over).close()
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
            workload=trained,
            budget=length,
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


def space_text(space: str) -> str:
    """Give ConfigSpace JSON: of a workload's space (``compact``, ``paper``, ``WORKLOAD``, ``WORKLOAD:SPACE``), or read from a file.

    Raises:
        UsageError: neither such a name nor a file.
        DataError: a file that holds no ConfigSpace JSON.
    """
    from history_store.space import dump_space, load_space
    from training.workloads import named_space, space_names

    named = named_space(space)
    if named is not None:
        return dump_space(named)
    file = Path(space)
    if not file.is_file():
        msg = f"expected {', '.join(space_names())} or a ConfigSpace JSON file, got {space!r}. Write a file with ConfigurationSpace.to_json."
        raise UsageError(msg, param="space")
    return dump_space(load_space(file.read_text(encoding="utf-8", errors="replace"), str(file)))
