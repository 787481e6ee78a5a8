"""`tune`: tune an objective, starting from the history's suggestions."""

import contextlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli.options import (
    CpusOption,
    Format,
    FormatOption,
    GpusOption,
    LabelsColumnOption,
    LabelsOption,
    NoCacheOption,
    QuietOption,
    RayAddressOption,
    RayOption,
    VerboseOption,
)
from warmstart.cli.record_options import takes_options
from warmstart.cli.shell import Shell, display_path, write
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.wording import counted, in_short
from warmstart.status import ALL_FAILED
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.options import GROUPS, WarmStart

if TYPE_CHECKING:
    from warmstart.studies.results.expectations import StudyExpectations
    from warmstart.studies.results.progress import StudyProgress
    from warmstart.studies.results.summary import JointResult, TuneResult
    from warmstart.studies.results.trial import Trial
    from warmstart.studies.state.split import Split
    from warmstart.studies.tune_options import TuneOptions


class SplitName(StrEnum):
    """Ways to share the trials between datasets; see docs/tune.md."""

    EQUAL = "equal"
    GAIN = "gain"


_PAGE_S = 2.0
"""Least seconds to draw the page with pictures; a busy machine adds to it as it adds to loading."""


@takes_options(GROUPS)
def tune(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="The same as --dataset.")] = None,
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "-d",
            help="Your images, as in `suggest`; the objective gets the path. Repeat it to tune several datasets at once.",
        ),
    ] = None,
    labels: LabelsOption = None,
    labels_column: LabelsColumnOption = None,
    split: Annotated[
        SplitName,
        typer.Option(
            "--split",
            help="With several datasets: equal shares of the trials, or more where the expected gain is larger.",
            rich_help_panel="Search",
        ),
    ] = SplitName.EQUAL,
    no_warm: Annotated[
        bool,
        typer.Option("--no-warm", help="Do not use the history's suggestions.", rich_help_panel="Warm start"),
    ] = False,
    no_cache: NoCacheOption = False,
    ray: RayOption = False,
    ray_address: RayAddressOption = None,
    cpus_per_trial: CpusOption = None,
    gpus_per_trial: GpusOption = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Keep the study on a server of `warmstart serve`; trials run here.",
            rich_help_panel="Running",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,  # noqa: A002
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    options: dict[str, Any],
) -> None:
    """Tune, starting from what won on similar datasets.

    Run the same command again to resume after any interruption.
    """
    from time import monotonic

    began = monotonic()

    from warmstart.histories.import_runs import parse_pairs
    from warmstart.history_store.readers.csv_labels import labelled
    from warmstart.integrations.ray.cluster import chosen_cluster
    from warmstart.studies.results.progress import show_progress
    from warmstart.studies.results.summary import TuneResult
    from warmstart.studies.tune import tune_dataset, tune_datasets
    from warmstart.studies.tune_options import TuneOptions, with_printed_metric

    shell, loaded = Shell(format, quiet=quiet, verbose=verbose), monotonic() - began
    options = with_printed_metric(options)
    objective_metric = Metric(options["metric"], options["maximize"], options["scale"])
    dataset = [*(paths or ()), *(dataset or ())]
    if not dataset and (name := "labels" if labels else "labels_column" if labels_column else None):
        msg = "needs `dataset`."
        raise UsageError(msg, param=name)
    paths, latest = [labelled(path, labels, labels_column) for path in dataset], list["StudyProgress"]()
    # Ray prints what befalls its nodes; stdout is for the result.
    with shell.progress("tuning") as show, contextlib.redirect_stdout(sys.stderr):

        def update(now: "StudyProgress") -> None:
            if not latest and now.done >= now.total:
                shell.note(f"{_all_there(now.done)} already: none was run. A larger --trials adds more.")
            latest[:] = [now]
            prefix = f"{now.study}, " if len(paths) > 1 else ""
            show_progress(show, now, prefix, objective_metric)
            for trial in now.latest:
                shell.detail(prefix + _line(trial, objective_metric, now.expected))

        try:
            changes = {
                "warm": _warm(options["warm"], no_warm=no_warm),
                "rename": parse_pairs("rename", options["rename"] or ()),
                "cluster": chosen_cluster(
                    ray_address, use_ray=ray, cpus_per_trial=cpus_per_trial, gpus_per_trial=gpus_per_trial
                ),
                "scale": objective_metric.scale,
                "report": options["report"] or True,
                "cache": not no_cache,
                "progress": update,
                "on_message": shell.note,
            }
            call = TuneOptions.of(options | changes)
            if server is not None:
                result = _tune_on_server(server, paths, call, split.value)
            elif len(paths) > 1:
                result = tune_datasets(paths, call, split=split.value)
            else:
                result = tune_dataset(paths[0] if paths else None, call, began=began)
        except KeyboardInterrupt:
            ended = latest[0].done if latest else 0
            shell.note(
                f"Stopped after {counted(ended, 'trial')}; all are kept. Run the same command again to continue."
            )
            raise
    if call.time is None or began + call.check_time() - monotonic() > _PAGE_S + 3 * loaded:
        _write_page(shell, result)
    else:
        shell.note("No page with pictures was written: the time is over. `warmstart studies plot` draws them.")
    if isinstance(result, TuneResult):
        _print(shell, result)
    else:
        _print_joint(shell, result)
    studies = [result] if isinstance(result, TuneResult) else result.studies
    if call.save_model is not None and any(study.best is None for study in studies):
        # The model to save does not exist.
        raise typer.Exit(ALL_FAILED)


