"""Measure shared configurations on datasets and store the runs in a history."""

import contextlib
import logging
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from warmstart.history_store.canonical import images_of, resolved
from warmstart.history_store.errors import DataError, ManifestError, MissingPathError, UsageError, WarmstartError
from warmstart.history_store.json_text import finite, parse_json
from warmstart.history_store.manifest import Manifest, Obtain, Splits, load_manifests
from warmstart.history_store.wording import in_words
from warmstart.metafeat.device import resolve_device
from warmstart.option import option, option_of
from warmstart.suggestions.lookup import Lookup
from warmstart.training.collection.settings import CollectionSettings

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.history_store.records import Config, DatasetInfo
    from warmstart.integrations.ray.cluster import Cluster
    from warmstart.spaces import SpaceLike
    from warmstart.studies.own_workload import OwnScript, OwnWorkload
    from warmstart.training.collection.progress import CollectionProgress, CollectReport
    from warmstart.training.workloads import Workload

WORKERS = 2
STORED_SIZE = 32
"""Pixels per side of the images of a new history, unless the workload needs larger ones."""
_log = logging.getLogger("warmstart")


@dataclass(frozen=True)
class Job:
    """The training job to measure: a workload, or the user's script.

    Attributes:
        script: measured instead of a workload.
    """

    TITLE: ClassVar[str] = "Job"
    workload: str = option(
        "cnn", "What is trained: cnn, transfer, or one that an installed package adds.", is_main=True
    )
    target_budget: str | None = option(
        None,
        "Length of one training run, by name; of cnn: compact-400 or paper. Of your script: a number, its "
        "{warmstart.budget}.",
    )
    script: "OwnScript | None" = None
    space: "SpaceLike | None" = option(
        None, "For a new history: compact, paper or a file of a space (YAML, JSON).", is_main=True
    )


@dataclass(frozen=True)
class Machines:
    """The machines that measure runs.

    Attributes:
        cluster: None = this machine.
    """

    TITLE: ClassVar[str] = "Running"
    workers: int | None = option(
        None,
        "Processes: 2 when left out; with Ray, all that there is room for.",
        type=int,
        least=1,
        is_main=True,
    )
    device: str = option_of(Lookup, "device", default="auto")
    cluster: "Cluster | None" = None

    @contextlib.contextmanager
    def configured(self, settings: "CollectionSettings", *, has_device: bool) -> "Iterator[CollectionSettings]":
        """Connect to the cluster and yield the settings with executor, workers and, unless a script chooses it, device."""
        from warmstart.training.collection.measure import limit_of

        if self.cluster is None:
            device = resolve_device(self.device) if has_device else None
            yield replace(settings, workers=self.workers or WORKERS, device=device)
            return
        from warmstart.integrations.ray.cluster import RayExecutor

        with self.cluster.connect():
            if self.workers is None:
                self.cluster.check_fits()
            executor = RayExecutor(self.cluster, workers=self.workers, limit_s=limit_of(settings.cell_timeout))
            workers, device = self.workers or self.cluster.places(), None if self.device == "auto" else self.device
            yield replace(settings, workers=workers, device=device, executor=executor)


