"""`plot map | ccov | regret | run`: pictures as PNG or SVG."""

from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli.options import DatasetArgument, DatasetOptions, HistoryOptions, ModelOptions, SeedOption
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell
from warmstart.cli.studies import draw
from warmstart.history_store.errors import UsageError
from warmstart.suggestions.lookup import Lookup

MostOption = Annotated[int, typer.Option("--most", min=0, help="Rows of the picture: the nearest; 0 = all.")]


@takes_options
def map_(
    images: DatasetArgument = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; .png or .svg.")] = "map.png",
    dataset: DatasetOptions,
    source: HistoryOptions,
    lookup: Lookup,
    shell: Shell,
) -> None:
    """Draw a map of the datasets of a history.

    Near means that the same configurations do well.
    """
    from warmstart.plots.style import check_target

    check_target(Path(out))
    from warmstart.plots.dataset_map import map_history
    from warmstart.plots.map import draw_map
    from warmstart.suggestions.advisor import Advisor

    advisor = Advisor(**vars(lookup)).of_workload(source.workload)
    dataset_map, memory, notes = map_history(dataset.source(images), advisor=advisor)
    for note in notes:
        shell.note(note)
    draw_map(dataset_map, Path(out))
    nearest = (
        []
        if dataset_map.query is None
        else [{"name": name, "distance": far} for name, far in dataset_map.query.nearest]
    )
    document = {
        "schema_version": 1,
        "history": str(memory.path),
        "model": "" if memory.model is None else str(memory.model.path),
        "files": [out],
        "n_datasets": len(dataset_map.names),
        "n_groups": len(set(dataset_map.groups)),
        "share_shown": dataset_map.share,
        "nearest": nearest,
    }
    shell.result(document, [{"file": out, "datasets": len(dataset_map.names), "share shown": dataset_map.share}])


@takes_options
def ccov(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Datasets of the history; the 25 whose errors gather most clearly when left out."
        ),
    ] = None,
    *,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", help="Draw those of the history that these images resemble most."),
    ] = None,
    most: MostOption = 25,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; .png or .svg.")] = "ccov.png",
    source: ModelOptions,
    seed: SeedOption = 0,
    shell: Shell,
) -> None:
    """Draw where errors are high along each hyperparameter (CCoV).

    Bars for a few datasets, dots for many.
    """
    from warmstart.default_workload import measured_history
    from warmstart.histories.ccov import centres_of, drop_undefined, most_uneven
    from warmstart.history_store.history import History
    from warmstart.plots.ccov import draw_ccov
    from warmstart.plots.style import check_target

    check_target(Path(out))
    if dataset is not None and names:
        msg = "cannot be used with names of datasets."
        raise UsageError(msg, param="dataset")
    selection = names or []
    if dataset is not None:
        from warmstart.suggestions.advisor import Advisor

        location = (
            Advisor(source.history, source.model, seed=seed).of_workload(source.workload).locate(dataset).with_runs
        )
        if not location.has_distances:
            msg = f"{location.embedded.path}: expected a history with images to compare with, got runs alone. Name datasets instead, or leave this out."
            raise UsageError(msg, param="dataset")
        for note in location.notes:
            shell.note(note)
        selection = [name for _, name in sorted(zip(location.distances.tolist(), location.names, strict=True))][
            : most or None
        ]
    with History.open(measured_history(source.workload, source.history)) as opened:
        centres = centres_of(opened, selection or opened.names)
        opened_path = str(opened.path)
    if not selection and most and len(centres.names) > most:
        shell.note(f"Drawn: the {most} of {len(centres.names)} datasets whose errors gather most clearly. Name others, give --dataset for the nearest, or --most 0 for all.")  # fmt: skip
        centres = most_uneven(centres, most)
    drawn = drop_undefined(centres)
    if left_out := [name for name in centres.hyperparameters if name not in drawn.hyperparameters]:
        shell.note(f"Left out, as their values never differ there: {', '.join(left_out)}.")
    draw_ccov(drawn, Path(out))
    document = {"schema_version": 1, "history": opened_path, "files": [out], "datasets": list(centres.names)}
    shell.result(document, [{"file": out, "datasets": len(centres.names)}])


@takes_options
def regret(
    report: Annotated[str, typer.Argument(metavar="FILE.json", help="Report of `warmstart evaluate --out FILE.json`.")],
    *,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="File for the curves, .png or .svg; other pictures are written beside it."),
    ] = "regret.png",
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "--rival", help="Draw this curve; may be repeated. Up to eight when left out."),
    ] = None,
    time: Annotated[
        list[int] | None,
        typer.Option(
            "--time",
            min=1,
            help="Draw differences after this number of evaluations; may be repeated. All when left out.",
        ),
    ] = None,
    most: MostOption = 25,
    shell: Shell,
) -> None:
    """Draw an evaluation: regret curves and paired differences.

    The paper's figures too, if they are in the report.
    """
    from warmstart.plots.read_study import read_reports, table_stems
    from warmstart.plots.regret import draw_regret
    from warmstart.plots.style import check_target

    target = Path(out)
    check_target(target)
    reports = read_reports(Path(report))
    names = []
    for evaluation, table in zip(reports, table_stems(reports), strict=True):
        stem = target.stem if len(reports) == 1 else f"{target.stem}-{table}"
        files = draw_regret(
            evaluation,
            target.parent,
            stem=stem,
            suffix=target.suffix,
            methods=method or (),
            times=time or (),
            most=most,
        )
        names += [str(file) for file in files]
    shell.result({"schema_version": 1, "report": report, "files": names}, [{"file": name} for name in names])


@takes_options
def run(
    record: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A storage of studies, a report of `tune` (its JSON, or the Markdown beside it), or what `Optimizer.to_dict` gave.",
        ),
    ],
    *,
    study: Annotated[
        str | None, typer.Option("--study", help="Which study, where the storage or the report has several.")
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="File for the errors over time, .png or .svg; other pictures are written beside it."
        ),
    ] = "run.png",
    seed: SeedOption = 0,
    shell: Shell,
) -> None:
    """Draw a study, or a run of the optimiser: errors over time, importance, parallel coordinates, slices, curves."""
    from warmstart.plots.style import check_target

    target = Path(out)
    check_target(target)
    from warmstart.plots.read_study import read_run_or_study

    contents = read_run_or_study(record, study=study)
    if not isinstance(contents, dict):
        draw(shell, contents, target, seed=seed)
        return
    from warmstart.bo.diagnostics import diagnose, read_run
    from warmstart.plots.run import draw_run

    diagnosed = diagnose(read_run(contents))
    for note in diagnosed.notes:
        shell.note(note)
    names = [str(file) for file in draw_run(diagnosed, target.parent, stem=target.stem, suffix=target.suffix)]
    shell.result({"schema_version": 1, "run": record, "files": names}, [{"file": name} for name in names])
