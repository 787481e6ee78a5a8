"""`history add | record | remove | import | export`: the content of a history."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.options import (
    DatasetArgument,
    DownloadOption,
    Format,
    FormatOption,
    HistoryFile,
    LabelsColumnOption,
    LabelsOption,
    MaybeDatasetOption,
    QuietOption,
    RawOption,
    SeedOption,
    SkipBrokenOption,
    VerboseOption,
    needed_dataset,
)
from warmstart.cli.record_run import RecordCall, record_run
from warmstart.cli.shell import Shell
from warmstart.history_store.wording import counted, in_shell, some_of


class Outside(StrEnum):
    """How numbers outside the bounds are treated."""

    CLIP = "clip"
    DROP = "drop"


def add(
    history: HistoryFile,
    images: DatasetArgument = None,
    *,
    dataset: MaybeDatasetOption = None,
    name: Annotated[str, typer.Option("--name", help="Name of the dataset in the history.")],
    group: Annotated[
        str, typer.Option("--group", help="Sibling group: datasets that share images, drawers or a source.")
    ],
    what: Annotated[str, typer.Option("--what", help="One line on what the images show.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="As the source states it.")] = "not stated",
    no_images: Annotated[bool, typer.Option("--no-images", help="Store the record only.")] = False,
    skip_broken: SkipBrokenOption = False,
    download: DownloadOption = False,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    runs: Annotated[
        str | None, typer.Option("--runs", help="Also import runs on it, as `history import` does.")
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="With --runs: which value is the error.")] = None,
    error_range: Annotated[
        str | None,
        typer.Option("--error-range", metavar="BEST,WORST", help="With --runs: values that count as error 0 and 1."),
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Add a dataset with its images, and runs on it."""
    from dataclasses import replace

    from warmstart.histories.add import DatasetCard, add_source, twin_note
    from warmstart.histories.import_runs import (
        ImportRequest,
        check_names_no_dataset,
        plan_import_request,
        read_import_source,
    )
    from warmstart.history_store.external_import import carry_out
    from warmstart.history_store.history import History
    from warmstart.history_store.readers.csv_labels import labelled
    from warmstart.locations import history_path
    from warmstart.suggestions.query import open_path

    shell = Shell(format, quiet=quiet, verbose=verbose)
    path = history_path(history)
    dataset = needed_dataset(images, dataset)
    source = open_path(labelled(dataset, labels, labels_column), download=download)
    request = ImportRequest(dataset=name, metric=metric, error_range=error_range)
    runs_read = None if runs is None else read_import_source(runs, request)
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
            skip_broken=skip_broken,
            seed=seed,
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
        shell.note(f"{plan.kind}: {counted(len(plan.evaluations), 'run')}; {plan.objective}")
        left = {**plan.left_out, "there already": plan.already_there, "of them without an error": plan.n_without_error}
        for note in (*plan.notes, *(f"{count} {why}" for why, count in left.items() if count)):
            shell.note(f"  {note}")
        for match in plan.matches:
            shell.note(f"  {match.there or '-'} -> {match.here or '-'}: {match.action}: {match.reason}")
        document, row = document | {"runs": report}, row | {"runs": len(plan.evaluations)}
    shell.result(document, [row])


def record(
    history: Annotated[
        str | None, typer.Argument(metavar="HISTORY", help="The history file; left out with --server.")
    ] = None,
    *,
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Name of the dataset in the history.")],
    config: Annotated[str, typer.Option("--config", help="JSON object of hyperparameters, or @FILE.")],
    error: Annotated[float | None, typer.Option("--error", help="Validation error in [0, 1].")] = None,
    status: Annotated[str, typer.Option("--status", help="ok, diverged, crashed, timeout or oom.")] = "ok",
    duration: Annotated[float | None, typer.Option("--duration", help="Seconds.")] = None,
    curve: Annotated[str | None, typer.Option("--curve", help="JSON list of [update, error], or @FILE.")] = None,
    origin: Annotated[str, typer.Option("--origin", help="Who measured it.")] = "record",
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Record it in the history of a `warmstart serve`.")
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the run.")] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Record one run; it is on the disk when the command returns."""
    record_run(
        RecordCall(
            history=history,
            dataset=dataset,
            config=config,
            error=error,
            status=status,
            duration=duration,
            curve=curve,
            origin=origin,
            server=server,
            format=format,
            seed=seed,
            quiet=quiet,
            verbose=verbose,
        )
    )


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
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Remove a dataset with its images and evaluations, or what a bundle brought. Asks first, unless --yes."""
    from warmstart.histories.merged import drop_merged
    from warmstart.histories.unmerge import remove_bundle
    from warmstart.history_store.errors import UsageError
    from warmstart.history_store.history import History
    from warmstart.locations import history_path
    from warmstart.suggestions.references import drop_references
    from warmstart.suggestions.smaller_parts import drop_smaller_parts

    shell = Shell(format, quiet=quiet, verbose=verbose)
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
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="Dataset of the runs, if the source does not say.")
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", help="Study or search space, if the source has several.")
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Which value is the error.")] = None,
    error_range: Annotated[
        str | None,
        typer.Option("--error-range", metavar="BEST,WORST", help="Values that count as error 0 and 1; 1,0 = accuracy."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename", metavar="THEIRS=OURS", help="Their name and ours of one hyperparameter; may be repeated."
        ),
    ] = None,
    fill: Annotated[
        list[str] | None,
        typer.Option(
            "--fill", metavar="OURS=VALUE", help="Value of a hyperparameter that the source lacks; may be repeated."
        ),
    ] = None,
    rescale: Annotated[
        list[str] | None,
        typer.Option(
            "--rescale", metavar="THEIRS=HOW", help="Change of scale: log10(x), 10^x, 1/x, x/100, ...; may be repeated."
        ),
    ] = None,
    outside: Annotated[
        Outside, typer.Option("--outside", help="Numbers outside the bounds: clip them, or drop the runs.")
    ] = Outside.CLIP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the report and write nothing.")] = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Import runs from CSV, Parquet, shards or another tool.

    All runs are imported, or none. The report says what happened to each hyperparameter.
    """
    from warmstart.histories.import_runs import ImportRequest, import_source

    shell = Shell(format, quiet=quiet, verbose=verbose)
    request = ImportRequest(
        dataset=dataset,
        study=study,
        metric=metric,
        error_range=error_range,
        rename=rename or (),
        fill=fill or (),
        rescale=rescale or (),
        outside=outside.value,
        dry_run=dry_run,
    )
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
        f"{result.kind}: {counted(len(result.evaluations), 'run')} {'would be ' if dry_run else ''}added to {history}"
    ]
    title += [f"  {count} of them without an error"] if (count := result.n_without_error) else []
    title += [f"  {count} there already"] if (count := result.already_there) else []
    title += [f"  {count} left out: {why}" for why, count in result.left_out.items()]
    title += [f"  {result.objective}"]
    shell.result({"schema_version": 1, **row, "dry_run": dry_run, **report}, report["mapping"], title=title)


def export(
    history: HistoryFile,
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="The .csv or .parquet file to write, or a folder for text shards.")
    ],
    *,
    raw: RawOption = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Export all evaluations as CSV, Parquet or text shards. Images are not exported."""
    from warmstart.exports import check_exportable
    from warmstart.history_store.exchange import export_history
    from warmstart.history_store.history import History
    from warmstart.history_store.shards import write_shards
    from warmstart.locations import history_path

    shell = Shell(format, quiet=quiet, verbose=verbose)
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