def _all_there(n: int) -> str:
    return "The 1 trial is there" if n == 1 else f"All {n} trials are there"


def _tune_on_server(
    server: str, paths: list[str], options: "TuneOptions", split: "Split"
) -> "TuneResult | JointResult":
    from warmstart.client import Client
    from warmstart.remote_tuning import tune_on_server, tune_several_on_server
    from warmstart.suggestions.advisor import Advisor

    shared = {name: getattr(options, name) for name in ("seed", "device", "cache", "skip_broken")}
    advisor = Advisor(None, options.model, **shared)
    with Client(server, advisor=advisor) as client:
        if len(paths) > 1:
            return tune_several_on_server(paths, options, client, split=split)
        return tune_on_server(paths[0] if paths else None, options, client)


def _write_page(shell: Shell, result: "TuneResult | JointResult") -> None:
    """Write the report with pictures next to the Markdown; a failure is a note."""
    from warmstart.plots.study_page import write_report_page

    if result.report is None:
        return
    try:
        write_report_page(Path(result.report))
    except (WarmstartError, OSError) as error:
        shell.note(f"{result.report}: no page with pictures could be written: {error}")


def _warm(warm: str, *, no_warm: bool) -> str:
    """Return the value of `warm` from --warm and --no-warm.

    Raises:
        UsageError: both are given.
    """
    if no_warm and warm != WarmStart.warm:
        msg = f"cannot be used with --warm {warm}."
        raise UsageError(msg, param="no_warm")
    return "none" if no_warm else warm


def _report_line(report: str) -> str:
    """Return the paths of the report and of its page, unless an earlier call wrote the page."""
    page = Path(report).with_suffix(".html")
    is_current = page.is_file() and page.stat().st_mtime_ns >= Path(report).stat().st_mtime_ns
    return f"Report: {display_path(report)}" + (f", and with pictures {display_path(str(page))}" if is_current else "")


def _print_joint(shell: Shell, result: "JointResult") -> None:
    from warmstart.studies.results.report import joint_rows
    from warmstart.suggestions.formats import with_config

    title = f"{len(result.studies)} datasets in {display_path(result.storage)}: {result.counts_line or 'no trial yet'}"
    best = [{} if study.best is None else shell.cells(study.best.config) for study in result.studies]
    rows = [with_config(row, config) for row, config in zip(joint_rows(result), best, strict=True)]
    shell.result(result.to_dict(), rows, title=title)
    if shell.format == Format.TABLE:
        lines = [
            f"{study.dataset}: {study.comparison_line}" for study in result.studies if study.comparison is not None
        ]
        write("")
        lines += [f"{study.dataset}: {study.expected_line}" for study in result.studies if study.expected is not None]
        for line in lines:
            shell.say(line)
        if result.report is not None:
            shell.say(_report_line(result.report))


def _print(shell: Shell, result: "TuneResult") -> None:
    from warmstart.suggestions.formats import with_config

    best = result.best
    row: dict[str, Any] = (
        {}
        if best is None
        else with_config({"trial": best.number, result.metric.name: result.best_value}, shell.cells(best.config))
    )
    title = f"{result.study} in {display_path(result.storage)}: {result.counts_line or 'no trial yet'}"
    shell.result(result.to_dict(), [row] if row else [], title=title)
    if shell.format == Format.TABLE:
        write("")
        if (last := result.unfinished) is not None:
            value = result.metric.to_value(last.curve[-1][1])
            reported = with_config({"trial": last.number, result.metric.name: value}, shell.cells(last.config))
            shell.table([reported], title=result.unfinished_line)
            write("")
        if result.comparison is not None:
            shell.say(result.comparison_line)
        if result.expected is not None:
            shell.say(result.expected_line)
        if result.report is not None:
            shell.say(_report_line(result.report))


def _line(trial: "Trial", metric: "Metric", expectations: "StudyExpectations | None") -> str:
    from warmstart.studies.results.progress import in_metric

    name = "" if metric.is_plain else f" {metric.name}"
    error = "" if trial.error is None else f"{name} {in_short(metric.to_value(trial.error))}"
    expected = None if expectations is None else expectations.of(trial.number)
    promised = "" if expected is None else f" ({in_metric(expected, metric)} expected)"
    took = "" if trial.duration is None else f", {trial.duration:.1f} s"
    return f"trial {trial.number}: {trial.status.value}{error}{promised}{took}{f': {trial.note}' if trial.note else ''}"
