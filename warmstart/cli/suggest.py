"""`suggest` and `neighbours`: first configurations for a dataset, and the datasets nearest to it."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from warmstart.cli.options import (
    DatasetArgument,
    Format,
    FormatOption,
    LabelsColumnOption,
    LabelsOption,
    MaybeDatasetOption,
    NoCacheOption,
    QuietOption,
    RawOption,
    ServerOption,
    SuggestFormat,
    SuggestFormatOption,
    VerboseOption,
    WorkloadOption,
    needed_dataset,
)
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write, write_program
from warmstart.history_store.wording import counted
from warmstart.suggestions.lookup import Lookup


@takes_options({"History": Lookup})
def suggest(
    path: DatasetArgument = None,
    *,
    dataset: MaybeDatasetOption = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="How many configurations; 3 when left out, or all where there are fewer."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help="joint, nearest, portfolio or average-rank; joint when left out, portfolio where distances say nothing.",
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            help="Suggest for this space: a file (YAML, JSON), compact or paper; the history's when left out.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="HISTORY=OURS", help="With --space: which name is which; may be repeated."),
    ] = None,
    workload: WorkloadOption = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Plan what fits in this time, e.g. 10m, and pays most per minute; a short run tells how fast this machine is.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why: what the neighbours are, how the configurations did around.")
    ] = False,
    server: ServerOption = None,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    format: SuggestFormatOption = SuggestFormat.TABLE,  # noqa: A002
    raw: RawOption = False,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    options: dict[str, Any],
) -> None:
    """Suggest configurations for a dataset, from those that won on the datasets it resembles."""
    from warmstart.history_store.readers.csv_labels import labelled

    shell = Shell(format, quiet=quiet, verbose=verbose)
    source, renamed = labelled(needed_dataset(path, dataset), labels, labels_column), _parse_rename(rename, space)
    with shell.images_progress() as progress:
        advisor = _make_advisor(server, options | {"cache": not no_cache, "progress": progress})
        more = {"workload": workload, "explain": explain} | _time_argument(server, time)
        answer = advisor.suggest(source, k, strategy=strategy, space=space, rename=renamed, **more)
    _print_notes(shell, answer)
    shell.detail(f"history {answer.history}")
    shell.detail(f"model {answer.model}")
    if format is SuggestFormat.TABLE:
        from warmstart.cli.answer import Command, print_answer

        named = {"--labels": labels, "--labels-column": labels_column}
        history = {"--server": server, "--history": options["history"]}
        command = Command(shlex.quote(path or dataset or "") + _words(named), _words(history), space)
        print_answer(shell, answer, command, explain=explain)
    else:
        from warmstart.history_store.quoting import in_json, in_yaml
        from warmstart.suggestions import formats

        rows = formats.suggestion_rows(answer)
        texts = {
            SuggestFormat.JSON: lambda: in_json(answer.to_dict()),
            SuggestFormat.YAML: lambda: in_yaml(answer.to_dict()),
            SuggestFormat.CSV: lambda: formats.to_csv(rows, raw=raw),
            SuggestFormat.OPTUNA: lambda: formats.to_optuna(answer),
            SuggestFormat.RAY: lambda: formats.to_ray(answer),
            SuggestFormat.CONFIGSPACE: lambda: formats.to_configspace(answer),
        }
        write_program(
            texts[format]()
            if format in texts
            else formats.to_recipe(answer, format.value, skip_broken=bool(options["skip_broken"]))
        )


def _words(options: Mapping[str, str | None]) -> str:
    """Return options as words of a command line, each after a space; those without a value are left out."""
    return "".join(f" {name} {shlex.quote(value)}" for name, value in options.items() if value is not None)


def _make_advisor(server: str | None, options: Mapping[str, Any]) -> Any:
    """Return the advisor of a command: over the local history, or a server's client.

    Raises:
        UsageError: both a history and a server.
    """
    from warmstart.suggestions.advisor import Advisor

    arguments = {**options, "exclude_group": options["exclude_group"] or ()}
    if server is None:
        return Advisor(**arguments)
    from warmstart.client import Client
    from warmstart.history_store.errors import UsageError

    if options["history"] is not None:
        msg = "cannot be used with `history`: the server uses its own."
        raise UsageError(msg, param="server")
    return Client(server, advisor=Advisor(**arguments))


def _time_argument(server: str | None, time: str | None) -> dict[str, str]:
    """Return the time as a keyword argument; empty without one.

    Raises:
        UsageError: with a server, which cannot measure this machine.
    """
    if time is None:
        return {}
    if server is not None:
        from warmstart.history_store.errors import UsageError

        msg = "cannot be used with `server`."
        raise UsageError(msg, param="time")
    return {"time": time}


def _print_notes(shell: Shell, answer: Any) -> None:
    """Print the notes of an answer, without the one that ends its table."""
    for note in answer.notes:
        if shell.format != Format.TABLE or note != answer.confidence.note:
            shell.note(note)


def _parse_rename(rename: list[str] | None, space: str | None) -> dict[str, str]:
    """Parse --rename, which needs --space."""
    if not rename:
        return {}
    from warmstart.histories.import_runs import parse_pairs
    from warmstart.history_store.errors import UsageError

    if space is None:
        msg = "--rename needs --space, the space of the new names."
        raise UsageError(msg)
    return parse_pairs("rename", rename)


@takes_options({"History": Lookup})
def neighbours(
    path: DatasetArgument = None,
    *,
    dataset: MaybeDatasetOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many datasets.")] = 10,
    workload: WorkloadOption = None,
    server: ServerOption = None,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    options: dict[str, Any],
) -> None:
    """List the datasets of the history that a dataset resembles, nearest first."""
    from warmstart.history_store.readers.csv_labels import labelled

    shell = Shell(format, quiet=quiet, verbose=verbose)
    source = labelled(needed_dataset(path, dataset), labels, labels_column)
    with shell.images_progress() as progress:
        advisor = _make_advisor(server, options | {"cache": not no_cache, "progress": progress})
        answer = advisor.neighbours(source, k, workload=workload)
    _print_notes(shell, answer)
    document = {name: value for name, value in answer.to_dict().items() if name not in ("suggestions", "strategy")}
    rows = [neighbour.to_row() for neighbour in answer.neighbours]
    if len(rows) < k:
        shell.note(f"The history has {counted(len(rows), 'dataset')} to compare with.")
    shell.result(document, rows, title=_title(answer))
    if format is Format.TABLE:
        write("")
        shell.say(answer.confidence.note)


def _title(answer: Any) -> str:
    return f"{answer.dataset.path}: {counted(answer.dataset.n_images, 'image')}, {answer.dataset.n_classes} classes"
