"""`suggest` and `neighbours`: what a dataset resembles, and what to try first."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from warmstart.cli.options import (
    DatasetArgument,
    DeviceOption,
    DownloadOption,
    ExcludeGroupOption,
    Format,
    FormatOption,
    HistoryOption,
    LabelsColumnOption,
    LabelsOption,
    MaybeDatasetOption,
    ModelOption,
    NoCacheOption,
    QuietOption,
    SeedOption,
    ServerOption,
    SkipBrokenOption,
    SuggestFormat,
    SuggestFormatOption,
    ThreadsOption,
    VerboseOption,
    WorkloadOption,
)
from warmstart.cli.shell import Shell, write
from warmstart.history_store.wording import counted


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
    history: HistoryOption = None,
    model: ModelOption = None,
    exclude_group: ExcludeGroupOption = None,
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
    skip_broken: SkipBrokenOption = False,
    download: DownloadOption = False,
    server: ServerOption = None,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    format: SuggestFormatOption = SuggestFormat.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 1,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Suggest configurations for a dataset, from those that won on the datasets it resembles."""
    given = locals()
    from warmstart.history_store.readers.csv_labels import labelled

    shell = Shell(format, quiet=quiet, verbose=verbose)
    asked, renamed = labelled(_one_dataset(path, dataset), labels, labels_column), _renamed(rename, space)
    with shell.images_progress() as told:
        advice = _advice(given, told)
        more = {"workload": workload, "explain": explain} | _time(server, time)
        found = advice.suggest(asked, k, strategy=strategy, space=space, rename=renamed, **more)
    _tell_notes(shell, found)
    shell.detail(f"history {found.history}\nmodel {found.model}")
    if format is SuggestFormat.TABLE:
        print_answer(shell, found, is_workload_named=workload is not None)
    else:
        from warmstart.suggestions import formats

        rows = formats.suggestion_rows(found)
        texts = {
            SuggestFormat.JSON: lambda: formats.to_json(found.to_dict()),
            SuggestFormat.YAML: lambda: formats.to_yaml(found.to_dict()),
            SuggestFormat.CSV: lambda: formats.to_csv(rows),
            SuggestFormat.OPTUNA: lambda: formats.to_optuna(found),
            SuggestFormat.RAY: lambda: formats.to_ray(found),
            SuggestFormat.CONFIGSPACE: lambda: formats.to_configspace(found),
        }
        write(texts[format]() if format in texts else formats.to_recipe(found, format.value, skip_broken=skip_broken))


_ADVISED = ("skip_broken", "seed", "device", "threads", "download")
"""Options of a command that are the advisor's too, by the same names."""


def _advice(given: Mapping[str, Any], progress: Callable[[float, float], None]) -> Any:
    """Return who answers what a command was given: the history here, or a server.

    Raises:
        UsageError: a history beside a server, which has its own.
    """
    from warmstart.suggestions.advisor import Advisor

    server, history, model = given["server"], given["history"], given["model"]
    options: dict[str, Any] = {name: given[name] for name in _ADVISED}
    options |= {"exclude_group": given["exclude_group"] or (), "cache": not given["no_cache"], "progress": progress}
    if server is None:
        return Advisor(history, model, **options)
    from warmstart.client import Client
    from warmstart.history_store.errors import UsageError

    if history is not None:
        msg = f"expected no `history` beside it, got {history!r}. The server answers from its own."
        raise UsageError(msg, param="server")
    return Client(server, advisor=Advisor(None, model, **options))


def _time(server: str | None, time: str | None) -> dict[str, str]:
    """Return the time as an argument, where it is given.

    Raises:
        UsageError: beside a server.
    """
    if time is None:
        return {}
    if server is not None:
        from warmstart.history_store.errors import UsageError

        msg = f"expected none beside a server, got {time!r}: it cannot tell how fast this machine is. Leave one of the two out."
        raise UsageError(msg, param="time")
    return {"time": time}


def _tell_notes(shell: Shell, found: Any) -> None:
    """Say the notes; what the table says in its last line is not said twice."""
    for note in found.notes:
        if shell.format != Format.TABLE or note != found.confidence.note:
            shell.note(note)


def _one_dataset(path: str | None, dataset: str | None) -> str:
    """Take the dataset from where it was named.

    Raises:
        UsageError: when it was not, or twice with a difference.
    """
    if path is not None and dataset in (None, path):
        return path
    if path is None and dataset is not None:
        return dataset
    from warmstart.history_store.errors import UsageError

    got = "none" if path is None else f"{path!r} and {dataset!r}"
    msg = f"--dataset: expected your images, once, got {got}. Name them, as in `warmstart suggest photos/`."
    raise UsageError(msg)


