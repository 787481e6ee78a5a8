"""Import of runs into a history: find the importer, read the source, report what happened to each hyperparameter."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.histories.add import import_into
from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.history_store.wording import in_shell, some_of
from warmstart.integrations.importers.registry import TABLES, read_source

if TYPE_CHECKING:
    from warmstart.history_store.external_import import ImportPlan
    from warmstart.history_store.external_runs import ForeignRuns
    from warmstart.history_store.history import History
    from warmstart.history_store.mapping import Wishes
    from warmstart.history_store.records import DatasetInfo


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What a person says about an import.

    Attributes:
        dataset: on which the runs were measured, where the source does not say.
        study: one of several studies or spaces of the source.
        metric: the objective that is the error, where the source has several.
        error_range: `BEST,WORST`, the values that count as error 0 and 1.
        rename: `theirs=ours`, likewise `fill` `ours=value` and `rescale` `theirs=log10(x)`.
        outside: `clip` or `drop`.
        dry_run: read and report, write nothing.
    """

    dataset: str | None = None
    study: str | None = None
    metric: str | None = None
    error_range: str | None = None
    rename: Sequence[str] = field(default=())
    fill: Sequence[str] = field(default=())
    rescale: Sequence[str] = field(default=())
    outside: str = "clip"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A source that was read: its runs, the datasets that it describes, and what was said, parsed."""

    runs: "ForeignRuns"
    described: "tuple[DatasetInfo, ...]"
    error_range: tuple[float, float] | None
    wishes: "Wishes"


def import_source(path: Path, source: str, asked: ImportRequest) -> "ImportPlan | dict[str, int]":
    """Bring the runs of a source into a history.

    Exports of a history over the same space, and folders of shards, are taken as they are; a history that is not there is
    made from them. Anything else is mapped.

    Args:
        path: the history.
        source: file, folder or URL.
        asked: what a person says about it.

    Returns: for what was mapped, the plan that was carried out, or not where `asked.dry_run`; else `imported` and
        `n_evaluations`.

    Raises:
        UsageError: what was asked does not fit the source, or the source is of no known kind.
        MissingPathError: no history, or nothing at `source`.
        DataError: runs that cannot be read, or have nothing in common with the history.
        StorageError: a storage or a history that cannot be read or written.
    """
    from warmstart.history_store.external_import import carry_out
    from warmstart.history_store.history import History

    is_own = _is_own(path, source)
    if is_own and asked == ImportRequest():
        return import_into(path, Path(source))
    if is_own and Path(source).is_dir():
        msg = f"{source}: expected no options for a folder of shards, which goes in as it is, got some. Leave them out."
        raise UsageError(msg)
    if not path.exists():
        msg = f"{path}: expected a history to import into, got nothing there. Make one first: `warmstart history create {in_shell(path)} --space SPACE`."
        raise MissingPathError(msg)
    read = read_import_source(source, asked)
    with History.open(path, write=not asked.dry_run) as history:
        if asked.dataset is not None:
            asked = replace(asked, dataset=_named(history, asked.dataset))
        plan = plan_import_request(history, read, asked)
        if not asked.dry_run:
            carry_out(history, plan)
    return plan


def read_import_source(source: str, asked: ImportRequest) -> "Read":
    """Read a source and what is said about it, before any history is opened; raises as `import_source`."""
    error_range, wishes = parse_range(asked.error_range), _wishes(asked)
    runs, described = read_source(source, study=asked.study, metric=asked.metric)
    return Read(runs, described, error_range, wishes)


def check_unnamed(read: "Read", name: str) -> None:
    """Check that runs that are added with a dataset leave open on which they were measured.

    Raises:
        UsageError: they name datasets themselves.
    """
    named = sorted({each for each in read.runs.datasets if each is not None})
    if named and not read.runs.are_hints:
        msg = f"expected runs that name no dataset, as all go to {name!r}, got {read.runs.kind}, which names {some_of(named)}. Add the images first, then bring these in by themselves: `warmstart history import`."
        raise UsageError(msg, param="runs")


def plan_import_request(history: "History", read: "Read", asked: ImportRequest) -> "ImportPlan":
    """Work out what the runs that were read are in a history; nothing is written. Raises as `plan_import`."""
    from warmstart.history_store.external_import import plan_import

    return plan_import(
        history,
        read.runs,
        dataset=asked.dataset,
        error_range=read.error_range,
        wishes=read.wishes,
        described=read.described,
    )


def _named(history: "History", dataset: str) -> str:
    """Return the name of a dataset in a history: the one given, or that of the images at a path.

    Raises:
        UsageError: a path with images that the history does not know.
    """
    there = ("/" in dataset or "::" in dataset) and Path(dataset.partition("::")[0]).expanduser().exists()
    is_path = there or dataset.startswith(("sklearn:", "torchvision:"))
    if dataset in history.names or not is_path:
        return dataset
    from warmstart.history_store.readers import open_images

    content = open_images(dataset).fingerprint("content")
    known = next((info.name for info in history.datasets if info.fingerprint == content), None)
    if known is None:
        msg = f"expected a dataset whose images {history.path} has under some name, got {dataset!r}, which it has not. Add it with its runs: `warmstart history add {in_shell(history.path)} --dataset {in_shell(dataset)} --name NAME --group NAME --runs SOURCE`."
        raise UsageError(msg, param="dataset")
    return known


def parse_range(text: str | None) -> tuple[float, float] | None:
    """Read `BEST,WORST`.

    Raises:
        UsageError: the text is not that.
    """
    if text is None:
        return None
    try:
        best, worst = (float(part) for part in text.split(","))
    except ValueError as error:
        msg = f"expected BEST,WORST, two numbers, got {text!r}. Give 1,0 for an accuracy, 100,0 for per cent."
        raise UsageError(msg, param="error_range") from error
    return best, worst


def parse_pairs(param: str, texts: Sequence[str]) -> dict[str, str]:
    """Read `name=something`, once a name.

    Raises:
        UsageError: a text is not that.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip() or name.strip() in pairs:
            msg = f"expected name=value, once a name, got {text!r}. Write `{param}` learning_rate=..."
            raise UsageError(msg, param=param)
        pairs[name.strip()] = value.strip()
    return pairs


def _wishes(asked: ImportRequest) -> "Wishes":
    from warmstart.history_store.mapping import Wishes

    return Wishes(
        rename=parse_pairs("rename", asked.rename),
        fill=dict(parse_pairs("fill", asked.fill)),
        rescale=parse_pairs("rescale", asked.rescale),
        outside="drop" if asked.outside == "drop" else "clip",
    )


def _is_own(path: Path, source: str) -> bool:
    """Tell whether a source goes in as it is: shards, or a table over the history's own space or for a new history."""
    place = Path(source)
    if place.is_dir():
        return (place / "collection.json").is_file()
    if place.suffix.lower() not in TABLES or not place.is_file():
        return False
    if not path.exists():
        return True
    from warmstart.history_store.external_table import space_of
    from warmstart.history_store.history import History
    from warmstart.history_store.space import same_space

    with History.open(path) as history:
        return same_space(json.dumps(space_of(place)), history.space_json)


__all__ = [
    "ImportRequest",
    "Read",
    "check_unnamed",
    "import_source",
    "parse_pairs",
    "parse_range",
    "plan_import_request",
    "read_import_source",
    "read_source",
]
