"""From manifests to a measured history."""

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_store.errors import UsageError

if TYPE_CHECKING:
    from history_store.manifest import Manifest
    from training.collection.collect import Progress
    from warmstart.integrations.ray.cluster import Cluster

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
    first: Path | None = None,
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

    `path` is the history, made over `space` (see `warmstart.spaces`; None = the workload's usual one) where it is not there;
    `manifests` are as in `open_sources`, `first` a file as in `read_configs`; `workload` is a name in `training.workloads.WORKLOADS`,
    `target_budget` the name of one of its budgets, None = the usual one; `cluster` is where cells are measured, None = on this
    machine; `workers` are 2 here and as many as there are places on a cluster; on it, `device` ``auto`` is each node's own;
    `progress` is that of `training.collection.collect.collect`.
    The other arguments, and what is refused, are those of `training.collection.collect.collect`.

    Returns: the report as native types.
    """
    from history_store.history import History
    from history_store.space import dump_space
    from metafeat.device import resolve_device
    from training.collection.collect import collect
    from training.collection.measure import limit_of
    from training.workloads import get_workload
    from warmstart.spaces import space_text

    trained = get_workload(workload)
    length = trained.budget(target_budget)
    sources, given = open_sources(manifests), () if first is None else read_configs(first)
    if not (configs or given):
        msg = f"expected at least 1, got {configs} and none with `first`. Ask for 16, 32 or 64."
        raise UsageError(msg, param="configs")
    if not path.exists():
        made_over = dump_space(trained.space()) if space is None else space_text(space)
        History.create(path, made_over).close()
    with contextlib.ExitStack() as stack:
        executor, where = None, None
        if cluster is None:
            where = resolve_device(device)
        else:
            from warmstart.integrations.ray.cluster import RayExecutor

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
            first=given,
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


def open_sources(paths: Sequence[Path]) -> "tuple[Manifest, ...]":
    """Read manifests, and write them for images that have none.

    Args:
        paths: TOML files, folders of them, or images themselves: a folder of pictures, an npz file and the like, whose dataset gets
            the name of the file or folder.

    Raises:
        MissingPathError: a path that is not there.
        DataError: a manifest that does not fit the schema, or two of one name.
    """
    from history_store.errors import ManifestError, MissingPathError
    from history_store.manifest import Manifest, Obtain, load_manifests

    found: dict[str, Manifest] = {}
    for path in paths:
        if path.suffix == ".toml" or (path.is_dir() and any(path.glob("*.toml"))):
            some = load_manifests(path)
        elif path.exists():
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().stem if path.is_file() else path.resolve().name)
            name = name.strip("-._") or "images"
            where = Obtain("folder" if path.is_dir() else "file", str(path.resolve()))
            some = (Manifest(name, name, f"images of {path.name}", "one's own", "not stated", where),)
        else:
            msg = f"{path}: expected a manifest, or images to measure, got nothing there. Check the path."
            raise MissingPathError(msg)
        for manifest in some:
            if manifest.name in found:
                msg = f"{path}: expected a name of its own, got {manifest.name!r} again. Leave one of the two out."
                raise ManifestError(msg)
            found[manifest.name] = manifest
    return tuple(found.values())


def read_configs(path: Path) -> "list[dict[str, Any]]":
    """Read configurations from JSON: a list of them, one a line, or what ``warmstart suggest --format json`` writes.

    Raises:
        MissingPathError: no such file.
        DataError: a file that is none of these.
    """
    from history_store.errors import DataError, MissingPathError

    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        msg = f"{path}: expected a file of configurations, got nothing there. Check the path."
        raise MissingPathError(msg, param="first") from error
    except UnicodeDecodeError as error:
        msg = f"{path}: expected JSON, got a file that is no text. Check the path."
        raise DataError(msg, param="first") from error
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            msg = f"{path}: expected JSON, got: {error}. Write a list of configurations."
            raise DataError(msg) from error
    if isinstance(value, dict):
        value = [each.get("config") for each in value["suggestions"]] if "suggestions" in value else [value]
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        msg = f"{path}: expected a list of configurations, each an object of values by name, got {text[:60]!r}. Write what `warmstart suggest --format json` writes, or [{{...}}, ...]."
        raise DataError(msg)
    return value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
