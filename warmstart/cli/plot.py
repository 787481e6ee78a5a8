"""`plot map | ccov | regret | run`: pictures as PNG or SVG."""

from typing import Annotated

import typer

from warmstart.cli.options import (
    DeviceOption,
    DownloadOption,
    Format,
    FormatOption,
    HistoryOption,
    ModelOption,
    NoCacheOption,
    QuietOption,
    SeedOption,
    SkipBrokenOption,
    ThreadsOption,
    VerboseOption,
)
from warmstart.cli.shell import Shell


def map_(
    *,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", "-d", help="Your images, shown among the datasets; in any form that `suggest` takes."
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; .png or .svg.")] = "map.png",
    history: HistoryOption = None,
    model: ModelOption = None,
    skip_broken: SkipBrokenOption = False,
    download: DownloadOption = False,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 1,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Draw a map of the datasets of a history.

    Near means that the same configurations do well.
    """
    from pathlib import Path

    from warmstart.plots.style import check_target

    shell = Shell(format, quiet=quiet, verbose=verbose)
    check_target(Path(out))
    from warmstart.plots.dataset_map import map_history
    from warmstart.plots.map import draw_map

    found, memory, notes = map_history(
        dataset,
        history=history,
        model=model,
        skip_broken=skip_broken,
        download=download,
        seed=seed,
        device=device,
        threads=threads,
        cache=not no_cache,
    )
    for note in notes:
        shell.note(note)
    draw_map(found, Path(out))
    nearest = [] if found.query is None else [{"name": name, "distance": far} for name, far in found.query.nearest]
    document = {
        "schema_version": 1,
        "history": str(memory.path),
        "model": "" if memory.model is None else str(memory.model.path),
        "files": [out],
        "n_datasets": len(found.names),
        "n_groups": len(set(found.groups)),
        "share_shown": found.share,
        "nearest": nearest,
    }
    shell.result(document, [{"file": out, "datasets": len(found.names), "share shown": found.share}])


def ccov(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Datasets of the history; all when left out.")
    ] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; .png or .svg.")] = "ccov.png",
    history: HistoryOption = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Draw where errors are high along each hyperparameter (CCoV).

    Bars for a few datasets, dots for many.
    """
    from pathlib import Path

    from history_store.history import History
    from warmstart.histories.ccov import centres_of
    from warmstart.locations import history_path
    from warmstart.plots.ccov import draw_ccov
    from warmstart.plots.style import check_target

    shell = Shell(format, quiet=quiet, verbose=verbose)
    check_target(Path(out))
    with History.open(history_path(history)) as opened:
        found = centres_of(opened, names or opened.names)
        where = str(opened.path)
    draw_ccov(found, Path(out))
    document = {"schema_version": 1, "history": where, "files": [out], "datasets": list(found.names)}
    shell.result(document, [{"file": out, "datasets": len(found.names)}])


def regret(
    report: Annotated[str, typer.Argument(metavar="FILE.json", help="Report of `warmstart evaluate --out FILE.json`.")],
    *,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="File for the curves, .png or .svg; other pictures are written beside it."),
    ] = "regret.png",
    rival: Annotated[
        list[str] | None,
        typer.Option("--rival", help="Draw this curve; may be repeated. Up to eight when left out."),
    ] = None,
    time: Annotated[
        list[int] | None,
        typer.Option(
            "--time",
            min=1,
            help="Draw differences after this number of evaluations; may be repeated. All when left out.",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Draw an evaluation: regret curves and paired differences.

    The paper's figures too, if they are in the report.
    """
    from pathlib import Path

    from warmstart.plots.read_report import read_reports
    from warmstart.plots.regret import draw_regret
    from warmstart.plots.style import check_target

    shell = Shell(format, quiet=quiet, verbose=verbose)
    target = Path(out)
    check_target(target)
    reports = read_reports(Path(report))
    names = []
    for one in reports:
        stem = target.stem if len(reports) == 1 else f"{target.stem}-{Path(one['table']).stem}"
        files = draw_regret(one, target.parent, stem=stem, suffix=target.suffix, rivals=rival or (), times=time or ())
        names += [str(file) for file in files]
    shell.result({"schema_version": 1, "report": report, "files": names}, [{"file": name} for name in names])


def run(
    record: Annotated[
        str,
        typer.Argument(metavar="RUN.json", help="A run of the optimiser: the output of `Optimizer.to_dict` as JSON."),
    ],
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="File for the errors over time, .png or .svg; other pictures are written beside it."
        ),
    ] = "run.png",
    format: FormatOption = Format.TABLE,  # noqa: A002
    seed: SeedOption = 0,  # noqa: ARG001  every command has it
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
) -> None:
    """Draw a run of the optimiser: errors over time and diagnostics.

    Diagnostics: held-out fit, slices of prediction and acquisition, sensitivity, architectures.
    """
    from pathlib import Path

    from warmstart.plots.style import check_target

    shell = Shell(format, quiet=quiet, verbose=verbose)
    target = Path(out)
    check_target(target)
    from bo.diagnostics import diagnose, read_run
    from warmstart.plots.read_report import read_json
    from warmstart.plots.run import draw_run

    found = diagnose(read_run(read_json(Path(record), what="a run, what Optimizer.to_dict gave")))
    for note in found.notes:
        shell.note(note)
    names = [str(file) for file in draw_run(found, target.parent, stem=target.stem, suffix=target.suffix)]
    shell.result({"schema_version": 1, "run": record, "files": names}, [{"file": name} for name in names])
