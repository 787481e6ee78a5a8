"""Import runs of other tools into a history: find the importer, read the source, map hyperparameters, report."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.arguments import parse_pairs
from warmstart.histories.add import import_into
from warmstart.histories.import_request import ImportRequest
from warmstart.history_store.canonical import home_path
from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.external_import import carry_out, plan_import
from warmstart.history_store.external_runs import ForeignRuns
from warmstart.history_store.external_table import space_of
from warmstart.history_store.history import History
from warmstart.history_store.mapping import Wishes
from warmstart.history_store.readers import open_images
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import in_shell, some_of
from warmstart.integrations.importers.registry import TABLES, read_source

if TYPE_CHECKING:
    from warmstart.history_store.external_import import ImportPlan


@dataclass(frozen=True, slots=True)
class ImportSource:
    """The content of a source (runs, dataset descriptions) with the parsed options."""

    runs: "ForeignRuns"
    described: "tuple[DatasetInfo, ...]"
    error_range: tuple[float, float] | None
    wishes: "Wishes"


def import_source(path: Path, source: str, request: ImportRequest) -> "ImportPlan | dict[str, int]":
    """Import the runs of a source into a history.

    Exports of a history over the same space, and folders of shards, go in unchanged; a new history can be created from
    them. Anything else is mapped to the history's space.

    Args:
        path: the history.
        source: file, folder or URL.
        request: its options.

    Returns: for mapped runs, the plan, carried out unless `asked.dry_run`; else `imported` and
        `n_evaluations`.

    Raises:
        UsageError: options that do not fit the source, or a source of unknown kind.
        MissingPathError: no history, or nothing at `source`.
        DataError: runs that cannot be read, or have nothing in common with the history.
        StorageError: a storage or a history that cannot be read or written.
    """
    is_exchange_file = _is_exchange_file(path, source)
    if is_exchange_file and request == ImportRequest():
        return import_into(path, Path(source))
    if is_exchange_file and Path(source).is_dir():
        msg = f"{source}: options cannot be used with a folder of shards, which is imported unchanged."
        raise UsageError(msg)
    if not path.exists():
        msg = f"{path}: expected a history to import into, got nothing there. Make one first: `warmstart history create {in_shell(path)} --space SPACE`."
        raise MissingPathError(msg)
    read = read_import_source(source, request)
    with History.open(path, write=not request.dry_run) as history:
        if request.dataset is not None:
            request = replace(request, dataset=_dataset_name(history, request.dataset))
        plan = plan_import_request(history, read, request)
        if not request.dry_run:
            carry_out(history, plan)
    return plan


def read_import_source(source: str, request: ImportRequest) -> "ImportSource":
    """Read a source and parse its options, without a history; raises as `import_source`."""
    error_range, wishes = parse_range(request.error_range), _parse_wishes(request)
    runs, described = read_source(source, study=request.study, metric=request.metric)
    return ImportSource(runs, described, error_range, wishes)


def check_names_no_dataset(read: "ImportSource", name: str) -> None:
    """Check that runs to add with a dataset name no dataset themselves.

    Raises:
        UsageError: they do.
    """
    named = sorted({dataset for dataset in read.runs.datasets if dataset is not None})
    if named and not read.runs.are_hints:
        msg = f"expected runs that name no dataset, as all go to {name!r}, got {read.runs.kind}, which names {some_of(named)}. Add the images first, then bring these in by themselves: `warmstart history import`."
        raise UsageError(msg, param="runs")


def plan_import_request(history: "History", read: "ImportSource", request: ImportRequest) -> "ImportPlan":
    """Plan the import of a source into a history, without writing; raises as `plan_import`."""
    return plan_import(
        history,
        read.runs,
        dataset=request.dataset,
        error_range=read.error_range,
        wishes=read.wishes,
        described=read.described,
    )


def _dataset_name(history: "History", dataset: str) -> str:
    """Return the name of a dataset in a history, for a name or for the path of its images.

    Raises:
        UsageError: images that the history does not have.
    """
    there = ("/" in dataset or "::" in dataset) and home_path(dataset.partition("::")[0]).exists()
    is_path = there or dataset.startswith(("sklearn:", "torchvision:"))
    if dataset in history.names or not is_path:
        return dataset

    content = open_images(dataset).fingerprint("content")
    name = next((info.name for info in history.datasets if info.fingerprint == content), None)
    if name is None:
        msg = f"expected a dataset whose images {history.path} has under some name, got {dataset!r}, which it has not. Add it with its runs: `warmstart history add {in_shell(history.path)} --dataset {in_shell(dataset)} --name NAME --group NAME --runs SOURCE`."
        raise UsageError(msg, param="dataset")
    return name


def parse_range(text: str | None) -> tuple[float, float] | None:
    """Parse `BEST,WORST`.

    Raises:
        UsageError: another text.
    """
    if text is None:
        return None
    try:
        best, worst = (float(part) for part in text.split(","))
    except ValueError as error:
        msg = f"expected BEST,WORST, two numbers, got {text!r}. Give 1,0 for an accuracy, 100,0 for per cent."
        raise UsageError(msg, param="error_range") from error
    return best, worst


def _parse_wishes(request: ImportRequest) -> "Wishes":
    return Wishes(
        rename=parse_pairs("rename", request.rename),
        fill=dict(parse_pairs("fill", request.fill)),
        rescale=parse_pairs("rescale", request.rescale),
        outside="drop" if request.outside == "drop" else "clip",
    )


def _is_exchange_file(path: Path, source: str) -> bool:
    """Tell whether a source goes in unchanged: shards, or a table over the history's space or for a new history."""
    source_path = Path(source)
    if source_path.is_dir():
        return (source_path / "collection.json").is_file()
    if source_path.suffix.lower() not in TABLES or not source_path.is_file():
        return False
    if not path.exists():
        return True

    with History.open(path) as history:
        return same_space(json.dumps(space_of(source_path)), history.space_json)


__all__ = [
    "ImportRequest",
    "ImportSource",
    "check_names_no_dataset",
    "import_source",
    "parse_pairs",
    "parse_range",
    "plan_import_request",
    "read_import_source",
    "read_source",
]