def collect_into(
    path: Path,
    manifests: Sequence[Path] = (),
    *,
    job: Job | None = None,
    machines: Machines | None = None,
    settings: "CollectionSettings | None" = None,
    first: Path | None = None,
    progress: "Callable[[CollectionProgress], None] | None" = None,
    on_message: Callable[[str], object] = _log.warning,
) -> dict[str, Any]:
    """Measure shared configurations on the manifests' datasets.

    Args:
        path: the history; created if needed, with images as large as the workload needs.
        manifests: as in `open_sources`.
        job: what to measure; None = the target network of the paper.
        machines: where; None = two processes of this machine.
        settings: the rest; its `manifests`, `first`, `workload`, `budget`, `workers`, `device` and `executor` are ignored.
        first: a file as in `read_configs`.
        progress: as of `warmstart.training.collection.collect.collect_cells`.
        on_message: called with every line for the user.

    Returns: the report as native types.

    Raises:
        UsageError: as `warmstart.training.collection.collect.collect_cells`, or options that do not fit together.
    """
    from warmstart.history_store.history import History
    from warmstart.training.collection.collect import collect_cells

    job, machines, settings = job or Job(), machines or Machines(), settings or CollectionSettings()
    first_configs = () if first is None else read_configs(first)
    if not (settings.configs or first_configs):
        msg = f"expected at least 1, got {settings.configs} and none with `first`. Ask for 16, 32 or 64."
        raise UsageError(msg, param="configs")
    if job.script is not None:
        has_workload_options = job.workload != "cnn" or machines.device != "auto" or job.target_budget is not None
        _check_script(job.script, settings.fractions, has_workload_options=has_workload_options)
    settings = replace(settings, manifests=open_sources(manifests), first=first_configs)
    is_new = not path.exists()
    settings, space_json = _with_workload(settings, job, path)
    if first is not None:
        _check_first(first, first_configs, space_json)
    with (
        _new_history(path, space_json, settings.workload) if is_new else contextlib.nullcontext(),
        machines.configured(settings, has_device=job.script is None) as settings,
        History.open(path, write=True) as history,
    ):
        _warn_enlarged(history, settings.workload, on_message)
        return _report_dict(collect_cells(history, settings, progress=progress))


def _with_workload(settings: "CollectionSettings", job: Job, path: Path) -> "tuple[CollectionSettings, str]":
    """Add workload and budget of a job to the settings; return them with the space of the existing or new history.

    Raises:
        UsageError: an existing history over another space.
        MissingPathError: neither a history nor datasets.
    """
    from warmstart.history_store.history import History
    from warmstart.history_store.space import dump_space
    from warmstart.spaces import space_text
    from warmstart.training.workloads import get_workload

    # Refuses a wrong name before anything else.
    workload: Workload = get_workload(job.workload)
    sources, named = settings.manifests, None if job.space is None else space_text(job.space)
    if path.exists():
        with History.open(path) as history:
            if named is not None:
                _check_same_space(history, named)
            space_json = history.space_json
            if job.script is not None:
                sources = _names_in_history(history, sources)
                workload = _script_workload(job.script, space_json, _image_paths(sources, settings.root, history))
    else:
        # A script has its own message.
        if not sources and job.script is None:
            msg = f"{path}: expected a history with datasets to measure, got nothing there. Check the path, or name manifests or folders of images."
            raise MissingPathError(msg)
        if job.script is not None:
            workload = _script_workload(job.script, named, _image_paths(sources, settings.root))
        space_json = named or dump_space(workload.space())
    budget = workload.budget(job.target_budget)
    return replace(settings, manifests=sources, workload=workload, budget=budget), space_json


@contextlib.contextmanager
def _new_history(path: Path, space_json: str, workload: "Workload | None") -> "Iterator[None]":
    """Create a history; remove it again if the collection fails before anything is stored.

    Where another collection made it at the same moment, that history is used.
    """
    from warmstart.history_store.history import History, remove_empty
    from warmstart.training.workloads import get_workload

    try:
        History.create(path, space_json, stored_size=_stored_size(workload or get_workload(), space_json)).close()
    except UsageError:
        if not path.exists():
            raise
        with History.open(path) as history:
            _check_same_space(history, space_json)
    try:
        yield
    except BaseException:
        remove_empty(path)
        raise


def _check_first(file: Path, configs: "Sequence[Config]", space_json: str) -> None:
    """Check that the configurations of a file fit a space.

    Raises:
        DataError: one that does not.
        UsageError: a value and its logarithm that are not equal.
    """
    from warmstart.training.collection.plan import in_names

    try:
        in_names(space_json, configs, where=str(file))
    except (DataError, UsageError) as error:
        raise type(error)(error.message, param="first") from error