def _renamed(rename: list[str] | None, space: str | None) -> dict[str, str]:
    """Read --rename, which means something with --space only."""
    if not rename:
        return {}
    from warmstart.histories.import_runs import parse_pairs
    from warmstart.history_store.errors import UsageError

    if space is None:
        msg = "--rename: expected --space beside it, got none. Name the space that the new names belong to."
        raise UsageError(msg)
    return parse_pairs("rename", rename)


def neighbours(
    path: DatasetArgument = None,
    *,
    dataset: MaybeDatasetOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many datasets.")] = 10,
    history: HistoryOption = None,
    model: ModelOption = None,
    exclude_group: ExcludeGroupOption = None,
    workload: WorkloadOption = None,
    skip_broken: SkipBrokenOption = False,
    download: DownloadOption = False,
    server: ServerOption = None,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 1,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """List the datasets of the history that a dataset resembles, nearest first."""
    given = locals()
    from warmstart.history_store.readers.csv_labels import labelled

    shell = Shell(format, quiet=quiet, verbose=verbose)
    asked = labelled(_one_dataset(path, dataset), labels, labels_column)
    with shell.images_progress() as told:
        advice = _advice(given, told)
        found = advice.neighbours(asked, k, workload=workload)
    _tell_notes(shell, found)
    document = {name: value for name, value in found.to_dict().items() if name not in ("suggestions", "strategy")}
    rows = [neighbour.to_row() for neighbour in found.neighbours]
    if len(rows) < k:
        shell.note(f"The history has {counted(len(rows), 'dataset')} to compare with.")
    shell.result(document, rows, title=_head(found))
    if format is Format.TABLE:
        write("")
        shell.say(found.confidence.note)


def _head(found: Any) -> str:
    return f"{found.dataset.path}: {counted(found.dataset.n_images, 'image')}, {found.dataset.n_classes} classes\n"


def print_answer(shell: Shell, found: Any, *, is_workload_named: bool) -> None:
    """Write an answer for people: neighbours, configurations, confidence, reasons where there are any."""
    from warmstart.measured_with import workload_of
    from warmstart.suggestions.doubts import Code
    from warmstart.suggestions.short_run import has_short_run
    from warmstart.training.workloads import DEFAULT

    near = [neighbour.to_row() for neighbour in found.neighbours]
    if near:
        said = "The nearest to it" if Code.FAR in found.confidence.reasons else "It resembles"
        shell.table(near, title=_head(found) + f"\n{said}, in how configurations fare")
    else:
        write(_head(found).rstrip())
    is_known = any(design.is_of_history for design in found.suggestions)
    rows = [_design_row(rank, design) for rank, design in enumerate(found.suggestions, start=1)]
    for name in ("from", "error there"):  # a portfolio is of all datasets, a space of yours of none
        if all(row[name] is None for row in rows):
            rows = [{key: value for key, value in row.items() if key != name} for row in rows]
    write("")
    how = f"strategy {found.strategy}" if is_known else "spread evenly over your space"
    if rows or found.plan is None:
        shell.table(rows, title=f"Try these first ({how})")
    if found.plan is not None:
        shell.say(found.plan.line)
    elif any(design.seconds is not None for design in found.suggestions):
        can_measure = found.measured_with is not None and has_short_run(
            next(iter(found.measured_with.origins), ""), found.suggestions[0].config, n_images=found.dataset.n_images
        )
        shell.say(f"Seconds are for the history's machine{'; --time 10m measures yours' if can_measure else ''}.")
    if is_known and found.measured_with is not None and found.measured_with.line:
        shell.say(found.measured_with.line)
        named = workload_of(next(iter(found.measured_with.origins), ""))
        if not is_workload_named and named is not None and named[0].name == DEFAULT:
            shell.say(
                "In one comparison of ten minutes, pretrained networks had lower errors on 22 of 26 image sets: --workload transfer."
            )
    if found.explanation is not None:
        _print_reasons(shell, found)
    write("")
    shell.say(found.confidence.note)
    if found.expected_line:
        shell.say(found.expected_line)


def _design_row(rank: int, design: Any) -> dict[str, Any]:
    """Return the row of a suggestion, with natural values."""
    row: dict[str, Any] = {"": rank}
    for name, value in design.config.items():
        plain = name.removeprefix("log10_")
        row[plain] = design.natural.get(plain, value)
    row["from"] = design.source
    row["error there"] = design.source_error if design.measured else "not measured"
    if design.seconds is not None:
        row["takes"] = f"{design.seconds.value:.0f} s"
    if design.expected_error is not None:
        row["error expected"] = design.expected_error.value
    return row if design.expected_regret is None else {**row, "regret left": design.expected_regret}


def _print_reasons(shell: Shell, found: Any) -> None:
    """Write why the neighbours are near and why the configurations are there."""
    for heading, lines in found.explanation.in_words(found.suggestions, is_timed=found.plan is not None):
        write(f"\n{heading}")
        for line in lines:
            shell.say(f"  {line}")
