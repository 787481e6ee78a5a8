"""`history add | record | remove | import | export`: the content of a history."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from warmstart.cli.options import DatasetArgument, DatasetOptions, HistoryFile, RawOption
from warmstart.cli.record_options import takes_options
from warmstart.cli.record_run import RecordCall, record_run
from warmstart.cli.shell import Shell
from warmstart.exports import check_exportable
from warmstart.histories.import_request import ImportRequest
from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import counted, in_shell, some_of
from warmstart.locations import history_path
from warmstart.option import MOST_SEED, option, option_of
from warmstart.suggestions.lookup import Lookup

if TYPE_CHECKING:
    from warmstart.history_store.external_import import ImportPlan


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the pictures of a new dataset are read."""

    TITLE: ClassVar[str] = "Data"
    skip_broken: bool = option(False, "Leave out pictures that cannot be decoded, and name them.")
    download: bool = option_of(Lookup, "download")
    seed: int = option(0, "Seed of the images that are kept.", least=0, most=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class AddedRuns:
    """Runs that come with a new dataset."""

    TITLE: ClassVar[str] = "Runs"
    runs: str | None = option(None, "Also import runs on it, as `history import` does.", is_main=True)
    metric: str | None = option_of(ImportRequest, "metric", is_main=False)
    error_range: str | None = option_of(ImportRequest, "error_range", is_main=False)


@takes_options
def add(
    history: HistoryFile,
    images: DatasetArgument = None,
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the dataset in the history.")],
    group: Annotated[
        str, typer.Option("--group", help="Sibling group: datasets that share images, drawers or a source.")
    ],
    what: Annotated[str, typer.Option("--what", help="One line on what the images show.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="As the source states it.")] = "not stated",
    no_images: Annotated[bool, typer.Option("--no-images", help="Store the record only.")] = False,
    dataset: DatasetOptions,
    reading: Reading,
    added: AddedRuns,
    shell: Shell,
) -> None:
    """Add a dataset with its images, and runs on it."""
    from warmstart.histories.add import DatasetCard, add_source, twin_note
    from warmstart.histories.import_runs import check_names_no_dataset, plan_import_request, read_import_source
    from warmstart.history_store.external_import import carry_out
    from warmstart.history_store.history import History
    from warmstart.suggestions.query import open_path

    path = history_path(history)
    source = open_path(dataset.needed_source(images), download=reading.download)
    request = ImportRequest(dataset=name, metric=added.metric, error_range=added.error_range)
    runs_read = None if added.runs is None else read_import_source(added.runs, request)
    if runs_read is not None:
        check_names_no_dataset(runs_read, name)
    with History.open(path, write=True) as opened:
        plan = (
            None if runs_read is None else plan_import_request(opened, runs_read, request)
        )  # refused before anything is written
        info, broken = add_source(
            opened,
            source,
            DatasetCard(name, group, what, licence),
            with_images=not no_images,
            skip_broken=reading.skip_broken,
            seed=reading.seed,
        )
        twins = twin_note(opened, info)
        if plan is not None:
            carry_out(opened, replace(plan, datasets=()))
    for note in (*(picture.left_out for picture in broken), *filter(None, [twins])):
        shell.note(note)
    row = {
        "name": info.name,
        "group": info.group,
        "n_train": info.n_train,
        "n_val": info.n_val,
        "n_test": info.n_test,
        "n_classes": info.n_classes,
        "images": not no_images,
        "left_out": len(broken),
        "fingerprint": info.fingerprint,
    }
    document = {"schema_version": 1, "history": str(path), "dataset": row}
    if plan is not None:
        report = replace(plan, datasets=()).to_dict()
        _print_plan(shell, plan)
        document, row = document | {"runs": report}, row | {"runs": len(plan.evaluations)}
    shell.result(document, [row])


def _print_plan(shell: Shell, plan: "ImportPlan") -> None:
    """Say what becomes of the runs that come with a dataset."""
    shell.note(f"{plan.kind}: {counted(len(plan.evaluations), 'run')}; {plan.objective}")
    left = {**plan.left_out, "there already": plan.already_there, "of them without a result": plan.n_without_error}
    for note in (*plan.notes, *(f"{count} {why}" for why, count in left.items() if count)):
        shell.note(f"  {note}")
    for match in plan.matches:
        shell.note(f"  {match.there or '-'} -> {match.here or '-'}: {match.action}: {match.reason}")


@takes_options
def record(
    history: Annotated[
        str | None, typer.Argument(metavar="HISTORY", help="The history file; left out with --server.")
    ] = None,
    *,
    call: RecordCall,
) -> None:
    """Record one run; it is on the disk when the command returns."""
    record_run(replace(call, history=history))


@takes_options
def remove(
    history: HistoryFile,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The dataset.")] = None,
    *,
    bundle: Annotated[
        str | None,
        typer.Option(
            "--bundle",
            help="Take a merged bundle out again: its file, or the 12 digits of the history that contributed it.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    shell: Shell,
) -> None:
    """Remove a dataset with its images and evaluations, or what a bundle brought. Asks first, unless --yes."""
    from warmstart.histories.merged import drop_merged
    from warmstart.histories.unmerge import remove_bundle
    from warmstart.history_store.history import History
    from warmstart.suggestions.other_sizes import drop_smaller_parts
    from warmstart.suggestions.references import drop_references

    path = history_path(history)
    if (name is None) == (bundle is None):
        msg = (
            f"expected the name of a dataset, or a bundle, got {'none' if name is None else 'both'}. Name one of them."
        )
        raise UsageError(msg, param="bundle")
    with History.open(path) as opened:
        # An unknown name is refused before anything is asked.
        count = 0 if name is None else len(opened.evaluations(opened.dataset(name).name))
    what = f"what the bundle {bundle!r} brought" if name is None else f"{name!r} with its {count} evaluations"
    if not yes:
        if not sys.stdin.isatty():
            msg = f"history remove: expected --yes, as there is no terminal to ask in, got none. Add --yes to remove {what}."
            raise UsageError(msg)
        if not typer.confirm(f"Remove {what} from {path}?", err=True):
            shell.note("Nothing removed.")
            return
    if name is None:
        with History.open(path, write=True) as opened:
            before = opened.n_evaluations
            remove_bundle(opened, str(bundle))
            taken = {"removed": str(bundle), "n_evaluations": before - opened.n_evaluations}
        shell.result({"schema_version": 1, "history": str(path), **taken}, [taken])
        return
    with History.open(path, write=True) as opened:
        drop_merged(opened, name)
        drop_references(opened, name)
        drop_smaller_parts(opened, name)
        opened.remove_dataset(name)
    row = {"removed": name, "n_evaluations": count}
    shell.result({"schema_version": 1, "history": str(path), **row}, [row])


@takes_options
def import_(
    history: Annotated[
        str, typer.Argument(metavar="HISTORY", help="The history file; shards and exports create it if needed.")
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .csv or .parquet file, a folder of shards, or runs of another tool: docs/histories.md lists them.",
        ),
    ],
    *,
    request: ImportRequest,
    shell: Shell,
) -> None:
    """Import runs from CSV, Parquet, shards or another tool.

    All runs are imported, or none. The report says what happened to each hyperparameter.
    """
    from warmstart.histories.import_runs import import_source

    result = import_source(Path(history), source, request)
    row = {"history": history, "from": source}
    if isinstance(result, dict):
        shell.result({"schema_version": 1, **row, **result}, [{**row, **result}])
        return
    for note in result.notes:
        shell.note(note)
    if new := [info.name for info in result.datasets if not info.n_images]:
        add = f"warmstart history add {in_shell(history)} --name {in_shell(new[0]) if len(new) == 1 else 'NAME'}"
        shell.note(
            f"New, known by runs alone: {some_of(new)}. `{add} ...` adds images, so that others can be compared with them."
        )
    report = result.to_dict()
    title = [
        f"{result.kind}: {counted(len(result.evaluations), 'run')} {'would be ' if request.dry_run else ''}added to {history}"
    ]
    title += [f"  {count} of them without a result"] if (count := result.n_without_error) else []
    title += [f"  {count} there already"] if (count := result.already_there) else []
    title += [f"  {count} left out: {why}" for why, count in result.left_out.items()]
    title += [f"  {result.objective}"]
    shell.result({"schema_version": 1, **row, "dry_run": request.dry_run, **report}, report["mapping"], title=title)


@takes_options
def export(
    history: HistoryFile,
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="The .csv or .parquet file to write, or a folder for text shards.")
    ],
    *,
    raw: RawOption = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, hidden=True)] = 0,
    shell: Shell,
) -> None:
    """Export all evaluations as CSV, Parquet or text shards. Images are not exported."""
    from warmstart.history_store.exchange import export_history
    from warmstart.history_store.history import History
    from warmstart.history_store.shards import write_shards

    path, target = history_path(history), Path(out)
    if target.suffix:
        check_exportable(target, *([target.with_suffix(".json")] if target.suffix.lower() == ".csv" else []))
    with History.open(path) as opened:
        if target.suffix:
            export_history(opened, target, raw=raw)
        else:
            write_shards(opened, target, seed=seed)
        row = {"history": str(path), "to": out, "n_evaluations": opened.n_evaluations}
    shell.result({"schema_version": 1, **row}, [row])