def _stored_size(workload: "Workload", space_json: str) -> int:
    """Return the pixels per side of a new history's images: the largest of the space, and enough for landmark features."""
    from warmstart.history_store.space import load_space
    from warmstart.metafeat.pretrained.landmarks import SIZE

    largest = workload.largest_image(load_space(space_json))
    return STORED_SIZE if largest is None else max(largest, SIZE)


def _warn_enlarged(history: "History", workload: "Workload | None", on_message: Callable[[str], object]) -> None:
    """Warn of configurations with larger images than the history stores."""
    from warmstart.history_store.space import load_space

    largest = None if workload is None else workload.largest_image(load_space(history.space_json))
    if largest is not None and largest > history.stored_size:
        on_message(
            f"{history.path} keeps images of {history.stored_size} x {history.stored_size} pixels: configurations with a larger "
            f"image_size, {largest} at most, are measured on these, enlarged. A new history keeps them larger."
        )


def _report_dict(report: "CollectReport") -> dict[str, Any]:
    """Return a report as native types."""
    fields = asdict(report)
    fields["datasets"] = list(report.datasets)
    fields["measured"] = {status.value: count for status, count in report.measured.items()}
    if report.noise is None:
        del fields["noise"], fields["settled"]
    else:
        fields["noise"] = {name: finite({"median": median, "rms": rms}) for name, (median, rms) in report.noise.items()}
    return fields


def _check_script(script: "OwnScript", fractions: Sequence[float], *, has_workload_options: bool) -> None:
    """Refuse options of a workload for a script.

    Raises:
        UsageError: there are some.
    """
    if has_workload_options:
        msg = f"`workload`, `target_budget` and `device` cannot be used with a script of your own. Put what {script.label} needs into the command."
        raise UsageError(msg)
    if tuple(fractions) != (1.0,):
        msg = "cannot be used with a script of your own, which reads its images itself."
        raise UsageError(msg, param="fraction")


def _script_workload(script: "OwnScript", space_json: str | None, paths: Mapping[str, str]) -> "OwnWorkload":
    """Return the workload of a script, checked against its space and datasets.

    Raises:
        UsageError: no space, or a script that does not fit.
    """
    from warmstart.studies.own_workload import OwnWorkload

    if space_json is None:
        msg = "expected the space of your script for a new history, got none. Write a file like 'lr: {log: [1e-5, 0.1]}'; docs/spaces.md shows how."
        raise UsageError(msg, param="space")
    if not paths:
        msg = "expected datasets to measure, got none. Name folders of images."
        raise UsageError(msg)
    script.check(space_json, list(paths.values()))
    return OwnWorkload(script, space_json, paths)


def _image_paths(
    sources: "Sequence[Manifest]", root: str | Path | None, history: "History | None" = None
) -> dict[str, str]:
    """Return the paths of the datasets' images by name, by default of all datasets of the history.

    Raises:
        MissingPathError: unknown for a dataset.
    """
    from warmstart.training.sources.obtain import manifest_path

    if sources or history is None:
        return {manifest.name: manifest_path(manifest, root=root) for manifest in sources}
    paths = {}
    for info in history.datasets:
        if not history.has_images(info.name):
            continue
        candidates = [Path(info.source), history.path.absolute().parent / info.source]
        path = next((path for path in candidates if info.source and _has_images_of(info, path)), None)
        if path is None and not info.source.startswith("torchvision:"):
            msg = f"{history.path}:{info.name}: expected the path of its images for your script, got {info.source or 'none'}, where they are not. Name their folder: warmstart history collect FOLDER."
            raise MissingPathError(msg)
        paths[info.name] = info.source if path is None else str(path.absolute())
    return paths


def _has_images_of(info: "DatasetInfo", path: Path) -> bool:
    """Tell whether a dataset's images lie at a path; compare the content unless the record's path is absolute."""
    from warmstart.history_store.readers import open_images

    if not images_of(str(path)).exists():
        return False
    if Path(info.source).is_absolute() or not info.fingerprint:
        return True
    try:
        return open_images(str(path)).fingerprint("content") == info.fingerprint
    except WarmstartError:  # other data
        return False


