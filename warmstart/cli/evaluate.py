"""`evaluate`: measure how good suggestions are for datasets never seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli.options import HistoryOptions, Threads
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, write
from warmstart.history_store.errors import UsageError
from warmstart.locations import history_path, model_path, usual_model
from warmstart.metafeat.device import cpu_threads
from warmstart.metafeat.model_file import read_header
from warmstart.models.evaluation_settings import EvaluationSettings
from warmstart.models.recipe import Recipe

WORST = 10
"""Number of datasets listed where the reference is worse."""
OPTIONAL = ("kind", "evaluations_to_0.05", "regret@5", "regret@20", "difference@10")
"""Columns of the summary that a narrow terminal has no room for, the least important first."""


@takes_options
def evaluate(
    *,
    settings: EvaluationSettings,
    methods: Annotated[
        str | None,
        typer.Option("--methods", "--rivals", help="Only these methods, separated by commas; all when left out."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Use this table of errors (.npz) instead of a history; may be repeated."),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="NAME",
            help="Instead, evaluate the suggestions for this measured dataset, FILE.h5::NAME; may be repeated.",
        ),
    ] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Write the report to this file too (.json).")] = None,
    plots: Annotated[str | None, typer.Option("--plots", help="Write figures of the report to this folder.")] = None,
    measured: HistoryOptions,
    recipe: Recipe,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Calibrate the history for --model: suggest then states an expected regret.",
            rich_help_panel="Evaluation",
        ),
    ] = False,
    running: Threads,
    shell: Shell,
) -> None:
    """Measure how good suggestions are for datasets never seen.

    Each source is held out in turn. All methods choose configurations for it, and their regret is compared.

    Regret is that of the best configuration so far, 0 = the dataset's best, 1 = its worst; the mean over datasets.
    """
    from warmstart.default_workload import measured_history
    from warmstart.history_store.history import History
    from warmstart.models.evaluate import (
        as_document,
        check_calibrates,
        check_outputs,
        store_calibration,
        write_outputs,
    )
    from warmstart.training.evaluation.report import full_rows

    history, model = measured.history, None if settings.model is None else str(settings.model)
    path = measured_history(measured.workload, history)
    plan = replace(
        settings,
        methods=tuple(filter(None, (methods or "").split(","))),
        model=None if model is None else model_path(model),
        recipe=recipe,
    )
    outputs = (None if out is None else Path(out), None if plots is None else Path(plots))
    check_outputs(*outputs)
    if calibrate and (model is None or history is None):
        msg = "--calibrate needs --history and --model."
        raise UsageError(msg)
    if query and (table or calibrate or plan.paper_figure):
        option = "--table" if table else "--calibrate" if calibrate else "--paper-figure"
        msg = f"--query cannot be used with {option}."
        raise UsageError(msg)
    if calibrate:
        with History.open(history_path(history), write=True) as opened:
            check_calibrates(plan, opened, read_header(model_path(model)))
    with shell.progress("evaluating") as show, cpu_threads(running.threads):
        reports = _reports(
            query or [], table or [], None if history is None and table and not query else path, model, plan, show
        )
    for note in (note for report in reports for note in report.get("notes", ())):
        shell.note(note)
    for note in write_outputs(reports, *outputs):
        shell.note(note)
    if shell.format == "table":
        _show(shell, reports)
    else:
        shell.result(as_document(reports), [row for report in reports for row in full_rows(report)])
    if calibrate:
        with History.open(history_path(history), write=True) as opened:
            shell.note(store_calibration(opened, read_header(model_path(model)), reports[0]))


def _show(shell: Shell, reports: Sequence[Mapping[str, Any]]) -> None:
    """Print reports as tables and sentences."""
    from warmstart.models.query_evaluation import query_lines
    from warmstart.training.evaluation.report import distance_rows, summary_rows

    for report in reports:
        title = f"{report['table']}, {report['protocol']}: {report['n_datasets']} datasets in {report['n_groups']} groups, {report['n_configs']} configurations"
        shell.table(summary_rows(report), title=title, optional=OPTIONAL)
        if report["distances"]:
            write("")
            shell.table(
                distance_rows(report), title="Distances against the true ones, of errors as they are and normalised"
            )
        if "portfolio" in report["rivals"] and report["ours"] != "portfolio":
            write("")
            shell.say(_worse(report))
        for name, by_time in report["promises"].items():
            regrets = ", ".join(
                f"{regret['promised']:.3f} / {regret['seen']:.3f} at {t}" for t, regret in by_time.items()
            )
            shell.say(f"'{name}' promised / left a regret of {regrets}")
        for line in query_lines(report.get("queries", ())):
            shell.say(line)
        if report["differences"]:
            shell.say(
                f"Differences are the regret of '{report['ours']}' less that of the method, "
                f"so '{report['ours']}' is better below 0. A star: beyond two standard errors."
            )


def _worse(report: Mapping[str, Any]) -> str:
    """List the datasets where the reference has more regret than the portfolio, worst first."""
    hurt = sorted(report["hurt"], key=lambda row: row["regret"] - row["ours"])
    datasets = [f"{row['dataset']} ({row['ours'] - row['regret']:+.3f} at {row['time']})" for row in hurt[:WORST]]
    more = f" and {len(hurt) - WORST} more" if len(hurt) > WORST else ""
    return f"'{report['ours']}' is worse than the portfolio on: {', '.join(datasets) or 'no dataset'}{more}"


def _reports(
    queries: Sequence[str],
    tables: Sequence[str],
    history: Path | None,
    model: str | None,
    plan: EvaluationSettings,
    show: Callable[[int, int, str], None] | None,
) -> list[dict[str, Any]]:
    """Evaluate measured queries, or a history and tables."""
    from warmstart.models.evaluate import check_trains_nothing, evaluate_history, evaluate_table
    from warmstart.models.query_evaluation import evaluate_queries

    if queries:
        assert history is not None  # noqa: S101  queries cannot be used with tables
        answering = {"history": history, "model": usual_model(history, model)}
        return [evaluate_queries(queries, plan, **answering, progress=show)]
    if history is None:
        check_trains_nothing(plan, "table")
    reports = [evaluate_table(Path(path), plan, progress=show) for path in tables]
    if history is not None:
        reports.insert(0, evaluate_history(history, plan, progress=show))
    return reports