def _names_in_history(history: "History", sources: "Sequence[Manifest]") -> "tuple[Manifest, ...]":
    """Rename manifests to the history's names of the same images."""
    from warmstart.training.sources.obtain import open_manifest

    names = {info.fingerprint: info.name for info in history.datasets if info.fingerprint and info.fraction == 1}
    renamed = []
    for manifest in sources:
        is_images = manifest.source == manifest.obtain.path and manifest.name not in history.names
        fingerprint = open_manifest(manifest).fingerprint("content") if is_images else ""
        renamed.append(replace(manifest, name=names.get(fingerprint, manifest.name)))
    return tuple(renamed)


def _check_same_space(history: "History", space_json: str) -> None:
    """Check that a history is over the requested space.

    Raises:
        UsageError: it is over another.
    """
    from warmstart.history_store.space import same_space, space_difference

    if not same_space(history.space_json, space_json):
        differs = space_difference(history.space_json, space_json)
        msg = f"expected the space of {history.path}, which is there already, got one that {differs}. Leave it out, or name a new file with `history`."
        raise UsageError(msg, param="space")


def open_sources(paths: Sequence[Path]) -> "tuple[Manifest, ...]":
    """Read manifests, and build them for images without one.

    Args:
        paths: TOML files, folders of them, or images: a folder of pictures, an npz file and the like, named by its file or
            folder, with its own splits; with labels as ``folder::labels=file.csv``.

    Raises:
        MissingPathError: a path that is not there.
        DataError: a manifest that does not fit the schema, or two of one name.
    """
    by_name: dict[str, Manifest] = {}
    for path in paths:
        if path.suffix == ".toml" or (path.is_dir() and any(path.glob("*.toml"))):
            manifests = load_manifests(path)
        elif (images := images_of(str(path))).exists():
            # NFC below, as file systems differ in the Unicode form of names.
            written = images.resolve().stem if images.is_file() else images.resolve().name
            name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", written)).strip("-._") or "images"
            obtain = Obtain("folder" if images.is_dir() else "file", resolved(str(path)))
            manifests = (
                Manifest(name, name, f"images of {images.name}", obtain.path, "not stated", obtain, Splits("own")),
            )
        else:
            msg = f"{path}: expected a manifest, or images to measure, got nothing there. Check the path."
            raise MissingPathError(msg)
        for manifest in manifests:
            if manifest.name in by_name:
                msg = f"{path}: expected a name of its own, got {manifest.name!r} again. Leave one of the two out, rename its file or folder, or write a manifest with another name."
                raise ManifestError(msg)
            by_name[manifest.name] = manifest
    return tuple(by_name.values())


def read_configs(path: Path) -> list[dict[str, Any]]:
    """Read configurations from JSON: a list, JSON lines, or a document of ``warmstart suggest --format json``.

    Raises:
        MissingPathError: no such file.
        DataError: a file that is none of these.
    """
    from warmstart.suggestions.initial_configs import find_configs

    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        msg = f"{path}: expected a file of configurations, got nothing there. Check the path."
        raise MissingPathError(msg, param="first") from error
    except UnicodeDecodeError as error:
        msg = f"{path}: expected a JSON file of configurations, got a file that is not text. Check the path."
        raise DataError(msg, param="first") from error
    try:
        value = parse_json(text)
    except ValueError:
        try:
            value = [parse_json(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            msg = f"{path}: expected JSON, got {in_words(error)}. Write a list of configurations."
            raise DataError(msg, param="first") from error
    configs = find_configs(value)
    if not configs:
        msg = f"{path}: expected a list of configurations, each an object of values by name, got {text[:60]!r}. Write what `warmstart suggest --format json` writes, or [{{...}}, ...]."
        raise DataError(msg, param="first")
    return configs
